//! Stable numbers for limits, so that counters outlive the snapshot that made them.

use std::collections::HashMap;

use crate::algorithms::Algorithm;

/// A limit's number within this process. The same domain, id and algorithm keep it through every
/// reload, so edits of the numbers keep the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitUid(pub u32);

/// Hands out [`LimitUid`]s; lives as long as the store that keys on them.
#[derive(Debug, Default)]
pub struct Identities {
    known: HashMap<(String, String, Algorithm), LimitUid>,
}

impl Identities {
    /// The number of this limit, the same on every call.
    pub fn uid(&mut self, domain: &str, id: &str, algorithm: Algorithm) -> LimitUid {
        let next = LimitUid(self.known.len() as u32);
        *self.known.entry((domain.to_owned(), id.to_owned(), algorithm)).or_insert(next)
    }

    /// All limits that have a number, in no order: domain, id and algorithm.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, Algorithm, LimitUid)> {
        self.known
            .iter()
            .map(|((domain, id, algorithm), uid)| (domain.as_str(), id.as_str(), *algorithm, *uid))
    }
}
