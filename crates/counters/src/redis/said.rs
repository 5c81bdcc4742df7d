//! What became of a request in the store, also where parts of it have not answered.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Action, Outcome, Plan, PlannedOp};

use super::error::StoreError;
use super::store::Shared;
use crate::Outcomes;

/// What each operation of a request came to.
pub(super) struct Said {
    /// In the order of [`Plan::asked`]; of a counter that has not answered, what its limit says then.
    pub(super) outcomes: Outcomes,
    /// Of a counter that has not answered: why it was not charged.
    pub(super) silent: SmallVec<[Option<StoreError>; 4]>,
    /// Why some have not answered.
    pub(super) failure: Option<StoreError>,
    /// True if some have.
    pub(super) is_heard: bool,
}

impl Said {
    /// Nothing yet.
    pub(super) fn nothing(plan: &Plan<'_>) -> Self {
        let unasked = |op: &PlannedOp<'_>| Outcome::unasked(op.rule.on_store_failure);
        let outcomes: Outcomes = plan.asked().map(unasked).collect();
        let silent = smallvec![None; outcomes.len()];
        Self { outcomes, silent, failure: None, is_heard: false }
    }

    /// All was answered by one, or nothing was.
    pub(super) fn by_one(
        shared: &Shared,
        plan: &Plan<'_>,
        told: Result<Outcomes, StoreError>,
    ) -> Self {
        match told {
            Ok(outcomes) => Self {
                silent: smallvec![None; outcomes.len()],
                outcomes,
                failure: None,
                is_heard: true,
            },
            Err(why) => {
                let outcomes: Outcomes =
                    plan.asked().map(|op| shared.away.ask(shared, plan, op)).collect();
                let silent = smallvec![Some(why.clone()); outcomes.len()];
                Self { outcomes, silent, failure: Some(why), is_heard: false }
            }
        }
    }

    /// Takes note of what was answered beside something that was not. What passes without its
    /// counter is taken of this node's share, and owed.
    pub(super) fn note(&self, shared: &Shared, plan: &Plan<'_>) {
        if self.failure.is_none() {
            return;
        }
        shared.away.see(shared, plan, &self.outcomes);
        if plan.asked().zip(&self.outcomes).any(|(op, told)| !told.fits && !op.rule.is_shadow) {
            return;
        }
        for ((op, told), why) in plan.asked().zip(&self.outcomes).zip(&self.silent) {
            if let Some(why) = why {
                shared.away.admit(shared, plan, op, told, why);
            }
        }
    }

    /// As callers are told of it.
    pub(super) fn told(self) -> Result<Outcomes, StoreError> {
        match self.failure {
            None => Ok(self.outcomes),
            Some(why) => {
                let outcomes = Box::new(self.outcomes);
                Err(StoreError::Partial { outcomes, why: Box::new(why) })
            }
        }
    }
}

/// True if what is said of an operation denies its request.
pub(super) fn denies(op: &PlannedOp<'_>, outcome: &Outcome) -> bool {
    !outcome.fits && !op.rule.is_shadow && !is_refund(op)
}

/// True if an operation gives back.
pub(super) const fn is_refund(op: &PlannedOp<'_>) -> bool {
    matches!(op.action, Action::Refund(_))
}
