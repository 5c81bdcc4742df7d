//! The store that a node was started with.

use tidegate_core::Plan;
use tidegate_counters::{MemoryStore, Outcomes};

use crate::metrics::{Kind, Page};

/// Where the counters live.
#[derive(Debug)]
#[non_exhaustive]
pub enum Store {
    /// In this process: answers at once and never fails.
    Memory(MemoryStore),
}

/// Why the store gave no answer, as one of few words that metrics can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFailure(pub &'static str);

impl Store {
    /// True if an answer needs no waiting.
    #[inline]
    pub const fn is_immediate(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// The word for it in `/readyz` and metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
        }
    }

    /// What is wrong with it, if anything.
    pub const fn error(&self) -> Option<String> {
        match self {
            Self::Memory(_) => None,
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
        }
    }

    /// All operations of a request in, all outcomes out; waits no longer than the store's
    /// deadline.
    #[expect(clippy::unused_async, reason = "a store that waits joins this one")]
    pub(crate) async fn decide(
        &self,
        plan: &Plan<'_>,
        now_us: u64,
    ) -> Result<Outcomes, StoreFailure> {
        match self {
            Self::Memory(memory) => Ok(memory.decide(plan, now_us)),
        }
    }

    /// The same for a thread without a runtime.
    pub(crate) fn decide_blocking(
        &self,
        plan: &Plan<'_>,
        now_us: u64,
    ) -> Result<Outcomes, StoreFailure> {
        match self {
            Self::Memory(memory) => Ok(memory.decide(plan, now_us)),
        }
    }

    /// Forgets the counters that a plan meets.
    #[expect(clippy::unused_async, reason = "a store that waits joins this one")]
    pub(crate) async fn reset(&self, plan: &Plan<'_>) -> Result<(), StoreFailure> {
        match self {
            Self::Memory(memory) => memory.reset(plan),
        }
        Ok(())
    }

    /// The same for a thread without a runtime.
    pub(crate) fn reset_blocking(&self, plan: &Plan<'_>) -> Result<(), StoreFailure> {
        match self {
            Self::Memory(memory) => memory.reset(plan),
        }
        Ok(())
    }
}
