//! One worker thread's way to the store.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Action, Plan, PlannedOp};
use tokio::time::sleep;

use super::away::repay_all;
use super::call::{Kind, whole};
use super::cluster::Cluster;
use super::denials::Denials;
use super::error::StoreError;
use super::line::Line;
use super::local::{self, Due, Heat, Name, Standing};
use super::options::Address;
use super::said::Said;
use super::sharded::{self, Hints};
use super::spread;
use super::store::Shared;
use super::wire::{Aboard, Wire};
use crate::Outcomes;
use crate::clock::Deadline;

/// What a worker that ends still has to tell takes no longer.
const LONGEST_LEAVE: Duration = Duration::from_millis(500);

/// A worker's connection with the batches that wait for it. Stays on its thread; clones share the
/// connection, and the last one to go closes it.
#[derive(Clone, Debug)]
pub struct RedisHandle {
    inner: Rc<Inner>,
}

/// What the clones of a handle share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) owner: Owner,
    pub(super) shared: Arc<Shared>,
    denials: Denials,
    /// The counters whose mirrors this worker settles.
    pub(super) mine: RefCell<Vec<Name>>,
    pub(super) heat: RefCell<Heat>,
    pub(super) due: RefCell<Due>,
    pub(super) hints: Hints,
    /// Calls under way that charge what is owed.
    pub(super) charges: Cell<usize>,
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
pub(super) enum Owner {
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

impl Owner {
    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// True if nothing is under way to it.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Server(wire) => wire.line.borrow().is_idle(),
            Self::Cluster(cluster) => cluster.is_idle(),
        }
    }

    /// True if it is worth a try to ask.
    pub(super) fn is_well(&self) -> bool {
        match self {
            Self::Server(wire) => wire.line.borrow().can_be_asked(),
            Self::Cluster(cluster) => cluster.can_be_asked(),
        }
    }

    /// The wire to the one server, or to the node of a slot.
    pub(super) fn wire(&self, slot: Option<u16>) -> Result<Rc<Wire>, StoreError> {
        match (self, slot) {
            (Self::Server(wire), _) => Ok(Rc::clone(wire)),
            (Self::Cluster(cluster), Some(slot)) => cluster.known(slot),
            (Self::Cluster(_), None) => Err(StoreError::Protocol),
        }
    }

    /// Asks for a plan, until that time if one is given. What passes without the store is still to be
    /// noted.
    pub(super) async fn ask(
        &self,
        shared: &Shared,
        plan: &Plan<'_>,
        due: Option<Deadline>,
    ) -> Said {
        match self {
            Self::Server(wire) => {
                Said::by_one(shared, plan, wire.ask(plan, Kind::Decide, None, due, whole).await)
            }
            Self::Cluster(cluster) => spread::decide(cluster, plan, due, false).await,
        }
    }

    /// Asks for a part of a plan until then; none where that part lies in several slots.
    pub(super) async fn ask_part(
        &self,
        plan: &Plan<'_>,
        kind: Kind,
        due: Deadline,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Option<Result<Outcomes, StoreError>> {
        match self {
            Self::Server(wire) => Some(wire.ask(plan, kind, None, Some(due), part).await),
            Self::Cluster(cluster) => {
                let mut slots = plan
                    .asked()
                    .enumerate()
                    .filter(|(at, op)| part(*at, op).is_some())
                    .map(|(_, op)| cluster.shared.keys.slot(plan, op));
                let slot = slots.next()?;
                if slots.any(|other| other != slot) {
                    return None;
                }
                drop(slots);
                Some(cluster.ask(plan, kind, slot, Some(due), part).await)
            }
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
        Self {
            inner: Rc::new(Inner {
                owner,
                shared,
                denials: Denials::default(),
                mine: RefCell::default(),
                heat: RefCell::default(),
                due: RefCell::default(),
                hints: Hints::default(),
                charges: Cell::default(),
            }),
        }
    }

    /// With the tasks that keep what this node knows of counters and of other nodes.
    pub(super) fn tended(self) -> Self {
        self.inner.shared.away.tend();
        tokio::task::spawn_local(local::tend(Rc::downgrade(&self.inner)));
        tokio::task::spawn_local(local::nodes::speak(Rc::downgrade(&self.inner)));
        self
    }

    /// Begins to decide a request at `now_us` (unix, by the node's clock) without waiting: what is
    /// begun in one turn of the event loop leaves in one call. Who waits for what is aboard calls
    /// [`RedisHandle::ended`] with what came.
    #[inline]
    pub fn begin(&self, plan: &Plan<'_>, now_us: u64) -> Begun {
        if plan.asked().next().is_none() {
            return Begun::Known(Ok(Outcomes::new()));
        }
        let shared = &self.inner.shared;
        // Who sets the clock asks what the store says then, not what it said a moment before.
        if shared.fake_now().is_none()
            && let Some(outcomes) = self.inner.denials.answer(&shared.changes, plan, now_us)
        {
            return Begun::Known(Ok(outcomes));
        }
        if sharded::is_for(&self.inner.owner, plan) {
            return Begun::Waits;
        }
        match local::stand(&self.inner, plan, now_us) {
            Standing::Elsewhere => {}
            Standing::Known(outcomes) => return Begun::Known(Ok(outcomes)),
            Standing::Waits => return Begun::Waits,
        }
        let begun = match &self.inner.owner {
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
            Err(failure) => Begun::Known(Err(self.without_store(plan, failure))),
        }
    }

    fn without_store(&self, plan: &Plan<'_>, why: StoreError) -> StoreError {
        self.inner.shared.away.decide(&self.inner.shared, plan, why)
    }

    /// What must be known of a request's departure when its answer comes.
    #[inline]
    fn departing(&self, plan: &Plan<'_>, now_us: u64) -> Departure {
        self.note_refunds(plan);
        Departure { at_us: now_us, changes: self.inner.shared.changes.so_far() }
    }

    /// Learns from the answer to a request that was begun, and says what follows without one.
    #[inline]
    pub fn ended(
        &self,
        plan: &Plan<'_>,
        departure: &Departure,
        told: Result<Outcomes, StoreError>,
    ) -> Result<Outcomes, StoreError> {
        self.note_refunds(plan);
        let shared = &self.inner.shared;
        let outcomes = told.map_err(|why| self.without_store(plan, why))?;
        shared.away.see(shared, plan, &outcomes);
        if shared.changes.so_far() == departure.changes {
            let now_us = || shared.clock.now_us();
            self.inner.denials.note(&shared.changes, plan, &outcomes, departure.at_us, now_us);
        }
        Ok(outcomes)
    }

    #[inline]
    fn note_refunds(&self, plan: &Plan<'_>) {
        for op in plan.asked().filter(|op| matches!(op.action, Action::Refund(_))) {
            let changes = &self.inner.shared.changes;
            let hash = changes.hash(op.rule.uid, plan.key(op));
            changes.note_refund(op.rule.uid);
            changes.note(hash);
            self.inner.shared.local.doubt((hash, op.rule.uid, plan.key(op)));
        }
    }

    /// Decides a request: its outcomes in the order of [`Plan::asked`].
    ///
    /// Fails at once while there is no connection (the first attempt to make one is waited for),
    /// and at the deadline whatever the socket does. Dropped before the call left, the request is
    /// not charged.
    #[inline]
    pub async fn decide(&self, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
        let now_us = self.inner.shared.clock.now_us();
        let (departure, told) = match self.begin(plan, now_us) {
            Begun::Known(told) => return told,
            Begun::Aboard(departure, aboard) => (departure, aboard.await),
            Begun::Waits => {
                let departure = self.departing(plan, now_us);
                (departure, self.decide_slowly(plan).await)
            }
        };
        self.ended(plan, &departure, told)
    }

    /// Decides what [`RedisHandle::begin`] did not.
    async fn decide_slowly(&self, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
        let Inner { owner, shared, .. } = &*self.inner;
        if let Owner::Cluster(cluster) = owner
            && sharded::is_for(owner, plan)
        {
            return sharded::decide(&self.inner, cluster, plan).await;
        }
        let said = if local::concerns(plan) {
            local::decide(&self.inner, plan, Deadline::after(shared.patience)).await
        } else {
            owner.ask(shared, plan, None).await
        };
        said.note(shared, plan);
        said.told()
    }

    /// Tells the store what it does not know yet: what was admitted here, and what it is owed. Ends
    /// after [`LONGEST_LEAVE`] in any case.
    pub async fn leave(&self) {
        local::settle_all(&self.inner);
        repay_all(&self.inner);
        let due = Deadline::after(LONGEST_LEAVE);
        let is_told = || {
            let is_charged = self.inner.charges.get() == 0;
            is_charged && local::is_settled(&self.inner) && self.inner.owner.is_idle()
        };
        while !due.is_over() && !is_told() {
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Forgets the counters that the plan meets.
    pub async fn reset(&self, plan: &Plan<'_>) -> Result<(), StoreError> {
        let shared = &self.inner.shared;
        let parts = match &self.inner.owner {
            Owner::Server(_) => None,
            Owner::Cluster(_) => Some(sharded::all_parts(&self.inner, plan)),
        };
        let counters = parts.as_ref().unwrap_or(plan);
        self.note_reset(plan);
        // What is owed must not be charged behind the reset.
        let owed = shared.away.withhold(shared, counters);
        let told = match &self.inner.owner {
            _ if plan.asked().next().is_none() => Ok(()),
            Owner::Server(wire) => {
                wire.ask(plan, Kind::Delete, None, None, whole).await.map(|_| ())
            }
            Owner::Cluster(cluster) => spread::reset(cluster, counters).await,
        };
        self.note_reset(plan);
        if told.as_ref().is_err_and(|why| !why.may_have_written()) {
            let now_us = shared.clock.now_us();
            for owed in owed {
                shared.away.put_back(owed, now_us);
            }
        } else {
            shared.away.forget(shared, counters);
            // The share is of the whole, also where the counters are parts of it.
            shared.away.forget(shared, plan);
        }
        told
    }

    fn note_reset(&self, plan: &Plan<'_>) {
        let changes = &self.inner.shared.changes;
        for op in plan.asked() {
            let hash = changes.hash(op.rule.uid, plan.key(op));
            changes.note(hash);
            self.inner.shared.local.forget((hash, op.rule.uid, plan.key(op)));
        }
    }

    /// True if a connection stands; in a Cluster, one to each master.
    pub(super) fn is_up(&self) -> bool {
        match &self.inner.owner {
            Owner::Server(wire) => wire.line.borrow().is_up(),
            Owner::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// Waits until a connection stands; in a Cluster, one to each master.
    pub async fn connected(&self) {
        match &self.inner.owner {
            Owner::Server(wire) => wire.attempt(Line::is_up).await,
            Owner::Cluster(cluster) => cluster.connected().await,
        }
    }
}
