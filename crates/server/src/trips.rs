//! Requests of a group that were begun and are not answered: a wake is for some of them, and only
//! those are looked at.

use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_counters::redis::{Aboard, Departure, News};
use tidegate_counters::{Outcomes, Stopwatch};

use crate::store::StoreFailure;
use crate::together::TOGETHER;

/// On a way that takes more than one call.
pub(crate) type Slow<'p> = Pin<Box<dyn Future<Output = Result<Outcomes, StoreFailure>> + 'p>>;

/// Where a request is.
pub(crate) enum Trip<'p> {
    /// In a batch.
    Aboard(Departure, Aboard),
    /// On a way of its own.
    Slow(Slow<'p>),
}

impl Trip<'_> {
    /// True if it must be polled at each wake, for it does not say when there is something to hear.
    fn is_restless(&self) -> bool {
        match self {
            Self::Aboard(_, aboard) => aboard.leads(),
            Self::Slow(_) => true,
        }
    }
}

/// Those of a group, by place, each with what times it.
#[derive(Default)]
pub(crate) struct Trips<'p> {
    places: [Option<(Trip<'p>, Option<Stopwatch>)>; TOGETHER],
    news: News,
    /// Places, as bits: those under way, and those that are polled whether they were told of or not.
    open: u16,
    restless: u16,
}

const _: () = assert!(TOGETHER <= News::PLACES);

impl<'p> Trips<'p> {
    #[inline]
    pub(crate) fn board(
        &mut self,
        at: usize,
        departure: Departure,
        aboard: Aboard,
        watch: Option<Stopwatch>,
    ) {
        aboard.tell_at(&self.news, at);
        self.put(at, Trip::Aboard(departure, aboard), watch);
    }

    pub(crate) fn go_slowly(&mut self, at: usize, slow: Slow<'p>) {
        self.put(at, Trip::Slow(slow), None);
    }

    #[inline]
    fn put(&mut self, at: usize, trip: Trip<'p>, watch: Option<Stopwatch>) {
        self.open |= 1 << at;
        self.restless |= u16::from(trip.is_restless()) << at;
        self.places[at] = Some((trip, watch));
    }

    /// Polls those of which there may be something to hear, and lets those go that nobody waits for
    /// any more; ready once none is under way.
    pub(crate) fn turn(
        &mut self,
        cx: &mut Context<'_>,
        is_gone: impl Fn(usize) -> bool,
        mut poll: impl FnMut(usize, &mut Trip<'p>, &mut Option<Stopwatch>, &mut Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        let due = self.restless | self.news.take(cx.waker());
        for (at, place) in self.places.iter_mut().enumerate() {
            let bit = 1 << at;
            let Some((trip, watch)) = place else { continue };
            let is_gone = is_gone(at);
            if due & bit == 0 && !is_gone {
                continue;
            }
            if is_gone || poll(at, trip, watch, cx).is_ready() {
                *place = None;
                self.open &= !bit;
                self.restless &= !bit;
            } else if !trip.is_restless() {
                self.restless &= !bit;
            }
        }
        if self.open == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}
