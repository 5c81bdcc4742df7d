//! Callers that block, on a Cluster: each thread drives the lines of its own, and only while it
//! waits, so that no thread of ours runs.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::Plan;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, yield_now};
use tokio::time::timeout;

use super::backoff::Backoff;
use super::error::StoreError;
use super::handle::RedisHandle;
use super::store::Shared;
use crate::Outcomes;
use crate::clock::Deadline;
use crate::join::join;

/// What an attempt to come back may take from a caller.
const SHORT_ATTEMPT: Duration = Duration::from_millis(20);

thread_local! {
    static CALLERS: RefCell<Vec<Caller>> = const { RefCell::new(Vec::new()) };
    static IS_WARM: Cell<bool> = const { Cell::new(false) };
}

/// One thread's lines to one Cluster.
struct Caller {
    store: Weak<Shared>,
    /// A child of a fork must not speak on its parent's sockets.
    process: u32,
    handle: RedisHandle,
    local: LocalSet,
    runtime: Runtime,
    backoff: Backoff,
    /// When the next attempt to come back may be waited for; none before the first call.
    rest: Option<Deadline>,
}

/// Decides the plans in order, in one trip.
pub(super) fn decide(
    shared: &Arc<Shared>,
    plans: &[Plan<'_>],
) -> Vec<Result<Outcomes, StoreError>> {
    with_caller(shared, |caller| {
        caller.come_back(shared);
        let Caller { handle, local, runtime, .. } = caller;
        let decided = async { join(plans.iter().map(|plan| handle.decide(plan))).await };
        local.block_on(runtime, decided)
    })
    .unwrap_or_else(|error| plans.iter().map(|_| Err(error.clone())).collect())
}

/// Forgets the counters that a plan meets.
pub(super) fn reset(shared: &Arc<Shared>, plan: &Plan<'_>) -> Result<(), StoreError> {
    with_caller(shared, |caller| {
        caller.come_back(shared);
        let Caller { handle, local, runtime, .. } = caller;
        local.block_on(runtime, handle.reset(plan))
    })?
}

fn with_caller<T>(
    shared: &Arc<Shared>,
    run: impl FnOnce(&mut Caller) -> T,
) -> Result<T, StoreError> {
    // A thread that ends lets go in the reverse order of first use. What a runtime itself keeps
    // for the thread must outlive our runtimes, so it is used before our list is.
    if !IS_WARM.replace(true) {
        Caller::new(shared, std::process::id())?;
    }
    CALLERS.with_borrow_mut(|callers| {
        let process = std::process::id();
        for caller in callers.extract_if(.., |caller| caller.process != process) {
            // To close it here would take the parent's sockets out of the poll they share.
            std::mem::forget(caller);
        }
        callers.retain(|caller| caller.store.strong_count() > 0);
        let ours = Arc::as_ptr(shared);
        let known = callers.iter().position(|caller| caller.store.as_ptr() == ours);
        let at = if let Some(at) = known {
            at
        } else {
            callers.push(Caller::new(shared, process)?);
            callers.len() - 1
        };
        Ok(run(&mut callers[at]))
    })
}

impl Caller {
    fn new(shared: &Arc<Shared>, process: u32) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|e| StoreError::Disconnected { why: e.to_string().into() })?;
        let local = LocalSet::new();
        let spawn = async { RedisHandle::spawn(Arc::clone(shared)) };
        let handle = local.block_on(&runtime, spawn);
        let store = Arc::downgrade(shared);
        Ok(Self { store, process, handle, local, runtime, backoff: Backoff::new(), rest: None })
    }

    /// Lets the lines see what has happened since the last call, and waits a while for those
    /// that are down.
    fn come_back(&mut self, shared: &Shared) {
        let Self { handle, local, runtime, .. } = self;
        local.block_on(runtime, yield_now());
        if handle.is_up() {
            self.backoff.reset();
            return;
        }
        if self.rest.is_some_and(|rest| !rest.is_over()) {
            return;
        }
        let is_doubtful = self.rest.is_some() || shared.health.has_failed();
        let most = shared.options.connect_timeout;
        let budget = if is_doubtful { SHORT_ATTEMPT.min(most) } else { most };
        let connected = async { timeout(budget, handle.connected()).await };
        let _ = local.block_on(runtime, connected);
        self.rest = Some(Deadline::after(self.backoff.wait()));
    }
}
