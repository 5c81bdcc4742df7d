//! Which rules may match an entry, found by look-up instead of by trying each rule.

use smallvec::SmallVec;

use super::prefixes::Prefixes;
use crate::snapshot::{Condition, KeyId, Missing, Pattern, Rule};

type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// Rules that may match, by row.
pub type Candidates = SmallVec<[u32; 16]>;

/// Every rule stands under one thing that a matching request must have: the values of one
/// condition, else the presence of one key, else nothing.
#[derive(Debug, Default)]
pub struct Index {
    always: Vec<u32>,
    by_key: Vec<KeyIndex>,
}

#[derive(Debug, Default)]
struct KeyIndex {
    present: Vec<u32>,
    exact: FastMap<Box<[u8]>, Vec<u32>>,
    prefixes: Prefixes,
}

impl Index {
    /// Builds the index over all rules of a domain that has `keys` different keys.
    pub fn build(rules: &[Rule], keys: usize) -> Self {
        let mut index = Self::default();
        index.by_key.resize_with(keys, KeyIndex::default);
        let mut prefixes: Vec<Vec<(Box<[u8]>, u32)>> = vec![Vec::new(); keys];
        for rule in rules {
            if let Some(condition) = most_telling(rule) {
                let key = usize::from(condition.key.0);
                for pattern in &condition.any {
                    match pattern {
                        Pattern::Exact(text) => {
                            index.by_key[key].exact.entry(text.clone()).or_default().push(rule.row);
                        }
                        Pattern::Prefix(text) => prefixes[key].push((text.clone(), rule.row)),
                        Pattern::Regex(_) | Pattern::Cidr(_) => {}
                    }
                }
            } else if let Some(key) = index.least_used_key(rule) {
                index.by_key[usize::from(key.0)].present.push(rule.row);
            } else {
                index.always.push(rule.row);
            }
        }
        for (key, pairs) in prefixes.into_iter().enumerate() {
            index.by_key[key].prefixes = Prefixes::build(pairs);
        }
        index
    }

    /// Of the keys that a match must have, the one that the fewest rules hang on.
    fn least_used_key(&self, rule: &Rule) -> Option<KeyId> {
        let by_when = rule.when.iter().map(|condition| condition.key);
        let by_per = rule.per.iter().copied().filter(|_| rule.missing == Missing::Skip);
        by_when.chain(by_per).min_by_key(|key| self.by_key[usize::from(key.0)].present.len())
    }

    /// The rules that may match these entries, in the order of the file, each once.
    #[inline]
    pub fn candidates(&self, entries: &[(KeyId, &[u8])]) -> Candidates {
        let mut found = Candidates::new();
        found.extend(self.always.iter().copied());
        for (key, value) in entries {
            let by_key = &self.by_key[usize::from(key.0)];
            found.extend(by_key.present.iter().copied());
            if let Some(rules) = by_key.exact.get(*value) {
                found.extend(rules.iter().copied());
            }
            by_key.prefixes.each(value, |rules| found.extend_from_slice(rules));
        }
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }
}

/// The condition to index a rule by: one of exact values and prefixes only, the first written
/// that is all exact, else the first that has both.
fn most_telling(rule: &Rule) -> Option<&Condition> {
    let is_exact = |pattern: &Pattern| matches!(pattern, Pattern::Exact(_));
    let is_literal = |pattern: &Pattern| matches!(pattern, Pattern::Exact(_) | Pattern::Prefix(_));
    let usable = || rule.when.iter().filter(|condition| !condition.is_negated);
    usable()
        .find(|condition| condition.any.iter().all(is_exact))
        .or_else(|| usable().find(|condition| condition.any.iter().all(is_literal)))
}
