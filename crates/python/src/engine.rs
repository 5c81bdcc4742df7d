//! An engine in this process: one store, one clock, and the handles that count in it.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_core::{Identities, Plan, conclude};
use tidegate_counters::{Clock, MemoryOptions, MemoryStore, Outcomes};

use crate::asked::Asked;
use crate::clock::Source;
use crate::decision::Decision;
use crate::errors::guarded;
use crate::limit::Limit;
use crate::policy::Policy;
use crate::rules::Rules;

/// What all handles of an engine share.
pub struct Shared {
    store: MemoryStore,
    source: Source,
    /// Guards the numbers of limits, which only loading a policy takes.
    pub identities: Mutex<Identities>,
}

impl Shared {
    /// Unix time in microseconds.
    #[inline]
    pub fn now_us(&self, py: Python<'_>) -> PyResult<u64> {
        self.source.now_us(py)
    }

    /// Asks the store and concludes.
    ///
    /// Memory is asked without detaching: it never waits on anything but a shard's lock, and who
    /// holds that needs no interpreter to go on.
    #[inline]
    pub fn answer(
        &self,
        rules: &Arc<Rules>,
        plan: &Plan<'_>,
        asked: Asked,
        now_us: u64,
    ) -> PyResult<Decision> {
        let outcomes = self.ask(plan, now_us);
        let concluded = conclude(plan, outcomes.as_deref());
        Ok(Decision::new(rules, &concluded, asked, now_us))
    }

    #[inline]
    fn ask(&self, plan: &Plan<'_>, now_us: u64) -> Option<Outcomes> {
        Some(self.store.decide(plan, now_us))
    }

    /// Forgets the counters that a plan meets.
    pub fn reset(&self, plan: &Plan<'_>) {
        self.store.reset(plan);
    }
}

/// Counts in this process.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Engine {
    shared: Arc<Shared>,
}

#[pymethods]
impl Engine {
    /// An engine on the memory store; `clock` gives unix seconds and stands in for the real time.
    #[staticmethod]
    #[pyo3(signature = (*, max_counters, clock))]
    fn memory(max_counters: usize, clock: Option<Py<PyAny>>) -> Self {
        let source = clock.map_or_else(|| Source::Own(Clock::default()), Source::Callable);
        Self {
            shared: Arc::new(Shared {
                store: MemoryStore::new(MemoryOptions { max_counters }),
                source,
                identities: Mutex::default(),
            }),
        }
    }

    /// A handle on every limit of a domain, without matching: the key parts stand for its `per`.
    fn limit(&self, snapshot: &[u8], domain: &str) -> PyResult<Limit> {
        guarded(|| Ok(Limit::new(Arc::clone(&self.shared), self.load(snapshot, domain)?)))
    }

    /// A handle on a domain of a policy.
    fn policy(&self, snapshot: &[u8], domain: &str) -> PyResult<Policy> {
        guarded(|| Ok(Policy::new(Arc::clone(&self.shared), domain, self.load(snapshot, domain)?)))
    }

    /// Counters held in memory.
    #[getter]
    fn counters(&self) -> usize {
        self.shared.store.counters()
    }

    /// Decisions taken on shared counters because the store was full.
    #[getter]
    fn folded(&self) -> usize {
        self.shared.store.folded()
    }
}

impl Engine {
    fn load(&self, snapshot: &[u8], domain: &str) -> PyResult<Rules> {
        Rules::load(snapshot, domain, &mut self.shared.identities.lock())
    }
}
