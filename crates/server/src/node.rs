//! One running data plane: the policy in force, the counters, the clock, and what is told of them.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use parking_lot::Mutex;
use tidegate_core::{Identities, RuleSet, SnapshotError};
use tidegate_counters::{Clock, LoadError, Loaded, SaveError, SaveTimes, Saved};
use tokio::sync::watch;

use crate::explain::Ring;
use crate::hot::Hot;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::traces::{Asked, Parent, Span, Spans};

/// Denials that a node keeps unless told otherwise.
pub const DENIALS_KEPT: usize = 4096;

/// Requests wait for the store for a few milliseconds, so none outlives this.
const LONGEST_REQUEST_MS: u32 = 50;

/// Everything that decides. Shared by all doors of a process, and used without any door by
/// programs that decide in process; needs no runtime on the memory store.
#[derive(Debug)]
pub struct Node {
    pub(crate) policy: ArcSwapOption<RuleSet>,
    pub(crate) store: Store,
    pub(crate) clock: Arc<Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) denials: Ring,
    pub(crate) hot: Hot,
    // None: no request is traced.
    spans: Option<Arc<Spans>>,
    // Guards the numbers of limits, and makes loads follow one another.
    identities: Mutex<Identities>,
    // Guards what is said about reloads.
    reloads: Mutex<Reloads>,
    is_ready: watch::Sender<Readiness>,
}

/// Whether requests should be sent here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A policy is in force.
    pub has_policy: bool,
    /// Service is about to end.
    pub is_draining: bool,
}

impl Readiness {
    /// True if requests should come. The store plays no part: a dead store must not take every
    /// node out of the balancer.
    pub const fn is_ready(self) -> bool {
        self.has_policy && !self.is_draining
    }
}

/// What is said about the loading of policies.
#[derive(Clone, Debug, Default)]
pub struct Reloads {
    /// When the policy in force was loaded, unix microseconds; 0 before the first.
    pub loaded_at_us: u64,
    /// Policies that were refused since the start.
    pub failures: u64,
    /// Why the newest policy was refused; none once a later one is in force.
    pub last_error: Option<String>,
}

/// Waits until the last request that began with a policy has ended, and frees it here: the
/// tenants of a large one take longer to free than a request may take.
fn retire(policy: Arc<RuleSet>) {
    for _ in 0..LONGEST_REQUEST_MS {
        if Arc::strong_count(&policy) == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    drop(policy);
}

impl Node {
    /// A node without a policy, not ready yet.
    pub fn new(store: Store, clock: Arc<Clock>) -> Self {
        Self {
            policy: ArcSwapOption::empty(),
            store,
            clock,
            metrics: Metrics::default(),
            denials: Ring::new(DENIALS_KEPT),
            hot: Hot::new(true),
            spans: None,
            identities: Mutex::default(),
            reloads: Mutex::default(),
            is_ready: watch::Sender::new(Readiness::default()),
        }
    }

    /// Keeps so many of the last denials in place of [`DENIALS_KEPT`]; each takes 1 KiB at most.
    #[must_use]
    pub fn keeping_denials(mut self, places: usize) -> Self {
        self.denials = Ring::new(places);
        self
    }

    /// Counts nothing and looks for no hot counters, for a measure of what that costs.
    #[must_use]
    pub fn without_metrics(mut self) -> Self {
        self.metrics = Metrics::new(false);
        self.hot = Hot::new(false);
        self
    }

    /// Keeps spans of requests that come with a sampled trace.
    #[must_use]
    pub fn with_traces(mut self) -> Self {
        self.spans = Some(Arc::default());
        self
    }

    /// Puts a compiled snapshot in force and returns its revision. Requests under way finish
    /// with the policy that they began with.
    ///
    /// # Errors
    /// The snapshot cannot be used; the policy in force stays, and the failure is noted.
    pub fn load(&self, snapshot: &[u8]) -> Result<Arc<str>, SnapshotError> {
        let mut identities = self.identities.lock();
        let rules = match RuleSet::load(snapshot, &mut identities) {
            Ok(rules) => rules,
            Err(error) => {
                self.note_reload_failure(error.to_string());
                return Err(error);
            }
        };
        let revision = Arc::clone(&rules.revision);
        self.metrics.learn(&rules);
        self.store.run(&revision);
        let before = self.policy.swap(Some(Arc::new(rules)));
        {
            let mut reloads = self.reloads.lock();
            reloads.loaded_at_us = self.clock.now_us();
            reloads.last_error = None;
        }
        self.is_ready.send_if_modified(|state| !std::mem::replace(&mut state.has_policy, true));
        before.into_iter().for_each(retire);
        Ok(revision)
    }

    /// Puts what the counters in memory hold into a file, in place of the one before; none if the
    /// store is shared. For a node that serves no more.
    ///
    /// # Errors
    /// The file cannot be written, or is one of another kind.
    pub fn save_state(&self, path: &Path) -> Result<Option<Saved>, SaveError> {
        let identities = self.identities.lock();
        let times = SaveTimes { clock_us: self.clock.now_us(), wall_us: self.clock.wall_us() };
        self.store.save(path, &identities, times)
    }

    /// Takes up what [`Node::save_state`] left; none if it left nothing. For a node that does not
    /// serve yet.
    ///
    /// # Errors
    /// The file cannot be read or used; nothing of it is taken up.
    pub fn load_state(&self, path: &Path) -> Result<Option<Loaded>, LoadError> {
        let mut identities = self.identities.lock();
        self.store.load(path, &mut identities, self.clock.now_us())
    }

    /// Notes that a policy never became a snapshot, for `/readyz` and the metrics.
    pub fn note_reload_failure(&self, why: impl Into<String>) {
        let mut reloads = self.reloads.lock();
        reloads.failures += 1;
        reloads.last_error = Some(why.into());
    }

    /// Notes that the policy on offer is the one in force again, after one that was refused.
    pub fn clear_reload_failure(&self) {
        self.reloads.lock().last_error = None;
    }

    /// The revision in force.
    pub fn revision(&self) -> Option<Arc<str>> {
        self.policy.load().as_ref().map(|rules| Arc::clone(&rules.revision))
    }

    /// What is said about reloads.
    pub fn reloads(&self) -> Reloads {
        self.reloads.lock().clone()
    }

    /// Whether requests should be sent here.
    pub fn readiness(&self) -> Readiness {
        *self.is_ready.borrow()
    }

    /// Tells of every change of readiness.
    pub fn watch_readiness(&self) -> watch::Receiver<Readiness> {
        self.is_ready.subscribe()
    }

    /// Says at every door that no further requests should come; those that come are answered.
    pub fn start_draining(&self) {
        self.is_ready.send_if_modified(|state| !std::mem::replace(&mut state.is_draining, true));
    }

    /// Where the counters live.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The clock of this node.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The last denials.
    pub const fn denials(&self) -> &Ring {
        &self.denials
    }

    /// The counters that most decisions meet.
    pub const fn hot(&self) -> &Hot {
        &self.hot
    }

    /// The spans that wait to be sent; none if no request is traced.
    pub const fn spans(&self) -> Option<&Arc<Spans>> {
        self.spans.as_ref()
    }

    /// True if a request with these headers gets a span.
    #[inline]
    pub fn is_traced(&self, headers: &HeaderMap) -> bool {
        self.spans.is_some() && Parent::of(headers).is_some()
    }

    /// Begins the span of a request with these headers; an empty one if it is not traced.
    #[inline]
    pub fn span(&self, headers: &HeaderMap, asked: impl FnOnce() -> Asked) -> Span {
        let Some(spans) = &self.spans else { return Span::default() };
        let Some(parent) = Parent::of(headers) else { return Span::default() };
        Span::begin(spans, self, parent, headers, asked())
    }

    /// What was counted about decisions.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
