//! One counter as several: what stands in the place of an operation where a store splits a limit.

use super::action::Action;
use super::plan::{Plan, PlannedOp};
use crate::algorithms::{Algorithm, Numbers};

/// Set in the first byte of a part's key, which ends with the part's number and their count: no
/// whole counter and no other split has that key.
const PART: u8 = 2;

/// One of the counters that a limit's counter is split into.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Which of them, from 0.
    pub at: u8,
    /// How many there are.
    pub of: u8,
    /// The value that places it in a cluster.
    pub anchor: &'a [u8],
}

/// What one of `of` parts has of a limit of `n` units: the first `n` mod `of` have one more.
#[inline]
pub const fn share(n: u64, at: u8, of: u8) -> u64 {
    let (at, of) = (at as u64, of as u64);
    n / of + (at < n % of) as u64
}

impl<'r> Plan<'r> {
    /// Appends an operation of another plan, on the same counter, with this to be done.
    pub fn push_like(&mut self, plan: &Self, op: &PlannedOp<'r>, action: Action) {
        let key = self.keep(plan.key(op), &[]);
        let anchor = plan.anchor(op).map(|anchor| self.keep(anchor, &[]));
        self.ops.push(PlannedOp { action, key, anchor, ..op.clone() });
    }

    /// Appends an operation on a part of the counter of another plan's, of which that part has `n`
    /// units. Both plans are of one request; what descriptors met stays with the other.
    pub fn push_part(
        &mut self,
        plan: &Self,
        op: &PlannedOp<'r>,
        part: &Part<'_>,
        n: u64,
        action: Action,
    ) {
        let key = self.keep(plan.key(op), &[part.at, part.of]);
        self.buffer[key.start as usize] |= PART;
        let anchor = Some(self.keep(part.anchor, &[]));
        // Of a quota it says where its period lies.
        let is_quota = op.rule.algorithm == Algorithm::Quota;
        let burst = if is_quota { op.numbers.burst } else { n };
        let numbers = Numbers { n, burst, ..op.numbers };
        self.ops.push(PlannedOp { numbers, action, key, anchor, ..op.clone() });
    }

    fn keep(&mut self, bytes: &[u8], more: &[u8]) -> std::ops::Range<u32> {
        let start = self.buffer.len() as u32;
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(more);
        start..self.buffer.len() as u32
    }
}
