//! Sliding window in slots: a period is split into equal parts, and the window is the parts of one
//! period and the one before them, as far as the period still covers it.
//!
//! With `conservative` that oldest part counts whole. The admissions of any period lie in no more
//! parts than are counted at the last of them, so they are never more than N.

use super::Numbers;
use crate::units::{add, mul_div};

/// Parts that a period is split into at most.
pub const MOST_SLOTS: u64 = 60;

/// How a window is split: it stands in the numbers of a limit, in place of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Parts of a period, 1 to 60.
    pub slots: u64,
    /// True if the oldest part counts whole.
    pub is_conservative: bool,
}

impl Shape {
    /// As the numbers hold it.
    pub const fn packed(self) -> u64 {
        self.slots << 1 | self.is_conservative as u64
    }

    /// What the numbers hold.
    #[inline]
    pub const fn of(numbers: &Numbers) -> Self {
        let slots = numbers.burst >> 1;
        // The loader lets in nothing else; this keeps a division from ever finding 0.
        let slots = if slots == 0 || slots > MOST_SLOTS { 1 } else { slots };
        Self { slots, is_conservative: numbers.burst & 1 == 1 }
    }

    /// The number of the slot that holds a time.
    const fn slot(self, period: u64, time: u64) -> u64 {
        time / period * self.slots + time % period * self.slots / period
    }

    /// True if one slot holds both times.
    pub const fn is_same_slot(self, period: u64, a: u64, b: u64) -> bool {
        self.slot(period, a) == self.slot(period, b)
    }

    /// Where a slot begins.
    const fn start(self, period: u64, slot: u64) -> u64 {
        slot / self.slots * period + (slot % self.slots * period).div_ceil(self.slots)
    }
}

/// Counts of the slot that holds `last` and of those before it, newest first: one period's, and one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    counts: Box<[u64]>,
    /// Time of the last write, microseconds.
    pub last: u64,
}

impl Slots {
    /// An unused window.
    pub fn fresh(numbers: &Numbers, now: u64) -> Self {
        let length = Shape::of(numbers).slots as usize + 1;
        Self { counts: vec![0; length].into(), last: now }
    }

    /// A window of these counts, newest first; none where no split has that many.
    pub fn of(counts: Vec<u64>, last: u64) -> Option<Self> {
        let is_split = (2..=MOST_SLOTS as usize + 1).contains(&counts.len());
        is_split.then(|| Self { counts: counts.into(), last })
    }

    /// What it counted, newest first.
    pub const fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Numbers that split a period as this window is split. They are no limit's: N is 0, and whether
    /// the oldest slot counts whole does not stand in a window.
    pub const fn split(&self, period_us: u64) -> Numbers {
        let shape = Shape { slots: self.counts.len() as u64 - 1, is_conservative: false };
        Numbers { n: 0, period_us, burst: shape.packed() }
    }

    /// Taken from `from` to another clock, which shows `to`: what `from` sees is in the slots of `to`.
    pub(super) fn shift(&mut self, period_us: u64, from: u64, to: u64) {
        self.roll(&self.split(period_us), from.max(self.last));
        self.last = to;
    }

    /// True if it is split as these numbers say; a shared counter may meet others.
    pub const fn is_split_as(&self, numbers: &Numbers) -> bool {
        self.counts.len() == Shape::of(numbers).slots as usize + 1
    }

    /// How many slots have begun since the last write.
    fn moved(&self, numbers: &Numbers, now: u64) -> usize {
        let (shape, period) = (Shape::of(numbers), numbers.period_us);
        // One of which nothing is left has no clock, so `now` may lie before it.
        shape.slot(period, now).saturating_sub(shape.slot(period, self.last)) as usize
    }

    /// The counts as seen from `now`, newest first; slots of which nothing was written are left out.
    fn seen(&self, numbers: &Numbers, now: u64) -> (usize, &[u64]) {
        let moved = self.moved(numbers, now).min(self.counts.len());
        (moved, &self.counts[..self.counts.len() - moved])
    }

    /// Brings the counts to `now`, where something is about to be written.
    fn roll(&mut self, numbers: &Numbers, now: u64) {
        let moved = self.moved(numbers, now).min(self.counts.len());
        let kept = self.counts.len() - moved;
        self.counts.copy_within(..kept, moved);
        self.counts[..moved].fill(0);
        self.last = now;
    }

    /// Units taken as the window sees them; what passes 2^53 saturates.
    pub fn used(&self, numbers: &Numbers, now: u64) -> u64 {
        let (shape, period) = (Shape::of(numbers), numbers.period_us);
        let Some((oldest, others)) = self.seen(numbers, now).1.split_last() else { return 0 };
        let others = others.iter().fold(0, |sum, count| add(sum, *count));
        if shape.is_conservative || *oldest == 0 {
            return add(others, *oldest);
        }
        let slot = shape.slot(period, now);
        let (begin, end) = (shape.start(period, slot), shape.start(period, slot + 1));
        let (whole, part) = mul_div(*oldest, end - now, end - begin);
        add(others, whole + u64::from(part > 0))
    }

    /// True if nothing is left of it.
    pub fn is_unused(&self, numbers: &Numbers, now: u64) -> bool {
        self.seen(numbers, now).1.iter().all(|count| *count == 0)
    }

    /// Takes `cost` in the slot of `now`.
    pub fn charge(&mut self, numbers: &Numbers, now: u64, cost: u64) {
        self.roll(numbers, now);
        self.counts[0] = add(self.counts[0], cost);
    }

    /// Gives `cost` back to the slot of `now`, and to no other.
    pub fn refund(&mut self, numbers: &Numbers, now: u64, cost: u64) {
        self.roll(numbers, now);
        self.counts[0] = self.counts[0].saturating_sub(cost);
    }

    /// Microseconds until a refused `cost <= n` passes.
    pub fn wait(&self, numbers: &Numbers, now: u64, cost: u64) -> u64 {
        let (shape, period) = (Shape::of(numbers), numbers.period_us);
        let (moved, counts) = self.seen(numbers, now);
        let count = |age: usize| age.checked_sub(moved).and_then(|at| counts.get(at)).copied();
        let slots = shape.slots as usize;
        let room = numbers.n - cost;
        // From slot to slot: the oldest of each one's window has the age of a period now and falls by one.
        let slot = shape.slot(period, now);
        for step in 0..=slots {
            let (begin, end) = {
                let at = slot + step as u64;
                (shape.start(period, at), shape.start(period, at + 1))
            };
            let age = slots - step;
            let whole = (0..age).fold(0, |sum, age| add(sum, count(age).unwrap_or(0)));
            let oldest = count(age).unwrap_or(0);
            if whole > room {
                continue;
            }
            if oldest <= room - whole {
                return begin.saturating_sub(now);
            }
            if shape.is_conservative {
                continue;
            }
            let (overlap, _) = mul_div(room - whole, end - begin, oldest);
            if overlap > 0 {
                return end - overlap - now;
            }
        }
        shape.start(period, slot + shape.slots + 1) - now
    }

    /// Microseconds until it holds nothing.
    pub fn reset(&self, numbers: &Numbers, now: u64) -> u64 {
        let (shape, period) = (Shape::of(numbers), numbers.period_us);
        let (moved, counts) = self.seen(numbers, now);
        let newest = counts.iter().position(|count| *count > 0);
        newest.map_or(0, |at| {
            let left = self.counts.len() - (moved + at);
            shape.start(period, shape.slot(period, now) + left as u64) - now
        })
    }
}
