//! A line with what both ends of it need: requests' tasks on one side, its driver on the other.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tidegate_core::{Action, Plan, PlannedOp};
use tokio::sync::Notify;

use super::batch::Seat;
use super::call::Kind;
use super::cluster::Events;
use super::driver;
use super::error::StoreError;
use super::line::Line;
use super::news::News;
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
        self: &Rc<Self>,
        plan: &Plan<'_>,
        kind: Kind,
        slot: Option<u16>,
        mut due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Result<Outcomes, StoreError> {
        if !self.is_tried() {
            // A node that has just started knows nothing against its store yet.
            let patience = self.line.borrow().shared.patience;
            let until = due.unwrap_or_else(|| Deadline::after(patience));
            let _ = tokio::time::timeout(until.left(), self.attempt(|line| line.is_tried)).await;
            due = Some(until);
        }
        self.board(plan, kind, slot, due, part)?.await
    }

    /// True once an attempt to connect has ended.
    #[inline]
    pub(super) fn is_tried(&self) -> bool {
        self.line.borrow().is_tried
    }

    /// Puts a plan, or what of it lies in one slot, into the batch that leaves next.
    #[inline]
    pub(super) fn board(
        self: &Rc<Self>,
        plan: &Plan<'_>,
        kind: Kind,
        slot: Option<u16>,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Result<Aboard, StoreError> {
        let (seat, leads) = self.line.borrow_mut().enqueue(plan, kind, slot, due, part)?;
        let lead = if leads { Some(Lead::of(self)) } else { None };
        Ok(Aboard { seat, lead })
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

/// A request that is in a batch. Dropped before that leaves, the request stays behind.
#[derive(Debug)]
pub struct Aboard {
    seat: Seat,
    lead: Option<Lead>,
}

impl Aboard {
    /// True as long as it is to send what waits: then it is to be polled at each wake, else only once
    /// it was told of.
    #[inline]
    pub const fn leads(&self) -> bool {
        self.lead.is_some()
    }

    /// From now on it is told there, at that place, when there is something to hear.
    #[inline]
    pub fn tell_at(&self, news: &News, at: usize) {
        self.seat.tell_at(news, at);
    }
}

impl Future for Aboard {
    type Output = Result<Outcomes, StoreError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(lead) = &mut self.lead {
            if cx.waker().will_wake(Waker::noop()) {
                // Who only looks is no task yet: the turn that the others are given begins later.
                return Poll::Pending;
            }
            ready!(lead.turn.as_mut().poll(cx));
            lead.wire.line.borrow_mut().send_ready();
            lead.is_done = true;
            self.lead = None;
        }
        Pin::new(&mut self.seat).poll(cx)
    }
}

/// Who opened the first batch of those that wait sends them, once the others that are ready in this turn
/// of the event loop have joined or opened theirs; taken back before that, it leaves the sending to the
/// driver.
struct Lead {
    wire: Rc<Wire>,
    turn: Pin<Box<dyn Future<Output = ()>>>,
    is_done: bool,
}

impl Lead {
    fn of(wire: &Rc<Wire>) -> Self {
        let turn = Box::pin(tokio::task::yield_now());
        Self { wire: Rc::clone(wire), turn, is_done: false }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.is_done {
            let line = &mut *self.wire.line.borrow_mut();
            line.is_led = false;
            line.wake_driver();
        }
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}
