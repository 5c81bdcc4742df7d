//! A decision's name in answers, logs and metadata.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

const LEN: usize = 26;
/// Crockford's base 32: no I, L, O or U, and in the order of its values.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 48 bits of time in milliseconds and 80 random ones in base 32, as a ULID: sorts by time, and
/// two nodes need not agree to differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DecisionId([u8; LEN]);

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(LEN));
}

impl DecisionId {
    /// A new id for this time.
    pub fn new(now_us: u64) -> Self {
        let random = u128::from(random()) << 64 | u128::from(random());
        let millis = u128::from(now_us / 1000) & ((1 << 48) - 1);
        let mut value = millis << 80 | random >> 48;
        let mut text = [0; LEN];
        for place in text.iter_mut().rev() {
            *place = DIGITS[(value & 31) as usize];
            value >>= 5;
        }
        Self(text)
    }

    /// Reads an id; letters may be of either case.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut id: [u8; LEN] = text.try_into().ok()?;
        id.make_ascii_uppercase();
        id.iter().all(|digit| DIGITS.contains(digit)).then_some(Self(id))
    }

    /// The 26 characters, as bytes.
    pub const fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// The 26 characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// `SplitMix64`: each thread walks its own sequence from a random start. Ids must differ, not be
/// secret.
pub(crate) fn random() -> u64 {
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        let mut mixed = next;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_sort_by_time() {
        let early = DecisionId::new(1_764_554_400_000_000);
        let same = DecisionId::new(1_764_554_400_000_000);
        let late = DecisionId::new(1_764_554_400_001_000);
        assert_ne!(early, same);
        assert_eq!(early.as_str()[..10], same.as_str()[..10]);
        assert!(early.as_str() < late.as_str());
        assert!(early.as_str().starts_with("01K"));
    }

    #[test]
    fn an_id_reads_back_in_either_case() {
        let id = DecisionId::new(1_764_554_400_000_000);
        assert_eq!(DecisionId::parse(id.as_bytes()), Some(id));
        assert_eq!(DecisionId::parse(id.as_str().to_lowercase().as_bytes()), Some(id));
        for bad in ["", "01K", "01KBAAAAAAAAAAAAAAAAAAAAAU", "01KBAAAAAAAAAAAAAAAAAAAAAA0"] {
            assert_eq!(DecisionId::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
