//! Over which parts of a counter a request is spread.

use std::cmp::Reverse;

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Consistency, Plan, share};

use super::look::{Looked, Part};
use crate::redis::handle::Inner;

/// What is done at one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) at: u8,
    pub(super) units: u64,
    /// The most that the part may hold.
    pub(super) n: u64,
}

/// Parts, each with its units.
pub(super) type Shares = SmallVec<[Share; 2]>;

/// Where a charge goes that all parts together have room for: to one that holds it whole, at random
/// so that requests which have seen the same do not all meet there, else to as few as can be.
pub(super) fn charge(looked: &Looked, cost: u64, draw: u64) -> Shares {
    let order = |part: &Part| Reverse(part.room());
    if looked.is_uneven() {
        // All meet in the first part with room, which takes no more than all have together.
        let room = looked.room();
        let most = |part: &Part| part.used.saturating_add(part.room().min(room));
        return in_order(looked, cost, Part::room, most, |_| ());
    }
    let holding: SmallVec<[(u8, &Part); 8]> =
        (0..).zip(&looked.parts).filter(|(_, part)| cost <= part.room()).collect();
    if let Some((at, part)) = holding.get(draw as usize % holding.len().max(1)) {
        return Shares::from_slice(&[Share { at: *at, units: cost, n: part.share }]);
    }
    in_order(looked, cost, Part::room, |part| part.share, order)
}

/// From where so many units are given back, as far as they are there: of a log from where the
/// newest entry is, else from where most was taken.
pub(super) fn refund(looked: &Looked, cost: u64, algorithm: Algorithm) -> Shares {
    let taken = |part: &Part| if part.is_silent { 0 } else { part.used };
    let is_log = algorithm == Algorithm::SlidingLog;
    let order = |part: &Part| Reverse(if is_log { part.reset_us } else { part.used });
    in_order(looked, cost, taken, |part| part.share, order)
}

fn in_order<O: Ord>(
    looked: &Looked,
    units: u64,
    of: impl Fn(&Part) -> u64,
    most: impl Fn(&Part) -> u64,
    order: impl Fn(&Part) -> O,
) -> Shares {
    let mut parts: SmallVec<[(u8, &Part); 8]> = (0..).zip(&looked.parts).collect();
    parts.sort_by_key(|(_, part)| order(part));
    let mut left = units;
    let mut shares = Shares::new();
    for (at, part) in parts {
        let here = of(part).min(left);
        if here > 0 {
            shares.push(Share { at, units: here, n: most(part) });
        }
        left -= here;
    }
    shares
}

/// The plan in which each split counter stands with all its parts.
pub(in crate::redis) fn all_parts<'r>(inner: &Inner, plan: &Plan<'r>) -> Plan<'r> {
    let mut derived = Plan::default();
    for op in plan.asked() {
        if !matches!(op.rule.consistency, Consistency::Sharded(_)) {
            derived.push_like(plan, op, op.action);
            continue;
        }
        inner.hints.with(&inner.shared, plan, op, |known| {
            known.forget();
            for at in 0..known.of() {
                let n = share(op.numbers.n, at, known.of());
                known.push(&mut derived, (plan, op), (at, n), op.action);
            }
        });
    }
    derived
}
