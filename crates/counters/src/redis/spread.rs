//! A request whose counters lie in several slots of a Cluster: still all or nothing, by looking
//! before taking, and by giving back what was taken where another slot refuses after all.
//!
//! What others may see of that is a charge in a race for the last units, for one round trip. A
//! node that dies in just that race leaves it charged. To look and to take has one
//! deadline in all.
//!
//! Each limit is for itself where a slot does not answer: what the others say stands, and its own
//! `on_store_failure` speaks for those of that slot, with this node's share where it is `local`.
//! What passes so is owed to that slot, where it is certain that it has not heard of it.
//!
//! What a request gives back is given once all that it takes is taken, for it cannot be undone.

use smallvec::SmallVec;
use tidegate_core::{Action, Outcome, Plan, PlannedOp};

use super::call::{Kind, whole};
use super::cluster::Cluster;
use super::error::StoreError;
use super::said::{Said, denies, is_refund};
use super::wire::Aboard;
use crate::Outcomes;
use crate::clock::Deadline;
use crate::join::join;

/// Decides a plan, until that time if one is given; one slot needs one call. `is_looked`: all of it
/// was just seen to have room. What passes without its slot is still to be noted.
pub(super) async fn decide(
    cluster: &Cluster,
    plan: &Plan<'_>,
    due: Option<Deadline>,
    is_looked: bool,
) -> Said {
    let mut spread = Spread::of(cluster, plan);
    if let Some(slot) = spread.only_slot() {
        let told = cluster.ask(plan, Kind::Decide, slot, due, whole).await;
        return Said::by_one(&cluster.shared, plan, told);
    }
    spread.due = Some(due.unwrap_or_else(|| Deadline::after(cluster.shared.patience)));
    let is_far = is_looked || cluster.far.are_all(plan);
    let said = if is_far && !spread.is_mixed() {
        spread.take(whole, Said::nothing(plan)).await
    } else {
        spread.look_and_take().await
    };
    cluster.far.note(plan, &said.outcomes);
    said
}

/// What each operation of a plan says until then, all of which only look, and why some are unasked.
pub(super) async fn look(
    cluster: &Cluster,
    plan: &Plan<'_>,
    due: Deadline,
) -> (Outcomes, Option<StoreError>) {
    let spread = Spread::of(cluster, plan);
    let Said { mut outcomes, .. } = Said::nothing(plan);
    let told = spread.ask(Kind::Decide, Some(due), whole).await;
    let failure = spread.put(&mut outcomes, told, whole);
    (outcomes, failure)
}

/// Begins to decide a plan whose counters lie in one slot, at a node that is known; none: it needs
/// more than one call, or must wait for the node to be known.
pub(super) fn begin(cluster: &Cluster, plan: &Plan<'_>) -> Option<Result<Aboard, StoreError>> {
    let mut slots = plan.asked().map(|op| cluster.shared.keys.slot(plan, op));
    let slot = slots.next()?;
    if !slots.all(|other| other == slot) {
        return None;
    }
    let wire = cluster.wire(slot).filter(|wire| wire.is_tried())?;
    Some(wire.board(plan, Kind::Decide, Some(slot), None, whole))
}

/// Forgets the counters of a plan.
pub(super) async fn reset(cluster: &Cluster, plan: &Plan<'_>) -> Result<(), StoreError> {
    let told = Spread::of(cluster, plan).ask(Kind::Delete, None, whole).await;
    told.into_iter().try_for_each(|(_, told)| told.map(|_| ()))
}

/// What each slot that was asked has answered.
type Told = Vec<(u16, Result<Outcomes, StoreError>)>;

/// What a slot was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Look,
    Take,
}

/// A plan and where its counters lie.
struct Spread<'c, 'p, 'r> {
    cluster: &'c Cluster,
    plan: &'p Plan<'r>,
    /// The operations that the store answers, and the slot of each.
    ops: SmallVec<[&'p PlannedOp<'r>; 4]>,
    slots: SmallVec<[u16; 4]>,
    due: Option<Deadline>,
}

impl<'c, 'p, 'r> Spread<'c, 'p, 'r> {
    fn of(cluster: &'c Cluster, plan: &'p Plan<'r>) -> Self {
        let slots = plan.asked().map(|op| cluster.shared.keys.slot(plan, op)).collect();
        Self { cluster, plan, ops: plan.asked().collect(), slots, due: None }
    }

    /// The slot, if all lie in one.
    fn only_slot(&self) -> Option<u16> {
        let first = *self.slots.first()?;
        self.slots.iter().all(|slot| *slot == first).then_some(first)
    }

    /// True if a request both takes and gives back.
    fn is_mixed(&self) -> bool {
        let gives = |op: &&&PlannedOp<'_>| is_refund(op);
        (1..self.ops.len()).contains(&self.ops.iter().filter(gives).count())
    }

    /// Takes nothing before all slots that answer have said that they have room.
    async fn look_and_take(&self) -> Said {
        let look = |_: usize, op: &PlannedOp<'_>| Some(Action::Peek(op.action.cost()));
        let told = self.ask(Kind::Decide, self.due, look).await;
        let mut said = self.together(told, look, Said::nothing(self.plan), Step::Look);
        for (_, outcome) in self.ops.iter().zip(&mut said.outcomes).filter(|(op, _)| is_refund(op))
        {
            (outcome.fits, outcome.wait_us) = (true, Some(0));
        }
        let asked: SmallVec<[bool; 4]> = said.outcomes.iter().map(|one| !one.is_unasked).collect();
        if self.is_denied(&said.outcomes) {
            let anyway = |at: usize, op: &PlannedOp<'_>| {
                (op.is_charged_anyway() && asked[at]).then_some(op.action)
            };
            let charged = self.ask(Kind::Decide, self.due, anyway).await;
            let failure = self.put(&mut said.outcomes, charged, anyway);
            said.failure = said.failure.or(failure);
            self.tell_waits(&mut said, &[]).await;
            return said;
        }
        if self.ops.iter().all(|op| matches!(op.action, Action::Peek(_))) {
            return said;
        }
        let failure = said.failure.take();
        // It passes, for those that are silent are open; the others are charged all the same.
        let known = |at: usize, op: &PlannedOp<'_>| asked[at].then_some(op.action);
        if failure.is_some() && self.due.is_some_and(Deadline::is_over) {
            self.tell_all(known);
            return Said { failure, ..said };
        }
        let is_mixed = self.is_mixed();
        let first =
            |at: usize, op: &PlannedOp<'_>| known(at, op).filter(|_| !is_mixed || !is_refund(op));
        let mut taken = self.take(first, said).await;
        if is_mixed && !self.is_denied(&taken.outcomes) {
            let last = |at: usize, op: &PlannedOp<'_>| known(at, op).filter(|_| is_refund(op));
            let given = self.ask(Kind::Decide, self.due, last).await;
            let failure = self.put(&mut taken.outcomes, given, last);
            taken.failure = taken.failure.or(failure);
        }
        Said { failure: taken.failure.or(failure), ..taken }
    }

    /// Charges all slots of a part at once, and gives back where one refused, or one that is
    /// closed did not answer. Of the rest `known` tells.
    async fn take(
        &self,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
        known: Said,
    ) -> Said {
        let told = self.ask(Kind::Decide, self.due, part).await;
        let taken: SmallVec<[u16; 4]> =
            told.iter().filter(|told| self.has_taken(told, part)).map(|told| told.0).collect();
        let mut said = self.together(told, part, known, Step::Take);
        if !self.is_denied(&said.outcomes) {
            // A request that passes without some of its limits keeps what the others gave.
            return said;
        }
        let back = |at: usize, op: &PlannedOp<'_>| {
            let is_here = taken.contains(&self.slots[at]) && !op.is_charged_anyway();
            // What is in shadow passes without being charged where it has no room.
            let is_taken = is_here && said.outcomes[at].fits;
            let is_charge = matches!(op.action, Action::Charge(_));
            (is_taken && is_charge).then(|| Action::Refund(op.action.cost()))
        };
        // That has a deadline of its own, for one that is over sends nothing. Nobody waits for it
        // any longer than for the decision: it is denied in any case.
        self.tell_all(back);
        if said.failure.is_none() {
            self.tell_waits(&mut said, &taken).await;
        }
        said
    }

    /// Says of limits that were charged in a request that another slot denies when the next like
    /// it passes: their own slot, which saw no denial, has not. And in these slots, what is left
    /// after the rest was given back.
    async fn tell_waits(&self, said: &mut Said, given_back: &[u16]) {
        let anew = |at: usize, op: &PlannedOp<'_>| {
            let outcome = &said.outcomes[at];
            let cost = op.action.cost();
            let is_full = outcome.fits && !outcome.is_unasked && outcome.remaining < cost;
            let is_charge = matches!(op.action, Action::Charge(_));
            let is_back = is_charge && given_back.contains(&self.slots[at]);
            let is_changed = if op.is_charged_anyway() { is_full } else { is_back };
            is_changed.then_some(Action::Peek(cost))
        };
        let told = self.ask(Kind::Decide, self.due, anew).await;
        let mut outcomes = said.outcomes.clone();
        let _ = self.put(&mut outcomes, told, anew);
        for ((op, ours), now) in self.ops.iter().zip(&mut said.outcomes).zip(outcomes) {
            let wait_us = if op.is_charged_anyway() { now.wait_us } else { ours.wait_us };
            *ours = Outcome { fits: ours.fits, wait_us, ..now };
        }
    }

    fn is_denied(&self, outcomes: &[Outcome]) -> bool {
        self.ops.iter().zip(outcomes).any(|(op, outcome)| denies(op, outcome))
    }

    /// The operations of a part that lie in a slot, and their places among all.
    fn here(
        &self,
        slot: u16,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> impl Iterator<Item = (usize, &'p PlannedOp<'r>)> {
        let all = self.ops.iter().copied().enumerate();
        all.filter(move |(at, op)| self.slots[*at] == slot && part(*at, op).is_some())
    }

    /// True if a slot has answered to a part and refused nothing.
    fn has_taken(
        &self,
        (slot, told): &(u16, Result<Outcomes, StoreError>),
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> bool {
        told.as_ref().is_ok_and(|outcomes| {
            let mut told = self.here(*slot, part).zip(outcomes);
            told.all(|((_, op), told)| told.fits || op.rule.is_shadow)
        })
    }

    /// Tells the slots of a part what is to be done there, and waits for none.
    fn tell_all(&self, part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy) {
        for slot in self.wanted(part) {
            self.cluster.tell(self.plan, slot, self.in_slot(slot, part));
        }
    }

    /// What of a part lies in a slot.
    fn in_slot(
        &self,
        slot: u16,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> impl Fn(usize, &PlannedOp<'_>) -> Option<Action> {
        move |at, op| if self.slots[at] == slot { part(at, op) } else { None }
    }

    /// The slots of a part.
    fn wanted(&self, part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>) -> SmallVec<[u16; 4]> {
        let mut wanted: SmallVec<[u16; 4]> = SmallVec::new();
        for (at, (op, slot)) in self.ops.iter().zip(&self.slots).enumerate() {
            if part(at, op).is_some() && !wanted.contains(slot) {
                wanted.push(*slot);
            }
        }
        wanted
    }

    /// Asks all slots at once for those operations that `part` names.
    async fn ask(
        &self,
        kind: Kind,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
    ) -> Told {
        let wanted = self.wanted(part);
        let ask = |slot: &u16| {
            let (cluster, part) = (self.cluster, self.in_slot(*slot, part));
            cluster.ask(self.plan, kind, *slot, due, part)
        };
        let told = join(wanted.iter().map(ask)).await;
        wanted.into_iter().zip(told).collect()
    }

    /// Puts the answers of the slots to a part in the order of the operations over what is known;
    /// those of a slot without an answer come to what their limits say then.
    fn together(
        &self,
        told: Told,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
        mut said: Said,
        step: Step,
    ) -> Said {
        let shared = &self.cluster.shared;
        said.failure = None;
        for (slot, told) in told {
            let told = match told {
                Ok(told) => {
                    said.is_heard = true;
                    self.put(&mut said.outcomes, vec![(slot, Ok(told))], part);
                    continue;
                }
                Err(error) => error,
            };
            let why = if step == Step::Look { told.before_a_charge() } else { told.clone() };
            for (at, op) in self.here(slot, part) {
                said.outcomes[at] = shared.away.ask(shared, self.plan, op);
                said.silent[at] = Some(why.clone());
            }
            said.failure = said.failure.or(Some(told));
        }
        said
    }

    /// Puts the outcomes of what more was done with some of the operations over the earlier; says
    /// why one is not there.
    fn put(
        &self,
        outcomes: &mut Outcomes,
        told: Told,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Option<StoreError> {
        let mut failure = None;
        for (slot, told) in told {
            match told {
                Ok(told) => {
                    for ((at, _), outcome) in self.here(slot, &part).zip(told) {
                        outcomes[at] = outcome;
                    }
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure
    }
}
