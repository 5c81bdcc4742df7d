//! The only place that builds keys.
//!
//! `{prefix}{ {domain}|{anchor} }{form}{algorithm}{length of id}:{id}{values}`. The braces stand
//! in the key: they are its hash tag, so that all counters of one anchor lie in one Cluster slot.
//! Domain and anchor are escaped there and cannot end the tag; what follows is length-delimited,
//! so no two counters meet in one key.

use sha2::{Digest, Sha256};
use tidegate_core::{Algorithm, Plan, PlannedOp, Rule};

use super::checksum::crc_on;
use super::slots::{SLOTS, slot_of};

/// Version of the states' form in `decide.lua`. Another form gets other keys.
const FORM: u8 = b'1';

/// Anchors longer than this stand in the tag as a hash; the whole value is in what follows.
const LONGEST_ANCHOR: usize = 64;
const HASH_BYTES: usize = 16;

/// Builds the keys of one store.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: Box<[u8]>,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.as_bytes().into() }
    }

    /// The Cluster slot of a counter.
    pub(super) fn slot<'r>(&self, plan: &Plan<'r>, op: &PlannedOp<'r>) -> u16 {
        let anchor = plan.anchor(op).unwrap_or(op.rule.id.as_bytes());
        self.slot_at(op.rule.domain.as_bytes(), anchor)
    }

    #[inline]
    fn slot_at(&self, domain: &[u8], anchor: &[u8]) -> u16 {
        if anchor.len() <= LONGEST_ANCHOR && is_plain(domain) && is_plain(anchor) {
            return crc_on(crc_on(crc_on(0, domain), b"|"), anchor) % SLOTS as u16;
        }
        let mut tag = Vec::with_capacity(64);
        self.append_tag(&mut tag, domain, anchor);
        slot_of(&tag[self.prefix.len() + 1..tag.len() - 1])
    }

    /// What makes an anchor fall into one of `of` equal stretches of all slots: a number that is
    /// written behind it, and the slot in which it lies then.
    pub(super) fn number_in_stretch(
        &self,
        rule: &Rule,
        anchor: &[u8],
        stretch: u8,
        of: u8,
    ) -> (u16, u16) {
        let mut tag = Vec::with_capacity(64);
        self.append_tag(&mut tag, rule.domain.as_bytes(), anchor);
        let crc = crc_on(0, &tag[self.prefix.len() + 1..tag.len() - 1]);
        let mut digits = Vec::with_capacity(5);
        let mut slot_with = |number: u16| {
            digits.clear();
            super::resp::append_number(&mut digits, u64::from(number));
            crc_on(crc, &digits) % SLOTS as u16
        };
        let is_there =
            |slot: u16| usize::from(slot) * usize::from(of) / SLOTS == usize::from(stretch);
        let mut all = (0..u16::MAX).map(|number| (number, slot_with(number)));
        // Of so many numbers each stretch has its share.
        all.find(|(_, slot)| is_there(*slot)).unwrap_or_default()
    }

    /// Appends the key of a counter.
    #[inline]
    pub(super) fn append<'r>(&self, out: &mut Vec<u8>, plan: &Plan<'r>, op: &PlannedOp<'r>) {
        let anchor = plan.anchor(op).unwrap_or(op.rule.id.as_bytes());
        self.append_parts(out, op.rule, anchor, plan.key(op));
    }

    #[inline]
    fn append_parts(&self, out: &mut Vec<u8>, rule: &Rule, anchor: &[u8], values: &[u8]) {
        self.append_tag(out, rule.domain.as_bytes(), anchor);
        append_counter(out, rule.algorithm, rule.id.as_bytes(), values);
    }

    #[inline]
    fn append_tag(&self, out: &mut Vec<u8>, domain: &[u8], anchor: &[u8]) {
        out.extend_from_slice(&self.prefix);
        out.push(b'{');
        append_escaped(out, domain);
        out.push(b'|');
        if anchor.len() <= LONGEST_ANCHOR {
            append_escaped(out, anchor);
        } else {
            out.push(b'#');
            for byte in &Sha256::digest(anchor)[..HASH_BYTES] {
                append_hex(out, *byte);
            }
        }
        out.push(b'}');
    }
}

/// What follows the tag.
#[inline]
fn append_counter(out: &mut Vec<u8>, algorithm: Algorithm, id: &[u8], values: &[u8]) {
    out.push(FORM);
    out.push(match algorithm {
        Algorithm::FixedWindow => b'f',
        Algorithm::SlidingWindow => b's',
        Algorithm::SlidingLog => b'l',
        Algorithm::TokenBucket => b'b',
        Algorithm::Quota => b'q',
        Algorithm::SlidingSlots => b'w',
    });
    super::resp::append_number(out, id.len() as u64);
    out.push(b':');
    out.extend_from_slice(id);
    out.extend_from_slice(values);
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'|' | b'%' | b'#')
}

#[inline]
fn is_plain(text: &[u8]) -> bool {
    !text.iter().any(|byte| is_special(*byte))
}

#[inline]
fn append_escaped(out: &mut Vec<u8>, text: &[u8]) {
    if is_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    for byte in text {
        if is_special(*byte) {
            out.push(b'%');
            append_hex(out, *byte);
        } else {
            out.push(*byte);
        }
    }
}

fn append_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What Redis hashes: between the first brace and the first closing one after it.
    fn slot_part(key: &[u8]) -> &[u8] {
        let open = key.iter().position(|byte| *byte == b'{').unwrap();
        let length = key[open + 1..].iter().position(|byte| *byte == b'}').unwrap();
        &key[open + 1..][..length]
    }

    fn key(domain: &[u8], anchor: &[u8], id: &[u8], values: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Keys::new("tg:").append_tag(&mut out, domain, anchor);
        append_counter(&mut out, Algorithm::FixedWindow, id, values);
        out
    }

    #[test]
    fn a_plain_key_is_readable() {
        assert_eq!(
            key(b"shop", b"acme", b"search", b"\x00\x00\x05acme"),
            b"tg:{shop|acme}1f6:search\x00\x00\x05acme"
        );
    }

    #[test]
    fn b09_braces_in_a_value_cannot_choose_a_slot() {
        for anchor in ["{", "}", "{}", "}{a", "{other}", "}|{"] {
            let key = key(b"shop", anchor.as_bytes(), b"id", anchor.as_bytes());
            assert!(slot_part(&key).starts_with(b"shop|%7"), "{}", key.escape_ascii());
        }
    }

    #[test]
    fn a_long_anchor_stands_as_a_hash_that_no_short_one_can_equal() {
        let long = key(b"d", &[b'a'; 5000], b"id", b"");
        assert!(long.len() < 64);
        let hash = slot_part(&long)[2..].to_vec();
        assert_ne!(slot_part(&key(b"d", &hash, b"id", b"")), slot_part(&long));
    }

    /// Text in which the special characters are frequent.
    fn part() -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![Just(b'{'), Just(b'}'), Just(b'|'), Just(b'%'), Just(b'1'), any::<u8>()];
        proptest::collection::vec(byte, 0..4)
    }

    #[test]
    fn the_slot_of_a_long_anchor_is_that_of_its_key() {
        let anchor = [b'a'; 5000];
        let slot = Keys::new("tg:").slot_at(b"d", &anchor);
        assert_eq!(slot, slot_of(slot_part(&key(b"d", &anchor, b"id", b""))));
    }

    proptest! {
        #[test]
        fn the_slot_is_that_of_the_key(domain in part(), anchor in part()) {
            let slot = Keys::new("tg:").slot_at(&domain, &anchor);
            prop_assert_eq!(slot, slot_of(slot_part(&key(&domain, &anchor, b"id", b""))));
        }

        #[test]
        fn b59_distinct_counters_have_distinct_keys(
            a in (part(), part(), part(), part()),
            b in (part(), part(), part(), part()),
        ) {
            let of = |c: &(Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)| key(&c.0, &c.1, &c.2, &c.3);
            prop_assert_eq!(of(&a) == of(&b), a == b);
            prop_assert_eq!(slot_part(&of(&a)) == slot_part(&of(&b)), (&a.0, &a.1) == (&b.0, &b.1));
        }
    }
}
