//! Which counters were lately seen far from their limit, so that several slots of a Cluster may be
//! charged without a look at them first.

use std::cell::RefCell;
use std::time::Duration;

use foldhash::HashMap;
use foldhash::HashMapExt;
use tidegate_core::{Outcome, Plan, PlannedOp};

use crate::clock::Deadline;

/// How long a sight counts.
const LATELY: Duration = Duration::from_secs(1);
/// Counters kept in mind; more are forgotten together.
const MOST: usize = 8192;

/// A limit's number and the values' part of the key.
type Name = (u32, Box<[u8]>);

/// The counters that one worker has in mind.
#[derive(Debug)]
pub(super) struct Far(RefCell<HashMap<Name, Deadline>>);

impl Default for Far {
    fn default() -> Self {
        Self(RefCell::new(HashMap::new()))
    }
}

impl Far {
    /// True if all of a plan's counters were lately seen with at least half of their limit left.
    pub(super) fn are_all(&self, plan: &Plan<'_>) -> bool {
        let seen = self.0.borrow();
        plan.asked().all(|op| seen.get(&name(plan, op)).is_some_and(|until| !until.is_over()))
    }

    /// Keeps in mind what a request has seen.
    pub(super) fn note(&self, plan: &Plan<'_>, outcomes: &[Outcome]) {
        let mut seen = self.0.borrow_mut();
        if seen.len() >= MOST {
            seen.clear();
        }
        for (op, outcome) in plan.asked().zip(outcomes) {
            let capacity = op.numbers.capacity(op.rule.algorithm);
            let name = name(plan, op);
            if outcome.fits && outcome.remaining >= capacity / 2 {
                seen.insert(name, Deadline::after(LATELY));
            } else {
                seen.remove(&name);
            }
        }
    }
}

fn name<'r>(plan: &Plan<'r>, op: &PlannedOp<'r>) -> Name {
    (op.rule.uid.0, plan.key(op).into())
}
