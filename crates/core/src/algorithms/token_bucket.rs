//! Token bucket, and the leaky bucket as its alias: a level that drains at the rate.

use super::Numbers;
use crate::units::{MAX, mul_add_div_ceil, mul_div};

/// `level + rem / period_us` units are taken and not yet drained, as of `last`. The burst is no
/// part of the state, so a change of it gives or takes room at once and loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Whole units taken.
    pub level: u64,
    /// The fraction of a unit, in 1 / `period_us`; below `period_us`.
    pub rem: u64,
    /// Units that drain in a period.
    pub n: u64,
    /// Microseconds.
    pub period_us: u64,
    /// Time of the last write, microseconds.
    pub last: u64,
}

impl Bucket {
    /// An untouched bucket.
    #[inline]
    pub const fn fresh(numbers: &Numbers, now: u64) -> Self {
        Self { level: 0, rem: 0, n: numbers.n, period_us: numbers.period_us, last: now }
    }

    /// The bucket at `now`, drained at the rate that it carries.
    #[inline]
    #[must_use]
    pub const fn drained(self, now: u64) -> Self {
        let (whole, part) = mul_div(self.n, now - self.last, self.period_us);
        let borrow = part > self.rem;
        let out = whole + borrow as u64;
        if out > self.level {
            return Self { level: 0, rem: 0, ..self };
        }
        let rem = if borrow { self.rem + self.period_us - part } else { self.rem - part };
        Self { level: self.level - out, rem, ..self }
    }

    /// The bucket with another rate. A fraction is rounded down: in favour of the caller.
    #[inline]
    #[must_use]
    pub const fn at_rate(self, numbers: &Numbers) -> Self {
        let rem = if self.period_us == numbers.period_us {
            self.rem
        } else {
            mul_div(self.rem, numbers.period_us, self.period_us).0
        };
        Self { rem, n: numbers.n, period_us: numbers.period_us, ..self }
    }

    /// Takes `cost`. What does not fit the burst takes the level up to twice of it, and a level
    /// that a smaller burst has left above that stays.
    #[inline]
    pub const fn charge(&mut self, burst: u64, cost: u64) {
        let most = if burst > MAX / 2 { MAX } else { 2 * burst };
        if self.level + cost < most {
            self.level += cost;
        } else if self.level < most {
            (self.level, self.rem) = (most, 0);
        }
    }

    /// Units taken, a started one counted whole.
    #[inline]
    pub const fn used(&self) -> u64 {
        self.level + (self.rem > 0) as u64
    }

    /// Microseconds until a refused `cost <= burst` passes.
    pub const fn wait(&self, burst: u64, cost: u64) -> u64 {
        // A refusal means level + (rem > 0) + cost > burst, so the left side is not negative.
        mul_add_div_ceil(self.level + cost - burst, self.period_us, self.rem, self.n)
    }

    /// Microseconds until the bucket is as good as unused.
    #[inline]
    pub const fn reset(&self) -> u64 {
        mul_add_div_ceil(self.level, self.period_us, self.rem, self.n)
    }
}
