//! What a node has admitted and not told yet: how much, and from when on it counts.

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Numbers};

/// Units that count from a moment of the store's clock on: the start of their window; of a bucket
/// when a stretch of time began in which they alone kept it busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) since_us: u64,
    pub(super) units: u64,
}

/// Oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken(SmallVec<[Block; MOST]>);

/// Stretches that are told apart. Beyond, the two with the least idle time between become one, which
/// says of some units that they came that much earlier.
const MOST: usize = 4;

impl Taken {
    /// All units.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|block| block.units).sum()
    }

    /// Block by block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> {
        self.0.iter().copied()
    }

    /// The units that count from exactly then on.
    pub(super) fn of(&self, since_us: u64) -> u64 {
        self.blocks().filter(|block| block.since_us == since_us).map(|block| block.units).sum()
    }

    /// Adds what was admitted then: in the window that starts then, or into the bucket.
    pub(super) fn add(&mut self, new: Block, algorithm: Algorithm, numbers: Numbers) {
        let Some(last) = self.0.last_mut() else { return self.0.push(new) };
        let is_bucket = algorithm == Algorithm::TokenBucket;
        let is_same =
            new.since_us <= last.since_us || (is_bucket && idle(*last, new, numbers) <= 0);
        if is_same {
            last.units += new.units;
            return;
        }
        if !is_bucket {
            let before_us = new.since_us - numbers.period_us;
            self.0.retain(|block| block.since_us >= before_us);
        }
        self.0.push(new);
        if self.0.len() > MOST {
            self.join(numbers);
        }
    }

    /// Adds what was not told after all, and came before the rest.
    pub(super) fn put_back(&mut self, older: Self, algorithm: Algorithm, numbers: Numbers) {
        for block in std::mem::replace(self, older).0 {
            self.add(block, algorithm, numbers);
        }
    }

    fn join(&mut self, numbers: Numbers) {
        let idle_before = |at: &usize| idle(self.0[at - 1], self.0[*at], numbers);
        let Some(at) = (1..self.0.len()).min_by_key(idle_before) else { return };
        self.0[at - 1].units += self.0.remove(at).units;
    }
}

/// How long a bucket is idle between the units of one block and the next, in 1/n of a microsecond.
fn idle(block: Block, next: Block, numbers: Numbers) -> i128 {
    let passed = i128::from(numbers.n) * i128::from(next.since_us - block.since_us);
    passed - i128::from(block.units) * i128::from(numbers.period_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: Numbers = Numbers { n: 1_000, period_us: 1_000_000, burst: 1_000 };
    const UNIT_US: u64 = 1_000;

    fn bucket(came: &[(u64, u64)]) -> Vec<(u64, u64)> {
        told(came, Algorithm::TokenBucket)
    }

    fn told(came: &[(u64, u64)], algorithm: Algorithm) -> Vec<(u64, u64)> {
        let mut taken = Taken::default();
        for (since_us, units) in came.iter().copied() {
            taken.add(Block { since_us, units }, algorithm, NUMBERS);
        }
        taken.blocks().map(|block| (block.since_us, block.units)).collect()
    }

    #[test]
    fn units_of_one_busy_stretch_are_one_block() {
        assert_eq!(bucket(&[(5, 2), (5 + 2 * UNIT_US, 1), (5 + 3 * UNIT_US, 1)]), [(5, 4)]);
        assert_eq!(bucket(&[(5, 2), (6 + 2 * UNIT_US, 1)]), [(5, 2), (6 + 2 * UNIT_US, 1)]);
    }

    #[test]
    fn a_clock_that_steps_back_makes_no_older_block() {
        assert_eq!(bucket(&[(5_000, 2), (10, 1)]), [(5_000, 3)]);
    }

    #[test]
    fn beyond_so_many_the_nearest_become_one() {
        let came = [(0, 1), (9_000, 1), (11_000, 1), (20_000, 1), (30_000, 1)];
        assert_eq!(bucket(&came), [(0, 1), (9_000, 2), (20_000, 1), (30_000, 1)]);
    }

    #[test]
    fn of_windows_this_one_and_the_one_before_are_kept() {
        let window = |at: u64| at * NUMBERS.period_us;
        let came = [(window(7), 1), (window(7), 2), (window(8), 3)];
        assert_eq!(told(&came, Algorithm::FixedWindow), [(window(7), 3), (window(8), 3)]);
        let came = [(window(7), 1), (window(8), 3), (window(9), 4)];
        assert_eq!(told(&came, Algorithm::FixedWindow), [(window(8), 3), (window(9), 4)]);
        let came = [(window(7), 1), (window(9), 4)];
        assert_eq!(told(&came, Algorithm::FixedWindow), [(window(9), 4)]);
    }

    #[test]
    fn what_is_put_back_comes_first() {
        let of = |since_us, units| Taken([Block { since_us, units }].into_iter().collect());
        let mut taken = of(9_000, 2);
        taken.put_back(of(1_000, 3), Algorithm::TokenBucket, NUMBERS);
        assert_eq!(taken.sum(), 5);
        assert_eq!((taken.of(1_000), taken.of(9_000)), (3, 2));
        taken.put_back(of(0, 1), Algorithm::TokenBucket, NUMBERS);
        assert_eq!((taken.of(0), taken.of(9_000)), (4, 2));
    }
}
