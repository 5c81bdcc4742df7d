//! A line with what both ends of it need: requests' tasks on one side, its driver on the other.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::{Action, Plan, PlannedOp};
use tokio::sync::Notify;

use super::call::Kind;
use super::cluster::Events;
use super::driver;
use super::error::StoreError;
use super::line::Line;
use super::slots::Node;
use super::store::Shared;
use crate::Outcomes;
use crate::clock::Deadline;

/// What requests and the driver share.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) line: RefCell<Line>,
    /// Told when an attempt to connect has ended, well or not.
    pub(super) tried: Notify,
    /// Told when nobody needs it any more.
    pub(super) closing: Notify,
}

impl Wire {
    /// A wire that begins to connect at once, to a node of a Cluster or to the one server.
    pub(super) fn spawn(shared: &Arc<Shared>, node: Option<(Node, Rc<Events>)>) -> Rc<Self> {
        let wire = Rc::new(Self {
            line: RefCell::new(Line::new(Arc::clone(shared), node)),
            tried: Notify::new(),
            closing: Notify::new(),
        });
        tokio::task::spawn_local(driver::drive(Rc::clone(&wire)));
        wire
    }

    /// Asks for a plan, or for what of it lies in one slot.
    #[inline]
    pub(super) async fn ask(
        &self,
        plan: &Plan<'_>,
        kind: Kind,
        slot: Option<u16>,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Result<Outcomes, StoreError> {
        let is_tried = self.line.borrow().is_tried;
        if !is_tried {
            // A node that has just started knows nothing against its store yet.
            let deadline = self.line.borrow().shared.options.deadline;
            let _ = tokio::time::timeout(deadline, self.attempt(|line| line.is_tried)).await;
        }
        let (seat, leads) = self.line.borrow_mut().enqueue(plan, kind, slot, due, part)?;
        if leads {
            // The others that are ready in this turn join before it leaves.
            let leader = Leader { wire: self, is_done: false };
            tokio::task::yield_now().await;
            leader.send();
        }
        seat.await
    }

    /// Says what of a plan is to be done in a slot, and does not wait for the answer.
    pub(super) fn tell(
        &self,
        plan: &Plan<'_>,
        slot: u16,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) {
        let mut line = self.line.borrow_mut();
        if let Ok((seat, _)) = line.enqueue(plan, Kind::Decide, Some(slot), None, part) {
            seat.stay();
            line.send_ready();
        }
    }

    /// Waits for attempts to connect until `is_enough`.
    pub(super) async fn attempt(&self, is_enough: impl Fn(&Line) -> bool) {
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
