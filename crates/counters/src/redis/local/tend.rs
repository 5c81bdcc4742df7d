//! The task of a worker that settles its counters in time, and what the node owes.

use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::settle::settle;
use crate::redis::away::repay;
use crate::redis::handle::Inner;

/// Between two settlings of a counter that is asked for.
pub(super) const EVERY: Duration = Duration::from_millis(50);
/// A counter that nobody asked for in so many rounds is mirrored no more; nor one that has run
/// cool, where only hot ones are.
const IDLE_ROUNDS: u32 = 20;
const COOL_ROUNDS: u32 = 200;
/// Rounds of a second.
const SECOND: u32 = 20;

/// Settles the counters that this worker mirrors until nobody needs its handle.
pub(in crate::redis) async fn tend(inner: Weak<Inner>) {
    let mut rounds = 0_u32;
    loop {
        sleep(EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        round(&inner);
        repay(&inner);
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(SECOND) {
            inner.heat.borrow_mut().halve();
        }
    }
}

fn round(inner: &Rc<Inner>) {
    let (table, heat) = (&inner.shared.local, inner.heat.borrow());
    let mut due = Vec::new();
    let now_us = inner.shared.clock.now_us();
    inner.mine.borrow_mut().retain(|name| {
        let state = table.at(name, |entry| {
            let is_asked_for = entry.is_touched || entry.mirror.unsettled() > 0;
            let is_needed = if entry.is_auto() { !heat.is_cool(name.hash) } else { is_asked_for };
            entry.idle = if is_needed { 0 } else { entry.idle + 1 };
            let most = if entry.is_auto() { COOL_ROUNDS } else { IDLE_ROUNDS };
            (is_asked_for && entry.is_due(now_us), entry.idle >= most)
        });
        let Some((is_due, is_over)) = state else { return false };
        if is_over && table.remove(name) {
            return false;
        }
        if is_due {
            due.push(name.clone());
        }
        true
    });
    settle(inner, due.iter());
}
