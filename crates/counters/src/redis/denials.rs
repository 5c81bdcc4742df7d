//! Denials that one worker knows of, so that a client far over its limit asks the store once until
//! its wait is over, and not once a request.
//!
//! A denial is known with what all limits of that request said, and is answered from here only to
//! a request whose limits are all known. What is known is at most [`MOST_US`] old: for so long a
//! counter that was reset, raised or lost elsewhere still denies. Dropped at once where the policy
//! changes the numbers, and where something is given back or reset at this node.

use std::cell::{Cell, RefCell};

use hashbrown::HashTable;
use tidegate_core::algorithms::Numbers;
use tidegate_core::units::mul_add_div_ceil;
use tidegate_core::{Action, Algorithm, LimitUid, Outcome, Plan, PlannedOp};

use super::changes::Changes;
use crate::Outcomes;

/// How long a denial may be known, in microseconds: in general, and of a limit that takes refunds.
const MOST_US: u64 = 1_000_000;
const MOST_REFUNDED_US: u64 = 50_000;
/// Counters kept in mind; beyond them all are forgotten.
const MOST: usize = 16_384;

/// What a counter said, and until when that is believed.
#[derive(Debug)]
struct Known {
    hash: u64,
    limit: LimitUid,
    key: Box<[u8]>,
    numbers: Numbers,
    cost: u64,
    outcome: Outcome,
    /// When the question left and its answer came, unix microseconds by this node's clock.
    asked_us: u64,
    told_us: u64,
    until_us: u64,
    changes: u32,
}

/// What one worker knows.
#[derive(Debug, Default)]
pub(super) struct Denials {
    known: RefCell<HashTable<Known>>,
    /// Until when anything here is believed: most of the time, nothing is.
    until_us: Cell<u64>,
}

impl Denials {
    /// The outcomes of a request that is known to be denied.
    #[inline]
    pub(super) fn answer(
        &self,
        changes: &Changes,
        plan: &Plan<'_>,
        now_us: u64,
    ) -> Option<Outcomes> {
        if now_us >= self.until_us.get() {
            return None;
        }
        self.look_up(changes, plan, now_us)
    }

    fn look_up(&self, changes: &Changes, plan: &Plan<'_>, now_us: u64) -> Option<Outcomes> {
        let known = self.known.borrow();
        let mut outcomes = Outcomes::new();
        let mut is_denied = false;
        for op in plan.asked() {
            if matches!(op.action, Action::Refund(_)) || op.rule.counts_denied {
                return None;
            }
            let key = plan.key(op);
            let hash = changes.hash(op.rule.uid, key);
            let found = known.find(hash, |known| known.limit == op.rule.uid && *known.key == *key);
            let outcome = found?.now(changes, op, now_us)?;
            is_denied |= !outcome.fits && !op.rule.is_shadow;
            outcomes.push(outcome);
        }
        is_denied.then_some(outcomes)
    }

    /// Keeps in mind what a request was told that was asked then, if it was denied.
    #[inline]
    pub(super) fn note(
        &self,
        changes: &Changes,
        plan: &Plan<'_>,
        outcomes: &[Outcome],
        asked_us: u64,
        now_us: impl FnOnce() -> u64,
    ) {
        let is_denied = plan
            .asked()
            .zip(outcomes)
            .any(|(op, outcome)| !outcome.fits && !op.rule.is_shadow && outcome.wait_us.is_some());
        if is_denied && !outcomes.iter().any(|outcome| outcome.is_unasked) {
            self.keep(changes, plan, outcomes, asked_us, now_us());
        }
    }

    fn keep(
        &self,
        changes: &Changes,
        plan: &Plan<'_>,
        outcomes: &[Outcome],
        asked_us: u64,
        told_us: u64,
    ) {
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST {
            known.clear();
        }
        for (op, outcome) in plan.asked().zip(outcomes) {
            let most_us =
                if changes.takes_refunds(op.rule.uid) { MOST_REFUNDED_US } else { MOST_US };
            let wait_us = outcome.wait_us.filter(|_| !outcome.fits).unwrap_or(most_us);
            let key = plan.key(op);
            let hash = changes.hash(op.rule.uid, key);
            let entry = Known {
                hash,
                limit: op.rule.uid,
                key: key.into(),
                numbers: op.numbers,
                cost: op.action.cost(),
                outcome: *outcome,
                asked_us,
                told_us,
                until_us: asked_us.saturating_add(wait_us.min(most_us)),
                changes: changes.of(hash),
            };
            self.until_us.set(self.until_us.get().max(entry.until_us));
            let same = |known: &Known| known.limit == entry.limit && known.key == entry.key;
            match known.find_mut(hash, same) {
                Some(place) => *place = entry,
                None => drop(known.insert_unique(hash, entry, |known| known.hash)),
            }
        }
    }
}

impl Known {
    /// What it says to an operation now; none where that is not known.
    #[inline]
    fn now(&self, changes: &Changes, op: &PlannedOp<'_>, now_us: u64) -> Option<Outcome> {
        let is_believed = (self.asked_us..self.until_us).contains(&now_us)
            && self.numbers == op.numbers
            && self.changes == changes.of(self.hash);
        if !is_believed {
            return None;
        }
        let cost = op.action.cost();
        // Times that were told count from when they were told.
        let passed_us = now_us.saturating_sub(self.told_us);
        let mut outcome = self.outcome;
        outcome.reset_us = outcome.reset_us.saturating_sub(passed_us);
        if outcome.fits {
            // It was not charged, for the request was denied.
            return (cost <= outcome.remaining).then_some(outcome);
        }
        let more_us = self.more_us(op, cost)?;
        outcome.wait_us = Some(outcome.wait_us?.saturating_sub(passed_us).saturating_add(more_us));
        Some(outcome)
    }

    /// How much longer a request of this cost waits than the one that was denied; none: not known.
    fn more_us(&self, op: &PlannedOp<'_>, cost: u64) -> Option<u64> {
        let more = cost.checked_sub(self.cost)?;
        let Numbers { n, period_us, burst } = self.numbers;
        match op.rule.algorithm {
            _ if more == 0 => Some(0),
            Algorithm::FixedWindow | Algorithm::Quota if cost <= n => Some(0),
            Algorithm::TokenBucket if cost <= burst => {
                Some(mul_add_div_ceil(more, period_us, 0, n))
            }
            _ => None,
        }
    }
}
