//! How far the store's clock is ahead of this node's.

/// The store answers at some moment between the question and the answer, so each answer says of its
/// clock between what two bounds it is; several say it more narrowly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    least: i64,
    most: i64,
    heard_us: u64,
}

/// Two clocks part by a thousandth of the time at most: what NTP may slew them, either way.
const DRIFT: u64 = 1_000;

impl Ahead {
    /// As a store says it that was asked at `sent_us`, and was heard at `now_us`.
    pub(super) fn heard(store_us: u64, sent_us: u64, now_us: u64) -> Self {
        let less = |us: u64| store_us.cast_signed().saturating_sub(us.cast_signed());
        Self { least: less(now_us), most: less(sent_us.min(now_us)), heard_us: now_us }
    }

    /// With one more answer. Where it contradicts the others a clock has stepped, and it alone counts.
    #[must_use]
    pub(super) fn and(self, new: Self) -> Self {
        let drift_us = (new.heard_us.saturating_sub(self.heard_us) / DRIFT + 1).cast_signed();
        let least = new.least.max(self.least.saturating_sub(drift_us));
        let most = new.most.min(self.most.saturating_add(drift_us));
        if least > most { new } else { Self { least, most, ..new } }
    }

    /// The store's time is not before this.
    pub(super) const fn earliest(self, now_us: u64) -> u64 {
        now_us.saturating_add_signed(self.least)
    }

    /// Nor after this.
    pub(super) const fn latest(self, now_us: u64) -> u64 {
        now_us.saturating_add_signed(self.most)
    }

    /// How far the two are apart, microseconds.
    pub(super) const fn width_us(self) -> u64 {
        self.most.abs_diff(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_bound_the_clock_from_both_sides() {
        let slow_to = Ahead::heard(1_000_700, 500, 1_000);
        assert_eq!((slow_to.least, slow_to.most), (999_700, 1_000_200));
        let slow_back = Ahead::heard(1_001_010, 1_100, 1_900);
        assert_eq!((slow_back.least, slow_back.most), (999_110, 999_910));
        let both = slow_to.and(slow_back);
        assert_eq!((both.least, both.most), (999_700 - 1, 999_910));
        assert_eq!((both.earliest(2_000), both.latest(2_000)), (1_001_699, 1_001_910));
        assert_eq!(both.width_us(), 211);
    }

    #[test]
    fn a_clock_that_stepped_is_believed_at_once() {
        let before = Ahead::heard(1_000_000, 990, 1_010);
        let after = before.and(Ahead::heard(2_000_000, 2_000, 2_100));
        assert_eq!((after.earliest(2_100), after.latest(2_100)), (2_000_000, 2_000_100));
    }

    #[test]
    fn what_was_heard_long_ago_says_little() {
        let long_ago = Ahead::heard(1_000_000, 1_000, 1_001);
        let now = long_ago.and(Ahead::heard(61_000_000, 60_000_500, 60_001_500));
        assert_eq!(now.width_us(), 1_000);
    }
}
