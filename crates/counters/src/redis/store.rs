//! The store that workers and callers share: options, keys, state of the connections.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Consistency, Plan, PlannedOp};

use super::away::Away;
use super::blocking;
use super::changes::Changes;
use super::error::StoreError;
use super::handle::RedisHandle;
use super::health::{Health, Record};
use super::keys::Keys;
use super::local::Table;
use super::local::nodes::Nodes;
use super::options::{OptionsError, RedisOptions};
use crate::{Clock, Outcomes};

/// Timers round up to the next millisecond, so they are set for this much earlier.
const TIMER_GRAIN: Duration = Duration::from_millis(1);

/// Counters in Redis or Valkey. Cheap to clone; connects only through its handles and callers.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

/// What all connections of one store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: RedisOptions,
    pub(super) keys: Keys,
    pub(super) health: Record,
    pub(super) changes: Changes,
    pub(super) local: Table,
    pub(super) away: Away,
    pub(super) nodes: Nodes,
    /// The deadline of async decisions, less what their timer rounds up by.
    pub(super) patience: Duration,
    pub(super) clock: Arc<Clock>,
}

impl Shared {
    /// The time that a test has set; the store's own otherwise.
    #[inline]
    #[cfg_attr(not(feature = "fake-clock"), expect(clippy::unused_self, reason = "see above"))]
    pub(super) fn fake_now(&self) -> Option<u64> {
        #[cfg(feature = "fake-clock")]
        return self.clock.fake_us();
        #[cfg(not(feature = "fake-clock"))]
        None
    }
}

impl RedisStore {
    /// A store with these options. Does not connect, so it does not fail because the server is
    /// away.
    pub fn new(options: RedisOptions, clock: Arc<Clock>) -> Result<Self, OptionsError> {
        options.check()?;
        let patience = options.deadline.checked_sub(TIMER_GRAIN).unwrap_or_default();
        let shared = Shared {
            keys: Keys::new(&options.prefix),
            health: Record::default(),
            changes: Changes::default(),
            local: Table::default(),
            away: Away::default(),
            nodes: Nodes::default(),
            patience: patience.max(options.deadline / 2),
            options,
            clock,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A worker thread's way to the store, which begins to connect at once.
    ///
    /// # Panics
    /// Outside a tokio `LocalSet`.
    pub fn handle(&self) -> RedisHandle {
        RedisHandle::spawn(Arc::clone(&self.shared)).tended()
    }

    /// Says which policy this node runs, so that nodes of one store learn where they differ.
    pub fn run(&self, revision: &str) {
        self.shared.nodes.run(revision);
    }

    /// Nodes that share the store, this one included; 0: not known.
    pub fn nodes(&self) -> u32 {
        self.shared.local.nodes()
    }

    /// True if this node decides a counter from its mirror now.
    pub fn is_mirrored<'r>(&self, plan: &Plan<'r>, op: &PlannedOp<'r>) -> bool {
        if op.rule.consistency == Consistency::Exact {
            return false;
        }
        let (limit, key) = (op.rule.uid, plan.key(op));
        let counter = (self.shared.changes.hash(limit, key), limit, key);
        self.shared.local.mirrors(counter, op.numbers)
    }

    /// True if a node may decide some of such a limit by itself: it is of a kind that can be
    /// mirrored, and large enough for the nodes that are alive.
    pub fn could_mirror(&self, op: &PlannedOp<'_>) -> bool {
        op.rule.may_be_local() && self.shared.local.share(op) > 0
    }

    /// Decides a request on the calling thread's own connection, made by its first call.
    pub fn decide_blocking(&self, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
        let plans = std::slice::from_ref(plan);
        blocking::decide(&self.shared, plans).pop().unwrap_or(Err(StoreError::Protocol))
    }

    /// Decides several requests one after another in one trip, each answered for itself.
    pub fn decide_many_blocking(&self, plans: &[Plan<'_>]) -> Vec<Result<Outcomes, StoreError>> {
        blocking::decide(&self.shared, plans)
    }

    /// Forgets the counters that the plan meets.
    pub fn reset_blocking(&self, plan: &Plan<'_>) -> Result<(), StoreError> {
        blocking::reset(&self.shared, plan)
    }

    /// How the store's connections stand.
    pub fn health(&self) -> Health {
        let mut health = self.shared.health.read();
        health.warnings.extend(self.shared.nodes.warning());
        health
    }

    /// What it was made with.
    pub fn options(&self) -> &RedisOptions {
        &self.shared.options
    }
}

/// What the connections of a store share whose server nobody serves.
#[cfg(test)]
pub(super) fn nowhere(adjust: impl FnOnce(&mut RedisOptions)) -> Arc<Shared> {
    let mut options = RedisOptions::parse("redis://127.0.0.1:1").unwrap();
    adjust(&mut options);
    RedisStore::new(options, Arc::default()).unwrap().shared
}
