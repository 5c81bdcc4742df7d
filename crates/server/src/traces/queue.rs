//! Spans that wait to be sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::otlp;
use super::span::Record;

/// Spans that wait at most, some 300 bytes each; further ones are counted and dropped.
const MOST_WAITING: usize = 2048;

/// The spans of one node.
#[derive(Debug, Default)]
pub struct Spans {
    // Guards what waits.
    waiting: Mutex<VecDeque<Record>>,
    dropped: AtomicU64,
}

impl Spans {
    pub(super) fn push(&self, record: Record) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < MOST_WAITING {
            waiting.push_back(record);
        } else {
            self.note_dropped(1);
        }
    }

    /// Takes the oldest, at most so many; each as OTLP has it in JSON.
    pub fn take(&self, most: usize) -> Vec<String> {
        let taken: Vec<Record> = {
            let mut waiting = self.waiting.lock();
            let count = most.min(waiting.len());
            waiting.drain(..count).collect()
        };
        taken.iter().map(otlp::span).collect()
    }

    /// Notes that so many were taken and then lost.
    pub fn note_dropped(&self, count: u64) {
        // Relaxed: a total that orders nothing.
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// Spans that found no room, or were taken and lost.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_taken_first_and_too_many_are_dropped() {
        let spans = Spans::default();
        for number in 1..=MOST_WAITING as u64 + 3 {
            spans.push(Record::for_test(number));
        }
        assert_eq!(spans.dropped(), 3);
        let first = spans.take(2);
        assert!(first[0].contains("\"spanId\":\"0000000000000001\""), "{first:?}");
        assert!(first[1].contains("\"spanId\":\"0000000000000002\""), "{first:?}");
        assert_eq!(spans.take(usize::MAX).len(), MOST_WAITING - 2);
        assert!(spans.take(1).is_empty());
        spans.note_dropped(2);
        assert_eq!(spans.dropped(), 5);
    }
}
