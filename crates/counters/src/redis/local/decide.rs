//! A request some of whose limits are decided here: all of them pass, or nobody is charged.

use std::rc::Rc;

use smallvec::SmallVec;
use tidegate_core::{Action, Consistency, LimitUid, Outcome, Plan, PlannedOp};
use tokio::time::timeout;

use super::mirror::{Mirror, Verdict};
use super::settle::settle;
use super::table::{Entry, Name, Table};
use crate::Outcomes;
use crate::clock::Deadline;
use crate::redis::call::Kind;
use crate::redis::error::StoreError;
use crate::redis::handle::Inner;

/// Settlings that a request waits for before it asks the store itself.
const MOST_ROUNDS: usize = 3;

/// How a request stands with the limits that are decided here.
#[derive(Debug)]
pub(in crate::redis) enum Standing {
    /// None of its limits is.
    Elsewhere,
    /// It is decided.
    Known(Outcomes),
    /// It must wait: [`decide`] sees to it.
    Waits,
}

/// Who decides an operation, and what is known of that.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The store.
    Store,
    /// The mirror has room, and has promised it to a charge.
    Promised(u64),
    /// The mirror answers, and takes nothing.
    Told(Outcome),
    /// A settling comes first.
    Unsettled,
}

type Places = SmallVec<[Place; 4]>;

/// Decides at once what can be.
#[inline]
pub(in crate::redis) fn stand(inner: &Rc<Inner>, plan: &Plan<'_>, now_us: u64) -> Standing {
    if plan.asked().all(|op| op.rule.consistency == Consistency::Exact) {
        return Standing::Elsewhere;
    }
    let places = places(inner, plan, now_us);
    if places.iter().all(|place| matches!(place, Place::Store)) {
        return Standing::Elsewhere;
    }
    if places.iter().any(|place| matches!(place, Place::Store | Place::Unsettled)) {
        release(inner, plan, &places);
        return Standing::Waits;
    }
    Standing::Known(conclude(inner, plan, &places, now_us))
}

/// Decides, waiting for the store where it must, until one deadline in all.
pub(in crate::redis) async fn decide(
    inner: &Rc<Inner>,
    plan: &Plan<'_>,
) -> Result<Outcomes, StoreError> {
    let due = Deadline::after(inner.shared.patience);
    for _ in 0..MOST_ROUNDS {
        let settled = inner.shared.local.settled.notified();
        let places = places(inner, plan, inner.shared.clock.now_us());
        let unsettled = unsettled(inner, plan, &places);
        if unsettled.is_empty() {
            return ask_for_the_rest(inner, plan, places, due).await;
        }
        release(inner, plan, &places);
        settle(inner, unsettled);
        if timeout(due.left(), settled).await.is_err() {
            break;
        }
    }
    let store = plan.asked().map(|_| Place::Store).collect();
    ask_for_the_rest(inner, plan, store, due).await
}

fn places(inner: &Inner, plan: &Plan<'_>, now_us: u64) -> Places {
    plan.asked().map(|op| place(&inner.shared.local, inner, plan, op, now_us)).collect()
}

fn place<'r>(
    table: &Table,
    inner: &Inner,
    plan: &Plan<'r>,
    op: &PlannedOp<'r>,
    now_us: u64,
) -> Place {
    let most = table.most(op.numbers.capacity(op.rule.algorithm));
    let cost = op.action.cost();
    let is_never_here = op.rule.consistency == Consistency::Exact || most == 0;
    if is_never_here || matches!(op.action, Action::Refund(_)) {
        return Place::Store;
    }
    let counter = counter(inner, plan, op);
    let is_local =
        op.rule.consistency == Consistency::Local || inner.heat.borrow_mut().touch(counter.0);
    if !is_local && table.is_empty() {
        return Place::Store;
    }
    let verdict = table.with(counter, op.numbers, |entry| {
        entry.is_touched = true;
        let verdict = entry.mirror.ask(cost, most, now_us);
        match (verdict, op.action) {
            (Verdict::Denies(outcome), _) => Place::Told(outcome),
            (Verdict::Stale, _) => Place::Unsettled,
            (_, Action::Peek(_)) => Place::Told(entry.mirror.report(op.action, now_us)),
            (Verdict::Admits, _) => {
                entry.mirror.promised += cost;
                Place::Promised(cost)
            }
            (Verdict::Settle, _) => Place::Unsettled,
            (Verdict::Ask, _) if entry.mirror.held() > 0 => Place::Unsettled,
            (Verdict::Ask, _) => Place::Store,
        }
    });
    verdict.unwrap_or(if is_local { Place::Unsettled } else { Place::Store })
}

fn counter<'p, 'r>(
    inner: &Inner,
    plan: &'p Plan<'r>,
    op: &PlannedOp<'r>,
) -> (u64, LimitUid, &'p [u8]) {
    let key = plan.key(op);
    (inner.shared.changes.hash(op.rule.uid, key), op.rule.uid, key)
}

fn is_denied(plan: &Plan<'_>, places: &Places) -> bool {
    plan.asked().zip(places).any(|(op, place)| {
        matches!(place, Place::Told(outcome) if !outcome.fits) && !op.rule.is_shadow
    })
}

/// Charges what was promised, or lets it go where a limit denies.
fn conclude(inner: &Rc<Inner>, plan: &Plan<'_>, places: &Places, now_us: u64) -> Outcomes {
    if is_denied(plan, places) {
        release(inner, plan, places);
        return plan
            .asked()
            .zip(places)
            .map(|(op, at)| told(inner, plan, op, at, now_us))
            .collect();
    }
    plan.asked().zip(places).map(|(op, at)| charge(inner, plan, op, at, now_us)).collect()
}

/// What a limit says that is not charged.
fn told<'r>(
    inner: &Inner,
    plan: &Plan<'r>,
    op: &PlannedOp<'r>,
    place: &Place,
    now_us: u64,
) -> Outcome {
    match place {
        Place::Told(outcome) => *outcome,
        _ => inner
            .shared
            .local
            .with(counter(inner, plan, op), op.numbers, |entry| {
                entry.mirror.report(op.action, now_us)
            })
            .unwrap_or(Outcome::unasked(op.rule.on_store_failure)),
    }
}

fn charge<'r>(
    inner: &Rc<Inner>,
    plan: &Plan<'r>,
    op: &PlannedOp<'r>,
    place: &Place,
    now_us: u64,
) -> Outcome {
    let Place::Promised(cost) = *place else { return told(inner, plan, op, place, now_us) };
    let table = &inner.shared.local;
    let most = table.most(op.numbers.capacity(op.rule.algorithm));
    let charged = table.with(counter(inner, plan, op), op.numbers, |entry| {
        entry.mirror.promised = entry.mirror.promised.saturating_sub(cost);
        let outcome = entry.mirror.charge(cost, now_us);
        let is_half_used = 2 * entry.mirror.unsettled() >= most && !entry.is_settling;
        (outcome, if is_half_used { Some(entry.name.clone()) } else { None })
    });
    let Some((outcome, due)) = charged else { return Outcome::unasked(op.rule.on_store_failure) };
    if let Some(name) = due {
        settle(inner, vec![name]);
    }
    outcome
}

fn release(inner: &Inner, plan: &Plan<'_>, places: &Places) {
    for (op, place) in plan.asked().zip(places) {
        if let Place::Promised(cost) = *place {
            inner.shared.local.with(counter(inner, plan, op), op.numbers, |entry| {
                entry.mirror.promised = entry.mirror.promised.saturating_sub(cost);
            });
        }
    }
}

/// The counters that must be settled first; those that are not mirrored yet are from here on, as
/// far as there is room.
fn unsettled(inner: &Rc<Inner>, plan: &Plan<'_>, places: &Places) -> Vec<Name> {
    let mut names = Vec::new();
    for (op, _) in plan.asked().zip(places).filter(|(_, at)| matches!(at, Place::Unsettled)) {
        let (hash, limit, key) = counter(inner, plan, op);
        let name = Name { hash, limit, key: key.into() };
        let mut stored = Vec::new();
        inner.shared.keys.append(&mut stored, plan, op);
        let is_in_cluster = inner.owner.is_cluster();
        let entry = Entry {
            name: name.clone(),
            stored: stored.into(),
            slot: is_in_cluster.then(|| inner.shared.keys.slot(plan, op)),
            mirror: Mirror::new(op.rule.algorithm, op.numbers),
            is_settling: false,
            is_touched: true,
            is_auto: op.rule.consistency == Consistency::Auto,
            idle: 0,
        };
        if let Some(is_new) = inner.shared.local.insert(entry) {
            if is_new {
                inner.mine.borrow_mut().push(name.clone());
            }
            names.push(name);
        }
    }
    names
}

/// What was promised to a request goes back if the request is taken back meanwhile.
struct Promise<'a, 'r> {
    inner: &'a Rc<Inner>,
    plan: &'a Plan<'r>,
    places: Places,
}

impl Drop for Promise<'_, '_> {
    fn drop(&mut self) {
        release(self.inner, self.plan, &self.places);
    }
}

/// Asks the store for those limits that it decides, and concludes.
async fn ask_for_the_rest(
    inner: &Rc<Inner>,
    plan: &Plan<'_>,
    places: Places,
    due: Deadline,
) -> Result<Outcomes, StoreError> {
    let mut held = Promise { inner, plan, places };
    let is_store = |at: usize| matches!(held.places.get(at), Some(Place::Store));
    if !plan.asked().enumerate().any(|(at, _)| is_store(at)) {
        let places = std::mem::take(&mut held.places);
        return Ok(conclude(inner, plan, &places, inner.shared.clock.now_us()));
    }
    let is_denied_here = is_denied(plan, &held.places);
    let part = |at: usize, op: &PlannedOp<'_>| match op.action {
        _ if !is_store(at) => None,
        action if !is_denied_here || op.is_charged_anyway() => Some(action),
        action => Some(Action::Peek(action.cost())),
    };
    let Some(told) = inner.owner.ask_part(plan, Kind::Decide, due, part).await else {
        // Several slots of a Cluster: the store decides all of it.
        drop(held);
        return inner.owner.ask(plan).await;
    };
    let mut told = told?.into_iter();
    let mut is_denied_there = false;
    for (op, place) in plan.asked().zip(&mut held.places) {
        if matches!(place, Place::Store) {
            let outcome = told.next().ok_or(StoreError::Protocol)?;
            is_denied_there |= !outcome.fits && !op.rule.is_shadow;
            *place = Place::Told(outcome);
        }
    }
    debug_assert!(!is_denied_there || is_denied(plan, &held.places));
    let places = std::mem::take(&mut held.places);
    Ok(conclude(inner, plan, &places, inner.shared.clock.now_us()))
}
