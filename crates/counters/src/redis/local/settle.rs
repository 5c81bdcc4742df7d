//! Telling the store what was admitted here, and hearing how its counters stand.

use std::collections::BTreeMap;
use std::rc::Rc;

use tidegate_core::{Algorithm, Numbers};

use super::mirror::Units;
use super::table::Name;
use super::told::Told;
use crate::redis::call::{Kind, MOST_REQUESTS};
use crate::redis::error::StoreError;
use crate::redis::handle::Inner;
use crate::redis::outcome::RECORD;

/// A counter packs two operations at most, and a call no more than so many requests.
const MOST_COUNTERS: usize = MOST_REQUESTS / 2;

/// One counter on its way.
struct Item {
    name: Name,
    stored: Box<[u8]>,
    algorithm: Algorithm,
    numbers: Numbers,
    units: Units,
}

impl Item {
    fn taken(&self) -> [(u64, u64); 2] {
        let Units { start_us, here, before } = self.units;
        if self.algorithm == Algorithm::TokenBucket {
            return [(0, 0), (start_us, here + before)];
        }
        [(start_us.saturating_sub(self.numbers.period_us), before), (start_us, here)]
    }
}

/// Settles these counters, but for those of which a settling is under way; goes on by itself, so
/// that a request which is taken back leaves nothing half done.
pub(super) fn settle(inner: &Rc<Inner>, names: Vec<Name>) {
    let mut calls: BTreeMap<Option<u16>, Vec<Item>> = BTreeMap::new();
    for name in names {
        let now_us = inner.shared.clock.now_us();
        let item = inner.shared.local.at(&name, |entry| {
            if entry.is_settling {
                return None;
            }
            entry.is_settling = true;
            entry.is_touched = false;
            let item = Item {
                name: entry.name.clone(),
                stored: entry.stored.clone(),
                algorithm: entry.mirror.algorithm,
                numbers: entry.mirror.numbers,
                units: entry.mirror.settle(now_us),
            };
            Some((entry.slot, item))
        });
        if let Some((slot, item)) = item.flatten() {
            calls.entry(slot).or_default().push(item);
        }
    }
    for (slot, mut items) in calls {
        while !items.is_empty() {
            let few = items.split_off(items.len().saturating_sub(MOST_COUNTERS));
            let inner = Rc::clone(inner);
            tokio::task::spawn_local(async move { send(&inner, slot, few).await });
        }
    }
}

async fn send(inner: &Inner, slot: Option<u16>, items: Vec<Item>) {
    let sent_us = inner.shared.clock.now_us();
    let told = tell(inner, slot, &items).await;
    let now_us = inner.shared.clock.now_us();
    let table = &inner.shared.local;
    // An operation for each window in which something was taken, at least one for a counter.
    let operations: usize =
        items.iter().map(|item| item.taken().iter().filter(|one| one.1 > 0).count().max(1)).sum();
    let mut states = told.as_deref().ok().and_then(|told| {
        let told = told.get(operations * RECORD..)?;
        Told::read(told)
    });
    let is_unsent = told.as_ref().is_err_and(|error| !error.may_have_written());
    for item in &items {
        let state = states.as_mut().and_then(|told| Some((told.next()?, told.now_us)));
        table.at(&item.name, |entry| {
            entry.is_settling = false;
            match state {
                Some((state, store_us)) => entry.mirror.settled(state, store_us, sent_us, now_us),
                None => entry.mirror.lost(is_unsent),
            }
        });
    }
    table.settled.notify_waiters();
}

async fn tell(inner: &Inner, slot: Option<u16>, items: &[Item]) -> Result<Vec<u8>, StoreError> {
    let wire = inner.owner.wire(slot)?;
    let seat = wire.line.borrow_mut().send_call(Kind::Settle, slot, |call| {
        for item in items {
            let taken = item.taken();
            call.push_settling(&item.stored, item.algorithm, item.numbers, taken.into_iter());
        }
    })?;
    seat.told().await
}
