//! Answers of the last seconds by the proxy's request id: a proxy that asks twice about one
//! request, as nginx does at an internal redirect, is told the same and charges once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;

/// How long an answer is kept.
const KEPT_US: u64 = 5_000_000;
/// Answers of one generation; there are two.
const MOST: usize = 32_768;

/// An answer that can be told again.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Its body.
    pub body: Bytes,
}

/// What a request id and all that is asked about it become; 128 bits of a keyed hash, so that
/// nobody can find two that are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(u64, u64);

/// The answers. Bounded: past the bound the oldest half is forgotten, and a repeat of those is
/// charged again.
#[derive(Debug, Default)]
pub struct Repeats {
    keys: (RandomState, RandomState),
    // Guards both generations; held for a look-up or an insert.
    kept: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    new: HashMap<RequestKey, (u64, Told)>,
    old: HashMap<RequestKey, (u64, Told)>,
    began_us: u64,
}

impl Repeats {
    /// The key of a question.
    pub fn key(&self, question: &impl Hash) -> RequestKey {
        RequestKey(self.keys.0.hash_one(question), self.keys.1.hash_one(question))
    }

    /// What was told to the same question within the last seconds.
    pub fn told(&self, key: RequestKey, now_us: u64) -> Option<Told> {
        let kept = self.kept.lock();
        let (at_us, told) = kept.new.get(&key).or_else(|| kept.old.get(&key))?;
        (now_us.saturating_sub(*at_us) < KEPT_US).then(|| told.clone())
    }

    /// Keeps what was told.
    pub fn keep(&self, key: RequestKey, now_us: u64, told: Told) {
        let mut kept = self.kept.lock();
        let is_over = now_us.saturating_sub(kept.began_us) >= KEPT_US;
        let retired = if is_over || kept.new.len() >= MOST {
            kept.began_us = now_us;
            let full = std::mem::take(&mut kept.new);
            std::mem::replace(&mut kept.old, full)
        } else {
            HashMap::new()
        };
        kept.new.insert(key, (now_us, told));
        drop(kept);
        // Freed outside the lock: there may be many.
        drop(retired);
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        let kept = self.kept.lock();
        kept.new.len() + kept.old.len()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: StatusCode) -> Told {
        Told { status, headers: Vec::new(), body: Bytes::new() }
    }

    #[test]
    fn answer_is_told_again_for_five_seconds() {
        let repeats = Repeats::default();
        let (a, b) = (repeats.key(&("web", "id-1")), repeats.key(&("web", "id-2")));
        repeats.keep(a, 1_000_000, told(StatusCode::OK));
        assert_eq!(repeats.told(a, 5_999_999).map(|told| told.status), Some(StatusCode::OK));
        assert!(repeats.told(b, 1_000_000).is_none());
        assert!(repeats.told(a, 6_000_000).is_none());
        repeats.keep(b, 4_000_000, told(StatusCode::TOO_MANY_REQUESTS));
        repeats.keep(a, 6_000_000, told(StatusCode::OK));
        assert!(repeats.told(b, 8_999_999).is_some(), "the generation before still answers");
    }

    #[test]
    fn memory_is_bounded() {
        let repeats = Repeats::default();
        for number in 0..100_000_u32 {
            repeats.keep(repeats.key(&number), u64::from(number), told(StatusCode::OK));
        }
        assert!(repeats.len() <= 2 * MOST);
        assert!(repeats.told(repeats.key(&99_999_u32), 100_000).is_some());
    }
}
