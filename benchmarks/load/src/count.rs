//! Good answers with their times, and everything that makes a run void.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::seconds::BySecond;

/// The count of a run.
#[derive(Debug)]
pub struct Count {
    /// Answers outside the measured time are checked like all others but not counted as rate.
    pub is_measuring: bool,
    /// What was asked before that time does not count either: on a schedule, where what was late
    /// before the measured time is answered within it.
    pub asked_from: u64,
    /// On a schedule, the same times by the second in which they were due.
    pub by_second: Option<BySecond>,
    answers: u64,
    times: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    /// When the first and the last error came, in microseconds since the start.
    errors_at: Option<(u64, u64)>,
    now: u64,
}

impl Default for Count {
    fn default() -> Self {
        Self {
            is_measuring: false,
            asked_from: 0,
            by_second: None,
            answers: 0,
            times: times(),
            errors: BTreeMap::new(),
            errors_at: None,
            now: 0,
        }
    }
}

impl Count {
    /// Sets the time at which what follows came, in microseconds since the start.
    pub const fn at(&mut self, now: u64) {
        self.now = now;
    }

    /// Counts a mistake; a single one makes the run void.
    pub fn error(&mut self, what: impl Into<String>) {
        *self.errors.entry(what.into()).or_default() += 1;
        let first = self.errors_at.map_or(self.now, |(first, _)| first);
        self.errors_at = Some((first, self.now));
    }

    /// Counts a good answer and the time it took; says whether it counts as rate.
    pub fn good(&mut self, micros: u64) -> bool {
        let asked = self.now.saturating_sub(micros);
        let counts = self.is_measuring && asked >= self.asked_from;
        if counts {
            self.answers += 1;
            self.times.saturating_record(micros.max(1));
            if let Some(by_second) = &mut self.by_second {
                by_second.record(asked - self.asked_from, micros);
            }
        }
        counts
    }

    /// What is printed. `cpu` holds the seconds that each process used meanwhile.
    pub fn report(&self, seconds: f64, cpu: &[(String, f64)]) -> Map<String, Value> {
        let answers = self.answers;
        let per_answer: Map<String, Value> = cpu
            .iter()
            .map(|(name, used)| (name.clone(), json!(round(used * 1e6 / answers.max(1) as f64))))
            .collect();
        let share: Map<String, Value> =
            cpu.iter().map(|(name, used)| (name.clone(), json!(round(used / seconds)))).collect();
        let mut report = quantiles(&self.times);
        report.extend([
            ("rate".to_owned(), json!((answers as f64 / seconds).round())),
            ("answers".to_owned(), json!(answers)),
            ("seconds".to_owned(), json!(round(seconds))),
            ("cpu_us".to_owned(), Value::Object(per_answer)),
            ("cpu_share".to_owned(), Value::Object(share)),
            ("errors".to_owned(), json!(self.errors)),
            ("errors_at_us".to_owned(), json!(self.errors_at)),
            ("is_void".to_owned(), json!(answers == 0 || !self.errors.is_empty())),
        ]);
        report
    }
}

/// Times of up to a minute in steps of a microsecond, three digits exact.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are constant and legal"))
}

/// The times that are told of a histogram.
pub fn quantiles(times: &Histogram<u64>) -> Map<String, Value> {
    [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)]
        .into_iter()
        .map(|(name, quantile)| (name.to_owned(), json!(times.value_at_quantile(quantile))))
        .collect()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_in_the_measured_time_alone() {
        let mut count = Count::default();
        assert!(!count.good(500_000));
        count.is_measuring = true;
        assert!(count.good(10) && count.good(20));
        let report = count.report(2.0, &[("server".to_owned(), 1.0)]);
        assert_eq!((&report["answers"], &report["rate"]), (&json!(2), &json!(1.0)));
        assert_eq!((&report["max_us"], &report["is_void"]), (&json!(20), &json!(false)));
        assert_eq!(report["cpu_us"]["server"], json!(500_000.0));
        assert_eq!(report["cpu_share"]["server"], json!(0.5));
    }

    #[test]
    fn what_was_due_before_the_measured_time_does_not_count_on_a_schedule() {
        let mut count = Count { is_measuring: true, asked_from: 100, ..Count::default() };
        count.at(150);
        assert!(!count.good(51));
        assert!(count.good(50));
    }

    #[test]
    fn one_error_makes_it_void_and_its_time_is_told() {
        let mut count = Count { is_measuring: true, ..Count::default() };
        count.good(10);
        for now in [7, 9] {
            count.at(now);
            count.error("degraded");
        }
        let report = count.report(1.0, &[]);
        assert_eq!(report["errors"], json!({"degraded": 2}));
        assert_eq!((&report["errors_at_us"], &report["is_void"]), (&json!([7, 9]), &json!(true)));
    }
}
