//! One operation of a request, and how far it has come.

use tidegate_core::{Outcome, PlannedOp};

use super::look::Looked;
use super::place::Shares;
use crate::redis::error::StoreError;

/// How far one operation has come.
#[derive(Debug)]
pub(super) enum Stand {
    /// It is on one counter, and asked as it is.
    Whole,
    /// It is on a split counter, whose parts must be looked at.
    Unplaced,
    /// It is asked of these parts.
    Placed(Shares),
    /// It is answered.
    Said(Outcome),
    /// This part does not answer, the others are too little, and the limit says this without it.
    Silent(u8, Outcome),
    /// It is on one counter, which does not answer for that reason, and the limit says this without
    /// it.
    Alone(Outcome, StoreError),
}

/// An operation, how far it has come, and what was last said of it in a request that has not passed.
#[derive(Debug)]
pub(super) struct Step<'p, 'r> {
    pub(super) op: &'p PlannedOp<'r>,
    pub(super) stand: Stand,
    pub(super) told: Option<Outcome>,
    /// Why its counter has not answered, if it is one.
    pub(super) why: Option<StoreError>,
    /// What all its parts said, if they were looked at.
    pub(super) looked: Option<Looked>,
}
