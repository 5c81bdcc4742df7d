//! Observed times by size: the buckets of a native histogram of schema 1 (two in each doubling), told
//! as classic ones, because the text format has no others.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Kind, Page};

/// Bounds from 2^-20 s (about 1 us) to 1 s in steps of the square root of 2.
const BOUNDS: usize = 41;

struct Bounds {
    ns: [u64; BOUNDS],
    text: [String; BOUNDS],
}

static BOUNDARIES: LazyLock<Bounds> = LazyLock::new(|| {
    let seconds = |at: usize| 2f64.powf((at as f64 - 40.0) / 2.0);
    Bounds {
        ns: std::array::from_fn(|at| (seconds(at) * 1e9) as u64),
        text: std::array::from_fn(|at| seconds(at).to_string()),
    }
});

/// Times of one kind. Threads share it: few requests are timed.
#[derive(Debug)]
pub struct Histogram {
    // The last bucket has no bound.
    buckets: [AtomicU64; BOUNDS + 1],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts a time. Totals order nothing else: `Relaxed`.
    pub fn observe(&self, ns: u64) {
        let at = BOUNDARIES.ns.partition_point(|bound| *bound < ns);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Writes the samples of one series.
    pub fn write(&self, page: &mut Page, name: &str, labels: &[(&str, &str)]) {
        let mut labels = labels.to_vec();
        let bucket = format!("{name}_bucket");
        let mut total = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            labels.push(("le", BOUNDARIES.text.get(at).map_or("+Inf", String::as_str)));
            page.sample(&bucket, &labels, total);
            labels.pop();
        }
        let sum_s = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        page.sample(&format!("{name}_sum"), &labels, sum_s);
        page.sample(&format!("{name}_count"), &labels, total);
    }

    /// A metric of one series.
    pub fn single(&self, page: &mut Page, name: &str, help: &str) {
        page.metric(name, Kind::Histogram, help);
        self.write(page, name, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_every_bucket_from_its_own_on() {
        let times = Histogram::default();
        for ns in [0, 953, 1_000_000, 1_000_000_000, 1_000_000_001, u64::from(u32::MAX)] {
            times.observe(ns);
        }
        let mut page = Page::default();
        times.single(&mut page, "x_seconds", "X.");
        let text = page.finish();
        assert!(text.contains("x_seconds_bucket{le=\"0.00000095367431640625\"} 2\n"), "{text}");
        assert!(text.contains("x_seconds_bucket{le=\"0.0009765625\"} 2\n"), "{text}");
        assert!(text.contains("x_seconds_bucket{le=\"0.0013810679320049757\"} 3\n"), "{text}");
        assert!(text.contains("x_seconds_bucket{le=\"1\"} 4\n"), "{text}");
        assert!(text.contains("x_seconds_bucket{le=\"+Inf\"} 6\nx_seconds_sum "), "{text}");
        assert!(text.contains("x_seconds_count 6\n"), "{text}");
    }
}
