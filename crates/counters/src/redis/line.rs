//! One worker's line to the store: what waits, what is on the wire, what came back.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::Plan;

use super::batch::{Batch, Seat, Stage};
use super::call::{By, Call, Kind, MOST_REQUESTS};
use super::connection::Stream;
use super::error::StoreError;
use super::store::Shared;
use crate::clock::Deadline;

/// Calls on the wire at once; what comes meanwhile leaves together.
const MOST_IN_FLIGHT: usize = 4;

/// A call without an answer for so long after its deadline ends the connection, so that further
/// requests fail at once instead of after the deadline.
const STUCK_AFTER: Duration = Duration::from_millis(500);

const INPUT: usize = 64 * 1024;
const SPARE_CALLS: usize = 8;

/// The state between the requests' tasks and the driver, both on one thread.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: Option<Stream>,
    /// Why there is no stream.
    why_down: Arc<str>,
    /// True once an attempt to connect has ended, well or not.
    pub(super) is_tried: bool,
    /// In arrival order; requests join the last one.
    pending: VecDeque<Rc<Batch>>,
    pub(super) in_flight: VecDeque<Rc<Batch>>,
    /// Bytes that the socket has not taken yet.
    output: Vec<u8>,
    pub(super) input: Vec<u8>,
    pub(super) input_end: usize,
    sequence: u64,
    /// Sequence of the last call that carried the script's text.
    pub(super) loaded_at: Option<u64>,
    spare: Vec<Call>,
    /// The driver's, for a socket that is full or an idle timer.
    pub(super) driver: Option<Waker>,
    pub(super) is_timer_set: bool,
    /// True once the store has answered on this connection.
    pub(super) is_proven: bool,
}

impl Line {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            stream: None,
            why_down: Arc::from("the first attempt to connect is under way"),
            is_tried: false,
            pending: VecDeque::new(),
            in_flight: VecDeque::new(),
            output: Vec::new(),
            input: vec![0; INPUT],
            input_end: 0,
            sequence: 0,
            loaded_at: None,
            spare: Vec::new(),
            driver: None,
            is_timer_set: false,
            is_proven: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    pub(super) fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Packs a request; true if its task opened a batch that it should send.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        plan: &Plan<'_>,
        kind: Kind,
    ) -> Result<(Seat, bool), StoreError> {
        if self.stream.is_none() {
            return Err(StoreError::Disconnected { why: Arc::clone(&self.why_down) });
        }
        let shared = &*self.shared;
        let fake_now = shared.fake_now();
        let operations = plan.asked().count();
        let last = self.pending.back();
        let is_open = kind == Kind::Decide
            && last.is_some_and(|batch| batch.body().call.has_room(operations, fake_now));
        if !is_open {
            let most = shared.options.max_queue;
            if self.pending.len() * MOST_REQUESTS >= most {
                return Err(StoreError::QueueFull { most });
            }
            let call = self.spare.pop().unwrap_or_default();
            self.pending.push_back(Rc::new(Batch::new(call, kind, fake_now)));
        }
        let Some(batch) = self.pending.back().cloned() else { return Err(StoreError::Protocol) };
        let index = {
            let mut body = batch.body();
            let operations = body.call.push(&shared.keys, plan);
            body.seat(operations, Deadline::after(shared.patience))
        };
        if !self.is_timer_set {
            self.wake_driver();
        }
        let leads = !is_open && self.in_flight.len() < MOST_IN_FLIGHT;
        Ok((Seat { batch, index }, leads))
    }

    /// Puts on the wire what may go.
    pub(super) fn send_ready(&mut self) {
        while self.in_flight.len() < MOST_IN_FLIGHT {
            let Some(batch) = self.pending.pop_front() else { break };
            if batch.body().board() {
                self.send(batch, By::Hash);
            } else {
                self.recycle(&batch);
            }
        }
        self.flush();
    }

    pub(super) fn send(&mut self, batch: Rc<Batch>, by: By) {
        self.sequence += 1;
        if by == By::Text {
            self.loaded_at = Some(self.sequence);
        }
        {
            let mut body = batch.body();
            body.sequence = self.sequence;
            body.stage = Stage::Sent;
            body.call.write(&mut self.output, by);
        }
        self.in_flight.push_back(batch);
    }

    /// Writes what the socket takes; the driver sees to the rest, and to errors.
    fn flush(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        if self.output.is_empty() {
            return;
        }
        match stream.try_write(&self.output) {
            Ok(count) if count == self.output.len() => {
                self.output.clear();
                if stream.wants_write() {
                    self.wake_driver();
                }
            }
            Ok(count) => {
                self.output.drain(..count);
                self.wake_driver();
            }
            Err(_) => self.wake_driver(),
        }
    }

    pub(super) fn recycle(&mut self, batch: &Batch) {
        if self.spare.len() < SPARE_CALLS {
            self.spare.push(batch.take_call());
        }
    }

    pub(super) fn up(&mut self, stream: Stream) {
        self.is_tried = true;
        self.stream = Some(stream);
        self.is_proven = false;
        self.loaded_at = None;
    }

    /// The connection is over: what was on the wire may have happened, what waited has not.
    pub(super) fn down(&mut self, why: Arc<str>) {
        self.is_tried = true;
        self.stream = None;
        self.output.clear();
        self.input_end = 0;
        for batch in std::mem::take(&mut self.in_flight) {
            batch.end(Stage::Failed(StoreError::Lost { why: Arc::clone(&why) }));
        }
        for batch in std::mem::take(&mut self.pending) {
            batch.end(Stage::Failed(StoreError::Disconnected { why: Arc::clone(&why) }));
        }
        self.why_down = why;
    }

    /// The driver's turn while connected: reads, answers, sends. Ready with the reason when the
    /// connection is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arc<str>> {
        if let Err(why) = self.read(cx) {
            return Poll::Ready(why);
        }
        self.send_ready();
        while let Some(stream) = &mut self.stream
            && (!self.output.is_empty() || stream.wants_write())
        {
            match stream.poll_write_ready(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Poll::Ready(error.to_string().into()),
                Poll::Ready(Ok(())) => {}
            }
            match stream.try_write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(error.to_string().into()),
            }
        }
        Poll::Pending
    }

    /// Lets those go whose deadline is over. The next time to look, if anything is outstanding;
    /// an error if the server has been silent for too long.
    pub(super) fn expire(&self) -> Result<Option<Deadline>, Arc<str>> {
        let mut next: Option<Deadline> = None;
        for batch in self.in_flight.iter().chain(&self.pending) {
            let deadline = batch.expire();
            next = next.into_iter().chain(deadline).min();
        }
        let oldest = self.in_flight.iter().filter_map(|batch| batch.body().first_deadline()).min();
        let stuck = oldest.map(|deadline| deadline.plus(STUCK_AFTER));
        if stuck.is_some_and(Deadline::is_over) {
            return Err(Arc::from("the server does not answer"));
        }
        // A request that comes later counts on a timer that goes off within its own patience.
        let tick = stuck.map(|stuck| stuck.min(Deadline::after(self.shared.patience)));
        Ok(next.into_iter().chain(tick).min())
    }
}
