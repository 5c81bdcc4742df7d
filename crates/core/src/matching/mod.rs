//! From a request to the counters that it must pass.

mod explain;
mod index;
mod plan;
mod prefixes;
mod values;

pub use explain::{Explained, Fate, Source, Tested, explain};
pub use index::Index;
pub use plan::{
    Action, Descriptor, MOST_COUNTERS, Plan, PlannedOp, RequestRate, Verb, Verdict, key_alone,
};
