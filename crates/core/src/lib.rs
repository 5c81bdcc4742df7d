//! The pure heart of Tidegate: from a snapshot and a request to what must be counted, and from
//! what was counted to a decision. No clock, no I/O, no async.

pub mod algorithms;
pub mod decision;
pub mod error;
pub mod matching;
pub mod snapshot;
pub mod units;

pub use algorithms::{Algorithm, Numbers};
pub use decision::{Decision, LimitReport, Outcome, Reason, conclude};
pub use error::{RequestError, SnapshotError};
pub use matching::{
    Action, Descriptor, Part, Plan, PlannedOp, RequestRate, Verb, Verdict, key_alone, share,
};
pub use snapshot::{Consistency, Domain, Identities, LimitUid, OnStoreFailure, Rule, RuleSet};
