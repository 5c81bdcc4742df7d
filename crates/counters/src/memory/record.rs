//! One counter in 80 bytes.

use tidegate_core::Algorithm;
use tidegate_core::algorithms::State;
use tidegate_core::algorithms::token_bucket::Bucket;
use tidegate_core::algorithms::windows::Windows;

const INLINE: usize = 38;
const SECOND_US: u64 = 1_000_000;
/// A period of at most 366 days takes 25 bits as seconds; the algorithm stands above them.
const PERIOD_BITS: u32 = 26;

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

/// A counter: its key and its state, packed by algorithm.
#[derive(Debug)]
pub struct Record {
    /// Values that it counts.
    pub key: Key,
    /// The limit that it belongs to.
    pub limit: u32,
    form: u32,
    /// Level, previous count, or place of the log.
    first: u64,
    /// Fraction, or current count.
    second: u64,
    last: u64,
    /// Units that drain in a period.
    n: u64,
}

/// A state without its heap part.
pub enum Packed {
    /// Bucket or windows.
    Whole(State),
    /// The log stands at this place.
    LogAt(u32),
}

impl Record {
    /// A record that holds nothing yet.
    pub const fn new(limit: u32, key: Key) -> Self {
        Self { key, limit, form: 0, first: 0, second: 0, last: 0, n: 0 }
    }

    /// The state as it was packed.
    #[inline]
    pub fn unpack(&self) -> Packed {
        let period_us = self.period_us();
        if period_us == 0 {
            return Packed::Whole(State::Absent);
        }
        Packed::Whole(match self.algorithm() {
            Algorithm::TokenBucket => State::Bucket(Bucket {
                level: self.first,
                rem: self.second,
                n: self.n,
                period_us,
                last: self.last,
            }),
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                State::Windows(Windows { prev: self.first, cur: self.second, last: self.last })
            }
            Algorithm::SlidingLog => return Packed::LogAt(self.first as u32),
        })
    }

    /// Packs a bucket or windows.
    #[inline]
    pub const fn pack(&mut self, algorithm: Algorithm, period_us: u64, state: &State) {
        match state {
            State::Bucket(bucket) => {
                self.form = form(algorithm, bucket.period_us);
                (self.first, self.second) = (bucket.level, bucket.rem);
                (self.last, self.n) = (bucket.last, bucket.n);
            }
            State::Windows(windows) => {
                self.form = form(algorithm, period_us);
                (self.first, self.second) = (windows.prev, windows.cur);
                self.last = windows.last;
            }
            State::Absent | State::Log(_) => {}
        }
    }

    /// Notes where the log of this counter stands.
    pub const fn pack_log(&mut self, period_us: u64, at: u32) {
        self.form = form(Algorithm::SlidingLog, period_us);
        self.first = at as u64;
    }

    /// The algorithm that packed it.
    #[inline]
    pub const fn algorithm(&self) -> Algorithm {
        match self.form >> PERIOD_BITS {
            0 => Algorithm::TokenBucket,
            1 => Algorithm::FixedWindow,
            2 => Algorithm::SlidingWindow,
            _ => Algorithm::SlidingLog,
        }
    }

    /// The period that it was last written with, microseconds.
    #[inline]
    pub const fn period_us(&self) -> u64 {
        (self.form & ((1 << PERIOD_BITS) - 1)) as u64 * SECOND_US
    }

    /// True if a bucket or a window holds nothing at `now`, so that forgetting it frees nobody.
    pub fn is_unused(&self, now: u64) -> bool {
        if now < self.last {
            return false;
        }
        match self.unpack() {
            Packed::Whole(State::Bucket(bucket)) => bucket.drained(now).used() == 0,
            Packed::Whole(State::Windows(windows)) => {
                let sliding = self.algorithm() == Algorithm::SlidingWindow;
                let rolled = windows.rolled(self.period_us(), now, sliding);
                rolled.prev == 0 && rolled.cur == 0
            }
            _ => false,
        }
    }
}

const fn form(algorithm: Algorithm, period_us: u64) -> u32 {
    (algorithm as u32) << PERIOD_BITS | (period_us / SECOND_US) as u32
}
