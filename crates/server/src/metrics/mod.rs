//! What was counted about decisions. Labels come from the policy, never from a request.

mod rows;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::{Decision, Domain, RuleSet};

use crate::store::StoreFailure;
use rows::{Cell, Rows};
pub use text::{Kind, Page};

/// The domain's label of requests that meet no limit by name: unknown domains, or such without
/// limits.
const OTHER: &str = "other";

/// Running totals since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    rows: Rows,
    // Guards the names of limits by their number; written by loads, read by the metrics page.
    names: Mutex<Vec<LimitName>>,
    // Guards decisions without the store, by reason; touched only while the store is away.
    failures: Mutex<BTreeMap<&'static str, u64>>,
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
}

impl Metrics {
    /// Learns the names of a policy's limits before it is put in force.
    pub(crate) fn learn(&self, rules: &RuleSet) {
        let mut names = self.names.lock();
        for rule in rules.domains().flat_map(|domain| &domain.rules) {
            let at = rule.uid.0 as usize;
            if names.len() <= at {
                let unknown = LimitName { domain: OTHER.into(), id: OTHER.into() };
                names.resize(at + 1, unknown);
            }
            names[at] = LimitName { domain: rule.domain.clone(), id: rule.id.clone() };
        }
    }

    /// Counts a decision: for the domain once, for each limit that it met once.
    #[inline]
    pub(crate) fn record(&self, domain: Option<&Domain>, decision: &Decision<'_>) {
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
        }
    }

    /// Counts a decision that the store gave no answer for.
    pub(crate) fn record_store_failure(&self, failure: StoreFailure) {
        *self.failures.lock().entry(failure.0).or_default() += 1;
    }

    /// Decisions without the store, by reason.
    pub fn degraded(&self) -> BTreeMap<&'static str, u64> {
        self.failures.lock().clone()
    }

    /// Decisions by domain.
    pub fn by_domain(&self) -> BTreeMap<Arc<str>, Totals> {
        let mut all: BTreeMap<Arc<str>, Totals> = BTreeMap::new();
        all.insert(
            OTHER.into(),
            Totals {
                allowed: self.rows.other(Cell::DomainAllowed),
                denied: self.rows.other(Cell::DomainDenied),
                shadow_denied: 0,
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
        }
        all
    }
}
