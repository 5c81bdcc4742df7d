//! The counters that a node remembers while their store is away.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::Mutex;
use tidegate_core::algorithms::State;
use tidegate_core::{
    Action, Algorithm, LimitUid, Numbers, OnStoreFailure, Outcome, Plan, PlannedOp,
};

use super::counter::{Counter, Debt};
use crate::Outcomes;
use crate::redis::error::StoreError;
use crate::redis::store::Shared;

pub(super) const SHARDS: usize = 16;
/// Counters of a shard; beyond them nothing is remembered of newcomers.
const MOST: usize = 4096;
/// A shard that is full is looked through for what is of no use so often at most.
const SWEPT_EVERY_US: u64 = 1_000_000;

/// A counter: its limit and the values' part of the key, and how it is called in the store.
#[derive(Debug)]
struct Known {
    hash: u64,
    limit: LimitUid,
    key: Box<[u8]>,
    stored: Box<[u8]>,
    slot: u16,
    counter: Counter,
}

impl Known {
    fn is(&self, limit: LimitUid, key: &[u8]) -> bool {
        self.limit == limit && *self.key == *key
    }
}

#[derive(Debug, Default)]
struct Shard {
    known: HashTable<Known>,
    swept_us: u64,
}

impl Shard {
    /// Makes room for a newcomer, if there is some.
    fn has_room(&mut self, now_us: u64) -> bool {
        let is_full = self.known.len() >= MOST;
        if is_full && now_us.abs_diff(self.swept_us) >= SWEPT_EVERY_US {
            self.swept_us = now_us;
            self.known.retain(|known| !known.counter.is_idle(now_us));
        }
        self.known.len() < MOST
    }
}

/// What all workers of a node share.
#[derive(Debug, Default)]
pub(in crate::redis) struct Away {
    // Each guards its counters; a request locks one at a time.
    shards: [Mutex<Shard>; SHARDS],
    /// Counters that owe something.
    owing: AtomicUsize,
    /// The shard to look through next.
    hand: AtomicUsize,
    /// True if some worker charges what is owed. Callers that block do not, so they owe nothing.
    is_tended: AtomicBool,
}

impl Away {
    /// From now on what is owed will be charged.
    pub(in crate::redis) fn tend(&self) {
        self.is_tended.store(true, Ordering::Relaxed);
    }

    /// Takes note of what the store said, for the limits that will go on without it.
    #[inline]
    pub(in crate::redis) fn see(&self, shared: &Shared, plan: &Plan<'_>, outcomes: &Outcomes) {
        for (op, outcome) in plan.asked().zip(outcomes) {
            if is_alone(op) && !outcome.is_unasked {
                let now_us = shared.clock.now_us();
                self.with(shared, plan, op, now_us, |counter| counter.see(outcome, now_us));
            }
        }
    }

    /// What a request comes to that the store did not answer: an outcome for each operation, by
    /// what its limit says in that case.
    pub(in crate::redis) fn decide(
        &self,
        shared: &Shared,
        plan: &Plan<'_>,
        why: StoreError,
    ) -> StoreError {
        if matches!(why, StoreError::Partial { .. }) {
            // Slots that answered have been charged or not by then, and the others seen to.
            return why;
        }
        let outcomes: Outcomes = plan.asked().map(|op| self.ask(shared, plan, op)).collect();
        let is_admitted =
            plan.asked().zip(&outcomes).all(|(op, told)| told.fits || op.rule.is_shadow);
        if is_admitted {
            for (op, told) in plan.asked().zip(&outcomes) {
                self.admit(shared, plan, op, told, &why);
            }
        }
        StoreError::Partial { outcomes: Box::new(outcomes), why: Box::new(why) }
    }

    /// What an operation comes to whose counter was not asked; takes nothing.
    pub(in crate::redis) fn ask<'r>(
        &self,
        shared: &Shared,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
    ) -> Outcome {
        let unasked = Outcome::unasked(op.rule.on_store_failure);
        if !is_alone(op) {
            return unasked;
        }
        let (now_us, nodes) = (shared.clock.now_us(), shared.local.nodes());
        let ask = |counter: &mut Counter| counter.ask(op.action, nodes, now_us);
        self.with(shared, plan, op, now_us, ask).unwrap_or(unasked)
    }

    /// Takes an operation of an admitted request whose counter was not charged for that reason, and
    /// keeps in mind what the store is to hear of it.
    pub(in crate::redis) fn admit<'r>(
        &self,
        shared: &Shared,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
        told: &Outcome,
        why: &StoreError,
    ) {
        if told.fits {
            self.admit_as(shared, (plan, op), (plan, op), why);
        }
    }

    /// The same where what is owed is owed to another counter: to a part of it.
    pub(in crate::redis) fn admit_as<'r>(
        &self,
        shared: &Shared,
        (plan, op): (&Plan<'r>, &PlannedOp<'r>),
        (of, owing): (&Plan<'r>, &PlannedOp<'r>),
        why: &StoreError,
    ) {
        let Action::Charge(cost) = op.action else { return };
        let (now_us, nodes) = (shared.clock.now_us(), shared.local.nodes());
        if is_alone(op) {
            self.with(shared, plan, op, now_us, |counter| counter.take(cost, nodes, now_us));
        }
        // A value that is none of ours takes no charge later either.
        if !self.is_tended.load(Ordering::Relaxed)
            || why.may_have_written()
            || *why == StoreError::ForeignValue
        {
            return;
        }
        let owe = |counter: &mut Counter| counter.owe(cost, now_us);
        if self.with(shared, of, owing, now_us, owe) == Some(true) {
            self.owing.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn with<'r, T>(
        &self,
        shared: &Shared,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
        now_us: u64,
        act: impl FnOnce(&mut Counter) -> T,
    ) -> Option<T> {
        let (limit, key) = (op.rule.uid, plan.key(op));
        let hash = shared.changes.hash(limit, key);
        let mut shard = self.shard(hash).lock();
        if let Some(known) = shard.known.find_mut(hash, |known| known.is(limit, key)) {
            known.counter.renumber(op.numbers);
            return Some(act(&mut known.counter));
        }
        if !shard.has_room(now_us) {
            return None;
        }
        let mut stored = Vec::new();
        shared.keys.append(&mut stored, plan, op);
        let mut known = Known {
            hash,
            limit,
            key: key.into(),
            stored: stored.into(),
            slot: shared.keys.slot(plan, op),
            counter: Counter::new(op.rule.algorithm, op.numbers),
        };
        let done = act(&mut known.counter);
        shard.known.insert_unique(hash, known, |known| known.hash);
        Some(done)
    }

    /// The low bits of the hash find the place within a shard.
    const fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Some of what is owed in slots that can be asked, of so many shards and no more than `most`
    /// counters of it, which is owed no longer. The next call looks on where this one has ended.
    pub(super) fn take(
        &self,
        (shards, most): (usize, usize),
        can_be_asked: impl Fn(u16) -> bool,
        now_us: u64,
    ) -> Vec<Owed> {
        let mut taken = Vec::new();
        for _ in 0..shards {
            if self.owing.load(Ordering::Relaxed) == 0 || taken.len() >= most {
                break;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed);
            let mut shard = self.shards[at % SHARDS].lock();
            let owing = shard.known.iter_mut().filter(|known| known.counter.owes());
            for known in owing.filter(|known| can_be_asked(known.slot)).take(most - taken.len()) {
                self.owing.fetch_sub(1, Ordering::Relaxed);
                let owed = Owed::of(known, now_us);
                if owed.debt.iter().any(|(_, units)| *units > 0) {
                    taken.push(owed);
                }
            }
        }
        taken
    }

    /// What could not be told is owed again.
    pub(in crate::redis) fn put_back(&self, owed: Owed, now_us: u64) {
        let Owed { hash, limit, key, state, .. } = owed;
        let mut shard = self.shard(hash).lock();
        if let Some(known) = shard.known.find_mut(hash, |known| known.is(limit, &key))
            && known.counter.owe_again(state, now_us)
        {
            self.owing.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is owed to the counters of a plan, which are about to be reset: it is owed no longer.
    pub(in crate::redis) fn withhold(&self, shared: &Shared, plan: &Plan<'_>) -> Vec<Owed> {
        let now_us = shared.clock.now_us();
        let withhold = |known: &mut Known| {
            known.counter.owes().then(|| {
                self.owing.fetch_sub(1, Ordering::Relaxed);
                Owed::of(known, now_us)
            })
        };
        plan.asked().filter_map(|op| self.known(shared, plan, op, withhold)?).collect()
    }

    /// The counters of a plan were reset.
    pub(in crate::redis) fn forget(&self, shared: &Shared, plan: &Plan<'_>) {
        drop(self.withhold(shared, plan));
        for op in plan.asked() {
            self.known(shared, plan, op, |known| known.counter.forget());
        }
    }

    /// Does something with a counter of which something is remembered.
    fn known<'r, T>(
        &self,
        shared: &Shared,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
        act: impl FnOnce(&mut Known) -> T,
    ) -> Option<T> {
        let (limit, key) = (op.rule.uid, plan.key(op));
        let hash = shared.changes.hash(limit, key);
        let mut shard = self.shard(hash).lock();
        shard.known.find_mut(hash, |known| known.is(limit, key)).map(act)
    }
}

/// True if nodes have a share of the limit.
fn is_alone(op: &PlannedOp<'_>) -> bool {
    op.rule.on_store_failure == OnStoreFailure::Local
}

/// What one counter is to be charged.
#[derive(Debug)]
pub(in crate::redis) struct Owed {
    hash: u64,
    limit: LimitUid,
    key: Box<[u8]>,
    pub(super) stored: Box<[u8]>,
    pub(super) slot: u16,
    pub(super) algorithm: Algorithm,
    pub(super) numbers: Numbers,
    /// What is owed, to the parts of a unit, and what of it goes on the wire.
    state: State,
    pub(super) debt: Debt,
}

impl Owed {
    fn of(known: &mut Known, now_us: u64) -> Self {
        let Counter { algorithm, numbers, .. } = known.counter;
        let (state, debt) = known.counter.debt(now_us);
        Self {
            hash: known.hash,
            limit: known.limit,
            key: known.key.clone(),
            stored: known.stored.clone(),
            slot: known.slot,
            algorithm,
            numbers,
            state,
            debt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: Numbers = Numbers { n: 10, period_us: 60_000_000, burst: 10 };
    const NOW: u64 = 60_000 * NUMBERS.period_us;

    fn known(at: u32, slot: u16) -> Known {
        Known {
            hash: u64::from(at) << 32,
            limit: LimitUid(at),
            key: Box::default(),
            stored: Box::default(),
            slot,
            counter: Counter::new(Algorithm::FixedWindow, NUMBERS),
        }
    }

    #[test]
    fn a_full_shard_is_looked_through_once_a_second_for_newcomers() {
        let mut shard = Shard::default();
        for at in 0..MOST as u32 {
            let mut known = known(at, 0);
            known.counter.see(&Outcome { remaining: 9, ..Outcome::SHUT }, NOW);
            shard.known.insert_unique(known.hash, known, |known| known.hash);
        }
        let later = NOW + NUMBERS.period_us;
        assert!(!shard.has_room(later), "all are of use");
        assert!(!shard.has_room(later + SWEPT_EVERY_US / 2), "looked at a moment ago");
        assert_eq!(shard.known.len(), MOST);
        assert!(shard.has_room(later + SWEPT_EVERY_US));
    }

    #[test]
    fn what_is_owed_to_a_master_that_is_away_keeps_nobody_from_paying_the_others() {
        let away = Away::default();
        for at in 0..1000 {
            let mut known = known(at, u16::from(at % 100 == 0));
            assert!(known.counter.owe(1, NOW));
            away.owing.fetch_add(1, Ordering::Relaxed);
            let mut shard = away.shard(known.hash).lock();
            shard.known.insert_unique(known.hash, known, |known| known.hash);
        }
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.extend(away.take((SHARDS / 4, 5), |slot| slot == 1, NOW));
        }
        assert!(taken.len() == 10 && taken.iter().all(|owed| owed.slot == 1));
        assert_eq!(away.owing.load(Ordering::Relaxed), 990);
        away.put_back(taken.remove(0), NOW);
        away.put_back(taken.remove(0), NOW + NUMBERS.period_us);
        assert_eq!(away.owing.load(Ordering::Relaxed), 991, "the second counts no more");
        let rest = away.take((SHARDS, usize::MAX), |_| true, NOW).len();
        assert_eq!((rest, away.owing.load(Ordering::Relaxed)), (991, 0));
    }
}
