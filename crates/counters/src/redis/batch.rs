//! Requests that travel in one call: who waits, until when, and what became of them.

use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;

use super::call::{Call, Kind};
use super::error::StoreError;
use super::news::{News, Sign};
use super::outcome::{self, RECORD};
use crate::Outcomes;
use crate::clock::Deadline;

/// Nodes that may send a call on to another before it fails.
const MOST_REDIRECTIONS: u8 = 16;

/// A batch, shared by the requests in it and the connection.
#[derive(Debug)]
pub(super) struct Batch {
    /// In a Cluster, the slot of all its keys.
    pub(super) slot: Option<u16>,
    body: RefCell<Body>,
}

#[derive(Debug)]
pub(super) struct Body {
    pub(super) call: Call,
    pub(super) stage: Stage,
    /// Its place in the order of sending, and whether it was sent a second time.
    pub(super) sequence: u64,
    pub(super) is_resent: bool,
    /// In a Cluster: how often other nodes sent it on; whether this one must be told, before each
    /// sending, that it was; and whether the answer to that word is still to come.
    pub(super) redirections: u8,
    pub(super) is_asking: bool,
    pub(super) awaits_word: bool,
    /// In a Cluster mostly one: a call is of one slot.
    members: SmallVec<[Member; 1]>,
}

/// Bytes of an answer; two records stand in place.
pub(super) type Answer = SmallVec<[u8; 2 * RECORD]>;

#[derive(Debug)]
pub(super) enum Stage {
    /// Not yet on the wire.
    Waiting,
    /// Handed to the socket, in part or whole.
    Sent,
    /// Answered: a record for each operation.
    Answered(Answer),
    /// Ended without an answer to use.
    Failed(StoreError),
}

#[derive(Debug)]
struct Member {
    operations: Range<u32>,
    deadline: Deadline,
    fate: Fate,
    /// True if it travels though nobody waits for it.
    stays: bool,
    ear: Ear,
}

/// Who is to hear of a request.
#[derive(Debug)]
enum Ear {
    Nobody,
    Task(Waker),
    /// A task that has several requests, by the place of this one among them.
    Place(Sign),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// As the batch goes.
    Aboard,
    /// The caller took it back.
    Gone,
    /// Its deadline passed, after or before it was sent.
    Late { was_sent: bool },
}

impl Member {
    /// Says that there is something to hear.
    fn tell(&mut self) {
        match &self.ear {
            Ear::Nobody => {}
            Ear::Task(_) => {
                if let Ear::Task(waker) = std::mem::replace(&mut self.ear, Ear::Nobody) {
                    waker.wake();
                }
            }
            Ear::Place(sign) => sign.set(),
        }
    }
}

impl Batch {
    pub(super) fn new(
        mut call: Call,
        kind: Kind,
        slot: Option<u16>,
        fake_now: Option<u64>,
    ) -> Self {
        call.clear(kind, fake_now);
        let body = Body {
            call,
            stage: Stage::Waiting,
            sequence: 0,
            is_resent: false,
            redirections: 0,
            is_asking: false,
            awaits_word: false,
            members: SmallVec::new(),
        };
        Self { slot, body: RefCell::new(body) }
    }

    pub(super) fn body(&self) -> RefMut<'_, Body> {
        self.body.borrow_mut()
    }

    /// Gives the call's buffers back.
    pub(super) fn take_call(&self) -> Call {
        std::mem::take(&mut self.body().call)
    }

    /// Ends the batch and wakes all who wait for it.
    pub(super) fn end(&self, stage: Stage) {
        let mut body = self.body();
        body.stage = stage;
        body.members.iter_mut().for_each(Member::tell);
    }

    /// True if it is not on the wire yet, and has not ended.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.body().stage, Stage::Waiting)
    }

    /// Marks those whose deadline is over and wakes them; says when the next one's is.
    pub(super) fn expire(&self) -> Option<Deadline> {
        let body = &mut *self.body();
        let was_sent = matches!(body.stage, Stage::Sent);
        let mut next: Option<Deadline> = None;
        for member in body.members.iter_mut().filter(|member| member.fate == Fate::Aboard) {
            if !member.deadline.is_over() {
                next = next.into_iter().chain([member.deadline]).min();
                continue;
            }
            member.fate = Fate::Late { was_sent };
            member.tell();
        }
        next
    }
}

impl Body {
    /// Adds the request that the call has just packed.
    pub(super) fn seat(&mut self, operations: Range<u32>, deadline: Deadline) -> usize {
        let fate = Fate::Aboard;
        self.members.push(Member { operations, deadline, fate, stays: false, ear: Ear::Nobody });
        self.members.len() - 1
    }

    /// Counts a redirection; false if there were too many.
    pub(super) fn may_be_redirected(&mut self) -> bool {
        self.redirections += 1;
        self.redirections <= MOST_REDIRECTIONS
    }

    /// The deadline of the first request; the batch is as old as that.
    pub(super) fn first_deadline(&self) -> Option<Deadline> {
        self.members.first().map(|member| member.deadline)
    }

    /// Those who still wait for it.
    pub(super) fn aboard(&self) -> impl Iterator {
        self.members.iter().filter(|member| member.fate == Fate::Aboard)
    }

    /// Takes out of the call who is not aboard any more, and who would wait in vain; false if nobody
    /// is left.
    pub(super) fn board(&mut self) -> bool {
        let now = Deadline::after(Duration::ZERO);
        let is_late = |member: &&mut Member| {
            member.fate == Fate::Aboard && !member.stays && member.deadline <= now
        };
        for member in self.members.iter_mut().filter(is_late) {
            member.fate = Fate::Late { was_sent: false };
            member.tell();
        }
        let is_whole = self.members.iter().all(|member| member.fate == Fate::Aboard);
        if !is_whole {
            let aboard = || self.members.iter().filter(|member| member.fate == Fate::Aboard);
            self.call.keep(aboard().map(|member| member.operations.clone()));
            let mut start = 0;
            for member in self.members.iter_mut().filter(|member| member.fate == Fate::Aboard) {
                let count = member.operations.len() as u32;
                member.operations = start..start + count;
                start += count;
            }
        }
        self.members.iter().any(|member| member.fate == Fate::Aboard)
    }
}

/// One request's place in a batch. Dropped before the batch leaves, the request stays behind.
#[derive(Debug)]
pub(super) struct Seat {
    batch: Rc<Batch>,
    index: usize,
}

impl Seat {
    pub(super) const fn new(batch: Rc<Batch>, index: usize) -> Self {
        Self { batch, index }
    }

    /// Waits for the whole answer as it came.
    pub(super) async fn told(mut self) -> Result<Vec<u8>, StoreError> {
        let told = poll_fn(|cx| Pin::new(&mut self).poll(cx).map(|told| told.map(|_| ()))).await;
        match (&mut self.batch.body().stage, told) {
            // One operation that failed does not speak for the others.
            (Stage::Answered(told), _) => Ok(std::mem::take(told).into_vec()),
            (_, Err(error)) => Err(error),
            (_, Ok(())) => Err(StoreError::Protocol),
        }
    }

    /// From now on it is told there, at that place, when there is something to hear, and wakes no
    /// task that polls it.
    pub(super) fn tell_at(&self, news: &News, at: usize) {
        self.batch.body().members[self.index].ear = Ear::Place(news.sign(at));
    }

    /// Lets the request travel without a companion.
    pub(super) fn stay(self) {
        self.batch.body().members[self.index].stays = true;
    }
}

impl Future for Seat {
    type Output = Result<Outcomes, StoreError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let body = &mut *self.batch.body();
        let member = &mut body.members[self.index];
        if let Fate::Late { was_sent } = member.fate {
            return Poll::Ready(Err(StoreError::Timeout { was_sent }));
        }
        match &body.stage {
            Stage::Answered(reply) => {
                let bytes = member.operations.start as usize * RECORD
                    ..member.operations.end as usize * RECORD;
                Poll::Ready(outcome::outcomes(&reply[bytes]))
            }
            Stage::Failed(error) => Poll::Ready(Err(error.clone())),
            Stage::Waiting | Stage::Sent => {
                match &member.ear {
                    Ear::Place(_) => {}
                    // Requests of one task are all asked each time that one of them is answered.
                    Ear::Task(waker) if waker.will_wake(cx.waker()) => {}
                    Ear::Nobody | Ear::Task(_) => member.ear = Ear::Task(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let body = &mut *self.batch.body();
        let member = &mut body.members[self.index];
        member.ear = Ear::Nobody;
        if matches!(body.stage, Stage::Waiting) && member.fate == Fate::Aboard && !member.stays {
            member.fate = Fate::Gone;
        }
    }
}
