//! The split counters that one worker has in mind.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use tidegate_core::{LimitUid, Plan, PlannedOp};

use super::known::Known;
use crate::redis::store::Shared;

/// Parts kept in mind; beyond them all are forgotten, which costs questions and nothing else.
const MOST_PARTS: usize = 1 << 16;

/// What one worker knows of split counters.
#[derive(Debug)]
pub(in crate::redis) struct Hints {
    all: RefCell<HashTable<Known>>,
    parts: Cell<usize>,
    drawn: Cell<u64>,
}

impl Default for Hints {
    fn default() -> Self {
        // The standard hasher's keys come from the system's random source.
        let seed = RandomState::new().hash_one(0u8);
        Self { all: RefCell::default(), parts: Cell::new(0), drawn: Cell::new(seed) }
    }
}

impl Hints {
    /// Does something with what is known of a counter.
    pub(super) fn with<'r, T>(
        &self,
        shared: &Shared,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
        act: impl FnOnce(&mut Known) -> T,
    ) -> T {
        let (limit, values, of) = (op.rule.uid, plan.key(op), op.rule.consistency.parts());
        let hash_of = |limit: LimitUid, values: &[u8]| shared.changes.hash(limit, values);
        let hash = hash_of(limit, values);
        // Another K is another split, with counters of its own.
        let is_it = |it: &Known| it.limit == limit && *it.values == *values && it.of() == of;
        let mut all = self.all.borrow_mut();
        if let Some(known) = all.find_mut(hash, is_it) {
            known.renumber(op.numbers.n);
            return act(known);
        }
        let more = usize::from(of);
        if self.parts.get() + more > MOST_PARTS {
            all.clear();
            self.parts.set(0);
        }
        self.parts.set(self.parts.get() + more);
        let known = Known::new(&shared.keys, plan, op);
        let rehash = |it: &Known| hash_of(it.limit, &it.values);
        act(all.insert_unique(hash, known, rehash).into_mut())
    }

    /// Any number (splitmix64).
    pub(super) fn draw(&self) -> u64 {
        let state = self.drawn.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.drawn.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
