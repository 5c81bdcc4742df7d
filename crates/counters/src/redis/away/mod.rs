//! What a node does for its limits while the store does not answer, and what it owes the store
//! when that is back.
//!
//! A request that was admitted by a call which was never sent is charged on recovery, as far as it
//! still counts then and at most a whole limit; one whose call may have been heard is not, so that
//! nothing is charged twice. A limit with `on_store_failure: local` meanwhile has this node's share
//! of itself, seeded from what was last seen. Where no worker would charge it, as with callers that
//! block, nothing is owed.

mod counter;
mod repay;
mod table;

pub(super) use repay::{repay, repay_all};
pub(super) use table::Away;
