//! Requests that arrived together: matched one after another, then counted, so that what one waits
//! for, from the memory or from the store, comes while the others are seen to.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::RequestError;
use tidegate_core::matching::Known;
use tidegate_counters::{Foreseen, Outcomes};

use crate::metrics::Timed;
use crate::node::Node;
use crate::pipeline::{Answer, Ask, Planned, Refused, WorkerNode, in_force};
use crate::store::{Begun, Store, StoreFailure, Told};
use crate::trips::{Trip, Trips};

/// Requests that are decided together: enough that what one waits for from the memory comes while
/// the others are read, few enough that all of them stay in the nearest cache.
pub const TOGETHER: usize = 8;

impl Node {
    /// Decides at once, at the same time and in their order, at most [`TOGETHER`] requests that
    /// are all here already; memory store only.
    pub fn decide_together<'a>(
        &self,
        asks: &'a [Ask<'a>],
        mut say: impl FnMut(&Ask<'a>, Result<&Answer<'_, '_>, Refused>),
    ) {
        let policy = self.policy.load();
        let (Store::Memory(memory), Ok(rules)) = (&self.store, in_force(&policy)) else {
            let refused = || in_force(&policy).err().unwrap_or(Refused::MustWait);
            return asks.iter().for_each(|ask| say(ask, Err(refused())));
        };
        let now_us = self.clock.now_us();
        let nothing = Ask { domain: &[], descriptors: &[] };
        let mut planned: [Planned<'_>; TOGETHER] = std::array::from_fn(|at| {
            Planned::empty(rules, asks.get(at).unwrap_or(&nothing), now_us)
        });
        let mut problems: [Option<RequestError>; TOGETHER] = Default::default();
        let mut foreseen: Few<Foreseen> = Few::new();
        let known: Few<Option<Known<'_, '_>>> =
            asks.iter().zip(&planned).map(|(ask, planned)| planned.known(ask)).collect();
        let to_match = asks.iter().zip(&mut planned).zip(known);
        for (((ask, planned), known), problem) in to_match.zip(&mut problems) {
            *problem = planned.fill(ask, known).err();
            foreseen.push(memory.foreseen(&planned.plan));
        }
        for foreseen in &foreseen {
            memory.foresee(foreseen);
        }
        let planned = asks.iter().zip(&planned).zip(&foreseen);
        for (((ask, planned), foreseen), problem) in planned.zip(problems) {
            if let Some(problem) = problem {
                say(ask, Err(problem.into()));
                continue;
            }
            let outcomes = memory.decide_foreseen(&planned.plan, foreseen, now_us);
            self.conclude(ask, planned, Ok(&outcomes), |answer| say(ask, Ok(answer)));
        }
    }
}

/// One for each request.
type Few<T> = SmallVec<[T; TOGETHER]>;

impl WorkerNode {
    /// Decides at most [`TOGETHER`] requests that are all here already, in their order, each for
    /// itself and no longer than the store's deadline. What can be said without waiting is said by
    /// the first poll, which wakes nobody: who finds this unfinished polls it again, in a task.
    ///
    /// `is_gone` tells of requests that nobody waits for any more; `say` gets the others' answers
    /// with their places.
    pub async fn decide_several(
        &self,
        asks: &[Ask<'_>],
        is_gone: impl Fn(usize) -> bool,
        mut say: impl FnMut(usize, Result<&Answer<'_, '_>, Refused>),
    ) {
        let node = &*self.node;
        let policy = Guard::from_inner(node.policy.load_full());
        let rules = match in_force(&policy) {
            Ok(rules) => rules,
            Err(refused) => return (0..asks.len()).for_each(|at| say(at, Err(refused.clone()))),
        };
        let now_us = node.clock.now_us();
        // Not in this future, which moves before it waits.
        let mut planned: Vec<Planned<'_>> = Vec::with_capacity(asks.len());
        planned.extend(asks.iter().map(|ask| Planned::empty(rules, ask, now_us)));
        let mut is_refused = [false; TOGETHER];
        for (at, (ask, planned)) in asks.iter().zip(&mut planned).enumerate() {
            if let Err(problem) = planned.fill(ask, None) {
                is_refused[at] = true;
                say(at, Err(problem.into()));
            }
        }
        let mut trips = Trips::default();
        for (at, (ask, planned)) in asks.iter().zip(&planned).enumerate() {
            if is_refused[at] {
                continue;
            }
            let watch = node.metrics.watch(Timed::Store);
            match self.way.begin(&planned.plan, now_us) {
                Begun::Aboard(departure, aboard) => trips.board(at, departure, aboard, watch),
                Begun::Waits => trips.go_slowly(at, Box::pin(self.count(planned))),
                Begun::Known(told) => {
                    node.metrics.took(Timed::Store, watch);
                    let outcomes = self.heard(told);
                    let outcomes = outcomes.as_ref().map_err(|failure| *failure);
                    node.conclude(ask, planned, outcomes, |answer| say(at, Ok(answer)));
                }
            }
        }
        poll_fn(|cx| {
            trips.turn(cx, &is_gone, |at, trip, watch, cx| {
                let outcomes = ready!(self.poll(trip, &planned[at], cx));
                node.metrics.took(Timed::Store, watch.take());
                let outcomes = outcomes.as_ref().map_err(|failure| *failure);
                node.conclude(&asks[at], &planned[at], outcomes, |answer| say(at, Ok(answer)));
                Poll::Ready(())
            })
        })
        .await;
    }

    #[inline]
    fn poll(
        &self,
        trip: &mut Trip<'_>,
        planned: &Planned<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Outcomes, StoreFailure>> {
        match trip {
            Trip::Aboard(departure, aboard) => {
                let told = ready!(Pin::new(aboard).poll(cx));
                Poll::Ready(self.heard(self.way.ended(&planned.plan, departure, told)))
            }
            Trip::Slow(slow) => slow.as_mut().poll(cx),
        }
    }

    /// Counts what failed where there is an answer all the same.
    #[inline]
    fn heard(&self, told: Told) -> Result<Outcomes, StoreFailure> {
        if let Some(failure) = told.failure {
            self.node.metrics.record_store_failure(failure);
        }
        told.outcomes
    }
}
