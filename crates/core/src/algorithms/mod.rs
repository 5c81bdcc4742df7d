//! The algorithms: what a counter's state means, and what it becomes.
//!
//! Each call meets a state at a time, asks whether a cost fits, maybe charges, and reports. The
//! same rules stand in `decide.lua` and, as big integers, in the test oracle; all three agree.

pub mod calendar;
mod met;
mod moved;
pub mod sliding_log;
pub mod slots;
pub mod token_bucket;
pub mod windows;

pub use met::{Met, State};

use serde::Deserialize;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Algorithm {
    /// A level that drains at the rate; passes while level + cost <= burst.
    TokenBucket = 0,
    /// A count for each aligned window.
    FixedWindow = 1,
    /// The current window's count plus the previous one's, weighted by its overlap.
    SlidingWindow = 2,
    /// The time and cost of each admitted request.
    SlidingLog = 3,
    /// A count for each period of a calendar.
    Quota = 4,
    /// A sliding window split into slots.
    SlidingSlots = 5,
}

impl Algorithm {
    /// The word for it in policy files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow | Self::SlidingSlots => "sliding_window",
            Self::SlidingLog => "sliding_log",
            Self::Quota => "quota",
        }
    }
}

/// The numbers of a limit: `n` requests per `period_us` microseconds, `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Requests per period, 0 (blocked) to 2^53 - 1.
    pub n: u64,
    /// Microseconds, whole seconds, 1 s to 366 days. Of a quota in force the length of the current
    /// period; as it is written, the nominal one of its unit.
    pub period_us: u64,
    /// Capacity of the bucket in requests, 1 to 2^53 - 1; equals `n` for the other algorithms.
    /// Of a quota in force: what [`calendar::Around`] keeps there; of slots their [`slots::Shape`].
    pub burst: u64,
}

impl Numbers {
    /// The most that can be taken at once, in requests.
    #[inline]
    pub const fn capacity(&self, algorithm: Algorithm) -> u64 {
        if matches!(algorithm, Algorithm::TokenBucket) { self.burst } else { self.n }
    }

    /// The period by which the numbers are named, microseconds: of a quota the nominal length of its
    /// unit, a month being 30 days.
    pub const fn named_period_us(&self, algorithm: Algorithm) -> u64 {
        if matches!(algorithm, Algorithm::Quota) {
            return calendar::Around::of(self).unit.nominal_s() * 1_000_000;
        }
        self.period_us
    }

    /// The time in microseconds in which a full counter comes back: the period for windows, the
    /// time to drain a full bucket.
    pub const fn window_us(&self, algorithm: Algorithm) -> u64 {
        if !matches!(algorithm, Algorithm::TokenBucket) || self.n == 0 || self.burst == self.n {
            return self.period_us;
        }
        crate::units::mul_add_div_ceil(self.burst, self.period_us, 0, self.n)
    }
}
