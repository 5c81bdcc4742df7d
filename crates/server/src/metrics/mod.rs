//! What was counted about decisions. Labels come from the policy, never from a request.

mod histogram;
mod rows;
mod text;

use std::cell::Cell as ThreadCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::{Decision, Domain, RuleSet};
use tidegate_counters::Stopwatch;

use crate::store::StoreFailure;
pub(crate) use histogram::Histogram;
use rows::{Cell, Rows};
pub use text::{Kind, Page};

/// The domain's label of requests that meet no limit by name: unknown domains, or such without
/// limits. No policy can name a domain so.
const NO_DOMAIN: &str = "";
/// A request of a thread that is timed comes after so many others that are not.
const TIMED_EVERY: u32 = 16;
/// A limit is near its end when it has at most one in so many left.
const NEAR: u64 = 5;

/// Running totals since the start.
#[derive(Debug)]
pub struct Metrics {
    is_on: bool,
    rows: Rows,
    took: [Histogram; Timed::ALL.len()],
    // Guards the names of limits by their number; written by loads, read by the metrics page.
    names: Mutex<Vec<LimitName>>,
    // Guards decisions without the store, by reason; touched only while the store is away.
    failures: Mutex<BTreeMap<&'static str, u64>>,
    // The same by the class of the error.
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// From a gRPC message to its answer.
    Grpc,
    /// From the head of an HTTP request to its answer.
    Http,
    /// From a question to a shared store to its answer.
    Store,
}

impl Timed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Grpc, Self::Http, Self::Store];
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(true)
    }
}

#[derive(Clone, Debug)]
struct LimitName {
    domain: Arc<str>,
    id: Arc<str>,
}

/// Totals of one limit or one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Passed.
    pub allowed: u64,
    /// Refused.
    pub denied: u64,
    /// Would have been refused by a limit in shadow; limits only.
    pub shadow_denied: u64,
    /// Passed with at most a fifth left; limits only.
    pub near: u64,
}

impl Metrics {
    /// Totals that start at 0; off, they stay there.
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            rows: Rows::default(),
            took: std::array::from_fn(|_| Histogram::default()),
            names: Mutex::default(),
            failures: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// Starts to time a request, if it is one to be timed: reading the clock costs as much as
    /// several counters, so each thread times one request in 16.
    #[inline]
    pub fn watch(&self, what: Timed) -> Option<Stopwatch> {
        thread_local! {
            static SEEN: [ThreadCell<u32>; Timed::ALL.len()] =
                const { [const { ThreadCell::new(0) }; Timed::ALL.len()] };
        }
        if !self.is_on {
            return None;
        }
        let seen = SEEN.with(|seen| {
            let seen = &seen[what as usize];
            seen.replace(seen.get().wrapping_add(1))
        });
        seen.is_multiple_of(TIMED_EVERY).then(Stopwatch::start)
    }

    /// Notes how long it took.
    #[inline]
    pub fn took(&self, what: Timed, watch: Option<Stopwatch>) {
        if let Some(watch) = watch {
            self.took[what as usize].observe(watch.elapsed_ns());
        }
    }

    /// How long things took.
    pub(crate) const fn times(&self, what: Timed) -> &Histogram {
        &self.took[what as usize]
    }

    /// Learns the names of a policy's limits before it is put in force.
    pub(crate) fn learn(&self, rules: &RuleSet) {
        let mut names = self.names.lock();
        for rule in rules.domains().flat_map(|domain| &domain.rules) {
            let at = rule.uid.0 as usize;
            if names.len() <= at {
                let unknown = LimitName { domain: NO_DOMAIN.into(), id: NO_DOMAIN.into() };
                names.resize(at + 1, unknown);
            }
            names[at] = LimitName { domain: rule.domain.clone(), id: rule.id.clone() };
        }
    }

    /// Counts a decision: for the domain once, for each limit that it met once.
    #[inline]
    pub(crate) fn record(&self, domain: Option<&Domain>, decision: &Decision<'_>) {
        if !self.is_on {
            return;
        }
        let stripe = self.rows.stripe();
        // A domain has no number of its own; the first of its limits lends it one.
        let first = domain.and_then(|domain| domain.rules.first());
        let cell = if decision.allowed { Cell::DomainAllowed } else { Cell::DomainDenied };
        match first {
            Some(rule) => stripe.add(rule.uid, cell),
            None => stripe.add_other(cell),
        }
        for report in &decision.limits {
            let cell = match (report.allowed, report.rule.is_shadow) {
                (true, _) => Cell::LimitAllowed,
                (false, false) => Cell::LimitDenied,
                (false, true) => Cell::LimitShadowDenied,
            };
            stripe.add(report.rule.uid, cell);
            // What the store did not say is not near.
            let left = report.remaining.saturating_mul(NEAR);
            if report.allowed && left <= report.limit() && !report.is_unasked {
                stripe.add(report.rule.uid, Cell::LimitNear);
            }
        }
    }

    /// Counts a decision that the store gave no answer for.
    pub(crate) fn record_store_failure(&self, failure: StoreFailure) {
        *self.failures.lock().entry(failure.reason).or_default() += 1;
        *self.errors.lock().entry(failure.class).or_default() += 1;
    }

    /// Decisions without the store, by reason.
    pub fn degraded(&self) -> BTreeMap<&'static str, u64> {
        self.failures.lock().clone()
    }

    /// Decisions without the store, by the class of its error.
    pub fn store_errors(&self) -> BTreeMap<&'static str, u64> {
        self.errors.lock().clone()
    }

    /// Decisions by domain.
    pub fn by_domain(&self) -> BTreeMap<Arc<str>, Totals> {
        let mut all: BTreeMap<Arc<str>, Totals> = BTreeMap::new();
        all.insert(
            NO_DOMAIN.into(),
            Totals {
                allowed: self.rows.other(Cell::DomainAllowed),
                denied: self.rows.other(Cell::DomainDenied),
                ..Totals::default()
            },
        );
        for (at, name) in self.names.lock().iter().enumerate() {
            let totals = all.entry(name.domain.clone()).or_default();
            totals.allowed += self.rows.total(at, Cell::DomainAllowed);
            totals.denied += self.rows.total(at, Cell::DomainDenied);
        }
        all
    }

    /// Decisions by domain and limit.
    pub fn by_limit(&self) -> BTreeMap<(Arc<str>, Arc<str>), Totals> {
        let mut all: BTreeMap<(Arc<str>, Arc<str>), Totals> = BTreeMap::new();
        for (at, name) in self.names.lock().iter().enumerate() {
            let totals = all.entry((name.domain.clone(), name.id.clone())).or_default();
            totals.allowed += self.rows.total(at, Cell::LimitAllowed);
            totals.denied += self.rows.total(at, Cell::LimitDenied);
            totals.shadow_denied += self.rows.total(at, Cell::LimitShadowDenied);
            totals.near += self.rows.total(at, Cell::LimitNear);
        }
        all
    }
}
