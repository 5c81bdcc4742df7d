//! A request whose counters lie in several slots of a Cluster: still all or nothing, by looking
//! before taking, and by giving back what was taken where another slot refuses after all.
//!
//! What others may see of that is a charge in a race for the last units, for one round trip. A
//! node that dies in just that race leaves it charged. To look and to take has one
//! deadline in all.

use smallvec::SmallVec;
use tidegate_core::{Action, OnStoreFailure, Plan, PlannedOp};

use super::call::{Kind, whole};
use super::cluster::Cluster;
use super::error::StoreError;
use super::wire::Aboard;
use crate::Outcomes;
use crate::clock::Deadline;
use crate::join::join;

/// Decides a plan; one slot needs one call.
pub(super) async fn decide(cluster: &Cluster, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
    let mut spread = Spread::of(cluster, plan);
    if let Some(slot) = spread.only_slot() {
        return cluster.ask(plan, Kind::Decide, slot, None, whole).await;
    }
    spread.due = Some(Deadline::after(cluster.shared.patience));
    let decided =
        if cluster.far.are_all(plan) { spread.take().await } else { spread.look_and_take().await };
    if let Ok(outcomes) = &decided {
        cluster.far.note(plan, outcomes);
    }
    decided
}

/// Begins to decide a plan whose counters lie in one slot, at a node that is known; none: it needs
/// more than one call, or must wait for the node to be known.
pub(super) fn begin(cluster: &Cluster, plan: &Plan<'_>) -> Option<Result<Aboard, StoreError>> {
    let slot = Spread::of(cluster, plan).only_slot()?;
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

    /// Takes nothing before all slots have said that they have room.
    async fn look_and_take(&self) -> Result<Outcomes, StoreError> {
        let look = |_: usize, op: &PlannedOp<'_>| Some(Action::Peek(op.action.cost()));
        let outcomes = self.together(self.ask(Kind::Decide, self.due, look).await)?;
        let is_denied = self.ops.iter().zip(&outcomes).any(|(op, outcome)| {
            !outcome.fits && !op.rule.is_shadow && !matches!(op.action, Action::Refund(_))
        });
        if is_denied {
            let anyway = |_: usize, op: &PlannedOp<'_>| {
                if op.is_charged_anyway() { Some(op.action) } else { None }
            };
            return self.over(outcomes, self.due, anyway).await;
        }
        if self.ops.iter().all(|op| matches!(op.action, Action::Peek(_))) {
            return Ok(outcomes);
        }
        self.take().await
    }

    /// Charges all slots at once, and gives back where one refused or did not answer.
    async fn take(&self) -> Result<Outcomes, StoreError> {
        let told = self.ask(Kind::Decide, self.due, whole).await;
        let taken: SmallVec<[u16; 4]> =
            told.iter().filter(|told| self.has_taken(told)).map(|(slot, _)| *slot).collect();
        let is_whole = taken.len() == told.len();
        let outcomes = self.together(told);
        let back = |at: usize, op: &PlannedOp<'_>| match op.action {
            Action::Charge(cost) if !op.is_charged_anyway() && taken.contains(&self.slots[at]) => {
                Some(Action::Refund(cost))
            }
            _ => None,
        };
        match outcomes {
            Ok(outcomes) if is_whole => Ok(outcomes),
            // Denied in any case: that is said even if what is given back is not confirmed. It has
            // a deadline of its own, for one that is over sends nothing.
            Ok(outcomes) => Ok(self.over(outcomes.clone(), None, back).await.unwrap_or(outcomes)),
            Err(failure) => {
                // A request that passes because the store failed keeps what it took.
                let is_closed = |op: &&PlannedOp<'_>| {
                    op.rule.on_store_failure == OnStoreFailure::Closed && !op.rule.is_shadow
                };
                if self.ops.iter().any(is_closed) {
                    for slot in &taken {
                        self.cluster.tell(self.plan, *slot, self.in_slot(*slot, back));
                    }
                }
                Err(failure)
            }
        }
    }

    /// True if a slot has answered and refused nothing.
    fn has_taken(&self, (slot, told): &(u16, Result<Outcomes, StoreError>)) -> bool {
        let here = self.ops.iter().zip(&self.slots).filter(|(_, at)| *at == slot);
        told.as_ref().is_ok_and(|outcomes| {
            here.zip(outcomes).all(|((op, _), told)| told.fits || op.rule.is_shadow)
        })
    }

    /// What of a part lies in a slot.
    fn in_slot(
        &self,
        slot: u16,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> impl Fn(usize, &PlannedOp<'_>) -> Option<Action> {
        move |at, op| if self.slots[at] == slot { part(at, op) } else { None }
    }

    /// Asks all slots at once for those operations that `part` names.
    async fn ask(
        &self,
        kind: Kind,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
    ) -> Told {
        let mut wanted: SmallVec<[u16; 4]> = SmallVec::new();
        for (at, (op, slot)) in self.ops.iter().zip(&self.slots).enumerate() {
            if part(at, op).is_some() && !wanted.contains(slot) {
                wanted.push(*slot);
            }
        }
        let ask = |slot: &u16| {
            let (cluster, part) = (self.cluster, self.in_slot(*slot, part));
            cluster.ask(self.plan, kind, *slot, due, part)
        };
        let told = join(wanted.iter().map(ask)).await;
        wanted.into_iter().zip(told).collect()
    }

    /// Puts the answers of the slots in the order of the operations.
    fn together(&self, told: Told) -> Result<Outcomes, StoreError> {
        let mut told: SmallVec<[(u16, smallvec::IntoIter<_>); 4]> = told
            .into_iter()
            .map(|(slot, told)| told.map(|outcomes| (slot, outcomes.into_iter())))
            .collect::<Result<_, _>>()?;
        let next = |slot: &u16| {
            let (_, rest) = told.iter_mut().find(|(other, _)| other == slot)?;
            rest.next()
        };
        self.slots.iter().map(next).collect::<Option<Outcomes>>().ok_or(StoreError::Protocol)
    }

    /// Does something more with some of the operations and puts their outcomes over the earlier.
    async fn over(
        &self,
        mut outcomes: Outcomes,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
    ) -> Result<Outcomes, StoreError> {
        for (slot, told) in self.ask(Kind::Decide, due, part).await {
            let mut told = told?.into_iter();
            for (at, op) in self.ops.iter().enumerate() {
                if self.slots[at] == slot && part(at, op).is_some() {
                    outcomes[at] = told.next().ok_or(StoreError::Protocol)?;
                }
            }
        }
        Ok(outcomes)
    }
}
