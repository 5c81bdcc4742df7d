//! What a request comes to in the end, also where parts of the store are away.

use smallvec::SmallVec;
use tidegate_core::{Outcome, Plan, PlannedOp, share};

use super::decide::Request;
use super::step::{Stand, Step};
use crate::Outcomes;
use crate::redis::error::StoreError;
use crate::redis::said::{Said, denies};

impl<'r> Request<'_, '_, 'r> {
    /// What the request comes to where what it still needed does not answer at all.
    pub(super) fn without_store(&self, said: Said, derived: &Plan<'r>) -> StoreError {
        let (shared, mut asked) = (&self.inner.shared, derived.asked().zip(&said.silent));
        let mut owing = SmallVec::<[Option<(&PlannedOp<'r>, &Option<StoreError>)>; 4]>::new();
        let mut outcomes = Outcomes::new();
        for step in &self.steps {
            let (outcome, owes) = match &step.stand {
                Stand::Said(outcome) | Stand::Silent(_, outcome) | Stand::Alone(outcome, _) => {
                    (*outcome, None)
                }
                Stand::Placed(shares) => {
                    let parts: SmallVec<[_; 2]> = asked.by_ref().take(shares.len()).collect();
                    (shared.away.ask(shared, self.plan, step.op), parts.first().copied())
                }
                Stand::Whole => (shared.away.ask(shared, self.plan, step.op), asked.next()),
                Stand::Unplaced => (shared.away.ask(shared, self.plan, step.op), None),
            };
            owing.push(owes);
            outcomes.push(outcome);
        }
        let is_admitted =
            !self.steps.iter().zip(&outcomes).any(|(step, told)| denies(step.op, told));
        for ((step, owes), told) in self.steps.iter().zip(owing).zip(&outcomes) {
            if let Some((owes, Some(why))) = owes.filter(|_| is_admitted && told.fits) {
                shared.away.admit_as(shared, (self.plan, step.op), (derived, owes), why);
            }
        }
        if is_admitted {
            self.admit_silent();
        }
        let why = said.failure.unwrap_or(StoreError::Silent);
        StoreError::Partial { outcomes: Box::new(outcomes), why: Box::new(why) }
    }

    /// Takes, and keeps in mind as owed, what an admitted request has of counters that do not answer.
    fn admit_silent(&self) {
        let looked = self.failure.as_ref().unwrap_or(&StoreError::Silent).before_a_charge();
        let shared = &self.inner.shared;
        for step in &self.steps {
            let op = step.op;
            match &step.stand {
                Stand::Alone(_, why) => {
                    shared.away.admit_as(shared, (self.plan, op), (self.plan, op), why);
                }
                Stand::Silent(at, _) => {
                    let mut derived = Plan::default();
                    self.inner.hints.with(shared, self.plan, op, |known| {
                        let n = share(op.numbers.n, *at, known.of());
                        known.push(&mut derived, (self.plan, op), (*at, n), op.action);
                    });
                    for owes in derived.asked() {
                        shared.away.admit_as(shared, (self.plan, op), (&derived, owes), &looked);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn conclude(self) -> Result<Outcomes, StoreError> {
        let is_admitted = !self.is_denied && !self.has_denial();
        if is_admitted {
            self.admit_silent();
        }
        let said = |step: &Step<'_, '_>| match step.stand {
            Stand::Said(outcome) | Stand::Silent(_, outcome) | Stand::Alone(outcome, _) => outcome,
            Stand::Whole | Stand::Unplaced | Stand::Placed(_) => {
                step.told.unwrap_or(Outcome::unasked(step.op.rule.on_store_failure))
            }
        };
        let outcomes: Outcomes = self.steps.iter().map(said).collect();
        match self.failure {
            None => Ok(outcomes),
            Some(why) => {
                Err(StoreError::Partial { outcomes: Box::new(outcomes), why: Box::new(why) })
            }
        }
    }
}
