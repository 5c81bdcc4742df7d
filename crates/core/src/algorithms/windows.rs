//! Fixed window and sliding window counter: counts of the current and the previous window.

use super::Numbers;
use crate::units::mul_div;

/// Counts of two neighbouring windows; the fixed window leaves `prev` at 0. The current window is
/// the one that holds `last`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Requests counted in the previous window.
    pub prev: u64,
    /// Requests counted in the current window.
    pub cur: u64,
    /// Time of the last write, microseconds.
    pub last: u64,
}

impl Windows {
    /// The counts as seen from the window that holds `now`, which is not before `last`.
    #[inline]
    #[must_use]
    pub const fn rolled(self, period: u64, now: u64, sliding: bool) -> Self {
        let passed = now / period - self.last / period;
        match passed {
            0 => self,
            1 if sliding => Self { prev: self.cur, cur: 0, last: self.last },
            _ => Self { prev: 0, cur: 0, last: self.last },
        }
    }
}

/// Units taken as a fixed window sees them.
#[inline]
pub const fn fixed_used(state: &Windows) -> u64 {
    state.cur
}

/// Units taken as a sliding window sees them: `ceil(prev * (P - elapsed) / P) + cur`.
#[inline]
pub const fn sliding_used(state: &Windows, period: u64, now: u64) -> u64 {
    if state.prev == 0 {
        return state.cur;
    }
    let (whole, rest) = mul_div(state.prev, period - now % period, period);
    whole + (rest > 0) as u64 + state.cur
}

/// Microseconds until a refused `cost <= n` passes a fixed window.
#[inline]
pub const fn fixed_wait(period: u64, now: u64) -> u64 {
    period - now % period
}

/// Microseconds until a refused `cost <= n` passes a sliding window.
pub const fn sliding_wait(state: &Windows, numbers: &Numbers, now: u64, cost: u64) -> u64 {
    let (period, elapsed) = (numbers.period_us, now % numbers.period_us);
    let to_end = period - elapsed;
    if state.cur + cost <= numbers.n {
        let room = numbers.n - cost - state.cur;
        let (overlap, _) = mul_div(room, period, state.prev);
        if overlap > 0 {
            return to_end - overlap;
        }
    }
    // In the next window the current count is the previous one and takes its weight.
    let room = numbers.n - cost;
    if state.cur <= room {
        return to_end;
    }
    let (overlap, _) = mul_div(room, period, state.cur);
    to_end + period - overlap
}

/// Microseconds until a sliding window holds nothing.
#[inline]
pub const fn sliding_reset(state: &Windows, period: u64, now: u64) -> u64 {
    let to_end = period - now % period;
    if state.cur > 0 {
        to_end + period
    } else if state.prev > 0 {
        to_end
    } else {
        0
    }
}
