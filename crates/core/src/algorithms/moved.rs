//! A state that is taken from one clock to another, as if no time had passed between the two.

use super::Algorithm;
use super::met::State;
use super::token_bucket::Bucket;
use super::windows::Windows;

impl State {
    /// The state that stood at `from`, a time not before its last write, as it stands at `to` on a
    /// clock that has other times: nobody is given credit, and nobody has to wait for longer than
    /// before, but for counts of a window, which move into that of `to` and end with it. Microseconds.
    ///
    /// A quota's times are those of a calendar, and stay: by a clock that is far behind its last
    /// write it counts in the period of that clock, as it would have without a move.
    #[must_use]
    pub fn moved(self, algorithm: Algorithm, period_us: u64, from: u64, to: u64) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Bucket(bucket) => {
                Self::Bucket(Bucket { last: shifted(bucket.last, from, to), ..bucket })
            }
            Self::Windows(windows) => {
                let is_sliding = algorithm == Algorithm::SlidingWindow;
                let rolled = windows.rolled(period_us, from.max(windows.last), is_sliding);
                Self::Windows(Windows { last: to, ..rolled })
            }
            Self::Log(mut log) => {
                log.shift(from, to);
                Self::Log(log)
            }
            Self::Spent(spent) => Self::Spent(spent),
            Self::Slots(mut slots) => {
                slots.shift(period_us, from, to);
                Self::Slots(slots)
            }
        }
    }
}

/// A time as far from `to` as it is from `from`; at the earliest 0.
pub(super) const fn shifted(time: u64, from: u64, to: u64) -> u64 {
    (time + to).saturating_sub(from)
}
