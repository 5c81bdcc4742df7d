//! How often a worker is asked for counters whose limits are decided at the node when they run hot.
//!
//! Counters share places by hash, and what is counted halves every second: a place that is warm
//! through several counters at most has some of them decided here that need not be, which their
//! limits permit.

const PLACES: usize = 4096;
/// Promoted at a thousand decisions a second, which keep twice that many here; demoted under half.
const HOT: u32 = 2_000;
const COOL: u32 = HOT / 2;

/// What one worker has counted.
#[derive(Debug)]
pub(in crate::redis) struct Heat {
    counts: Box<[u32]>,
    is_cold: bool,
}

impl Default for Heat {
    fn default() -> Self {
        Self { counts: vec![0; PLACES].into(), is_cold: true }
    }
}

impl Heat {
    /// One more decision; true if the counter runs hot.
    #[inline]
    pub(super) fn touch(&mut self, hash: u64) -> bool {
        self.is_cold = false;
        let count = &mut self.counts[hash as usize % PLACES];
        *count = count.saturating_add(1);
        *count >= HOT
    }

    /// True if it no longer runs hot.
    pub(super) fn is_cool(&self, hash: u64) -> bool {
        self.counts[hash as usize % PLACES] < COOL
    }

    /// A second has passed.
    pub(super) fn halve(&mut self) {
        if !self.is_cold {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.is_cold = self.counts.iter().all(|count| *count == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rate: u32, seconds: u32) -> (Heat, bool) {
        let mut heat = Heat::default();
        let mut is_hot = false;
        for _ in 0..seconds {
            heat.halve();
            is_hot = (0..rate).fold(false, |_, _| heat.touch(7));
        }
        (heat, is_hot)
    }

    #[test]
    fn a_thousand_a_second_are_hot_and_fewer_are_not() {
        assert!(after(1_050, 20).1);
        assert!(!after(950, 20).1);
    }

    #[test]
    fn a_counter_cools_below_half_of_that() {
        assert!(after(450, 20).0.is_cool(7));
        assert!(!after(600, 20).0.is_cool(7));
    }
}
