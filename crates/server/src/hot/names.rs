//! What a hot counter is called: its limit and the values that it counts for, cut to a bounded
//! length when they are kept.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::matching::Named;
use tidegate_core::{Domain, Plan, Rule, RuleSet};

use crate::explain::{Cut, ENTRY, Reader, put_text};
use crate::pipeline::Ask;

/// Bytes of values that are kept of one counter.
const LONGEST: usize = 512;
/// The longest pair of a key and a value.
const LONGEST_PAIR: usize = 2 * (ENTRY + 10) + 1;
/// What stands before a key that has a value, and before one that has none.
const HAS_VALUE: u8 = 1;
const LACKS_VALUE: u8 = 2;

/// The names of one counter.
#[derive(Clone, Debug)]
pub struct Names {
    // Of the policy by which they were found: another may count by other keys.
    revision: Arc<str>,
    pub domain: Arc<str>,
    pub id: Arc<str>,
    // Pairs of key and value, packed.
    values: Vec<u8>,
    pub values_left_out: u64,
}

impl Names {
    fn new<'v>(
        rules: &RuleSet,
        rule: &Rule,
        values: impl Iterator<Item = (&'v [u8], Option<&'v [u8]>)>,
    ) -> Self {
        let (mut packed, mut values_left_out) = (Vec::new(), 0);
        for (key, value) in values {
            if packed.len() + LONGEST_PAIR > LONGEST {
                values_left_out += 1;
                continue;
            }
            packed.push(if value.is_some() { HAS_VALUE } else { LACKS_VALUE });
            put_text(&mut packed, key, ENTRY);
            put_text(&mut packed, value.unwrap_or_default(), ENTRY);
        }
        Self {
            revision: Arc::clone(&rules.revision),
            domain: Arc::clone(&rule.domain),
            id: Arc::clone(&rule.id),
            values: packed,
            values_left_out,
        }
    }

    /// True if they were found by this very policy.
    pub fn is_of(&self, rules: &RuleSet) -> bool {
        Arc::ptr_eq(&self.revision, &rules.revision)
    }

    /// The keys that it counts by with their values; none where requests lack one.
    pub fn values(&self) -> impl Iterator<Item = (Cut<'_>, Option<Cut<'_>>)> {
        let mut reader = Reader(&self.values);
        std::iter::from_fn(move || {
            if reader.0.is_empty() {
                return None;
            }
            let has_value = reader.byte() == HAS_VALUE;
            let (key, value) = (reader.text(ENTRY), reader.text(ENTRY));
            Some((key, has_value.then_some(value)))
        })
    }
}

/// The names of the counters of some operations of a plan, whose places are given in order. What a
/// counter counts for is told by the descriptor that met it first.
pub fn all_names<'p>(
    rules: &'p RuleSet,
    domain: &'p Domain,
    ask: &'p Ask<'_>,
    plan: &'p Plan<'_>,
    places: &'p [usize],
) -> impl Iterator<Item = Names> {
    let first = first_descriptors(plan);
    let mut known: Option<(u16, Named<'_, '_>)> = None;
    places.iter().map(move |at| {
        let rule = plan.ops[*at].rule;
        let descriptor = first.get(*at).copied().unwrap_or_default();
        // Operations stand in the order of the descriptors, so each of these is read once.
        let named = match known.take() {
            Some((of, named)) if of == descriptor => named,
            _ => {
                let one = ask.descriptors.get(usize::from(descriptor));
                Named::new(domain, one.map(|one| one.entries).unwrap_or_default())
            }
        };
        let names = Names::new(rules, rule, named.per(rule));
        known = Some((descriptor, named));
        names
    })
}

/// For each operation the descriptor that met it first; they stand in the order of that.
fn first_descriptors(plan: &Plan<'_>) -> SmallVec<[u16; 8]> {
    let mut first = SmallVec::new();
    for (descriptor, op) in &plan.met {
        if usize::from(*op) == first.len() {
            first.push(*descriptor);
        }
    }
    first
}
