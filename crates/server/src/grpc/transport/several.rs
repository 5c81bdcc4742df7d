//! Calls that arrived together and must wait: one task and one timer for all of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use smallvec::SmallVec;
use tokio::task::spawn_local;
use tokio::time::{Instant, Sleep, sleep_until};

use super::exchange::Respond;
use super::message::Message;
use super::server::Server;
use super::service::{Call, Service};
use super::stats::count;
use super::status::Status;
use crate::together::TOGETHER;

/// Calls that arrived together, at most [`TOGETHER`].
pub type Calls<M> = SmallVec<[(M, Call); TOGETHER]>;

/// What passes between calls that arrived together and those who wait for them. A call is named by
/// its place.
#[derive(Debug, Default)]
pub struct Group {
    gone: Cell<u8>,
    answers: RefCell<SmallVec<[Answered; TOGETHER]>>,
}

/// A place and its answer.
type Answered = (usize, Result<Message, Status>);

// Each has a bit of `Group::gone`.
const _: () = assert!(TOGETHER <= u8::BITS as usize);

impl Group {
    /// True if nobody waits for that call any more.
    #[inline]
    pub fn is_gone(&self, at: usize) -> bool {
        self.gone.get() & (1 << at) != 0
    }

    /// Answers one.
    #[inline]
    pub fn answer(&self, at: usize, outcome: Result<Message, Status>) {
        self.answers.borrow_mut().push((at, outcome));
    }

    fn leave(&self, at: usize) {
        self.gone.set(self.gone.get() | (1 << at));
    }
}

/// Who waits for an answer, and until when.
struct Waiting {
    respond: Respond,
    deadline: Option<Instant>,
}

/// Wakes a group's task where a client may have taken a request back, and remembers it: to ask takes
/// the connection's lock, once for each request, and most wakes are for answers.
struct Recall {
    is_due: AtomicBool,
    task: Waker,
}

impl Recall {
    /// Due at first, so that the requests are told whom to wake.
    fn of(task: &Waker) -> Arc<Self> {
        Arc::new(Self { is_due: AtomicBool::new(true), task: task.clone() })
    }

    fn take(&self) -> bool {
        self.is_due.swap(false, Ordering::Acquire)
    }
}

impl Wake for Recall {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// Those of a group that have no answer yet, by place.
type Open = SmallVec<[Option<Waiting>; TOGETHER]>;

fn next_deadline(open: &Open) -> Option<Instant> {
    open.iter().flatten().filter_map(|waiting| waiting.deadline).min()
}

impl<S: Service> Server<S> {
    /// Calls the service with what arrived together: as a group, else one by one.
    pub(super) fn call_all(
        self: &Rc<Self>,
        calls: Calls<S::Method>,
        responds: SmallVec<[Respond; TOGETHER]>,
    ) {
        let group = Rc::new(Group::default());
        let deadlines: SmallVec<[_; TOGETHER]> =
            calls.iter().map(|(_, call)| call.deadline).collect();
        let mut several = match self.service.call_several(calls, &group) {
            Ok(several) => several,
            Err(calls) => {
                for ((method, call), respond) in calls.into_iter().zip(responds) {
                    self.call(method, call, respond);
                }
                return;
            }
        };
        let waiting = |(respond, deadline)| Some(Waiting { respond, deadline });
        let mut open: Open = responds.into_iter().zip(deadlines).map(waiting).collect();
        let mut cx = Context::from_waker(Waker::noop());
        if self.step(&mut several, &group, &mut open, &mut cx).is_pending() {
            spawn_local(Rc::clone(self).wait_for(several, group, open));
        }
    }

    /// Polls a group and sends what it has answered; ready once nobody waits.
    fn step(
        self: &Rc<Self>,
        several: &mut S::Several,
        group: &Group,
        open: &mut Open,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(several).poll(cx)));
        for (at, outcome) in group.answers.take() {
            if let Some(waiting) = open[at].take() {
                self.answer(waiting.respond, outcome);
            }
        }
        polled.unwrap_or_else(|_| {
            let status = self.panicked();
            for waiting in open.iter_mut().filter_map(Option::take) {
                self.answer(waiting.respond, Err(status.clone()));
            }
            Poll::Ready(())
        })
    }

    /// Waits for the answers, each until it comes, its client takes the request back, or its time
    /// is over.
    async fn wait_for(self: Rc<Self>, mut several: S::Several, group: Rc<Group>, mut open: Open) {
        let mut timer: Pin<&mut Option<Sleep>> = pin!(None);
        let mut recall = None;
        poll_fn(|cx| {
            let recall = recall.get_or_insert_with(|| Recall::of(cx.waker()));
            if recall.take() {
                let waker = Waker::from(Arc::clone(recall));
                self.let_go(&group, &mut open, &mut Context::from_waker(&waker));
            }
            while let Some(next) = next_deadline(&open) {
                if timer.is_none() {
                    timer.set(Some(sleep_until(next)));
                }
                let Some(mut sleep) = timer.as_mut().as_pin_mut() else { break };
                if sleep.deadline() != next {
                    sleep.as_mut().reset(next);
                }
                if sleep.poll(cx).is_pending() {
                    break;
                }
                self.expire(&group, &mut open, next);
            }
            self.step(&mut several, &group, &mut open, cx)
        })
        .await;
    }

    /// Lets those go that were taken back.
    fn let_go(&self, group: &Group, open: &mut Open, cx: &mut Context<'_>) {
        for (at, place) in open.iter_mut().enumerate() {
            if let Some(waiting) = place
                && waiting.respond.poll_reset(cx).is_ready()
            {
                count(&self.stats.cancelled);
                group.leave(at);
                *place = None;
            }
        }
    }

    /// Answers those whose time is over.
    fn expire(self: &Rc<Self>, group: &Group, open: &mut Open, due: Instant) {
        for (at, place) in open.iter_mut().enumerate() {
            let is_due = |waiting: &mut Waiting| waiting.deadline.is_some_and(|at| at <= due);
            if let Some(waiting) = place.take_if(is_due) {
                group.leave(at);
                self.answer(waiting.respond, Err(Status::deadline_exceeded()));
            }
        }
    }
}
