//! The store that a node was started with, and a worker thread's way to it.

use std::path::Path;

use tidegate_core::{Identities, Plan, PlannedOp};
use tidegate_counters::redis::{self, Aboard, Departure, RedisHandle, RedisStore, StoreError};
use tidegate_counters::{LoadError, Loaded, MemoryStore, Outcomes, SaveError, SaveTimes, Saved};

use crate::metrics::{Kind, Page};

/// Where the counters live.
#[derive(Debug)]
#[non_exhaustive]
pub enum Store {
    /// In this process: answers at once and never fails.
    Memory(MemoryStore),
    /// In Redis or Valkey: shared by nodes, may be away.
    Redis(RedisStore),
}

/// One worker thread's way to the store.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// It is in this process.
    Here,
    /// This thread's connection.
    Redis(RedisHandle),
}

/// How far a request has come at once.
#[expect(clippy::large_enum_variant, reason = "read where it is made")]
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is answered.
    Known(Told),
    /// It is on its way.
    Aboard(Departure, Aboard),
    /// Nothing was done yet: [`Store::decide`] must see to it.
    Waits,
}

impl Way {
    /// Begins to decide a request without waiting.
    #[inline]
    pub(crate) fn begin(&self, plan: &Plan<'_>, now_us: u64) -> Begun {
        let Self::Redis(handle) = self else { return Begun::Waits };
        match handle.begin(plan, now_us) {
            redis::Begun::Known(told) => Begun::Known(told.into()),
            redis::Begun::Aboard(departure, aboard) => Begun::Aboard(departure, aboard),
            redis::Begun::Waits => Begun::Waits,
        }
    }

    /// Tells the store what it does not know yet, as far as it answers soon; for a worker that ends.
    pub(crate) async fn leave(&self) {
        if let Self::Redis(handle) = self {
            handle.leave().await;
        }
    }

    /// Takes the answer to a request that was aboard.
    #[inline]
    pub(crate) fn ended(
        &self,
        plan: &Plan<'_>,
        departure: &Departure,
        told: Result<Outcomes, StoreError>,
    ) -> Told {
        match self {
            Self::Redis(handle) => handle.ended(plan, departure, told).into(),
            Self::Here => told.into(),
        }
    }
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Told {
    /// For each operation what its limit says, without its counter where that did not answer.
    pub(crate) outcomes: Result<Outcomes, StoreFailure>,
    /// Why the store, or a part of it, did not answer, if there are outcomes all the same.
    pub(crate) failure: Option<StoreFailure>,
}

impl From<Result<Outcomes, StoreError>> for Told {
    #[inline]
    fn from(told: Result<Outcomes, StoreError>) -> Self {
        match told {
            Ok(outcomes) => Self { outcomes: Ok(outcomes), failure: None },
            Err(StoreError::Partial { outcomes, why }) => {
                Self { outcomes: Ok(*outcomes), failure: Some((*why).into()) }
            }
            Err(error) => Self { outcomes: Err(error.into()), failure: None },
        }
    }
}

/// Why the store gave no answer, as one of few words that metrics can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailure {
    /// What it means for the decision.
    pub reason: &'static str,
    /// What it was; finer than the reason where the store answered with an error.
    pub class: &'static str,
}

impl StoreFailure {
    /// A failure that has no finer class.
    pub const fn new(reason: &'static str) -> Self {
        Self { reason, class: reason }
    }
}

impl From<StoreError> for StoreFailure {
    fn from(error: StoreError) -> Self {
        Self { reason: error.label(), class: error.class() }
    }
}

impl Store {
    /// True if an answer needs no waiting.
    #[inline]
    pub const fn is_immediate(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// True if this counter is decided at this node now, without asking a shared store.
    pub(crate) fn decides_here<'r>(&self, plan: &Plan<'r>, op: &PlannedOp<'r>) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(redis) => redis.is_mirrored(plan, op),
        }
    }

    /// True if a limit that the store decides could be decided at this node.
    pub(crate) fn could_decide_here(&self, op: &PlannedOp<'_>) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Redis(redis) => redis.could_mirror(op),
        }
    }

    /// The word for it in `/readyz`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// What is wrong with it, if anything.
    pub fn error(&self) -> Option<String> {
        let Self::Redis(redis) = self else { return None };
        let health = redis.health();
        if health.is_up {
            return None;
        }
        Some(health.last_error.as_deref().unwrap_or("not connected yet").to_owned())
    }

    /// What an operator should change at the store.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(redis) => redis.health().warnings,
        }
    }

    /// Says which policy this node runs, to those that share the store.
    pub(crate) fn run(&self, revision: &str) {
        if let Self::Redis(redis) = self {
            redis.run(revision);
        }
    }

    /// What the store counts about itself.
    pub(crate) fn metrics(&self, page: &mut Page) {
        match self {
            Self::Memory(memory) => {
                let help = "Counters held in memory.";
                page.single("tidegate_counters", Kind::Gauge, help, memory.counters());
                let name = "tidegate_folded_decisions_total";
                let help = "Decisions on shared counters, because the store is full.";
                page.single(name, Kind::Counter, help, memory.folded());
            }
            Self::Redis(redis) => {
                let help = "Nodes that share the store, this one included; 0: not known.";
                page.single("tidegate_nodes", Kind::Gauge, help, redis.nodes() as usize);
                let help = "Connections to the store that stand now.";
                let health = redis.health();
                page.single("tidegate_store_connections", Kind::Gauge, help, health.connections);
                let name = "tidegate_store_connects_total";
                page.single(name, Kind::Counter, "Connections to the store made.", health.made);
                let name = "tidegate_store_connection_failures_total";
                let help = "Connections to the store, and attempts at one, that failed.";
                page.single(name, Kind::Counter, help, health.failed);
                let name = "tidegate_store_unreplicated_total";
                let help = "Decisions told before as many replicas as wanted had their charges.";
                page.single(name, Kind::Counter, help, health.unreplicated);
            }
        }
    }

    /// Puts counters in memory into a file; none are saved of a shared store, which outlives us.
    pub(crate) fn save(
        &self,
        path: &Path,
        identities: &Identities,
        times: SaveTimes,
    ) -> Result<Option<Saved>, SaveError> {
        match self {
            Self::Memory(memory) => memory.save(path, identities, times).map(Some),
            Self::Redis(_) => Ok(None),
        }
    }

    /// Takes counters up from a file, if there is one and the store is in memory.
    pub(crate) fn load(
        &self,
        path: &Path,
        identities: &mut Identities,
        now_us: u64,
    ) -> Result<Option<Loaded>, LoadError> {
        match self {
            Self::Memory(memory) => memory.load(path, identities, now_us),
            Self::Redis(_) => Ok(None),
        }
    }

    /// The calling thread's way; begins to connect where there is something to connect to.
    pub(crate) fn way(&self) -> Way {
        match self {
            Self::Memory(_) => Way::Here,
            Self::Redis(redis) => Way::Redis(redis.handle()),
        }
    }

    /// All operations of a request in, all outcomes out; waits no longer than the store's
    /// deadline. Where a part of the store has not answered, `failed` hears why, and the outcomes
    /// of that part are unasked.
    #[inline]
    pub(crate) async fn decide(
        &self,
        way: &Way,
        plan: &Plan<'_>,
        now_us: u64,
        failed: impl FnOnce(StoreFailure),
    ) -> Result<Outcomes, StoreFailure> {
        match (self, way) {
            (Self::Memory(memory), _) => Ok(memory.decide(plan, now_us)),
            (Self::Redis(_), Way::Redis(handle)) => {
                let told = Told::from(handle.decide(plan).await);
                if let Some(failure) = told.failure {
                    failed(failure);
                }
                told.outcomes
            }
            (Self::Redis(_), Way::Here) => Err(StoreFailure::new("disconnected")),
        }
    }

    /// Forgets the counters that a plan meets.
    pub(crate) async fn reset(&self, way: &Way, plan: &Plan<'_>) -> Result<(), StoreFailure> {
        match (self, way) {
            (Self::Memory(memory), _) => memory.reset(plan),
            (Self::Redis(_), Way::Redis(handle)) => handle.reset(plan).await?,
            (Self::Redis(_), Way::Here) => return Err(StoreFailure::new("disconnected")),
        }
        Ok(())
    }
}
