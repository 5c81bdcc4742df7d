//! Why a limit applies to a request or does not, rule by rule. Says what [`Plan`] does; a test
//! holds that they never differ.
//!
//! [`Plan`]: super::Plan

use crate::algorithms::Numbers;
use crate::snapshot::{Condition, Domain, KeyId, Missing, Pattern, Rule};

/// Patterns of one condition that are told.
const MOST_PATTERNS: usize = 5;

/// One rule, held against one descriptor.
#[derive(Clone, Debug)]
pub struct Explained<'r> {
    /// The rule.
    pub rule: &'r Rule,
    /// Whether it applies.
    pub fate: Fate,
    /// Each row of `when`.
    pub conditions: Vec<Tested<'r>>,
    /// Each key of `per`, with the descriptor's value.
    pub per: Vec<(&'r [u8], Option<Vec<u8>>)>,
    /// False if the request brings no cost of the kind that this limit counts.
    pub has_cost: bool,
    /// The numbers in force; none is unlimited.
    pub numbers: Option<Numbers>,
    /// Where they come from.
    pub source: Source<'r>,
}

/// Whether a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has a counter for this request, or denies it without one.
    Applies,
    /// It matches, and its numbers are unlimited.
    Unlimited,
    /// It does not match.
    Differs,
}

/// One row of `when`, held against a value.
#[derive(Clone, Debug)]
pub struct Tested<'r> {
    /// The key.
    pub key: &'r [u8],
    /// The descriptor's value.
    pub value: Option<Vec<u8>>,
    /// True if the row holds.
    pub holds: bool,
    /// What the policy asks of the value, as it would be written there.
    pub wants: String,
    /// The pattern that matched.
    pub matched: Option<String>,
}

/// Where the numbers in force come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'r> {
    /// The limit itself.
    Limit,
    /// The tenant's plan.
    Plan(&'r str),
    /// An exception for the tenant, in force in [from, until), unix microseconds.
    Override {
        /// None: since ever.
        from_us: Option<i64>,
        /// None: for good.
        until_us: Option<i64>,
    },
}

impl Explained<'_> {
    /// How many things would have to be otherwise for the rule to match.
    pub fn distance(&self) -> usize {
        let missing = self.missing().count();
        let failed = self.conditions.iter().filter(|row| !row.holds).count();
        failed + missing + usize::from(!self.has_cost)
    }

    /// The keys of `per` for whose lack the rule does not apply.
    pub fn missing(&self) -> impl Iterator<Item = &[u8]> {
        let skips = self.rule.missing == Missing::Skip;
        let lacking = self.per.iter().filter(move |(_, value)| skips && value.is_none());
        lacking.map(|(key, _)| *key)
    }
}

/// Holds every rule of a domain against a descriptor, in the order of the policy file.
pub fn explain<'r>(
    domain: &'r Domain,
    entries: &[(&[u8], &[u8])],
    costs: &[(&[u8], u64)],
    now: u64,
) -> Vec<Explained<'r>> {
    let request = Request { keys: names(domain), entries, costs, now };
    domain.rules.iter().map(|rule| request.explain(domain, rule)).collect()
}

struct Request<'r, 'a> {
    keys: Vec<&'r [u8]>,
    entries: &'a [(&'a [u8], &'a [u8])],
    costs: &'a [(&'a [u8], u64)],
    now: u64,
}

/// The keys by their numbers.
fn names(domain: &Domain) -> Vec<&[u8]> {
    let mut names: Vec<&[u8]> = vec![b""; domain.keys.len()];
    for (name, id) in &domain.keys {
        names[usize::from(id.0)] = name;
    }
    names
}

impl<'r> Request<'r, '_> {
    fn explain(&self, domain: &'r Domain, rule: &'r Rule) -> Explained<'r> {
        let conditions: Vec<_> = rule.when.iter().map(|row| self.test(row)).collect();
        let per = rule.per.iter().map(|key| (self.name(*key), self.value(*key)));
        let tenant = rule.tenant_at.and_then(|at| self.value(rule.per[at]));
        let (numbers, source) = domain.sourced_numbers(rule, tenant.as_deref(), self.now);
        let mut explained = Explained {
            rule,
            fate: Fate::Differs,
            conditions,
            per: per.collect(),
            has_cost: self.costs.iter().any(|(kind, _)| **kind == *rule.counts),
            numbers,
            source,
        };
        if explained.distance() == 0 {
            explained.fate = if numbers.is_some() { Fate::Applies } else { Fate::Unlimited };
        }
        explained
    }

    fn name(&self, key: KeyId) -> &'r [u8] {
        self.keys[usize::from(key.0)]
    }

    /// Of a repeated key the first.
    fn value(&self, key: KeyId) -> Option<Vec<u8>> {
        let name = self.name(key);
        self.entries.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_vec())
    }

    fn test(&self, row: &'r Condition) -> Tested<'r> {
        let value = self.value(row.key);
        let matching = |value: &Vec<u8>| row.any.iter().find(|pattern| pattern.matches(value));
        Tested {
            key: self.name(row.key),
            holds: value.as_ref().is_some_and(|value| row.holds(value)),
            wants: wants(row),
            matched: value.as_ref().and_then(matching).map(written),
            value,
        }
    }
}

fn wants(row: &Condition) -> String {
    let told: Vec<_> = row.any.iter().take(MOST_PATTERNS).map(written).collect();
    let mut text = told.join(" or ");
    if let Some(more) = row.any.len().checked_sub(MOST_PATTERNS).filter(|more| *more > 0) {
        text = format!("{text} or one of {more} more");
    }
    if row.is_negated { format!("not {text}") } else { text }
}

/// A pattern as a policy file has it.
fn written(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(text) => String::from_utf8_lossy(text).into_owned(),
        Pattern::Prefix(text) => format!("{}*", String::from_utf8_lossy(text)),
        Pattern::Regex(regex) => format!("regex {}", regex.as_str()),
        Pattern::Cidr(net) => net.to_string(),
    }
}

impl Domain {
    /// What [`Domain::numbers`] gives, and where it comes from.
    fn sourced_numbers(
        &self,
        rule: &Rule,
        tenant: Option<&[u8]>,
        now: u64,
    ) -> (Option<Numbers>, Source<'_>) {
        let tenant = tenant.and_then(|tenant| self.tenants.get(tenant));
        let numbers = self.numbers(rule, tenant, now);
        let Some(tenant) = tenant else {
            return (numbers, Source::Limit);
        };
        if let Some(row) = tenant.in_force(rule, now) {
            let dated = |us: i64| (us != i64::MIN && us != i64::MAX).then_some(us);
            let (from_us, until_us) = (dated(row.from_us), dated(row.until_us));
            return (numbers, Source::Override { from_us, until_us });
        }
        let plan = tenant.plan.map(|plan| plan as usize);
        match plan.filter(|plan| self.plans[*plan].contains_key(&rule.row)) {
            Some(plan) => (numbers, Source::Plan(&self.plan_names[plan])),
            None => (numbers, Source::Limit),
        }
    }
}
