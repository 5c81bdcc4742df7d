//! The compiled policy: its bytes, and the immutable rules that requests are matched against.

mod format;
mod identity;
mod load;
mod rules;

pub use identity::{Identities, LimitUid};
pub use rules::{
    Condition, Consistency, Domain, KeyId, KindId, Missing, OnStoreFailure, Override, Pattern,
    Rule, RuleSet, Tenant,
};
