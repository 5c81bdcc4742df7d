//! One worker's line to the store: what waits, what is on the wire, what came back.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{Action, Plan, PlannedOp};

use super::batch::{Batch, Seat, Stage};
use super::breaker::Breaker;
use super::call::{By, Call, Kind, MOST_REQUESTS};
use super::cluster::Events;
use super::connection::Stream;
use super::error::StoreError;
use super::options::Address;
use super::replicas::Held;
use super::resp;
use super::slots::{Node, SlotSet};
use super::store::Shared;
use crate::clock::Deadline;

/// Requests on the wire at once, in calls that are full; what comes meanwhile leaves together.
const MOST_IN_FLIGHT: usize = 4 * MOST_REQUESTS;
/// The same at a node of a Cluster, where a call is of one slot and each slot has one at a time.
const MOST_SLOTS_IN_FLIGHT: usize = 64;
/// Batches looked through for one of the same slot, or for one whose slot is free.
const SLOTS_COMPARED: usize = 64;

/// A call for which no request waits may take its time: as long as it is on its way, what it
/// tells counts as not told.
const CALL_PATIENCE: Duration = Duration::from_secs(1);

const INPUT: usize = 64 * 1024;
/// A node of a Cluster has a call for each slot, so many at once.
const SPARE_CALLS: usize = 32;

/// The state between the requests' tasks and the driver, both on one thread.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) shared: Arc<Shared>,
    /// In a Cluster, the node at the other end, and who takes what it does not answer.
    pub(super) node: Option<(Node, Rc<Events>)>,
    pub(super) stream: Option<Stream>,
    /// Why there is no stream.
    why_down: Arc<str>,
    /// True once an attempt to connect has ended, well or not.
    pub(super) is_tried: bool,
    /// In arrival order, with their slots; requests join the last one of theirs.
    pub(super) pending: VecDeque<(Option<u16>, Rc<Batch>)>,
    pub(super) in_flight: VecDeque<Rc<Batch>>,
    /// True while a request is to send what waits.
    pub(super) is_led: bool,
    /// Bytes that the socket has not taken yet.
    pub(super) output: Vec<u8>,
    pub(super) input: Vec<u8>,
    pub(super) input_end: usize,
    pub(super) breaker: Breaker,
    /// Slots with a call under way.
    pub(super) busy: SlotSet,
    sequence: u64,
    /// Sequence of the last call that carried the script's text.
    pub(super) loaded_at: Option<u64>,
    pub(super) spare: Vec<Call>,
    pub(super) held: Held,
    /// The driver's, for a socket that is full or an idle timer.
    pub(super) driver: Option<Waker>,
    /// When that timer goes off.
    pub(super) looks_at: Option<Deadline>,
    /// True once the store has answered on this connection.
    pub(super) is_proven: bool,
}

impl Line {
    pub(super) fn new(shared: Arc<Shared>, node: Option<(Node, Rc<Events>)>) -> Self {
        Self {
            shared,
            node,
            stream: None,
            why_down: Arc::from("the first attempt to connect is under way"),
            is_tried: false,
            pending: VecDeque::new(),
            in_flight: VecDeque::new(),
            is_led: false,
            output: Vec::new(),
            input: vec![0; INPUT],
            input_end: 0,
            breaker: Breaker::default(),
            busy: SlotSet::empty(),
            sequence: 0,
            loaded_at: None,
            spare: Vec::new(),
            held: Held::default(),
            driver: None,
            looks_at: None,
            is_proven: false,
        }
    }

    /// Where this line leads.
    pub(super) fn address(&self) -> Address {
        match &self.node {
            Some((node, _)) => Address::Tcp(node.host.clone(), node.port),
            None => self.shared.options.address.clone(),
        }
    }

    /// True unless it is known to be down.
    pub(super) fn is_well(&self) -> bool {
        self.is_up() || !self.is_tried
    }

    /// True if nobody waits for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    /// True if a call would be sent.
    pub(super) fn can_be_asked(&self) -> bool {
        self.stream.is_some() && !self.breaker.is_open()
    }

    /// True if something waits for that slot, or is under way to it.
    pub(super) fn is_busy_with(&self, slot: u16) -> bool {
        let mut waiting = self.pending.iter().take(SLOTS_COMPARED);
        self.busy.contains(slot) || waiting.any(|(of, _)| *of == Some(slot))
    }

    pub(super) fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Packs a request, or what of it lies in one slot of a Cluster; true if its task should send
    /// what waits then. Without a deadline of its own it has the store's from now on.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        plan: &Plan<'_>,
        kind: Kind,
        slot: Option<u16>,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Result<(Seat, bool), StoreError> {
        if self.stream.is_none() && !self.held.is_renewing() {
            return Err(StoreError::Disconnected { why: Arc::clone(&self.why_down) });
        }
        if self.breaker.is_open() {
            return Err(StoreError::Silent);
        }
        let shared = &*self.shared;
        let fake_now = shared.fake_now();
        let due = due.unwrap_or_else(|| Deadline::after(shared.patience));
        let operations = plan.asked().count();
        // The last one of the slot, so that its requests keep their order; settlings need not.
        let open = self
            .pending
            .iter()
            .rev()
            .take(SLOTS_COMPARED)
            .find(|(of, batch)| *of == slot && batch.body().call.kind() != Kind::Settle)
            .map(|(_, batch)| batch);
        let open = open.filter(|batch| {
            kind == Kind::Decide
                && batch.body().call.has_room(operations, shared.options.batch, fake_now)
        });
        let (batch, is_open) = if let Some(batch) = open.cloned() {
            (batch, true)
        } else {
            let most = shared.options.max_queue;
            let each = if slot.is_some() { 1 } else { shared.options.batch };
            if self.pending.len() * each >= most {
                return Err(StoreError::QueueFull { most });
            }
            let call = self.spare.pop().unwrap_or_default();
            let batch = Rc::new(Batch::new(call, kind, slot, fake_now));
            self.pending.push_back((slot, Rc::clone(&batch)));
            (batch, false)
        };
        let index = {
            let mut body = batch.body();
            let operations = body.call.push(&shared.keys, plan, part);
            body.seat(operations, due)
        };
        // A driver that is woken sends what waits, before others of this moment have joined.
        if self.looks_at.is_none_or(|timer| due < timer) {
            self.looks_at = None;
            self.wake_driver();
        }
        let leads = !is_open && !self.is_led && self.in_flight.len() < self.most_in_flight();
        self.is_led |= leads;
        Ok((Seat::new(batch, index), leads))
    }

    /// Sends a call of another kind than decisions; `pack` fills it.
    pub(super) fn send_call(
        &mut self,
        kind: Kind,
        slot: Option<u16>,
        pack: impl FnOnce(&mut Call),
    ) -> Result<Seat, StoreError> {
        if self.stream.is_none() {
            return Err(StoreError::Disconnected { why: Arc::clone(&self.why_down) });
        }
        if self.breaker.is_open() {
            return Err(StoreError::Silent);
        }
        let call = self.spare.pop().unwrap_or_default();
        let batch = Rc::new(Batch::new(call, kind, slot, self.shared.fake_now()));
        let index = {
            let mut body = batch.body();
            pack(&mut body.call);
            let operations = 0..body.call.operations();
            body.seat(operations, Deadline::after(CALL_PATIENCE))
        };
        self.pending.push_back((slot, Rc::clone(&batch)));
        self.looks_at = None;
        self.send_ready();
        self.wake_driver();
        Ok(Seat::new(batch, index))
    }

    /// Takes over a batch that another node sent here. It waits for a connection that is not
    /// there yet.
    pub(super) fn adopt(&mut self, batch: Rc<Batch>, is_asking: bool) {
        if self.is_tried && self.stream.is_none() {
            let why = Arc::clone(&self.why_down);
            return batch.end(Stage::Failed(StoreError::Disconnected { why }));
        }
        {
            let mut body = batch.body();
            body.stage = Stage::Waiting;
            body.is_resent = false;
            body.is_asking = is_asking;
        }
        self.pending.push_front((batch.slot, batch));
        self.looks_at = None;
        self.send_ready();
        self.wake_driver();
    }

    fn most_in_flight(&self) -> usize {
        match self.node {
            Some(_) => MOST_SLOTS_IN_FLIGHT,
            None => MOST_IN_FLIGHT / self.shared.options.batch,
        }
    }

    /// Puts on the wire what may go.
    pub(super) fn send_ready(&mut self) {
        self.is_led = false;
        if self.stream.is_none() {
            return;
        }
        while !self.held.is_waiting() && self.in_flight.len() < self.most_in_flight() {
            let Some(batch) = self.next_free() else { break };
            if batch.body().board() {
                self.send(batch, By::Hash);
            } else {
                self.recycle(&batch);
            }
        }
        self.ask_for_replicas();
        self.flush();
    }

    /// The first batch that may go: in a Cluster, one whose slot has no call under way.
    fn next_free(&mut self) -> Option<Rc<Batch>> {
        if self.node.is_none() {
            return self.pending.pop_front().map(|(_, batch)| batch);
        }
        let mut few = self.pending.iter().take(SLOTS_COMPARED);
        let at = few.position(|(slot, _)| slot.is_none_or(|slot| !self.busy.contains(slot)))?;
        self.pending.remove(at).map(|(_, batch)| batch)
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
            if body.is_asking {
                resp::append_command(&mut self.output, &[b"ASKING"]);
                body.awaits_word = true;
            }
            body.call.write(&mut self.output, by);
        }
        let is_charging = batch.body().call.is_charging();
        self.expect_replicas(is_charging);
        if let Some(slot) = batch.slot {
            self.busy.insert(slot);
        }
        self.in_flight.push_back(batch);
    }

    /// Writes what the socket takes; the driver sees to the rest, and to errors.
    pub(super) fn flush(&mut self) {
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
        if self.spare.len() < SPARE_CALLS && batch.body().call.is_slim() {
            self.spare.push(batch.take_call());
        }
    }

    pub(super) fn up(&mut self, stream: Stream) {
        self.is_tried = true;
        self.held.renewed();
        self.stream = Some(stream);
        self.breaker = Breaker::default();
        self.is_proven = false;
        self.loaded_at = None;
    }

    /// The connection is over: what was on the wire may have happened, what waited has not.
    pub(super) fn down(&mut self, why: Arc<str>) {
        self.is_tried = true;
        self.stream = None;
        self.output.clear();
        self.input_end = 0;
        self.busy.clear();
        let told = self.held.take();
        for batch in told.chain(std::mem::take(&mut self.in_flight)) {
            batch.end(Stage::Failed(StoreError::Lost { why: Arc::clone(&why) }));
        }
        for (_, batch) in std::mem::take(&mut self.pending) {
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
}
