//! The values that a counter counts for, by name: for whoever tells of a counter. What counts uses
//! keys alone.

use smallvec::SmallVec;

use crate::snapshot::{Domain, KeyId, Rule};

/// The entries of one descriptor whose keys a domain knows; of a repeated key the first.
#[derive(Debug)]
pub struct Named<'r, 'a> {
    domain: &'r Domain,
    entries: SmallVec<[Entry<'r, 'a>; 8]>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<'r, 'a> {
    key: KeyId,
    name: &'r [u8],
    value: &'a [u8],
}

impl<'r, 'a> Named<'r, 'a> {
    /// Looks each entry up once.
    pub fn new(domain: &'r Domain, entries: &[(&'a [u8], &'a [u8])]) -> Self {
        let mut known: SmallVec<[Entry<'_, '_>; 8]> = SmallVec::new();
        for (key, value) in entries {
            if let Some((name, key)) = domain.keys.get_key_value(*key)
                && known.iter().all(|other| other.key != *key)
            {
                known.push(Entry { key: *key, name, value });
            }
        }
        Self { domain, entries: known }
    }

    /// Each key of a rule's `per`, with the descriptor's value; none where it lacks the key.
    pub fn per(&self, rule: &Rule) -> impl Iterator<Item = (&'r [u8], Option<&'a [u8]>)> {
        rule.per.iter().filter_map(move |key| {
            let entry = self.entries.iter().find(|entry| entry.key == *key);
            let lacking = || self.domain.keys.iter().find(|(_, known)| *known == key);
            entry
                .map(|entry| (entry.name, Some(entry.value)))
                .or_else(|| lacking().map(|(name, _)| (&**name, None)))
        })
    }
}
