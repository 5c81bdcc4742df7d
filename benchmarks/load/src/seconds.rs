//! Times by the second in which they began, so that those seconds can be told apart in which the
//! machine's cores were away.

use std::fs;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::count::{quantiles, times};

const SECOND_US: u64 = 1_000_000;

/// A histogram for each second since the measured time began.
#[derive(Debug, Default)]
pub struct BySecond(Vec<Histogram<u64>>);

impl BySecond {
    /// With room for so many seconds that is written to, so that nothing waits for memory while it
    /// is measured: a machine's host may take tens of milliseconds to hand over a large page.
    pub fn of_seconds(count: usize) -> Self {
        let room = || {
            let mut times = times();
            times.clear();
            times
        };
        Self((0..count).map(|_| room()).collect())
    }

    /// Takes what began at `at` microseconds after the measured time began, and how long it took.
    pub fn record(&mut self, at: u64, micros: u64) {
        let second = (at / SECOND_US) as usize;
        while self.0.len() <= second {
            self.0.push(times());
        }
        self.0[second].saturating_record(micros.max(1));
    }

    /// The times of those seconds together.
    pub fn of(&self, seconds: &[usize]) -> Histogram<u64> {
        let mut all = times();
        for second in seconds.iter().filter_map(|second| self.0.get(*second)) {
            all.add(second).unwrap_or_else(|_| unreachable!("the bounds are the same"));
        }
        all
    }
}

/// For how long the machine's host kept cores from it, second by second.
#[derive(Debug, Default)]
pub struct Stolen {
    last: u64,
    ticks: Vec<u64>,
}

impl Stolen {
    /// From here on.
    pub fn since_now() -> Self {
        Self { last: stolen_ticks(), ticks: Vec::new() }
    }

    /// As if that many ticks had been seen in each second.
    #[cfg(test)]
    pub fn of(ticks: &[u64]) -> Self {
        Self { last: 0, ticks: ticks.to_vec() }
    }

    /// Reads the machine's count where a second or more has begun; `at` is in microseconds.
    pub fn note(&mut self, at: u64) {
        let second = (at / SECOND_US) as usize;
        if second <= self.ticks.len() {
            return;
        }
        let now = stolen_ticks();
        // All seconds since the last look: which of them it was cannot be told.
        self.ticks.resize(second, now - self.last);
        self.last = now;
    }

    /// The seconds among the first `count` in which no core was away, nor in the one before:
    /// what waited then is answered in the next.
    pub fn undisturbed(&self, count: usize) -> Vec<usize> {
        let is_quiet = |second: &usize| {
            let is_zero = |second: usize| self.ticks.get(second).is_some_and(|ticks| *ticks == 0);
            is_zero(*second) && (*second == 0 || is_zero(second - 1))
        };
        (0..count).filter(is_quiet).collect()
    }

    /// What is told: the times of the seconds that count, and how many those are.
    pub fn report(&self, times: &BySecond, count: usize) -> Map<String, Value> {
        let counted = self.undisturbed(count);
        let mut report = quantiles(&times.of(&counted));
        report.insert("seconds".to_owned(), json!(counted.len()));
        report.insert("of".to_owned(), json!(count));
        report
    }
}

/// `steal` of all cores, in clock ticks.
fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    first.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_counts_if_no_core_was_away_in_it_and_in_the_one_before() {
        let stolen = Stolen::of(&[0, 0, 3, 0, 0, 0]);
        assert_eq!(stolen.undisturbed(6), [0, 1, 4, 5]);
        assert_eq!(stolen.undisturbed(7), [0, 1, 4, 5], "what was not looked at does not count");
    }

    #[test]
    fn times_stand_in_the_second_in_which_they_began() {
        let mut times = BySecond::default();
        for (at, micros) in [(0, 10), (999_999, 20), (3_000_000, 5_000_000)] {
            times.record(at, micros);
        }
        assert_eq!(times.of(&[0, 1, 2]).len(), 2);
        assert_eq!(times.of(&[0, 1, 2]).max(), 20);
        assert_eq!(times.of(&[3, 9]).len(), 1);
    }

    #[test]
    fn room_that_was_made_before_holds_nothing_yet() {
        let mut times = BySecond::of_seconds(2);
        assert_eq!(times.of(&[0, 1]).len(), 0);
        times.record(1_500_000, 10);
        assert_eq!((times.of(&[0]).len(), times.of(&[1]).len()), (0, 1));
    }

    #[test]
    fn a_look_that_comes_late_says_the_same_of_every_second_since_the_last() {
        let mut stolen = Stolen::of(&[]);
        stolen.note(999_999);
        assert!(stolen.ticks.is_empty(), "the first second is not over");
        stolen.note(2_100_000);
        assert_eq!(stolen.ticks.len(), 2);
        assert_eq!(stolen.ticks[0], stolen.ticks[1]);
    }
}
