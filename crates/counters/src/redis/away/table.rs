//! The counters that a node remembers while their store is away.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidegate_core::{Action, LimitUid, OnStoreFailure, Outcome, Plan, PlannedOp};

use super::counter::{Counter, Debt};
use crate::Outcomes;
use crate::redis::error::StoreError;
use crate::redis::store::Shared;

const SHARDS: usize = 16;
/// Counters of a shard; beyond them nothing is remembered of newcomers.
const MOST: usize = 4096;

/// A limit and the values' part of the key.
pub(super) type Name = (LimitUid, Box<[u8]>);

/// A counter, and how it is called in the store.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) stored: Box<[u8]>,
    pub(super) slot: u16,
    pub(super) counter: Counter,
}

type Shard = HashMap<Name, Known, RandomState>;

/// What all workers of a node share.
#[derive(Debug, Default)]
pub(in crate::redis) struct Away {
    // Each guards its counters; a request locks one at a time.
    shards: [Mutex<Shard>; SHARDS],
    /// True if something is owed.
    owes: AtomicBool,
}

impl Away {
    /// Takes note of what the store said, for the limits that will go on without it.
    #[inline]
    pub(in crate::redis) fn see(&self, shared: &Shared, plan: &Plan<'_>, outcomes: &Outcomes) {
        for (op, outcome) in plan.asked().zip(outcomes) {
            if op.rule.on_store_failure == OnStoreFailure::Local && !outcome.is_unasked {
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
            // Slots that answered have been charged or not by then.
            return why;
        }
        let (now_us, nodes) = (shared.clock.now_us(), shared.local.nodes());
        let is_alone = |op: &PlannedOp<'_>| op.rule.on_store_failure == OnStoreFailure::Local;
        let outcomes: Outcomes = plan
            .asked()
            .map(|op| {
                let unasked = Outcome::unasked(op.rule.on_store_failure);
                if !is_alone(op) {
                    return unasked;
                }
                let ask = |counter: &mut Counter| counter.ask(op.action, nodes, now_us);
                self.with(shared, plan, op, now_us, ask).unwrap_or(unasked)
            })
            .collect();
        let is_admitted =
            plan.asked().zip(&outcomes).all(|(op, told)| told.fits || op.rule.is_shadow);
        for (op, told) in plan.asked().zip(&outcomes) {
            let Action::Charge(cost) = op.action else { continue };
            if !is_admitted || !told.fits {
                continue;
            }
            self.with(shared, plan, op, now_us, |counter| {
                if is_alone(op) {
                    counter.take(cost, nodes, now_us);
                }
                // A value that is none of ours takes no charge later either.
                let is_unheard = !why.may_have_written() && why != StoreError::ForeignValue;
                if is_unheard && counter.owe(cost, now_us) {
                    self.owes.store(true, Ordering::Relaxed);
                }
            });
        }
        StoreError::Partial { outcomes: Box::new(outcomes), why: Box::new(why) }
    }

    fn with<'r, T>(
        &self,
        shared: &Shared,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
        now_us: u64,
        act: impl FnOnce(&mut Counter) -> T,
    ) -> Option<T> {
        let key = plan.key(op);
        let place = shared.changes.hash(op.rule.uid, key) as usize % SHARDS;
        let mut shard = self.shards[place].lock();
        let name = (op.rule.uid, Box::from(key));
        if let Some(known) = shard.get_mut(&name) {
            known.counter.renumber(op.numbers);
            return Some(act(&mut known.counter));
        }
        if shard.len() >= MOST {
            shard.retain(|_, known| !known.counter.is_idle(now_us));
        }
        if shard.len() >= MOST {
            return None;
        }
        let mut stored = Vec::new();
        shared.keys.append(&mut stored, plan, op);
        let slot = shared.keys.slot(plan, op);
        let counter = Counter::new(op.rule.algorithm, op.numbers);
        let known = shard.entry(name).or_insert(Known { stored: stored.into(), slot, counter });
        Some(act(&mut known.counter))
    }

    /// Some of what is owed, no more than `most` counters of it, which is owed no longer.
    pub(super) fn take(&self, most: usize, now_us: u64) -> Vec<(Name, Owed)> {
        if !self.owes.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for shard in &self.shards {
            for (name, known) in shard.lock().iter_mut().filter(|(_, known)| known.counter.owes()) {
                if taken.len() >= most {
                    self.owes.store(true, Ordering::Relaxed);
                    return taken;
                }
                taken.push((name.clone(), Owed::of(known, now_us)));
            }
        }
        taken
    }

    /// What could not be told is owed again.
    pub(super) fn put_back(&self, shared: &Shared, name: &Name, debt: Debt, now_us: u64) {
        let place = shared.changes.hash(name.0, &name.1) as usize % SHARDS;
        if let Some(known) = self.shards[place].lock().get_mut(name) {
            known.counter.owe_again(debt, now_us);
            self.owes.store(true, Ordering::Relaxed);
        }
    }
}

/// What one counter is to be charged.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) stored: Box<[u8]>,
    pub(super) slot: u16,
    pub(super) algorithm: tidegate_core::Algorithm,
    pub(super) numbers: tidegate_core::Numbers,
    pub(super) debt: Debt,
}

impl Owed {
    fn of(known: &mut Known, now_us: u64) -> Self {
        let Counter { algorithm, numbers, .. } = known.counter;
        let debt = known.counter.debt(now_us);
        Self { stored: known.stored.clone(), slot: known.slot, algorithm, numbers, debt }
    }
}
