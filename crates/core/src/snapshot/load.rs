//! Bytes to rules: every number and pattern checked, the match index built.

use std::collections::HashMap;
use std::sync::Arc;

use regex::bytes::RegexBuilder;

use super::Identities;
use super::format::{
    DomainDoc, FORMAT, LimitDoc, MissingDoc, OnExceedDoc, OnStoreFailureDoc, OverrideDoc,
    PatternDoc, SnapshotDoc, TenantDoc, WhenDoc,
};
use super::rules::{
    Condition, Consistency, Domain, FastMap, KeyId, KindId, Missing, OnStoreFailure, Override,
    Pattern, Rule, RuleSet, Tenant, may_be_local,
};
use crate::algorithms::calendar::{Calendar, Table, Unit};
use crate::algorithms::slots::{MOST_SLOTS, Shape};
use crate::algorithms::{Algorithm, Numbers};
use crate::error::SnapshotError;
use crate::matching::Index;
use crate::units::{LONGEST_PERIOD_US, MAX};

const SECOND_US: u64 = 1_000_000;
const MOST_LOG_ENTRIES: u64 = 100_000;
const MOST_PARTS: u8 = 64;
/// Bytes of compiled program that one pattern may take.
const REGEX_SIZE: usize = 1 << 20;

impl RuleSet {
    /// Reads a snapshot. `identities` gives every limit the number that it had before.
    pub fn load(bytes: &[u8], identities: &mut Identities) -> Result<Self, SnapshotError> {
        let doc: SnapshotDoc = serde_json::from_slice(bytes)?;
        if doc.format != FORMAT {
            return Err(SnapshotError::Format { found: doc.format, expected: FORMAT });
        }
        let calendars = calendars(doc.calendars)?;
        let mut domains = FastMap::default();
        for domain_doc in doc.domains {
            let name = domain_doc.name.clone();
            let domain = domain(domain_doc, &calendars, identities)?;
            if domains.insert(Box::from(name.as_bytes()), domain).is_some() {
                return Err(SnapshotError::Domain { domain: name, problem: "named twice".into() });
            }
        }
        Ok(Self { revision: Arc::from(doc.revision), domains })
    }

    /// Checks a pattern as a policy file would use it; the message says what is wrong.
    pub fn check_regex(pattern: &str) -> Result<(), String> {
        compile_regex(pattern).map(|_| ()).map_err(|error| error.to_string())
    }
}

fn compile_regex(pattern: &str) -> Result<regex::bytes::Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(REGEX_SIZE).build()
}

/// The words of a domain by number: its descriptor keys, its kinds of cost.
#[derive(Default)]
struct Words {
    keys: FastMap<Box<[u8]>, KeyId>,
    kinds: FastMap<Box<[u8]>, KindId>,
}

impl Words {
    fn key(&mut self, key: &str) -> KeyId {
        let next = KeyId(self.keys.len() as u16);
        *self.keys.entry(Box::from(key.as_bytes())).or_insert(next)
    }

    fn kind(&mut self, kind: &str) -> KindId {
        let next = KindId(self.kinds.len() as u16);
        *self.kinds.entry(Box::from(kind.as_bytes())).or_insert(next)
    }
}

type Calendars = FastMap<String, Arc<Calendar>>;

fn calendars(
    doc: HashMap<String, HashMap<String, Vec<(u64, u64)>>>,
) -> Result<Calendars, SnapshotError> {
    let mut calendars = FastMap::default();
    for (zone, tables) in doc {
        let wrong = |unit: &str, problem: &str| SnapshotError::Calendar {
            zone: zone.clone(),
            problem: format!("{unit}: {problem}"),
        };
        let mut calendar = Calendar::new(Arc::from(zone.as_str()));
        for (word, runs) in tables {
            let unit = Unit::ALL.into_iter().find(|unit| unit.as_str() == word);
            let unit = unit.ok_or_else(|| wrong(&word, "no calendar period"))?;
            calendar.set(unit, Table::new(runs).map_err(|problem| wrong(&word, &problem))?);
        }
        calendars.insert(zone, Arc::new(calendar));
    }
    Ok(calendars)
}

fn domain(
    doc: DomainDoc,
    calendars: &Calendars,
    identities: &mut Identities,
) -> Result<Domain, SnapshotError> {
    let name: Arc<str> = Arc::from(doc.name.as_str());
    let mut words = Words::default();
    let tenant_key = doc.tenant_key.as_deref().map(|key| words.key(key));
    let tenant_name = doc.tenant_key.as_deref().map(|key| Box::from(key.as_bytes()));
    let mut rules = Vec::with_capacity(doc.limits.len());
    for limit in doc.limits {
        let id = limit.id.clone();
        let wrong = |problem| SnapshotError::Limit { domain: doc.name.clone(), limit: id, problem };
        let rule = calendar_of(&limit, calendars)
            .and_then(|calendar| {
                let row = rules.len() as u32;
                rule(row, &name, limit, calendar, tenant_key, &mut words, identities)
            })
            .map_err(wrong)?;
        rules.push(rule);
    }
    let wrong = |problem: String| SnapshotError::Domain { domain: doc.name.clone(), problem };
    if words.keys.len().max(words.kinds.len()) > usize::from(u16::MAX) {
        return Err(wrong("more than 65,535 different descriptor keys, or kinds of cost".into()));
    }
    let mut plans = Vec::with_capacity(doc.plans.len());
    let mut plan_names = Vec::with_capacity(doc.plans.len());
    for plan in doc.plans {
        let mut by_rule = FastMap::default();
        for (row, numbers) in plan.numbers {
            let rule = rules
                .get(row as usize)
                .ok_or_else(|| wrong(format!("plan {:?} names limit {row}", plan.name)))?;
            by_rule.insert(row, checked(numbers, &rule.counting()).map_err(&wrong)?);
        }
        plans.push(by_rule);
        plan_names.push(plan.name.into());
    }
    let mut tenants = FastMap::default();
    tenants.reserve(doc.tenants.len());
    for (id, doc) in doc.tenants {
        let tenant = tenant(&doc, &rules, plans.len())
            .map_err(|problem| wrong(format!("tenant {id:?}: {problem}")))?;
        tenants.insert(Box::from(id.as_bytes()), tenant);
    }
    let index = Index::build(&rules, words.keys.len());
    let tenant_key = tenant_key.zip(tenant_name);
    Ok(Domain { name, rules, keys: words.keys, index, tenant_key, plans, plan_names, tenants })
}

fn rule(
    row: u32,
    domain: &Arc<str>,
    doc: LimitDoc,
    calendar: Option<Arc<Calendar>>,
    tenant_key: Option<KeyId>,
    words: &mut Words,
    identities: &mut Identities,
) -> Result<Rule, String> {
    check_consistency(&doc)?;
    let shape = shape(&doc)?;
    let least = doc.consistency.least();
    let counting =
        Counting { algorithm: doc.algorithm, calendar: calendar.as_deref(), shape, least };
    let numbers = checked(doc.numbers, &counting)?;
    if doc.algorithm == Algorithm::Quota && (doc.request_override || !doc.keyed_by_period) {
        return Err("a quota with request_override, or not keyed by its period".into());
    }
    if doc.algorithm == Algorithm::SlidingLog && (doc.count_denied || doc.request_override) {
        return Err(
            "a sliding_log with count_denied or request_override: it could not be bounded".into()
        );
    }
    let when: Result<_, String> = doc.when.into_iter().map(|row| condition(row, words)).collect();
    let per: Box<[KeyId]> = doc.per.iter().map(|key| words.key(key)).collect();
    let tenant_at = per.iter().position(|key| Some(*key) == tenant_key);
    Ok(Rule {
        row,
        uid: identities.uid(domain, &doc.id, doc.algorithm),
        id: Arc::from(doc.id),
        domain: Arc::clone(domain),
        when: when?,
        per,
        missing: match doc.missing {
            MissingDoc::Skip => Missing::Skip,
            MissingDoc::Shared => Missing::Shared,
            MissingDoc::Deny => Missing::Deny,
        },
        kind: words.kind(&doc.counts),
        counts: Box::from(doc.counts.as_bytes()),
        algorithm: doc.algorithm,
        calendar,
        shape,
        is_keyed_by_period: doc.keyed_by_period,
        numbers,
        on_store_failure: match doc.on_store_failure {
            OnStoreFailureDoc::Open => OnStoreFailure::Open,
            OnStoreFailureDoc::Closed => OnStoreFailure::Closed,
            OnStoreFailureDoc::Local => OnStoreFailure::Local,
        },
        is_shadow: doc.on_exceed == OnExceedDoc::Shadow,
        counts_denied: doc.count_denied,
        takes_request_rate: doc.request_override,
        consistency: doc.consistency,
        tenant_at,
    })
}

fn condition(doc: WhenDoc, words: &mut Words) -> Result<Condition, String> {
    let any: Result<_, String> = doc.any.into_iter().map(pattern).collect();
    Ok(Condition { key: words.key(&doc.key), is_negated: doc.negate, any: any? })
}

fn pattern(doc: PatternDoc) -> Result<Pattern, String> {
    Ok(match doc {
        PatternDoc::Exact(text) => Pattern::Exact(Box::from(text.as_bytes())),
        PatternDoc::Prefix(text) => Pattern::Prefix(Box::from(text.as_bytes())),
        PatternDoc::Regex(text) => {
            let regex = compile_regex(&text).map_err(|error| format!("regex {text:?}: {error}"))?;
            Pattern::Regex(Box::new(regex))
        }
        PatternDoc::Cidr(text) => {
            Pattern::Cidr(text.parse().map_err(|_| format!("{text:?} is no network (a.b.c.d/n)"))?)
        }
    })
}

fn tenant(doc: &TenantDoc, rules: &[Rule], plans: usize) -> Result<Tenant, String> {
    if let Some(plan) = doc.plan.filter(|plan| *plan as usize >= plans) {
        return Err(format!("plan {plan} does not exist"));
    }
    let overrides: Result<_, String> =
        doc.overrides.iter().map(|row| dated_override(row, rules)).collect();
    Ok(Tenant { plan: doc.plan, overrides: overrides? })
}

fn dated_override(doc: &OverrideDoc, rules: &[Rule]) -> Result<Override, String> {
    let rule = rules
        .get(doc.limit as usize)
        .ok_or_else(|| format!("an override names limit {}", doc.limit))?;
    Ok(Override {
        rule: doc.limit,
        from_us: doc.from_us.unwrap_or(i64::MIN),
        until_us: doc.until_us.unwrap_or(i64::MAX),
        numbers: checked(doc.numbers, &rule.counting())?,
    })
}

/// What the numbers of a limit depend on.
struct Counting<'r> {
    algorithm: Algorithm,
    calendar: Option<&'r Calendar>,
    shape: Shape,
    /// The smallest that is not blocked, in units.
    least: u64,
}

impl Rule {
    fn counting(&self) -> Counting<'_> {
        Counting {
            algorithm: self.algorithm,
            calendar: self.calendar.as_deref(),
            shape: self.shape,
            least: self.consistency.least(),
        }
    }
}

/// A quota has a zone, whose calendar is there; nothing else has one.
fn calendar_of(doc: &LimitDoc, calendars: &Calendars) -> Result<Option<Arc<Calendar>>, String> {
    match (&doc.time_zone, doc.algorithm == Algorithm::Quota) {
        (None, false) => Ok(None),
        (None, true) => Err("a quota without a time zone".into()),
        (Some(_), false) => Err("a time zone without a quota".into()),
        (Some(zone), true) => match calendars.get(zone) {
            Some(calendar) => Ok(Some(Arc::clone(calendar))),
            None if doc.numbers.is_none() => Ok(Some(Arc::new(Calendar::new(Arc::from(&**zone))))),
            None => Err(format!("no calendar of {zone:?}")),
        },
    }
}

fn checked(numbers: Option<Numbers>, counting: &Counting<'_>) -> Result<Option<Numbers>, String> {
    let algorithm = counting.algorithm;
    let Some(Numbers { n, period_us, burst }) = numbers else { return Ok(None) };
    if n > MAX || burst > MAX {
        return Err(format!("rate {n}, burst {burst}: must be below 2^53"));
    }
    if period_us % SECOND_US != 0 || !(SECOND_US..=LONGEST_PERIOD_US).contains(&period_us) {
        return Err(format!("period of {period_us} us: must be whole seconds, 1 s to 366 days"));
    }
    if n > 0 && burst == 0 {
        return Err("burst 0: nothing could ever pass".into());
    }
    let numbers = Numbers { n, period_us, burst };
    if n > 0 && numbers.capacity(algorithm) < counting.least {
        return Err(format!("rate {n}, burst {burst}: too small for the limit's consistency"));
    }
    if let Some(calendar) = counting.calendar {
        let unit = Unit::of_nominal(period_us)
            .ok_or_else(|| format!("a quota of {period_us} us: no calendar period"))?;
        if !calendar.has(unit) {
            return Err(format!("no {} in the calendar of {:?}", unit.as_str(), calendar.zone));
        }
    }
    if algorithm == Algorithm::SlidingLog && n > MOST_LOG_ENTRIES {
        return Err(format!("a sliding_log of {n}: at most {MOST_LOG_ENTRIES}"));
    }
    if algorithm == Algorithm::SlidingSlots {
        return Ok(Some(Numbers { n, period_us, burst: counting.shape.packed() }));
    }
    Ok(Some(numbers))
}

/// Slots belong to one algorithm, whose counters are keyed by them; everything else is whole.
fn shape(doc: &LimitDoc) -> Result<Shape, String> {
    let shape = Shape { slots: doc.slots, is_conservative: doc.conservative };
    let is_split = shape != Shape { slots: 1, is_conservative: false };
    if is_split != (doc.algorithm == Algorithm::SlidingSlots)
        || !(1..=MOST_SLOTS).contains(&doc.slots)
    {
        return Err(format!("{} slots of a {}", doc.slots, doc.algorithm.as_str()));
    }
    if is_split && !doc.keyed_by_period {
        return Err("slots not keyed by their period".into());
    }
    Ok(shape)
}

/// What may be decided elsewhere than by one counter in the store.
fn check_consistency(doc: &LimitDoc) -> Result<(), String> {
    use Algorithm::{FixedWindow, Quota, SlidingLog};
    let algorithm = doc.algorithm;
    let is_taken = match doc.consistency {
        Consistency::Exact => return Ok(()),
        Consistency::Local | Consistency::Auto | Consistency::Sampled(_) => {
            may_be_local(algorithm, doc.count_denied, doc.request_override)
        }
        Consistency::Sharded(parts) if !(2..=MOST_PARTS).contains(&parts) => {
            return Err(format!("sharded: {parts}: must be 2 to {MOST_PARTS}"));
        }
        Consistency::Sharded(_) => {
            matches!(algorithm, FixedWindow | SlidingLog | Quota)
                && doc.on_exceed != OnExceedDoc::Shadow
        }
    };
    if is_taken && !doc.count_denied && !doc.request_override {
        return Ok(());
    }
    Err(format!(
        "consistency: {:?} of a {}, or beside count_denied, request_override or shadow",
        doc.consistency,
        algorithm.as_str()
    ))
}
