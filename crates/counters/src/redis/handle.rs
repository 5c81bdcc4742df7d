//! One worker thread's way to the store.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::Plan;
use tokio::sync::Notify;

use super::call::Kind;
use super::driver::{self, Wire};
use super::error::StoreError;
use super::line::Line;
use super::store::Shared;
use crate::Outcomes;

/// A worker's connection with the batches that wait for it. Stays on its thread; clones share the
/// connection, and the last one to go closes it.
#[derive(Clone, Debug)]
pub struct RedisHandle {
    owner: Rc<Owner>,
}

#[derive(Debug)]
struct Owner(Rc<Wire>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.closing.notify_one();
    }
}

impl RedisHandle {
    pub(super) fn spawn(shared: Arc<Shared>) -> Self {
        let wire = Rc::new(Wire {
            line: RefCell::new(Line::new(shared)),
            tried: Notify::new(),
            closing: Notify::new(),
        });
        tokio::task::spawn_local(driver::drive(Rc::clone(&wire)));
        Self { owner: Rc::new(Owner(wire)) }
    }

    /// Decides a request: its outcomes in the order of [`Plan::asked`].
    ///
    /// What is ready in one turn of the event loop leaves in one call. Fails at once while there
    /// is no connection (the first attempt to make one is waited for), and at the deadline whatever the socket does. Dropped before the call
    /// left, the request is not charged.
    #[inline]
    pub async fn decide(&self, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
        self.call(plan, Kind::Decide).await
    }

    /// Forgets the counters that the plan meets.
    pub async fn reset(&self, plan: &Plan<'_>) -> Result<(), StoreError> {
        self.call(plan, Kind::Delete).await.map(|_| ())
    }

    /// Waits until a connection stands.
    pub async fn connected(&self) {
        self.owner.0.attempt(Line::is_up).await;
    }

    #[inline]
    async fn call(&self, plan: &Plan<'_>, kind: Kind) -> Result<Outcomes, StoreError> {
        if plan.asked().next().is_none() {
            return Ok(Outcomes::new());
        }
        let wire = &self.owner.0;
        let is_tried = wire.line.borrow().is_tried;
        if !is_tried {
            // A node that has just started knows nothing against its store yet.
            let deadline = wire.line.borrow().shared.options.deadline;
            let _ = tokio::time::timeout(deadline, wire.attempt(|line| line.is_tried)).await;
        }
        let (seat, leads) = wire.line.borrow_mut().enqueue(plan, kind)?;
        if leads {
            // The others that are ready in this turn join before it leaves.
            let leader = Leader { wire, is_done: false };
            tokio::task::yield_now().await;
            leader.send();
        }
        seat.await
    }
}

impl Wire {
    /// Waits for attempts to connect until `is_enough`.
    async fn attempt(&self, is_enough: impl Fn(&Line) -> bool) {
        loop {
            let told = self.tried.notified();
            if is_enough(&self.line.borrow()) {
                return;
            }
            told.await;
        }
    }
}

/// Who opened a batch sends it; taken back before that, it leaves the sending to the driver.
struct Leader<'a> {
    wire: &'a Wire,
    is_done: bool,
}

impl Leader<'_> {
    fn send(mut self) {
        self.is_done = true;
        self.wire.line.borrow_mut().send_ready();
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.wire.line.borrow().wake_driver();
        }
    }
}
