//! Sliding log: the time and cost of each admitted request, exact over any period.

use std::collections::VecDeque;

use super::moved::shifted;

/// One instant at which something was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: u64,
    /// Units admitted up to and including this entry since the log began, so that the sum of any
    /// stretch is a difference and searches are binary.
    total: u64,
}

/// The log of one counter, in time order; equal times are one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// Units that have left the front of the log.
    gone: u64,
}

impl Log {
    /// Time of the newest entry, microseconds.
    #[inline]
    pub fn last(&self) -> Option<u64> {
        self.entries.back().map(|entry| entry.time)
    }

    /// Number of entries held, live or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The time of each entry, in order, and what was admitted then.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut before = self.gone;
        self.entries.iter().map(move |entry| {
            let cost = entry.total - before;
            before = entry.total;
            (entry.time, cost)
        })
    }

    /// Adds an entry behind the others; false, and nothing is added, if it is not later than they
    /// are or holds nothing.
    pub fn append(&mut self, time: u64, cost: u64) -> bool {
        let Some(total) = self.newest_total().checked_add(cost) else { return false };
        let may_follow = cost > 0 && self.last().is_none_or(|last| last < time);
        if may_follow {
            self.entries.push_back(Entry { time, total });
        }
        may_follow
    }

    /// Moves all entries to where they are as far from `to` as they were from `from`.
    pub(super) fn shift(&mut self, from: u64, to: u64) {
        for entry in &mut self.entries {
            entry.time = shifted(entry.time, from, to);
        }
    }

    /// Entries later than `now` become `now`, merged into one.
    pub fn rebase(&mut self, now: u64) {
        let keep = self.entries.partition_point(|entry| entry.time < now);
        if let Some(newest) = self.entries.back().copied() {
            self.entries.truncate(keep);
            self.entries.push_back(Entry { time: now, total: newest.total });
        }
    }

    /// Units in (now - period, now].
    pub fn used(&self, period: u64, now: u64) -> u64 {
        self.newest_total() - self.expired_total(period, now)
    }

    /// Adds `cost` at `now`, which is not before the newest entry, and drops what has expired.
    pub fn charge(&mut self, period: u64, now: u64, cost: u64) {
        self.prune(period, now);
        let total = self.newest_total() + cost;
        match self.entries.back_mut() {
            Some(entry) if entry.time == now => entry.total = total,
            _ => self.entries.push_back(Entry { time: now, total }),
        }
    }

    /// Takes `cost` back from the newest live entries.
    pub fn refund(&mut self, period: u64, now: u64, cost: u64) {
        self.prune(period, now);
        let keep = self.newest_total() - cost.min(self.newest_total() - self.gone);
        while let Some(entry) = self.entries.pop_back() {
            let before = self.newest_total();
            if before < keep {
                self.entries.push_back(Entry { time: entry.time, total: keep });
                break;
            }
        }
    }

    /// Microseconds until a refused `cost <= n` passes.
    pub fn wait(&self, period: u64, n: u64, now: u64, cost: u64) -> u64 {
        let must_leave = self.newest_total() + cost - n;
        let at = self.entries.partition_point(|entry| entry.total < must_leave);
        self.entries.get(at).map_or(0, |entry| entry.time + period - now)
    }

    /// Microseconds until the log is empty.
    pub fn reset(&self, period: u64, now: u64) -> u64 {
        self.last().map_or(0, |last| (last + period).saturating_sub(now))
    }

    fn prune(&mut self, period: u64, now: u64) {
        while let Some(entry) = self.entries.front() {
            if entry.time + period > now {
                break;
            }
            self.gone = entry.total;
            self.entries.pop_front();
        }
    }

    #[inline]
    fn newest_total(&self) -> u64 {
        self.entries.back().map_or(self.gone, |entry| entry.total)
    }

    fn expired_total(&self, period: u64, now: u64) -> u64 {
        let live = self.entries.partition_point(|entry| entry.time + period <= now);
        if live == 0 { self.gone } else { self.entries[live - 1].total }
    }
}
