//! One call in the making: requests packed as they come, written out once.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState as FastState;
use hashbrown::HashTable;
use tidegate_core::algorithms::calendar::Around;
use tidegate_core::{Action, Algorithm, Numbers, Plan, PlannedOp};

use super::keys::Keys;
use super::outcome::RECORD;
use super::resp;
use super::scripts::{self, Script};

/// Requests and keys of one call.
pub(super) const MOST_REQUESTS: usize = 64;
pub(super) const MOST_KEYS: usize = 256;

/// Bytes of buffers that are kept between calls: enough for [`MOST_REQUESTS`] of ordinary keys.
const MOST_KEPT: usize = 32 * 1024;
/// Bytes of one operation in the batch: key, rule, flags, cost.
const OPERATION: usize = 13;
/// Rules looked through for one of the same numbers; others get a row of their own.
const RULES_COMPARED: usize = 8;

const QUOTA: u8 = 5;

const PEEK: u8 = 1;
const CHARGE_ANYWAY: u8 = 3;
/// Beside the number of rules.
const TELL: u16 = 1 << 15;
const SHADOW: u8 = 4;
const LAST: u8 = 8;
const DEBT: u8 = 16;

/// What a call does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Decides requests.
    #[default]
    Decide,
    /// Deletes keys.
    Delete,
    /// Charges what was admitted elsewhere and asks for the states.
    Settle,
    /// A command of its own, answered by a number.
    Words,
    /// Asks for a sign of life.
    Probe,
    /// Asks how many replicas have what was charged.
    Replicas,
}

/// How the script is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Hash,
    Text,
}

/// The parts of one call, filled request by request. The buffers are kept from call to call.
#[derive(Debug, Default)]
pub(super) struct Call {
    kind: Kind,
    /// Keys as arguments on the wire, and where each one's bytes stand.
    keys: Vec<u8>,
    places: Vec<Range<u32>>,
    by_key: HashTable<u16>,
    hasher: FastState,
    key: Vec<u8>,
    rules: Vec<(u8, Numbers)>,
    ops: Vec<u8>,
    requests: usize,
    is_charging: bool,
    fake_now: Option<u64>,
}

impl Call {
    /// Empties it for the next call. `fake_now` is the time that a test has set.
    pub(super) fn clear(&mut self, kind: Kind, fake_now: Option<u64>) {
        self.kind = kind;
        self.fake_now = fake_now;
        self.keys.clear();
        self.places.clear();
        self.by_key.clear();
        self.rules.clear();
        self.ops.clear();
        self.requests = 0;
        self.is_charging = false;
    }

    /// True if a request of so many operations at this time may join those that are there, of
    /// which there are so many at most.
    #[inline]
    pub(super) fn has_room(&self, operations: usize, most: usize, fake_now: Option<u64>) -> bool {
        self.kind == Kind::Decide
            && self.requests < most
            && self.places.len() + operations <= MOST_KEYS
            && self.fake_now == fake_now
    }

    /// Packs a request and says where its operations stand. `part` tells what is to be done with
    /// each operation that the store answers, by its place among them; none leaves it out.
    #[inline]
    pub(super) fn push(
        &mut self,
        keys: &Keys,
        plan: &Plan<'_>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Range<u32> {
        let start = self.operations();
        for (at, op) in plan.asked().enumerate() {
            let Some(action) = part(at, op) else { continue };
            let key = self.key_index(keys, plan, op) + 1;
            if self.kind == Kind::Delete {
                continue;
            }
            let code = code(op.rule.algorithm, op.rule.consistency.is_at_node());
            let rule = self.rule_index(code, op.numbers) + 1;
            let bits = match action {
                Action::Charge(_) if op.rule.counts_denied => CHARGE_ANYWAY,
                Action::Charge(_) => 0,
                Action::Peek(_) => PEEK,
                Action::Refund(_) => 2,
            };
            self.is_charging |= matches!(action, Action::Charge(_));
            let flags = bits | if op.rule.is_shadow { SHADOW } else { 0 };
            let cost = action.cost();
            self.ops.extend_from_slice(&operation(key, rule, flags, cost));
        }
        if let Some(flags) = self.ops.len().checked_sub(OPERATION - 4) {
            self.ops[flags] |= LAST;
        }
        self.requests += 1;
        start..self.operations()
    }

    /// Packs what was admitted at one counter in some windows (start, units), or a look at it. Of
    /// a bucket in place of the start: when it was admitted.
    pub(super) fn push_settling(
        &mut self,
        key: &[u8],
        algorithm: Algorithm,
        numbers: Numbers,
        taken: impl Iterator<Item = (u64, u64)>,
    ) {
        let key = self.index_of(key) + 1;
        let mut is_look = true;
        for (start_us, units) in taken.filter(|(_, units)| *units > 0) {
            let burst = match algorithm {
                Algorithm::Quota | Algorithm::SlidingSlots => numbers.burst,
                _ => start_us,
            };
            self.push_alone(key, algorithm, Numbers { burst, ..numbers }, CHARGE_ANYWAY, units);
            is_look = false;
        }
        if is_look {
            self.push_alone(key, algorithm, numbers, PEEK, 1);
        }
        self.requests += 1;
    }

    /// Packs what is owed at one counter in some windows (start, units).
    pub(super) fn push_debt(
        &mut self,
        key: &[u8],
        algorithm: Algorithm,
        numbers: Numbers,
        owed: impl Iterator<Item = (u64, u64)>,
    ) {
        let key = self.index_of(key) + 1;
        for (start_us, units) in owed.filter(|(_, units)| *units > 0) {
            let burst = match algorithm {
                Algorithm::FixedWindow | Algorithm::SlidingWindow => start_us,
                _ => numbers.burst,
            };
            let numbers = Numbers { burst, ..numbers };
            self.push_alone(key, algorithm, numbers, DEBT | CHARGE_ANYWAY, units);
        }
        self.requests += 1;
    }

    /// Packs a request of one operation.
    fn push_alone(
        &mut self,
        key: u16,
        algorithm: Algorithm,
        numbers: Numbers,
        action: u8,
        cost: u64,
    ) {
        let rule = self.rule_index(code(algorithm, true), numbers) + 1;
        self.ops.extend_from_slice(&operation(key, rule, action | LAST, cost));
    }

    /// Says this command instead of all else.
    pub(super) fn say(&mut self, command: Vec<u8>) {
        self.keys = command;
    }

    /// Keeps only these operations, in order. A key that none of them names does no harm.
    pub(super) fn keep(&mut self, kept: impl Iterator<Item = Range<u32>>) {
        let mut end = 0;
        for range in kept {
            let bytes = range.start as usize * OPERATION..range.end as usize * OPERATION;
            let length = bytes.len();
            self.ops.copy_within(bytes, end);
            end += length;
        }
        self.ops.truncate(end);
    }

    #[inline]
    pub(super) fn operations(&self) -> u32 {
        (self.ops.len() / OPERATION) as u32
    }

    /// Bytes of the answer to this call.
    pub(super) fn reply_length(&self) -> usize {
        self.operations() as usize * RECORD
    }

    /// True if a request in it takes something, if it may.
    pub(super) const fn is_charging(&self) -> bool {
        self.is_charging
    }

    /// As if a request in it took something.
    #[cfg(test)]
    pub(super) const fn charges_something(&mut self) {
        self.is_charging = true;
    }

    /// True if its buffers are small enough to be kept for the next call.
    pub(super) fn is_slim(&self) -> bool {
        self.keys.capacity() + self.ops.capacity() <= MOST_KEPT
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Appends the call as it goes on the wire.
    pub(super) fn write(&self, out: &mut Vec<u8>, by: By) {
        let keys = self.places.len();
        if self.kind == Kind::Probe {
            resp::append_command(out, &[b"PING"]);
            return;
        }
        if self.kind == Kind::Words {
            out.extend_from_slice(&self.keys);
            return;
        }
        if self.kind == Kind::Delete {
            resp::append_head(out, 1 + keys);
            resp::append_bulk(out, b"DEL");
            out.extend_from_slice(&self.keys);
            return;
        }
        let Script { text, hash } = scripts::decide(self.fake_now);
        resp::append_head(out, 4 + keys + usize::from(self.fake_now.is_some()));
        match by {
            By::Hash => {
                resp::append_bulk(out, b"EVALSHA");
                resp::append_bulk(out, hash.as_bytes());
            }
            By::Text => {
                resp::append_bulk(out, b"EVAL");
                resp::append_bulk(out, text.as_bytes());
            }
        }
        let mut count = Vec::with_capacity(20);
        resp::append_number(&mut count, keys as u64);
        resp::append_bulk(out, &count);
        out.extend_from_slice(&self.keys);
        self.write_batch(out);
        if let Some(now) = self.fake_now {
            resp::append_bulk(out, now.to_string().as_bytes());
        }
    }

    fn write_batch(&self, out: &mut Vec<u8>) {
        out.push(b'$');
        resp::append_number(out, (2 + self.rules.len() * RECORD + self.ops.len()) as u64);
        out.extend_from_slice(b"\r\n");
        let tells = if self.kind == Kind::Settle { TELL } else { 0 };
        out.extend_from_slice(&(self.rules.len() as u16 | tells).to_le_bytes());
        for (code, numbers) in &self.rules {
            out.push(*code);
            let (period, burst) = match *code {
                QUOTA => Around::of(numbers).packed(),
                _ => (numbers.period_us, numbers.burst),
            };
            for number in [numbers.n, period, burst] {
                out.extend_from_slice(&(number as f64).to_le_bytes());
            }
        }
        out.extend_from_slice(&self.ops);
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn key_index<'r>(&mut self, keys: &Keys, plan: &Plan<'r>, op: &PlannedOp<'r>) -> u16 {
        self.key.clear();
        keys.append(&mut self.key, plan, op);
        self.index_of_key()
    }

    fn index_of(&mut self, key: &[u8]) -> u16 {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.index_of_key()
    }

    /// The place of the key that stands in `self.key`.
    #[inline]
    fn index_of_key(&mut self) -> u16 {
        let (wire, places, hasher) = (&self.keys, &self.places, &self.hasher);
        let bytes = |at: u16| {
            let place = &places[usize::from(at)];
            &wire[place.start as usize..place.end as usize]
        };
        let hash = hasher.hash_one(self.key.as_slice());
        if let Some(known) = self.by_key.find(hash, |at| bytes(*at) == self.key) {
            return *known;
        }
        let index = places.len() as u16;
        self.by_key.insert_unique(hash, index, |at| hasher.hash_one(bytes(*at)));
        resp::append_bulk(&mut self.keys, &self.key);
        let end = self.keys.len() as u32 - 2;
        self.places.push(end - self.key.len() as u32..end);
        index
    }

    #[inline]
    fn rule_index(&mut self, code: u8, numbers: Numbers) -> u16 {
        let recent = self.rules.iter().enumerate().rev().take(RULES_COMPARED);
        let same = recent.filter(|(_, row)| **row == (code, numbers)).map(|(at, _)| at).next();
        let index = same.unwrap_or_else(|| {
            self.rules.push((code, numbers));
            self.rules.len() - 1
        });
        index as u16
    }
}

/// The algorithm's number in the script. Where requests are told late, a bucket remembers when it was
/// idle.
#[inline]
const fn code(algorithm: Algorithm, is_told_late: bool) -> u8 {
    match algorithm {
        Algorithm::FixedWindow => 1,
        Algorithm::SlidingWindow => 2,
        Algorithm::SlidingLog => 3,
        Algorithm::TokenBucket if is_told_late => 7,
        Algorithm::TokenBucket => 4,
        Algorithm::Quota => QUOTA,
        Algorithm::SlidingSlots => 6,
    }
}

/// One operation as it stands in the batch.
#[inline]
fn operation(key: u16, rule: u16, flags: u8, cost: u64) -> [u8; OPERATION] {
    // One above the most that any limit holds stands for everything above; a double holds it
    // exactly.
    let cost = cost.min(tidegate_core::units::MAX + 1) as f64;
    let mut record = [0; OPERATION];
    record[..2].copy_from_slice(&key.to_le_bytes());
    record[2..4].copy_from_slice(&rule.to_le_bytes());
    record[4] = flags;
    record[5..].copy_from_slice(&cost.to_le_bytes());
    record
}

/// Every operation of a plan, as planned.
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "it stands where others leave operations out")]
pub(super) fn whole(_: usize, op: &PlannedOp<'_>) -> Option<Action> {
    Some(op.action)
}

#[cfg(test)]
mod tests;
