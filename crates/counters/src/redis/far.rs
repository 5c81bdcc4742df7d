//! Which counters were lately seen far from their limit, so that several slots of a Cluster may be
//! charged without a look at them first.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tidegate_core::{LimitUid, Outcome, Plan};

use crate::clock::Deadline;

/// How long a sight counts.
const LATELY: Duration = Duration::from_secs(1);
/// Counters kept in mind; more are forgotten together.
const MOST: usize = 8192;

/// The counters that one worker has in mind, found without a copy of their keys.
#[derive(Debug, Default)]
pub(super) struct Far {
    seen: RefCell<HashTable<Seen>>,
    hasher: RandomState,
}

/// One counter: its limit's number, the values' part of its key, and how long the sight counts.
#[derive(Debug)]
struct Seen {
    limit: LimitUid,
    values: Box<[u8]>,
    until: Deadline,
}

impl Far {
    /// True if all of a plan's counters were lately seen with at least half of their limit left.
    pub(super) fn are_all(&self, plan: &Plan<'_>) -> bool {
        let seen = self.seen.borrow();
        plan.asked().all(|op| {
            let (limit, values) = (op.rule.uid, plan.key(op));
            let known = seen.find(self.hash(limit, values), |seen| seen.is(limit, values));
            known.is_some_and(|seen| !seen.until.is_over())
        })
    }

    /// Keeps in mind what a request has seen.
    pub(super) fn note(&self, plan: &Plan<'_>, outcomes: &[Outcome]) {
        let mut all = self.seen.borrow_mut();
        if all.len() >= MOST {
            all.clear();
        }
        for (op, outcome) in plan.asked().zip(outcomes) {
            let (limit, values) = (op.rule.uid, plan.key(op));
            let capacity = op.numbers.capacity(op.rule.algorithm);
            let is_far = outcome.fits && !outcome.is_unasked && outcome.remaining >= capacity / 2;
            let rehash = |seen: &Seen| self.hash(seen.limit, &seen.values);
            let hash = self.hash(limit, values);
            match all.entry(hash, |seen| seen.is(limit, values), rehash) {
                Entry::Occupied(mut known) if is_far => {
                    known.get_mut().until = Deadline::after(LATELY);
                }
                Entry::Occupied(known) => drop(known.remove()),
                Entry::Vacant(place) if is_far => {
                    let until = Deadline::after(LATELY);
                    place.insert(Seen { limit, values: values.into(), until });
                }
                Entry::Vacant(_) => {}
            }
        }
    }

    fn hash(&self, limit: LimitUid, values: &[u8]) -> u64 {
        self.hasher.hash_one((limit.0, values))
    }
}

impl Seen {
    fn is(&self, limit: LimitUid, values: &[u8]) -> bool {
        self.limit == limit && *self.values == *values
    }
}
