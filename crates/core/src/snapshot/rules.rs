//! The rules in memory: what a loaded snapshot is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use regex::bytes::Regex;
use serde::Deserialize;

use super::LimitUid;
use crate::algorithms::calendar::{Calendar, Unit};
use crate::algorithms::slots::Shape;
use crate::algorithms::{Algorithm, Numbers};
use crate::matching::{Action, Index};

pub(crate) type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A descriptor key's number within its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u16);

/// A kind of cost's number within its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindId(pub u16);

/// Everything needed to decide, immutable, with the revision that it was compiled from.
#[derive(Debug)]
pub struct RuleSet {
    /// The first 12 hex digits of the content's hash.
    pub revision: Arc<str>,
    pub(crate) domains: FastMap<Box<[u8]>, Domain>,
}

impl RuleSet {
    /// The domain of that name.
    #[inline]
    pub fn domain(&self, name: &[u8]) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// Gives up everything but the domain of that name.
    pub fn into_domain(mut self, name: &[u8]) -> Option<Domain> {
        self.domains.remove(name)
    }

    /// All domains, in no order.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values()
    }
}

/// One namespace of limits.
#[derive(Debug)]
pub struct Domain {
    /// Its name.
    pub name: Arc<str>,
    /// Its limits, in the order of the policy file; a limit with several rates has a rule each.
    pub rules: Vec<Rule>,
    pub(crate) keys: FastMap<Box<[u8]>, KeyId>,
    pub(crate) index: Index,
    /// The key whose values are the tenants, by number and by name.
    pub(crate) tenant_key: Option<(KeyId, Box<[u8]>)>,
    /// For each plan the numbers of the rules that it names; `None` is unlimited.
    pub(crate) plans: Vec<FastMap<u32, Option<Numbers>>>,
    /// Their names, in the same order.
    pub(crate) plan_names: Vec<Box<str>>,
    pub(crate) tenants: FastMap<Box<[u8]>, Tenant>,
}

/// A tenant's plan and overrides.
#[derive(Debug)]
pub struct Tenant {
    pub(crate) plan: Option<u32>,
    pub(crate) overrides: Box<[Override]>,
}

/// An exception for one tenant and limit, in force in [from, until).
#[derive(Debug)]
pub struct Override {
    pub(crate) rule: u32,
    pub(crate) from_us: i64,
    pub(crate) until_us: i64,
    pub(crate) numbers: Option<Numbers>,
}

/// What a limit does where a `per` key is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It does not apply.
    Skip,
    /// All requests that lack it share one counter.
    Shared,
    /// It denies.
    Deny,
}

/// What a limit does while its counter cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// It allows.
    Open,
    /// It denies.
    Closed,
    /// Each node allows its share; where that is not known, all.
    Local,
}

/// A sampled limit of fewer units for each above the first that one question stands for is refused:
/// what nodes hold unasked must be small beside it.
const LEAST_SAMPLED: u64 = 10_000;

/// Where a limit on a shared store is decided. In memory every decision is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// In the store.
    #[default]
    Exact,
    /// At the node, which tells the store what it admitted and hears of the others.
    Local,
    /// In the store, and at the node for counters that run hot there.
    Auto,
    /// At the node, which asks the store once for so many units, at least 2.
    Sampled(u32),
    /// In the store: in a Cluster by so many counters in several slots, 2 to 64, and on one server
    /// as [`Consistency::Exact`].
    Sharded(u8),
}

impl Consistency {
    /// The word for it in policy files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Local => "local",
            Self::Auto => "auto",
            Self::Sampled(_) => "sampled",
            Self::Sharded(_) => "sharded",
        }
    }

    /// The smallest limit that it takes, in units.
    pub(crate) const fn least(self) -> u64 {
        match self {
            Self::Exact | Self::Local | Self::Auto => 0,
            Self::Sampled(units) => LEAST_SAMPLED * (units as u64).saturating_sub(1),
            // Some parts would have none.
            Self::Sharded(parts) => parts as u64,
        }
    }

    /// True if a node may decide it by itself.
    #[inline]
    pub const fn is_at_node(self) -> bool {
        matches!(self, Self::Local | Self::Auto | Self::Sampled(_))
    }

    /// Into how many counters it is split where slots lie on several servers.
    #[inline]
    pub const fn parts(self) -> u8 {
        if let Self::Sharded(parts) = self { parts } else { 1 }
    }
}

/// One rate of one limit.
#[expect(clippy::struct_excessive_bools, reason = "each is a word that a policy says or not")]
#[derive(Debug)]
pub struct Rule {
    /// Its place in [`Domain::rules`].
    pub row: u32,
    /// The limit's id, as written.
    pub id: Arc<str>,
    /// The domain's name, part of every counter key.
    pub domain: Arc<str>,
    /// Names the counters of this limit in this process.
    pub uid: LimitUid,
    /// Which requests it counts: all must hold.
    pub when: Box<[Condition]>,
    /// Who gets a counter: one for each distinct combination of these values.
    pub per: Box<[KeyId]>,
    /// What happens without them.
    pub missing: Missing,
    /// The kind of cost that this limit takes.
    pub counts: Box<[u8]>,
    /// Its number: the same for rules of one domain that take the same kind.
    pub(crate) kind: KindId,
    /// How it counts.
    pub algorithm: Algorithm,
    /// Where the periods of a quota begin; of no other limit.
    pub calendar: Option<Arc<Calendar>>,
    /// How a sliding window is split; 1 whole one for every other limit.
    pub shape: Shape,
    /// True if the period is part of the counter's key.
    pub is_keyed_by_period: bool,
    /// Requests per period; `None` is unlimited.
    pub numbers: Option<Numbers>,
    /// What happens while the store is away.
    pub on_store_failure: OnStoreFailure,
    /// True if it counts and reports but never denies.
    pub is_shadow: bool,
    /// True if a charge is taken whatever this limit or another one says; never with a log.
    pub counts_denied: bool,
    /// True if a request may bring its own rate; never with a log.
    pub takes_request_rate: bool,
    /// Where it is decided; at a node only where [`Rule::may_be_local`], split only with counts that
    /// add up, and never in shadow.
    pub consistency: Consistency,
    /// Where in `per` the tenant's key stands.
    pub tenant_at: Option<usize>,
}

impl Rule {
    /// True if it may be decided away from the store.
    pub const fn may_be_local(&self) -> bool {
        may_be_local(self.algorithm, self.counts_denied, self.takes_request_rate)
    }

    /// True if this action is done to its counter whoever denies the request.
    #[inline]
    pub const fn is_charged_anyway(&self, action: Action) -> bool {
        self.counts_denied && matches!(action, Action::Charge(_))
    }
}

/// True if a limit that counts so may be decided away from the store.
pub(super) const fn may_be_local(
    algorithm: Algorithm,
    counts_denied: bool,
    takes_request_rate: bool,
) -> bool {
    let is_mirrored = matches!(
        algorithm,
        Algorithm::TokenBucket | Algorithm::FixedWindow | Algorithm::SlidingWindow
    );
    is_mirrored && !counts_denied && !takes_request_rate
}

/// One row of `when`: the key must be present and its value match.
#[derive(Debug)]
pub struct Condition {
    pub(crate) key: KeyId,
    pub(crate) is_negated: bool,
    pub(crate) any: Box<[Pattern]>,
}

impl Condition {
    /// True if the value satisfies this row.
    #[inline]
    pub fn holds(&self, value: &[u8]) -> bool {
        self.any.iter().any(|pattern| pattern.matches(value)) != self.is_negated
    }
}

/// A pattern for one value.
#[derive(Debug)]
pub enum Pattern {
    /// The same bytes.
    Exact(Box<[u8]>),
    /// Begins with these bytes.
    Prefix(Box<[u8]>),
    /// Matches anywhere unless anchored.
    Regex(Box<Regex>),
    /// An address inside this network; `::ffff:a.b.c.d` counts as IPv4.
    Cidr(IpNet),
}

impl Pattern {
    #[inline]
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => **text == *value,
            Self::Prefix(text) => value.starts_with(text),
            Self::Regex(regex) => regex.is_match(value),
            Self::Cidr(net) => address(value).is_some_and(|address| net.contains(&address)),
        }
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

impl Tenant {
    /// The exception for a rule that holds at a time: they stand with the latest start first.
    #[inline]
    pub(crate) fn in_force(&self, rule: &Rule, now: u64) -> Option<&Override> {
        let now = now as i64;
        let mut overrides = self.overrides.iter();
        overrides.find(|row| row.rule == rule.row && row.from_us <= now && now < row.until_us)
    }
}

impl Domain {
    /// The numbers of a rule for a tenant at a time: the override in force with the latest start,
    /// else the plan's, else the rule's own. `None` is unlimited. A rule without the tenant's key
    /// has the same numbers for all.
    #[inline]
    pub(crate) fn numbers(
        &self,
        rule: &Rule,
        tenant: Option<&Tenant>,
        now: u64,
    ) -> Option<Numbers> {
        let tenant = tenant.filter(|_| rule.tenant_at.is_some());
        let written = self.written_numbers(rule, tenant, now);
        match &rule.calendar {
            None => written,
            Some(calendar) => written.map(|numbers| in_calendar(calendar, numbers, now)),
        }
    }

    #[inline]
    fn written_numbers(&self, rule: &Rule, tenant: Option<&Tenant>, now: u64) -> Option<Numbers> {
        let Some(tenant) = tenant else { return rule.numbers };
        if let Some(row) = tenant.in_force(rule, now) {
            return row.numbers;
        }
        let plan = tenant.plan.map(|plan| &self.plans[plan as usize]);
        plan.and_then(|plan| plan.get(&rule.row)).copied().unwrap_or(rule.numbers)
    }
}

/// The numbers of a quota with the periods around `now`.
fn in_calendar(calendar: &Calendar, numbers: Numbers, now: u64) -> Numbers {
    let around = Unit::of_nominal(numbers.period_us).and_then(|unit| calendar.around(unit, now));
    around.map_or(numbers, |around| around.numbers(numbers.n))
}
