//! An engine in this process: one store, one clock, and the handles that count in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_core::{Action, Identities, LimitReport, Numbers, Plan, Rule, conclude, key_alone};
use tidegate_counters::{Clock, MemoryOptions, MemoryStore};

use crate::asked::Asked;
use crate::clock::Source;
use crate::decision::Decision;
use crate::errors;
use crate::rules::Rules;
use crate::store::{Store, redis};

/// One limit, asked on some key parts.
#[derive(Clone, Copy)]
pub struct Alone<'r, 'a> {
    pub rule: &'r Rule,
    pub numbers: Numbers,
    pub parts: &'a [&'a [u8]],
    pub action: Action,
}

/// What all handles of an engine share.
pub struct Shared {
    store: Store,
    source: Source,
    // Guards the numbers of limits, which only loading a policy takes.
    identities: Mutex<Identities>,
    /// Relaxed: a flag that closes nothing but this engine's own doors.
    is_closed: AtomicBool,
}

impl Shared {
    fn new(store: Store, source: Source) -> Self {
        let (identities, is_closed) = (Mutex::default(), AtomicBool::new(false));
        Self { store, source, identities, is_closed }
    }

    /// Reads one domain of a snapshot.
    pub fn load(&self, snapshot: &[u8], domain: &str) -> PyResult<Rules> {
        Rules::load(snapshot, domain, &mut self.identities.lock())
    }

    /// Unix time in microseconds.
    #[inline]
    pub fn now_us(&self, py: Python<'_>) -> PyResult<u64> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(errors::config("this limiter is closed; make another one".into()));
        }
        self.source.now_us(py)
    }

    /// Asks the store and concludes.
    #[inline]
    pub fn answer(
        &self,
        py: Python<'_>,
        rules: &Arc<Rules>,
        plan: &Plan<'_>,
        asked: Asked,
        now_us: u64,
    ) -> PyResult<Decision> {
        let outcomes = self.store.decide(py, plan, now_us)?;
        Ok(Decision::new(rules, &conclude(plan, outcomes.as_deref()), asked, now_us))
    }

    /// Asks memory about one limit that a request meets alone: the answer of [`Shared::answer`],
    /// without the plan of many. None where the store is another.
    #[inline]
    pub fn answer_alone(
        &self,
        rules: &Arc<Rules>,
        ask: Alone<'_, '_>,
        asked: impl FnOnce() -> Asked,
        now_us: u64,
    ) -> Option<Decision> {
        let Store::Memory(memory) = &self.store else { return None };
        let Alone { rule, numbers, parts, action } = ask;
        let key = key_alone(rule, &numbers, parts);
        let outcome = memory.decide_alone(rule, numbers, &key, action, now_us);
        let said = LimitReport::counted(rule, numbers, &outcome);
        Some(Decision::alone(rules, &said, asked(), now_us))
    }

    /// Asks about many requests in one trip.
    pub fn answer_many(
        &self,
        py: Python<'_>,
        rules: &Arc<Rules>,
        plans: &[Plan<'_>],
        asked: Vec<Asked>,
        now_us: u64,
    ) -> PyResult<Vec<Decision>> {
        let all = self.store.decide_many(py, plans, now_us)?;
        let each = plans.iter().zip(all).zip(asked);
        Ok(each
            .map(|((plan, outcomes), asked)| {
                Decision::new(rules, &conclude(plan, outcomes.as_deref()), asked, now_us)
            })
            .collect())
    }

    /// Forgets the counters that a plan meets.
    pub fn reset(&self, py: Python<'_>, plan: &Plan<'_>) -> PyResult<()> {
        self.store.reset(py, plan)
    }
}

/// Counts in this process, or for it in a shared store.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Engine {
    pub shared: Arc<Shared>,
    /// Set by tests.
    #[cfg(feature = "fake-clock")]
    clock: Arc<Clock>,
}

#[pymethods]
impl Engine {
    /// An engine on the memory store; `clock` gives unix seconds and stands in for the real time.
    #[staticmethod]
    #[pyo3(signature = (*, max_counters, clock))]
    fn memory(max_counters: usize, clock: Option<Py<PyAny>>) -> Self {
        let own = Arc::new(Clock::default());
        let source = clock.map_or_else(|| Source::Own(Arc::clone(&own)), Source::Callable);
        let store = Store::Memory(MemoryStore::new(MemoryOptions { max_counters }));
        Self::new(Shared::new(store, source), own)
    }

    /// An engine on a shared store, which is not asked before the first hit.
    #[staticmethod]
    #[pyo3(signature = (url, *, prefix, deadline_us, wait_replicas, is_raising))]
    fn redis(
        url: &str,
        prefix: Option<&str>,
        deadline_us: u64,
        wait_replicas: u32,
        is_raising: bool,
    ) -> PyResult<Self> {
        let clock = Arc::new(Clock::default());
        let store = redis(url, &clock, |options| {
            if let Some(prefix) = prefix {
                prefix.clone_into(&mut options.prefix);
            }
            options.deadline = Duration::from_micros(deadline_us);
            options.wait_replicas = wait_replicas;
        })?;
        let source = Source::Own(Arc::clone(&clock));
        Ok(Self::new(Shared::new(Store::Redis(store, is_raising), source), clock))
    }

    /// Ends the answering: handles raise from now on.
    fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
    }

    /// Holds the engine's own clock at that unix time in microseconds; 0 lets it run. Only in
    /// builds for tests.
    #[cfg_attr(feature = "fake-clock", expect(clippy::unnecessary_wraps, reason = "releases fail"))]
    #[cfg_attr(not(feature = "fake-clock"), expect(unused_variables, clippy::unused_self))]
    fn set_clock_us(&self, now_us: u64) -> PyResult<()> {
        #[cfg(feature = "fake-clock")]
        {
            self.clock.set_us(now_us);
            Ok(())
        }
        #[cfg(not(feature = "fake-clock"))]
        Err(errors::no_fake_clock())
    }

    /// Counters held in memory; 0 with a shared store.
    #[getter]
    fn counters(&self) -> usize {
        match &self.shared.store {
            Store::Memory(memory) => memory.counters(),
            Store::Redis(_, _) => 0,
        }
    }

    /// Decisions taken on shared counters because the memory store was full.
    #[getter]
    fn folded(&self) -> usize {
        match &self.shared.store {
            Store::Memory(memory) => memory.folded(),
            Store::Redis(_, _) => 0,
        }
    }
}

impl Engine {
    #[cfg_attr(
        not(feature = "fake-clock"),
        expect(unused_variables, clippy::needless_pass_by_value)
    )]
    fn new(shared: Shared, clock: Arc<Clock>) -> Self {
        Self {
            shared: Arc::new(shared),
            #[cfg(feature = "fake-clock")]
            clock,
        }
    }
}
