//! From a request to the counters that it must pass.

mod action;
mod entries;
mod explain;
mod index;
mod named;
mod parts;
mod plan;
mod prefixes;
mod values;

pub use action::{Action, Verb};
pub use entries::Known;
pub use explain::{Explained, Fate, Source, Tested, explain};
pub use index::Index;
pub use named::Named;
pub use parts::{Part, share};
pub use plan::{Descriptor, FEW, MOST_COUNTERS, Plan, PlannedOp, RequestRate, Verdict, key_alone};
