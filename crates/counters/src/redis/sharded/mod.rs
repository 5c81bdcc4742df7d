//! Limits whose counter is split over the slots of a Cluster (`consistency: sharded`): N units in K
//! counters, N mod K of which have one more, so that no master decides all of it.
//!
//! A request charges one part, taken at random among those that are not known to be full. Where that
//! part refuses, all of them are looked at: together they have room or not, and a request that one
//! part cannot hold is charged to several, all or nothing. So nobody is admitted whom one counter
//! would deny, and nobody denied but in a race for the last units. On one server nothing is split.

mod decide;
mod end;
mod hints;
mod known;
mod look;
mod place;
mod step;
#[cfg(test)]
mod tests;

pub(super) use decide::{decide, is_for};
pub(super) use hints::Hints;
pub(super) use place::all_parts;
