//! Charging what was admitted while the store was away, once it is back.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::table::{Owed, SHARDS};
use crate::redis::batch::Seat;
use crate::redis::call::{Kind, MOST_REQUESTS};
use crate::redis::error::StoreError;
use crate::redis::handle::Inner;

/// Counters of one round, so that a store which has just come back is not run over.
const MOST: usize = 512;
/// Shards looked through in one.
const SHARDS_AT_ONCE: usize = 4;
const MOST_IN_CALL: usize = MOST_REQUESTS / 2;

/// Charges some of what is owed, where the store can be asked.
pub(in crate::redis) fn repay(inner: &Rc<Inner>) {
    charge_some(inner, SHARDS_AT_ONCE, MOST);
}

/// Charges all of it, for this node ends.
pub(in crate::redis) fn repay_all(inner: &Rc<Inner>) {
    charge_some(inner, SHARDS, usize::MAX);
}

fn charge_some(inner: &Rc<Inner>, shards: usize, most: usize) {
    if !inner.owner.is_well() {
        return;
    }
    let is_cluster = inner.owner.is_cluster();
    let can_be_asked = |slot: u16| {
        let wire = inner.owner.wire(is_cluster.then_some(slot));
        wire.is_ok_and(|wire| wire.line.borrow().can_be_asked())
    };
    let now_us = inner.shared.clock.now_us();
    let mut calls: BTreeMap<Option<u16>, Vec<Owed>> = BTreeMap::new();
    for owed in inner.shared.away.take((shards, most), can_be_asked, now_us) {
        calls.entry(is_cluster.then_some(owed.slot)).or_default().push(owed);
    }
    for (slot, mut all) in calls {
        while !all.is_empty() {
            let few = all.split_off(all.len().saturating_sub(MOST_IN_CALL));
            let charge = Charge::new(inner, slot, few);
            // At once: a reset that comes next must not be overtaken.
            if let Ok(seat) = charge.send() {
                tokio::task::spawn_local(charge.end(seat));
            }
        }
    }
}

/// A call under way, counted until it ends. What the store has then surely not heard is owed again.
struct Charge {
    inner: Rc<Inner>,
    slot: Option<u16>,
    unheard: Vec<Owed>,
}

impl Charge {
    fn new(inner: &Rc<Inner>, slot: Option<u16>, unheard: Vec<Owed>) -> Self {
        inner.charges.update(|charges| charges + 1);
        Self { inner: Rc::clone(inner), slot, unheard }
    }

    async fn end(mut self, seat: Seat) {
        let few = std::mem::take(&mut self.unheard);
        let told = seat.told().await;
        if told.is_err_and(|error| !error.may_have_written()) {
            self.unheard = few;
        }
    }

    fn send(&self) -> Result<Seat, StoreError> {
        let wire = self.inner.owner.wire(self.slot)?;
        let mut line = wire.line.borrow_mut();
        line.send_call(Kind::Settle, self.slot, |call| {
            for Owed { stored, algorithm, numbers, debt, .. } in &self.unheard {
                call.push_debt(stored, *algorithm, *numbers, debt.iter().copied());
            }
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let now_us = self.inner.shared.clock.now_us();
        for owed in self.unheard.drain(..) {
            self.inner.shared.away.put_back(owed, now_us);
        }
        self.inner.charges.update(|charges| charges - 1);
    }
}
