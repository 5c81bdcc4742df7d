//! Telling the store what was admitted here, and hearing how its counters stand.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tidegate_core::{Algorithm, Numbers};
use tokio::task::yield_now;

use super::mirror::Mirror;
use super::table::Name;
use super::taken::Taken;
use super::told::Told;
use crate::redis::call::{Kind, MOST_REQUESTS};
use crate::redis::error::StoreError;
use crate::redis::handle::Inner;
use crate::redis::outcome::RECORD;

/// Counters of a call. Each packs an operation for each of its blocks: mostly one, and no more than
/// make a call of decisions long.
const MOST_COUNTERS: usize = MOST_REQUESTS / 2;
/// Calls of a worker under way at once, so that they leave the line to decisions; to the nodes of a
/// Cluster, where a call is of one slot.
const MOST_CALLS: usize = 2;
const MOST_CALLS_IN_CLUSTER: usize = 32;

/// One counter on its way.
struct Item {
    name: Name,
    stored: Box<[u8]>,
    algorithm: Algorithm,
    numbers: Numbers,
    taken: Taken,
}

/// The counters of one worker that are to be settled.
#[derive(Debug, Default)]
pub(in crate::redis) struct Due {
    names: Vec<Name>,
    /// True while the end of this turn of the event loop is waited for.
    is_scheduled: bool,
    /// Calls under way.
    in_flight: usize,
}

/// Settles these counters, but for those of which that is under way: all that are due in one turn of
/// the event loop leave together. It goes on by itself, so that a request which is taken back leaves
/// nothing half done.
pub(super) fn settle<'n>(inner: &Rc<Inner>, names: impl Iterator<Item = &'n Name>) {
    let mut due = inner.due.borrow_mut();
    for name in names {
        let is_new = inner.shared.local.at(name, |entry| {
            let is_new = entry.may_be_due();
            entry.is_due |= is_new;
            is_new
        });
        if is_new == Some(true) {
            due.names.push(name.clone());
        }
    }
    schedule(inner, &mut due);
}

/// Settles all counters of which this worker holds something.
pub(in crate::redis) fn settle_all(inner: &Rc<Inner>) {
    let table = &inner.shared.local;
    let is_held = |name: &&Name| table.at(name, |entry| entry.mirror.unsettled() > 0) == Some(true);
    let held: Vec<Name> = inner.mine.borrow().iter().filter(is_held).cloned().collect();
    settle(inner, held.iter());
}

/// True if no settling is due or under way.
pub(in crate::redis) fn is_settled(inner: &Inner) -> bool {
    let due = inner.due.borrow();
    due.names.is_empty() && due.in_flight == 0
}

fn schedule(inner: &Rc<Inner>, due: &mut Due) {
    if due.is_scheduled || due.names.is_empty() || due.in_flight >= most_calls(inner) {
        return;
    }
    due.is_scheduled = true;
    let inner = Rc::clone(inner);
    tokio::task::spawn_local(async move {
        yield_now().await;
        send_due(&inner);
    });
}

fn most_calls(inner: &Inner) -> usize {
    if inner.owner.is_cluster() { MOST_CALLS_IN_CLUSTER } else { MOST_CALLS }
}

fn send_due(inner: &Rc<Inner>) {
    let mut due = inner.due.borrow_mut();
    due.is_scheduled = false;
    let mut calls: BTreeMap<Option<u16>, Vec<Name>> = BTreeMap::new();
    for name in std::mem::take(&mut due.names) {
        if let Some(slot) = inner.shared.local.at(&name, |entry| entry.slot) {
            calls.entry(slot).or_default().push(name);
        }
    }
    for (slot, mut names) in calls {
        while !names.is_empty() {
            if due.in_flight >= most_calls(inner) {
                due.names.append(&mut names);
                break;
            }
            let few = names.split_off(names.len().saturating_sub(MOST_COUNTERS));
            let items = few.iter().filter_map(|name| item(inner, name)).collect();
            due.in_flight += 1;
            let mut settling = Settling { inner: Rc::clone(inner), items };
            tokio::task::spawn_local(async move {
                settling.send(slot).await;
                let inner = Rc::clone(&settling.inner);
                drop(settling);
                schedule(&inner, &mut inner.due.borrow_mut());
            });
        }
    }
}

fn item(inner: &Inner, name: &Name) -> Option<Item> {
    inner.shared.local.at(name, |entry| {
        (entry.is_due, entry.is_settling, entry.is_touched) = (false, true, false);
        Item {
            name: entry.name.clone(),
            stored: entry.stored.clone(),
            algorithm: entry.mirror.algorithm,
            numbers: entry.mirror.numbers,
            taken: entry.mirror.settle(),
        }
    })
}

/// A call under way with the counters that have not heard of its end. However it ends, they do:
/// else they would be settled no more, nor would others in its place.
struct Settling {
    inner: Rc<Inner>,
    items: VecDeque<Item>,
}

impl Settling {
    async fn send(&mut self, slot: Option<u16>) {
        let clock = &self.inner.shared.clock;
        let sent_us = clock.now_us();
        let told = tell(&self.inner, slot, &self.items).await;
        let now_us = clock.now_us();
        // An operation for each block, at least one for a counter.
        let blocks = |item: &Item| item.taken.blocks().count().max(1);
        let operations: usize = self.items.iter().map(blocks).sum();
        let mut states = told.as_deref().ok().and_then(|told| {
            let told = told.get(operations * RECORD..)?;
            Told::read(told)
        });
        let is_unsent = told.as_ref().is_err_and(|error| !error.may_have_written());
        while let Some(item) = self.items.pop_front() {
            let state = states.as_mut().and_then(|told| Some((told.next()?, told.now_us)));
            self.end(&item, |mirror| match state {
                Some((state, store_us)) => mirror.settled(state, store_us, sent_us, now_us),
                None => mirror.lost(is_unsent),
            });
        }
    }

    fn end(&self, item: &Item, hear: impl FnOnce(&mut Mirror)) {
        self.inner.shared.local.at(&item.name, |entry| {
            entry.is_settling = false;
            entry.settled.notify_waiters();
            hear(&mut entry.mirror);
        });
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        while let Some(item) = self.items.pop_front() {
            self.end(&item, |mirror| mirror.lost(false));
        }
        self.inner.due.borrow_mut().in_flight -= 1;
    }
}

async fn tell(
    inner: &Inner,
    slot: Option<u16>,
    items: &VecDeque<Item>,
) -> Result<Vec<u8>, StoreError> {
    let wire = inner.owner.wire(slot)?;
    let seat = wire.line.borrow_mut().send_call(Kind::Settle, slot, |call| {
        for item in items {
            let taken = item.taken.blocks().map(|block| (block.since_us, block.units));
            call.push_settling(&item.stored, item.algorithm, item.numbers, taken);
        }
    })?;
    seat.told().await
}
