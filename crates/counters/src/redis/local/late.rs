//! A bucket of which requests are told late, as `decide.lua` keeps it: they fill the time since they
//! came in which it was idle, before they add to its level.

use smallvec::SmallVec;
use tidegate_core::Numbers;
use tidegate_core::algorithms::token_bucket::Bucket;
use tidegate_core::units::MAX;

use super::taken::Block;

/// Time in which a bucket was idle, and when that ended. Lengths are in 1/n of a microsecond: a
/// unit drains in `period_us` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) stop_us: u64,
    pub(super) idle: u128,
}

/// Gaps, oldest first: as many as a store keeps.
pub(super) type Gaps = SmallVec<[Gap; 12]>;

/// A bucket with its gaps.
#[derive(Debug)]
pub(super) struct Late {
    numbers: Numbers,
    last_us: u64,
    /// In the lengths of gaps.
    owed: u128,
    gaps: Gaps,
}

impl Late {
    /// One that was idle as long as anybody knows.
    pub(super) fn idle(numbers: Numbers, now_us: u64) -> Self {
        let gaps = [Gap { stop_us: now_us, idle: u128::from(MAX) }].into_iter().collect();
        Self { numbers, last_us: now_us, owed: 0, gaps }
    }

    /// One as a store told it then, under these numbers.
    pub(super) fn told(bucket: Bucket, gaps: Gaps, numbers: Numbers, now_us: u64) -> Self {
        let Bucket { level, rem, n, period_us, last } = bucket;
        let owed = u128::from(level) * u128::from(period_us) + u128::from(rem);
        let told = Numbers { n, period_us, ..numbers };
        let mut late = Self { numbers: told, last_us: last, owed, gaps };
        late.age(now_us);
        late.retune(numbers);
        late
    }

    fn retune(&mut self, numbers: Numbers) {
        let [old, new] = [self.numbers, numbers]
            .map(|numbers| (u128::from(numbers.n.max(1)), u128::from(numbers.period_us)));
        self.numbers = numbers;
        if old == new {
            return;
        }
        self.owed = self.owed * new.1 / old.1;
        for gap in &mut self.gaps {
            gap.idle = gap.idle * new.0 / old.0;
        }
    }

    fn age(&mut self, now_us: u64) {
        let passed = u128::from(self.numbers.n) * u128::from(now_us.saturating_sub(self.last_us));
        if passed > self.owed {
            self.gaps.push(Gap { stop_us: now_us, idle: passed - self.owed });
        }
        self.owed = self.owed.saturating_sub(passed);
        self.last_us = self.last_us.max(now_us);
    }

    /// Charges what came then.
    pub(super) fn land(&mut self, Block { since_us, units }: Block) {
        self.age(since_us);
        let n = u128::from(self.numbers.n);
        let mut need = u128::from(units) * u128::from(self.numbers.period_us);
        let mut left = Gaps::new();
        for Gap { stop_us, idle } in self.gaps.drain(..) {
            let open = idle.min(n * u128::from(stop_us.saturating_sub(since_us)));
            let take = need.min(open);
            need -= take;
            let parts = [
                Gap { stop_us: since_us.min(stop_us), idle: idle - open },
                Gap { stop_us, idle: open - take },
            ];
            left.extend(parts.into_iter().filter(|gap| gap.idle > 0));
        }
        self.gaps = left;
        self.owed += need;
    }

    /// As it stands.
    pub(super) fn bucket(&self) -> Bucket {
        let Numbers { n, period_us, .. } = self.numbers;
        let period = u128::from(period_us);
        let level = u64::try_from(self.owed / period).map_or(MAX, |level| level.min(MAX));
        Bucket { level, rem: (self.owed % period) as u64, n, period_us, last: self.last_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: Numbers = Numbers { n: 1_000, period_us: 1_000_000, burst: 1_000 };
    const UNIT_US: u64 = 1_000;
    const NOW: u64 = 1_000_000_000;

    /// What a bucket holds that meets each request when it comes.
    fn owed(mut came: Vec<Block>, now_us: u64) -> u128 {
        came.sort_by_key(|block| block.since_us);
        let (mut owed, mut last_us) = (0_u128, 0);
        for Block { since_us, units } in came {
            owed = owed.saturating_sub(u128::from(NUMBERS.n * (since_us - last_us)));
            owed += u128::from(units * NUMBERS.period_us);
            last_us = since_us;
        }
        owed.saturating_sub(u128::from(NUMBERS.n * (now_us - last_us)))
    }

    proptest::proptest! {
        #[test]
        fn what_lands_late_is_as_if_it_had_come_in_time(
            came in proptest::collection::vec((0..50_000_u64, 1..30_u64), 1..10),
        ) {
            let mut late = Late::idle(NUMBERS, NOW);
            let came: Vec<_> = came
                .into_iter()
                .map(|(after_us, units)| Block { since_us: NOW - 25_000 + after_us, units })
                .collect();
            for block in &came {
                late.land(*block);
            }
            let now_us = NOW + 60_000;
            let found = late.bucket().drained(now_us);
            let found = u128::from(found.level * NUMBERS.period_us + found.rem);
            proptest::prop_assert_eq!(found, owed(came, now_us));
        }
    }

    fn level(late: &Late) -> (u64, u64) {
        let bucket = late.bucket();
        (bucket.level, bucket.last)
    }

    #[test]
    fn what_drained_before_it_was_told_adds_nothing() {
        let mut late = Late::idle(NUMBERS, NOW);
        late.land(Block { since_us: NOW - 10 * UNIT_US, units: 7 });
        assert_eq!(level(&late), (0, NOW));
        late.land(Block { since_us: NOW - 10 * UNIT_US, units: 7 });
        assert_eq!(level(&late), (4, NOW), "3 of them found it idle");
    }

    #[test]
    fn only_the_time_since_they_came_counts() {
        let mut late = Late::idle(NUMBERS, NOW);
        late.land(Block { since_us: NOW - 2 * UNIT_US, units: 5 });
        assert_eq!(level(&late), (3, NOW));
        late.land(Block { since_us: NOW - 6 * UNIT_US, units: 5 });
        assert_eq!(level(&late), (4, NOW), "4 units of time were left before the others");
    }

    #[test]
    fn what_came_after_the_store_spoke_waits_for_its_time() {
        let mut late = Late::idle(NUMBERS, NOW);
        late.land(Block { since_us: NOW - UNIT_US, units: 3 });
        late.land(Block { since_us: NOW + UNIT_US, units: 1 });
        assert_eq!(level(&late), (2, NOW + UNIT_US));
    }

    #[test]
    fn gaps_that_a_store_has_told_are_filled_first() {
        let bucket = Bucket { level: 4, rem: 0, n: 1_000, period_us: 1_000_000, last: NOW };
        let gap = Gap { stop_us: NOW - UNIT_US, idle: 2_000_000 };
        let told = |since_us| {
            let gaps = [gap].into_iter().collect();
            let mut late = Late::told(bucket, gaps, NUMBERS, NOW + UNIT_US);
            late.land(Block { since_us, units: 3 });
            level(&late).0
        };
        assert_eq!(told(NOW - 9 * UNIT_US), 3 + 1);
        assert_eq!(told(NOW - 2 * UNIT_US), 3 + 2);
        assert_eq!(told(NOW - UNIT_US), 3 + 3);
    }

    #[test]
    fn under_other_numbers_units_stay_units() {
        let bucket = Bucket { level: 4, rem: 0, n: 1_000, period_us: 1_000_000, last: NOW };
        let gaps = [Gap { stop_us: NOW, idle: 2_000_000 }].into_iter().collect();
        let doubled = Numbers { n: 2_000, period_us: 1_000_000, burst: 2_000 };
        let mut late = Late::told(bucket, gaps, doubled, NOW);
        assert_eq!(level(&late).0, 4);
        late.land(Block { since_us: NOW - 9 * UNIT_US, units: 5 });
        assert_eq!(level(&late).0, 5, "the same time drains twice as many");
    }
}
