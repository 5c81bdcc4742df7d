//! A request some of whose limits are decided here: all of them pass, or nobody is charged.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Action, Consistency, LimitUid, Outcome, Plan, PlannedOp};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::mirror::{Mirror, Verdict};
use super::settle::settle;
use super::table::{Entry, Name};
use crate::Outcomes;
use crate::clock::Deadline;
use crate::redis::call::Kind;
use crate::redis::error::StoreError;
use crate::redis::handle::Inner;
use crate::redis::said::Said;

/// Settlings that a request waits for before it asks the store itself.
const MOST_ROUNDS: usize = 3;

/// How a request stands with the limits that are decided here.
#[expect(clippy::large_enum_variant, reason = "read where it is made, and mostly the large one")]
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
    /// The store, for this node may hold no more: what it holds must be settled meanwhile.
    Full,
    /// The mirror has room, and has promised it to a charge.
    Promised(u64),
    /// The mirror answers, and takes nothing.
    Told(Outcome),
    /// The mirror must hear of the store first.
    Unheard,
}

type Places = SmallVec<[Place; 4]>;

/// True if some limit of a plan may be decided here.
#[inline]
pub(in crate::redis) fn concerns(plan: &Plan<'_>) -> bool {
    plan.asked().any(|op| op.rule.consistency.is_at_node())
}

/// Decides at once what can be, of a request that has just come.
#[inline]
pub(in crate::redis) fn stand(inner: &Rc<Inner>, plan: &Plan<'_>, now_us: u64) -> Standing {
    if !concerns(plan) {
        return Standing::Elsewhere;
    }
    for op in plan.asked().filter(|op| op.rule.consistency.is_at_node()) {
        inner.heat.borrow_mut().touch(counter(inner, plan, op).0);
    }
    let mut places = places(inner, plan, now_us);
    settle_full(inner, plan, &mut places);
    if places.iter().all(|place| matches!(place, Place::Store)) {
        return Standing::Elsewhere;
    }
    if places.iter().any(|place| matches!(place, Place::Store | Place::Unheard)) {
        release(inner, plan, &places);
        return Standing::Waits;
    }
    Standing::Known(conclude(inner, plan, &places, now_us))
}

/// Decides, waiting for the store where it must, until that deadline in all. What passes without the
/// store is still to be noted.
pub(in crate::redis) async fn decide(inner: &Rc<Inner>, plan: &Plan<'_>, due: Deadline) -> Said {
    for _ in 0..MOST_ROUNDS {
        let mut places = places(inner, plan, inner.shared.clock.now_us());
        settle_full(inner, plan, &mut places);
        let unheard = unheard(inner, plan, &mut places);
        let Some((_, first)) = unheard.first() else {
            return ask_for_the_rest(inner, plan, places, due).await;
        };
        release(inner, plan, &places);
        let mut heard = pin!(first.notified());
        heard.as_mut().enable();
        settle(inner, unheard.iter().map(|(name, _)| name));
        if timeout(due.left(), heard).await.is_err() {
            break;
        }
    }
    let store = plan.asked().map(|_| Place::Store).collect();
    ask_for_the_rest(inner, plan, store, due).await
}

fn places(inner: &Inner, plan: &Plan<'_>, now_us: u64) -> Places {
    plan.asked().map(|op| place(inner, plan, op, now_us)).collect()
}

fn place<'r>(inner: &Inner, plan: &Plan<'r>, op: &PlannedOp<'r>, now_us: u64) -> Place {
    let table = &inner.shared.local;
    let most = table.most(op);
    let cost = op.action.cost();
    let is_refund = matches!(op.action, Action::Refund(_));
    if !op.rule.consistency.is_at_node() || (most == 0 && !is_refund) {
        return Place::Store;
    }
    let counter = counter(inner, plan, op);
    if is_refund {
        // What it gives back may not be there yet, and was taken under any numbers.
        let is_held = table.kept(counter, |entry| {
            entry.is_touched = true;
            entry.mirror.held() > 0
        });
        return if is_held == Some(true) { Place::Unheard } else { Place::Store };
    }
    let verdict = table.with(counter, op.numbers, |entry| {
        entry.is_touched = true;
        match (entry.mirror.ask(cost, table.at_most(entry, most), now_us), op.action) {
            (Verdict::Denies(outcome), _) => Place::Told(outcome),
            (Verdict::Stale, _) => Place::Unheard,
            (_, Action::Peek(_)) => Place::Told(entry.mirror.report(op.action, now_us)),
            (Verdict::Admits, _) => {
                entry.mirror.promised += cost;
                Place::Promised(cost)
            }
            (Verdict::Full, _) => Place::Full,
        }
    });
    verdict.unwrap_or_else(|| {
        let heat = inner.heat.borrow();
        let is_often = match op.rule.consistency {
            Consistency::Auto => heat.is_hot(counter.0),
            _ => heat.is_warm(counter.0),
        };
        if is_often { Place::Unheard } else { Place::Store }
    })
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
    let most = table.most(op);
    // What was promised is given, whatever was heard since: other limits have been charged by now.
    let charged = table.kept(counter(inner, plan, op), |entry| {
        entry.mirror.promised = entry.mirror.promised.saturating_sub(cost);
        let outcome = entry.mirror.charge(cost, now_us);
        let is_half_used = 2 * entry.mirror.unsettled() >= most && entry.may_be_due();
        (outcome, is_half_used.then(|| entry.name.clone()))
    });
    let Some((outcome, due)) = charged else { return Outcome::unasked(op.rule.on_store_failure) };
    settle(inner, due.iter());
    outcome
}

fn release(inner: &Inner, plan: &Plan<'_>, places: &Places) {
    for (op, place) in plan.asked().zip(places) {
        if let Place::Promised(cost) = *place {
            inner.shared.local.kept(counter(inner, plan, op), |entry| {
                entry.mirror.promised = entry.mirror.promised.saturating_sub(cost);
            });
        }
    }
}

/// Has the counters settled of which this node may hold no more; the store is asked meanwhile.
fn settle_full(inner: &Rc<Inner>, plan: &Plan<'_>, places: &mut Places) {
    for (op, place) in plan.asked().zip(places) {
        if matches!(place, Place::Full) {
            *place = Place::Store;
            let name = inner.shared.local.kept(counter(inner, plan, op), |entry| {
                let is_due = entry.may_be_due() && entry.mirror.unsettled() > 0;
                is_due.then(|| entry.name.clone())
            });
            settle(inner, name.flatten().iter());
        }
    }
}

/// The counters that must be heard of first, and who is told when they have been; those that are
/// not mirrored yet are from here on. For those beyond what is mirrored the store is asked.
fn unheard(
    inner: &Rc<Inner>,
    plan: &Plan<'_>,
    places: &mut Places,
) -> SmallVec<[(Name, Arc<Notify>); 1]> {
    let mut names = SmallVec::new();
    for (op, place) in plan.asked().zip(places) {
        if !matches!(place, Place::Unheard) {
            continue;
        }
        let (hash, limit, key) = counter(inner, plan, op);
        let name = Name { hash, limit, key: key.into() };
        let mut stored = Vec::new();
        inner.shared.keys.append(&mut stored, plan, op);
        let slot = inner.owner.is_cluster().then(|| inner.shared.keys.slot(plan, op));
        let mirror = Mirror::new(op.rule.algorithm, op.numbers);
        let entry = Entry::new(name.clone(), stored.into(), slot, mirror, op.rule.consistency);
        match inner.shared.local.insert(entry) {
            Some((settled, is_new)) => {
                if is_new {
                    inner.mine.borrow_mut().push(name.clone());
                }
                names.push((name, settled));
            }
            None => *place = Place::Store,
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
) -> Said {
    let shared = &inner.shared;
    let mut held = Promise { inner, plan, places };
    let is_store = |at: usize| matches!(held.places.get(at), Some(Place::Store));
    if !plan.asked().enumerate().any(|(at, _)| is_store(at)) {
        let places = std::mem::take(&mut held.places);
        return Said::by_one(
            shared,
            plan,
            Ok(conclude(inner, plan, &places, shared.clock.now_us())),
        );
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
        return inner.owner.ask(shared, plan, Some(due)).await;
    };
    let mut said = Said::nothing(plan);
    let (mut told, failure) = match told {
        Ok(told) => (told.into_iter(), None),
        Err(why) => (Outcomes::new().into_iter(), Some(why)),
    };
    for ((op, place), silent) in plan.asked().zip(&mut held.places).zip(&mut said.silent) {
        if !matches!(place, Place::Store) {
            // What is known here stands, whatever becomes of the rest.
            said.is_heard = true;
        } else if let Some(outcome) = told.next() {
            said.is_heard = true;
            *place = Place::Told(outcome);
        } else {
            *silent = Some(failure.clone().unwrap_or(StoreError::Protocol));
            *place = Place::Told(shared.away.ask(shared, plan, op));
        }
    }
    let places = std::mem::take(&mut held.places);
    said.outcomes = conclude(inner, plan, &places, shared.clock.now_us());
    said.failure = said.silent.iter().flatten().next().cloned();
    said
}
