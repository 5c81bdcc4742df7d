//! The task of a worker that settles its counters in time, and what the node owes.

use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::settle::settle;
use crate::redis::away::repay;
use crate::redis::handle::Inner;

/// Between two settlings of a counter that is asked for.
pub(super) const EVERY: Duration = Duration::from_millis(50);
/// A counter that nobody asked for in so many rounds is mirrored no more.
const IDLE_ROUNDS: u32 = 20;

/// Settles the counters that this worker mirrors until nobody needs its handle.
pub(in crate::redis) async fn tend(inner: Weak<Inner>) {
    loop {
        sleep(EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        round(&inner);
        repay(&inner);
    }
}

fn round(inner: &Rc<Inner>) {
    let table = &inner.shared.local;
    let mut due = Vec::new();
    inner.mine.borrow_mut().retain(|name| {
        let idle = table.at(name, |entry| {
            let is_asked_for = entry.is_touched || entry.mirror.unsettled() > 0;
            entry.idle = if is_asked_for { 0 } else { entry.idle + 1 };
            (is_asked_for, entry.idle)
        });
        match idle {
            Some((true, _)) => {
                due.push(name.clone());
                true
            }
            Some((false, rounds)) if rounds < IDLE_ROUNDS => true,
            Some(_) => !table.remove(name),
            None => false,
        }
    });
    if !due.is_empty() {
        settle(inner, due);
    }
}
