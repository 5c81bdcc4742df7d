//! A request whose counters lie in several slots of a Cluster: still all or nothing, by looking
//! before taking, and by giving back what was taken where another slot refuses after all.
//!
//! What others may see of that is a charge in a race for the last units, for one round trip. A
//! node that dies in just that race leaves it charged.

use smallvec::SmallVec;
use tidegate_core::{Action, OnStoreFailure, Plan, PlannedOp};

use super::call::{Kind, whole};
use super::cluster::Cluster;
use super::error::StoreError;
use crate::Outcomes;
use crate::join::join;

/// Decides a plan; one slot needs one call.
pub(super) async fn decide(cluster: &Cluster, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
    let slots = Slots::of(cluster, plan);
    if let Some(slot) = slots.only() {
        return cluster.ask(plan, Kind::Decide, slot, whole).await;
    }
    let ops: SmallVec<[&PlannedOp<'_>; 4]> = plan.asked().collect();
    let decided = if cluster.far.are_all(plan) {
        take(cluster, plan, &slots, &ops).await
    } else {
        look_and_take(cluster, plan, &slots, &ops).await
    };
    if let Ok(outcomes) = &decided {
        cluster.far.note(plan, outcomes);
    }
    decided
}

/// Takes nothing before all slots have said that they have room.
async fn look_and_take(
    cluster: &Cluster,
    plan: &Plan<'_>,
    slots: &Slots,
    ops: &[&PlannedOp<'_>],
) -> Result<Outcomes, StoreError> {
    let look = |_: usize, op: &PlannedOp<'_>| Some(Action::Peek(op.action.cost()));
    let mut outcomes = slots.each(cluster, plan, Kind::Decide, look).await?;
    let is_denied = ops.iter().zip(&outcomes).any(|(op, outcome)| {
        !outcome.fits && !op.rule.is_shadow && !matches!(op.action, Action::Refund(_))
    });
    if is_denied {
        let is_anyway = |op: &PlannedOp<'_>| op.is_charged_anyway();
        if ops.iter().any(|op| is_anyway(op)) {
            let part = |_: usize, op: &PlannedOp<'_>| is_anyway(op).then_some(op.action);
            outcomes = slots.over(outcomes, cluster, plan, part).await?;
        }
        return Ok(outcomes);
    }
    if ops.iter().all(|op| matches!(op.action, Action::Peek(_))) {
        return Ok(outcomes);
    }
    take(cluster, plan, slots, ops).await
}

/// Forgets the counters of a plan.
pub(super) async fn reset(cluster: &Cluster, plan: &Plan<'_>) -> Result<(), StoreError> {
    let told = Slots::of(cluster, plan).ask_each(cluster, plan, Kind::Delete, whole).await;
    told.into_iter().try_for_each(|(_, told)| told.map(|_| ()))
}

/// Charges all slots at once, and gives back where one refused or did not answer.
async fn take(
    cluster: &Cluster,
    plan: &Plan<'_>,
    slots: &Slots,
    ops: &[&PlannedOp<'_>],
) -> Result<Outcomes, StoreError> {
    let told = slots.ask_each(cluster, plan, Kind::Decide, whole).await;
    let mut taken: SmallVec<[u16; 4]> = SmallVec::new();
    let mut failure = None;
    for (slot, outcomes) in &told {
        match outcomes {
            Ok(outcomes) => {
                let here = ops.iter().zip(&slots.0).filter(|(_, at)| *at == slot);
                if !here.zip(outcomes).any(|((op, _), told)| !told.fits && !op.rule.is_shadow) {
                    taken.push(*slot);
                }
            }
            Err(error) => failure = Some(error.clone()),
        }
    }
    // A request that passes because the store failed keeps what it took.
    let is_refused = match &failure {
        None => taken.len() < told.len(),
        Some(_) => ops
            .iter()
            .any(|op| op.rule.on_store_failure == OnStoreFailure::Closed && !op.rule.is_shadow),
    };
    let outcomes = slots.together(told);
    if !is_refused {
        return failure.map_or(outcomes, Err);
    }
    let back = |at: usize, op: &PlannedOp<'_>| match op.action {
        Action::Charge(cost) if !op.is_charged_anyway() && taken.contains(&slots.0[at]) => {
            Some(Action::Refund(cost))
        }
        _ => None,
    };
    match failure {
        None => slots.over(outcomes?, cluster, plan, back).await,
        Some(error) => {
            // Nobody waits for more than one deadline; what cannot be given back stays charged.
            let _ = slots.ask_each(cluster, plan, Kind::Decide, back).await;
            Err(error)
        }
    }
}

/// The slot of each operation that the store answers.
struct Slots(SmallVec<[u16; 4]>);

type Told = Vec<(u16, Result<Outcomes, StoreError>)>;

impl Slots {
    fn of(cluster: &Cluster, plan: &Plan<'_>) -> Self {
        Self(plan.asked().map(|op| cluster.shared.keys.slot(plan, op)).collect())
    }

    /// The slot, if all lie in one.
    fn only(&self) -> Option<u16> {
        let first = *self.0.first()?;
        self.0.iter().all(|slot| *slot == first).then_some(first)
    }

    /// Asks all slots at once for those operations that `part` names.
    async fn ask_each(
        &self,
        cluster: &Cluster,
        plan: &Plan<'_>,
        kind: Kind,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
    ) -> Told {
        let mut wanted: SmallVec<[u16; 4]> = SmallVec::new();
        for (at, (op, slot)) in plan.asked().zip(&self.0).enumerate() {
            if part(at, op).is_some() && !wanted.contains(slot) {
                wanted.push(*slot);
            }
        }
        let told = join(wanted.iter().map(|slot| {
            let here = move |at: usize, op: &PlannedOp<'_>| {
                if self.0[at] == *slot { part(at, op) } else { None }
            };
            cluster.ask(plan, kind, *slot, here)
        }))
        .await;
        wanted.into_iter().zip(told).collect()
    }

    /// The outcomes of all operations, in their order.
    async fn each(
        &self,
        cluster: &Cluster,
        plan: &Plan<'_>,
        kind: Kind,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
    ) -> Result<Outcomes, StoreError> {
        self.together(self.ask_each(cluster, plan, kind, part).await)
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
        self.0.iter().map(next).collect::<Option<Outcomes>>().ok_or(StoreError::Protocol)
    }

    /// Does something more with some of the operations and puts their outcomes over the earlier.
    async fn over(
        &self,
        mut outcomes: Outcomes,
        cluster: &Cluster,
        plan: &Plan<'_>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action> + Copy,
    ) -> Result<Outcomes, StoreError> {
        let told = self.ask_each(cluster, plan, Kind::Decide, part).await;
        for (slot, told) in told {
            let mut told = told?.into_iter();
            for (at, op) in plan.asked().enumerate() {
                if self.0[at] == slot && part(at, op).is_some() {
                    outcomes[at] = told.next().ok_or(StoreError::Protocol)?;
                }
            }
        }
        Ok(outcomes)
    }
}
