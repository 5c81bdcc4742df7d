//! One counter in 64 bytes: one line of the cache.

use tidegate_core::Algorithm;
use tidegate_core::algorithms::State;
use tidegate_core::algorithms::calendar::Spent;
use tidegate_core::algorithms::token_bucket::Bucket;
use tidegate_core::algorithms::windows::Windows;
use tidegate_core::units::MAX;

use super::forms::{Form, FormId};

const INLINE: usize = 38;

/// Whose counter it is, within its limit.
#[derive(Debug)]
pub enum Key {
    /// Short values, in place.
    Inline(u8, [u8; INLINE]),
    /// Long values.
    Heap(Box<[u8]>),
    /// The shared counter of that number.
    Folded(u16),
}

impl Key {
    /// Copies the bytes of a key.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        let mut inline = [0; INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self::Inline(bytes.len() as u8, inline)
            }
            None => Self::Heap(Box::from(bytes)),
        }
    }

    /// The bytes; none for a shared counter.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(len, bytes) => Some(&bytes[..usize::from(*len)]),
            Self::Heap(bytes) => Some(bytes),
            Self::Folded(_) => None,
        }
    }
}

/// A counter: its key and its state. Three numbers below 2^53 leave eleven bits each, which
/// together hold the number of the form.
#[derive(Debug)]
#[repr(align(64))]
pub struct Record {
    /// Values that it counts.
    pub key: Key,
    words: [u64; 3],
}

/// A state without its heap part.
pub enum Packed {
    /// Bucket or windows, or nothing.
    Whole(State),
    /// It stands elsewhere, at this place.
    At(u32),
}

impl Record {
    /// A record that holds no state.
    pub fn new(form: FormId, key: Key) -> Self {
        Self { key, words: packed([0; 3], form) }
    }

    /// The number of its form.
    #[inline]
    pub const fn form(&self) -> FormId {
        let [first, second, last] = self.words;
        (first >> 53 | (second >> 53) << 11 | (last >> 53) << 22) as FormId
    }

    /// The state as it was packed.
    #[inline]
    pub fn unpack(&self, form: Form) -> Packed {
        let [first, second, last] = self.words.map(|word| word & MAX);
        Packed::Whole(match form {
            Form { period_us: 0, .. } => State::Absent,
            Form { algorithm: Algorithm::TokenBucket, n, period_us, .. } => {
                State::Bucket(Bucket { level: first, rem: second, n, period_us, last })
            }
            Form { algorithm: Algorithm::SlidingLog | Algorithm::SlidingSlots, .. } => {
                return Packed::At(first as u32);
            }
            Form { algorithm: Algorithm::Quota, .. } => {
                State::Spent(Spent { count: first, end: second, last })
            }
            Form { .. } => State::Windows(Windows { prev: first, cur: second, last }),
        })
    }

    /// Packs a bucket or windows.
    #[inline]
    pub fn pack(&mut self, form: FormId, state: &State) {
        self.words = match state {
            State::Bucket(bucket) => packed([bucket.level, bucket.rem, bucket.last], form),
            State::Windows(windows) => packed([windows.prev, windows.cur, windows.last], form),
            State::Spent(spent) => packed([spent.count, spent.end, spent.last], form),
            State::Absent | State::Log(_) | State::Slots(_) => return,
        };
    }

    /// Notes where the large state of this counter stands.
    pub fn pack_at(&mut self, form: FormId, at: u32) {
        self.words = packed([u64::from(at), 0, 0], form);
    }

    /// True if a bucket or a window holds nothing at `now`, so that forgetting it frees nobody.
    pub fn is_unused(&self, form: Form, now: u64) -> bool {
        match self.unpack(form) {
            Packed::Whole(state) => holds_nothing(&state, form.algorithm, form.period_us, now),
            Packed::At(_) => false,
        }
    }
}

/// True if a state means nothing at `now` any more; never before its last write.
pub fn holds_nothing(state: &State, algorithm: Algorithm, period_us: u64, now: u64) -> bool {
    match state {
        State::Bucket(bucket) => now >= bucket.last && bucket.drained(now).used() == 0,
        State::Windows(windows) if now >= windows.last => {
            let sliding = algorithm == Algorithm::SlidingWindow;
            let rolled = windows.rolled(period_us, now, sliding);
            rolled.prev == 0 && rolled.cur == 0
        }
        State::Log(log) => log.reset(period_us, now) == 0,
        State::Spent(spent) => now >= spent.last && (spent.count == 0 || now >= spent.end),
        State::Slots(slots) => now >= slots.last && slots.is_unused(&slots.split(period_us), now),
        State::Windows(_) | State::Absent => false,
    }
}

#[inline]
fn packed(values: [u64; 3], form: FormId) -> [u64; 3] {
    let form = u64::from(form);
    let [first, second, last] = values.map(|value| value.min(MAX));
    [first | (form & 0x7ff) << 53, second | (form >> 11 & 0x7ff) << 53, last | (form >> 22) << 53]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_of_the_cache() {
        assert_eq!(size_of::<Record>(), 64);
    }

    #[test]
    fn the_largest_numbers_and_forms_come_back() {
        let form = Form { limit: 1, algorithm: Algorithm::SlidingWindow, n: 0, period_us: 1 };
        for id in [0, 1, 0x7ff, 0x800, u32::MAX] {
            let mut record = Record::new(id, Key::new(b"key"));
            assert_eq!(record.form(), id);
            let windows = Windows { prev: MAX, cur: MAX - 1, last: MAX };
            record.pack(id, &State::Windows(windows));
            assert_eq!(record.form(), id);
            assert!(
                matches!(record.unpack(form), Packed::Whole(State::Windows(back)) if back == windows)
            );
        }
    }
}
