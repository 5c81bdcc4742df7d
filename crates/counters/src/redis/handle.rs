//! One worker thread's way to the store.

use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::{Action, Plan};

use super::call::{Kind, whole};
use super::cluster::Cluster;
use super::denials::Denials;
use super::error::StoreError;
use super::line::Line;
use super::options::Address;
use super::spread;
use super::store::Shared;
use super::wire::{Aboard, Wire};
use crate::Outcomes;

/// A worker's connection with the batches that wait for it. Stays on its thread; clones share the
/// connection, and the last one to go closes it.
#[derive(Clone, Debug)]
pub struct RedisHandle {
    owner: Rc<Owner>,
    shared: Arc<Shared>,
    denials: Rc<Denials>,
}

/// What is kept of a request while it waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    at_us: u64,
    changes: u64,
}

/// How far a request has come at once.
#[derive(Debug)]
pub enum Begun {
    /// It is answered.
    Known(Result<Outcomes, StoreError>),
    /// It is in a batch that leaves soon.
    Aboard(Departure, Aboard),
    /// Nothing was done: [`RedisHandle::decide`] must see to it.
    Waits,
}

/// Where the counters of a plan are.
#[derive(Debug)]
enum Owner {
    /// All on one server.
    Server(Rc<Wire>),
    /// On the masters of a Cluster, by slot.
    Cluster(Rc<Cluster>),
}

impl Drop for Owner {
    fn drop(&mut self) {
        match self {
            Self::Server(wire) => wire.closing.notify_one(),
            Self::Cluster(cluster) => cluster.closing.notify_one(),
        }
    }
}

impl RedisHandle {
    pub(super) fn spawn(shared: Arc<Shared>) -> Self {
        let owner = match shared.options.address {
            Address::Cluster(_) => Owner::Cluster(Cluster::spawn(Arc::clone(&shared))),
            Address::Tcp(..) | Address::Unix(_) | Address::Sentinels(_) => {
                Owner::Server(Wire::spawn(&shared, None))
            }
        };
        Self { owner: Rc::new(owner), shared, denials: Rc::default() }
    }

    /// Begins to decide a request at `now_us` (unix, by the node's clock) without waiting: what is
    /// begun in one turn of the event loop leaves in one call. Who waits for what is aboard calls
    /// [`RedisHandle::ended`] with what came.
    #[inline]
    pub fn begin(&self, plan: &Plan<'_>, now_us: u64) -> Begun {
        if plan.asked().next().is_none() {
            return Begun::Known(Ok(Outcomes::new()));
        }
        let changes = &self.shared.changes;
        if let Some(outcomes) = self.denials.answer(changes, plan, now_us) {
            return Begun::Known(Ok(outcomes));
        }
        let begun = match &*self.owner {
            Owner::Server(wire) if wire.is_tried() => {
                wire.board(plan, Kind::Decide, None, None, whole)
            }
            Owner::Server(_) => return Begun::Waits,
            Owner::Cluster(cluster) => match spread::begin(cluster, plan) {
                Some(begun) => begun,
                None => return Begun::Waits,
            },
        };
        match begun {
            Ok(aboard) => Begun::Aboard(self.departing(plan, now_us), aboard),
            Err(failure) => Begun::Known(Err(failure)),
        }
    }

    /// What must be known of a request's departure when its answer comes.
    #[inline]
    fn departing(&self, plan: &Plan<'_>, now_us: u64) -> Departure {
        self.note_refunds(plan);
        Departure { at_us: now_us, changes: self.shared.changes.so_far() }
    }

    /// Learns from the answer to a request that was begun.
    #[inline]
    pub fn ended(
        &self,
        plan: &Plan<'_>,
        departure: &Departure,
        told: &Result<Outcomes, StoreError>,
    ) {
        self.note_refunds(plan);
        let changes = &self.shared.changes;
        if let Ok(outcomes) = told
            && changes.so_far() == departure.changes
        {
            let now_us = || self.shared.clock.now_us();
            self.denials.note(changes, plan, outcomes, departure.at_us, now_us);
        }
    }

    #[inline]
    fn note_refunds(&self, plan: &Plan<'_>) {
        for op in plan.asked().filter(|op| matches!(op.action, Action::Refund(_))) {
            let changes = &self.shared.changes;
            changes.note_refund(op.rule.uid);
            changes.note(changes.hash(op.rule.uid, plan.key(op)));
        }
    }

    /// Decides a request: its outcomes in the order of [`Plan::asked`].
    ///
    /// Fails at once while there is no connection (the first attempt to make one is waited for),
    /// and at the deadline whatever the socket does. Dropped before the call left, the request is
    /// not charged.
    #[inline]
    pub async fn decide(&self, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
        let now_us = self.shared.clock.now_us();
        let (departure, told) = match self.begin(plan, now_us) {
            Begun::Known(told) => return told,
            Begun::Aboard(departure, aboard) => (departure, aboard.await),
            Begun::Waits => {
                let departure = self.departing(plan, now_us);
                let told = match &*self.owner {
                    Owner::Server(wire) => wire.ask(plan, Kind::Decide, None, None, whole).await,
                    Owner::Cluster(cluster) => spread::decide(cluster, plan).await,
                };
                (departure, told)
            }
        };
        self.ended(plan, &departure, &told);
        told
    }

    /// Forgets the counters that the plan meets.
    pub async fn reset(&self, plan: &Plan<'_>) -> Result<(), StoreError> {
        self.note_reset(plan);
        let told = match &*self.owner {
            _ if plan.asked().next().is_none() => Ok(()),
            Owner::Server(wire) => {
                wire.ask(plan, Kind::Delete, None, None, whole).await.map(|_| ())
            }
            Owner::Cluster(cluster) => spread::reset(cluster, plan).await,
        };
        self.note_reset(plan);
        told
    }

    fn note_reset(&self, plan: &Plan<'_>) {
        let changes = &self.shared.changes;
        plan.asked().for_each(|op| changes.note(changes.hash(op.rule.uid, plan.key(op))));
    }

    /// True if a connection stands; in a Cluster, one to each master.
    pub(super) fn is_up(&self) -> bool {
        match &*self.owner {
            Owner::Server(wire) => wire.line.borrow().is_up(),
            Owner::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// Waits until a connection stands; in a Cluster, one to each master.
    pub async fn connected(&self) {
        match &*self.owner {
            Owner::Server(wire) => wire.attempt(Line::is_up).await,
            Owner::Cluster(cluster) => cluster.connected().await,
        }
    }
}
