//! Deciding a request of which some counters are split.

use std::rc::Rc;

use smallvec::SmallVec;
use tidegate_core::{Action, Consistency, Outcome, Plan, PlannedOp, share};

use super::known::{Known, Pick, Way};
use super::look::{self, Looked};
use super::place::{self, Share, Shares};
use super::step::{Stand, Step};
use crate::Outcomes;
use crate::clock::Deadline;
use crate::redis::cluster::Cluster;
use crate::redis::error::StoreError;
use crate::redis::handle::{Inner, Owner};
use crate::redis::local::{self, Standing};
use crate::redis::said::{Said, denies, is_refund};
use crate::redis::spread;

/// Races for the last units that a request may lose before it is denied.
const MOST_ROUNDS: usize = 5;

/// A request under way.
pub(super) struct Request<'c, 'p, 'r> {
    pub(super) inner: &'c Rc<Inner>,
    cluster: &'c Cluster,
    pub(super) plan: &'p Plan<'r>,
    pub(super) steps: SmallVec<[Step<'p, 'r>; 4]>,
    pub(super) failure: Option<StoreError>,
    /// True once it is denied, and the rest is only reported.
    pub(super) is_denied: bool,
    due: Deadline,
}

/// True if some counter of a plan is split there.
#[inline]
pub(in crate::redis) fn is_for(owner: &Owner, plan: &Plan<'_>) -> bool {
    owner.is_cluster()
        && plan.asked().any(|op| matches!(op.rule.consistency, Consistency::Sharded(_)))
}

/// Decides it, until one deadline in all.
pub(in crate::redis) async fn decide(
    inner: &Rc<Inner>,
    cluster: &Cluster,
    plan: &Plan<'_>,
) -> Result<Outcomes, StoreError> {
    let mut request = Request::new(inner, cluster, plan);
    for round in 0..=MOST_ROUNDS {
        if round > 0 && request.failure.is_none() && request.due.is_over() {
            // Others were faster until its time was over.
            request.give_up();
            return request.conclude();
        }
        request.look(round == MOST_ROUNDS).await;
        if request.has_denial() {
            request.report().await?;
            return request.conclude();
        }
        if request.ask(round > 0).await? {
            return request.conclude();
        }
    }
    request.look(true).await;
    request.report().await?;
    request.conclude()
}

impl<'c, 'p, 'r> Request<'c, 'p, 'r> {
    fn new(inner: &'c Rc<Inner>, cluster: &'c Cluster, plan: &'p Plan<'r>) -> Self {
        let due = Deadline::after(inner.shared.patience);
        let now_us = inner.shared.clock.now_us();
        let way = |slot: u16| {
            let wire = cluster.wire(slot);
            match wire.as_ref().map(|wire| wire.line.borrow()) {
                Some(line) if !line.can_be_asked() => Way::Shut,
                Some(line) if line.is_busy_with(slot) => Way::Busy,
                Some(_) => Way::Free,
                None => Way::Shut,
            }
        };
        let stand = |op: &PlannedOp<'r>| match (op.rule.consistency, op.action) {
            (Consistency::Sharded(_), Action::Charge(cost)) => {
                let draw = inner.hints.draw();
                let pick = |known: &mut Known| known.pick(cost, now_us, draw, way);
                match inner.hints.with(&inner.shared, plan, op, pick) {
                    Pick::Part(at) => {
                        let n = share(op.numbers.n, at, op.rule.consistency.parts());
                        Stand::Placed(Shares::from_slice(&[Share { at, units: cost, n }]))
                    }
                    Pick::Look => Stand::Unplaced,
                }
            }
            (Consistency::Sharded(_), _) => Stand::Unplaced,
            _ => Stand::Whole,
        };
        let step = |op| Step { op, stand: stand(op), told: None, why: None, looked: None };
        let steps = plan.asked().map(step).collect();
        Self { inner, cluster, plan, steps, failure: None, is_denied: false, due }
    }

    fn now_us(&self) -> u64 {
        self.inner.shared.clock.now_us()
    }

    /// Looks at all parts of what is unplaced, and places it or says that it does not fit.
    async fn look(&mut self, is_last: bool) {
        let mut derived = Plan::default();
        for step in self.unplaced() {
            self.inner.hints.with(&self.inner.shared, self.plan, step.op, |known| {
                for at in 0..known.of() {
                    for n in look::questions(step.op, at, known.of()) {
                        let to = (self.plan, step.op);
                        known.push(&mut derived, to, (at, n), Action::Peek(1));
                    }
                }
            });
        }
        if derived.ops.is_empty() {
            return;
        }
        let (told, failure) = spread::look(self.cluster, &derived, self.due).await;
        let mut told = told.iter();
        for at in 0..self.steps.len() {
            let op = self.steps[at].op;
            if matches!(self.steps[at].stand, Stand::Unplaced) {
                let now_us = self.now_us();
                let looked = self.inner.hints.with(&self.inner.shared, self.plan, op, |known| {
                    Looked::read(op, known, &mut told, now_us)
                });
                let stand = self.placed(op, &looked, is_last, failure.as_ref()).await;
                let step = &mut self.steps[at];
                (step.stand, step.looked) = (stand, Some(looked));
            }
        }
    }

    /// Denies what is not placed; it may pass a moment later.
    fn give_up(&mut self) {
        let now_us = self.now_us();
        for step in &mut self.steps {
            if matches!(step.stand, Stand::Unplaced) {
                let (op, shared) = (step.op, &self.inner.shared);
                let room = self.inner.hints.with(shared, self.plan, op, |known| known.room(now_us));
                let remaining = room.min(op.action.cost().saturating_sub(1));
                step.stand = Stand::Said(Outcome { remaining, wait_us: Some(0), ..Outcome::SHUT });
            }
        }
        self.is_denied = self.has_denial();
    }

    fn unplaced(&self) -> impl Iterator<Item = &Step<'p, 'r>> {
        self.steps.iter().filter(|step| matches!(step.stand, Stand::Unplaced))
    }

    /// Where an operation goes after a look.
    async fn placed(
        &mut self,
        op: &PlannedOp<'r>,
        looked: &Looked,
        is_last: bool,
        failure: Option<&StoreError>,
    ) -> Stand {
        let cost = op.action.cost();
        if let Action::Refund(_) = op.action {
            let shares = place::refund(looked, cost, op.rule.algorithm);
            if looked.silent(0).is_some() {
                self.failure = self.failure.take().or_else(|| failure.cloned());
            }
            let said = looked.report(cost, None);
            return if shares.is_empty() || self.is_denied {
                Stand::Said(Outcome { fits: true, wait_us: Some(0), ..said })
            } else {
                Stand::Placed(shares)
            };
        }
        if cost <= looked.room() {
            let is_charge = matches!(op.action, Action::Charge(_)) && !self.is_denied;
            return match is_charge {
                false => Stand::Said(looked.report(cost, None)),
                true if !is_last => {
                    Stand::Placed(place::charge(looked, cost, self.inner.hints.draw()))
                }
                // Others were faster each time. It may pass a moment later.
                true => Stand::Said(Outcome {
                    fits: false,
                    remaining: cost - 1,
                    ..looked.report(cost, None)
                }),
            };
        }
        // What passes without it is owed to one of those that do not answer.
        let silent = looked.silent(self.inner.hints.draw());
        if let Some(at) = silent.filter(|_| looked.may_have(cost)) {
            self.failure = self.failure.take().or_else(|| failure.cloned());
            let shared = &self.inner.shared;
            return Stand::Silent(at, shared.away.ask(shared, self.plan, op));
        }
        let wait_us = match looked.wait_us(cost) {
            Ok(wait_us) => wait_us,
            Err(units) => self.first_leaving(op, looked, units).await,
        };
        Stand::Said(looked.report(cost, wait_us))
    }

    /// Microseconds until so many units have left some part of a log.
    async fn first_leaving(&self, op: &PlannedOp<'r>, looked: &Looked, units: u64) -> Option<u64> {
        let mut derived = Plan::default();
        self.inner.hints.with(&self.inner.shared, self.plan, op, |known| {
            for (at, n, peek) in looked.leaving(units) {
                known.push(&mut derived, (self.plan, op), (at, n), peek);
            }
        });
        let (told, _) = spread::look(self.cluster, &derived, self.due).await;
        let waits = told.iter().filter(|told| !told.is_unasked).filter_map(|told| told.wait_us);
        // Where nobody says it, it is a moment.
        Some(waits.min().unwrap_or(0))
    }

    pub(super) fn has_denial(&self) -> bool {
        self.steps.iter().any(|step| match &step.stand {
            Stand::Said(outcome) | Stand::Silent(_, outcome) | Stand::Alone(outcome, _) => {
                denies(step.op, outcome)
            }
            _ => false,
        })
    }

    /// What is said of the rest of a denied request, which takes nothing but what is charged anyway.
    async fn report(&mut self) -> Result<(), StoreError> {
        self.is_denied = true;
        for step in &mut self.steps {
            match (&step.stand, step.told) {
                (Stand::Whole | Stand::Placed(_), Some(told)) => step.stand = Stand::Said(told),
                (Stand::Placed(_), None) => step.stand = Stand::Unplaced,
                _ => {}
            }
        }
        self.look(false).await;
        self.ask(false).await.map(|_| ())
    }

    /// Asks for what is placed and for what is whole, all or nothing. True if that decides it.
    async fn ask(&mut self, is_looked: bool) -> Result<bool, StoreError> {
        let derived = self.derived();
        if derived.ops.is_empty() {
            return Ok(true);
        }
        let shared = &self.inner.shared;
        let said = if self.due.is_over() {
            // Who has looked until then does not charge what it would not hear of.
            Said::by_one(shared, &derived, Err(StoreError::Timeout { was_sent: false }))
        } else {
            ask(self.inner, self.cluster, &derived, self.due, is_looked).await
        };
        if !said.is_heard {
            return Err(self.without_store(said, &derived));
        }
        said.note(shared, &derived);
        let is_refused = derived.asked().zip(&said.outcomes).any(|(op, told)| denies(op, told));
        let mut told = said.outcomes.iter().zip(&said.silent);
        for at in 0..self.steps.len() {
            self.hear(at, &mut told, !is_refused);
        }
        self.failure = said.failure.or(self.failure.take());
        let is_lost = |step: &Step<'_, '_>| matches!(step.stand, Stand::Unplaced);
        let is_denied = self
            .steps
            .iter()
            .filter(|step| !is_lost(step))
            .any(|step| step.told.is_some_and(|told| denies(step.op, &told)));
        self.is_denied |= is_denied;
        let is_over = is_denied || !self.steps.iter().any(is_lost);
        for step in &mut self.steps {
            let Some(told) = step.told else { continue };
            match &step.stand {
                Stand::Whole | Stand::Placed(_) if is_over => step.stand = Stand::Said(told),
                Stand::Whole if step.op.is_charged_anyway() => step.stand = Stand::Said(told),
                // Nobody has taken or owed it, for the request had not passed.
                Stand::Whole if told.is_unasked => {
                    step.stand = Stand::Alone(told, step.why.take().unwrap_or(StoreError::Silent));
                }
                Stand::Placed(_) if told.is_unasked => step.stand = Stand::Unplaced,
                _ => {}
            }
        }
        if is_denied {
            // A part that refuses is not yet the limit: that is looked up for the report.
            self.look(false).await;
        }
        Ok(is_over)
    }

    /// The plan of what is to be asked.
    fn derived(&self) -> Plan<'r> {
        let mut derived = Plan::default();
        for step in &self.steps {
            let op = step.op;
            match &step.stand {
                Stand::Whole if self.is_denied && !op.is_charged_anyway() => {
                    derived.push_like(self.plan, op, Action::Peek(op.action.cost()));
                }
                Stand::Whole => derived.push_like(self.plan, op, op.action),
                Stand::Placed(shares) => {
                    self.inner.hints.with(&self.inner.shared, self.plan, op, |known| {
                        for Share { at, units, n } in shares.iter().copied() {
                            let action = match op.action {
                                Action::Charge(_) => Action::Charge(units),
                                Action::Peek(_) => Action::Peek(units),
                                Action::Refund(_) => Action::Refund(units),
                            };
                            known.push(&mut derived, (self.plan, op), (at, n), action);
                        }
                    });
                }
                Stand::Unplaced | Stand::Said(_) | Stand::Silent(..) | Stand::Alone(..) => {}
            }
        }
        derived
    }

    /// Takes the answers to what one operation had in a [`Request::derived`] plan.
    fn hear<'o>(
        &mut self,
        at: usize,
        told: &mut impl Iterator<Item = (&'o Outcome, &'o Option<StoreError>)>,
        is_done: bool,
    ) {
        let (now_us, plan) = (self.now_us(), self.plan);
        let Some(step) = self.steps.get_mut(at) else { return };
        let op = step.op;
        match &step.stand {
            Stand::Whole => {
                let told = told.next();
                step.told =
                    told.map(|(told, _)| Outcome { fits: told.fits || is_refund(op), ..*told });
                step.why = told.and_then(|(_, why)| why.clone());
            }
            Stand::Placed(shares) => {
                let looked = step.looked.as_ref();
                let mut shut = None;
                let heard = self.inner.hints.with(&self.inner.shared, plan, op, |known| {
                    let mut heard = Outcome { fits: true, wait_us: Some(0), ..Outcome::SHUT };
                    for (share, (told, _)) in shares.iter().zip(&mut *told) {
                        known.note(share.at, op.rule.algorithm, told.remaining, told, now_us);
                        heard.fits &= told.fits;
                        shut = shut.or(Some(*told).filter(|told| told.is_unasked && !told.fits));
                        heard.is_unasked |= told.is_unasked;
                        heard.reset_us = heard.reset_us.max(told.reset_us);
                    }
                    let others = looked.map_or(0, |looked| looked.reset_beside(shares));
                    heard.reset_us = heard.reset_us.max(others);
                    let done = if is_done { op.action } else { Action::Peek(1) };
                    let room = looked.map(|looked| looked.room_after(done));
                    heard.remaining = room.unwrap_or_else(|| known.room(now_us));
                    heard
                });
                if heard.fits {
                    step.told = Some(heard);
                } else if shut.is_some() {
                    // A part that does not answer, and its limit denies then.
                    step.told = shut;
                } else {
                    (step.stand, step.told) = (Stand::Unplaced, None);
                }
            }
            Stand::Unplaced | Stand::Said(_) | Stand::Silent(..) | Stand::Alone(..) => {}
        }
    }
}

/// Asks for a plan in which every counter is one. `is_looked`: all of it was just seen to fit.
async fn ask(
    inner: &Rc<Inner>,
    cluster: &Cluster,
    plan: &Plan<'_>,
    due: Deadline,
    is_looked: bool,
) -> Said {
    if !is_looked {
        match local::stand(inner, plan, inner.shared.clock.now_us()) {
            Standing::Elsewhere => return spread::decide(cluster, plan, Some(due), false).await,
            Standing::Known(outcomes) => return Said::by_one(&inner.shared, plan, Ok(outcomes)),
            Standing::Waits => {}
        }
    }
    if local::concerns(plan) {
        return local::decide(inner, plan, due).await;
    }
    spread::decide(cluster, plan, Some(due), is_looked).await
}
