//! Which decisions are looked at: one in [`ONE_IN`], by chance, so that no rhythm of the requests
//! can hide from it. What is not looked at costs a count and a comparison.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// Each decision that is looked at stands for so many.
pub const ONE_IN: u32 = 32;

thread_local! {
    static NEXT: Next = const { Next { left: Cell::new(1), state: Cell::new(0) } };
}

/// When a thread looks next.
struct Next {
    left: Cell<u32>,
    // Of the generator of gaps; 0 before the first.
    state: Cell<u64>,
}

/// True if this decision of this thread is one to be looked at.
#[inline]
pub fn is_sampled() -> bool {
    NEXT.with(|next| {
        let left = next.left.get() - 1;
        next.left.set(left);
        left == 0 && next.draw()
    })
}

/// Has this thread look at its next decision in place of this one.
pub fn postpone() {
    NEXT.with(|next| next.left.set(1));
}

impl Next {
    /// Draws the gap to the next one, from 1 to twice the mean less 1. The first of a thread only
    /// begins the count: else the few decisions of many threads would be seen too often.
    #[cold]
    fn draw(&self) -> bool {
        let is_first = self.state.get() == 0;
        if is_first {
            self.state.set(RandomState::new().hash_one(0u8) | 1);
        }
        // Marsaglia's xorshift: never 0 after a state that is not.
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        // The upper bits, scaled: below 2 * ONE_IN - 1.
        let drawn = ((state >> 32) * u64::from(2 * ONE_IN - 1)) >> 32;
        self.left.set(1 + drawn as u32);
        !is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_looked_at_whatever_the_rhythm() {
        const RHYTHM: usize = ONE_IN as usize;
        let mut sampled = [0u32; RHYTHM];
        let rounds = 100_000;
        for at in 0..RHYTHM * rounds {
            sampled[at % RHYTHM] += u32::from(is_sampled());
        }
        let expected = (rounds as u32) / ONE_IN;
        // Fifteen standard deviations, of 56 each.
        let is_near = |found: &u32| found.abs_diff(expected) < 840;
        assert!(sampled.iter().all(is_near), "{sampled:?} are not near {expected}");
    }

    #[test]
    fn what_is_postponed_is_the_next_one() {
        while !is_sampled() {}
        postpone();
        assert!(is_sampled());
    }
}
