//! How often a worker is asked for counters whose limits are decided at the node when they are asked
//! for often.
//!
//! Counters share places by hash, and what is counted halves every second: a place that is warm
//! through several counters at most has some of them decided here that need not be, which their
//! limits permit.

const PLACES: usize = 1 << 16;
/// Promoted at a thousand decisions a second, which keep twice that many here; demoted under half.
const HOT: u16 = 2_000;
const COOL: u16 = HOT / 2;
/// A mirror costs a call before it answers: what is asked for less than some 4 times a second is not
/// worth one, and a flood of strangers is not taken for one counter.
const WARM: u16 = 8;

/// What one worker has counted.
#[derive(Debug)]
pub(in crate::redis) struct Heat {
    counts: Box<[u16]>,
    is_cold: bool,
}

impl Default for Heat {
    fn default() -> Self {
        Self { counts: Box::default(), is_cold: true }
    }
}

impl Heat {
    /// One more decision.
    #[inline]
    pub(super) fn touch(&mut self, hash: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; PLACES].into();
        }
        self.is_cold = false;
        let count = &mut self.counts[hash as usize % PLACES];
        *count = count.saturating_add(1);
    }

    /// True if it is asked for so often that its mirror costs less than the questions.
    #[inline]
    pub(super) fn is_warm(&self, hash: u64) -> bool {
        self.of(hash) >= WARM
    }

    /// True if it runs hot.
    #[inline]
    pub(super) fn is_hot(&self, hash: u64) -> bool {
        self.of(hash) >= HOT
    }

    /// True if it no longer runs hot.
    pub(super) fn is_cool(&self, hash: u64) -> bool {
        self.of(hash) < COOL
    }

    /// A second has passed.
    pub(super) fn halve(&mut self) {
        if !self.is_cold {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.is_cold = self.counts.iter().all(|count| *count == 0);
        }
    }

    #[inline]
    fn of(&self, hash: u64) -> u16 {
        self.counts.get(hash as usize % PLACES).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rate: u32, seconds: u32) -> Heat {
        let mut heat = Heat::default();
        for _ in 0..seconds {
            heat.halve();
            (0..rate).for_each(|_| heat.touch(7));
        }
        heat
    }

    #[test]
    fn a_thousand_a_second_are_hot_and_fewer_are_not() {
        assert!(after(1_050, 20).is_hot(7));
        assert!(!after(950, 20).is_hot(7));
    }

    #[test]
    fn four_a_second_are_warm_and_fewer_are_not() {
        assert!(after(5, 20).is_warm(7));
        assert!(!after(3, 20).is_warm(7) && !Heat::default().is_warm(7));
    }

    #[test]
    fn a_counter_cools_below_half_of_hot() {
        assert!(after(450, 20).is_cool(7));
        assert!(!after(600, 20).is_cool(7));
    }
}
