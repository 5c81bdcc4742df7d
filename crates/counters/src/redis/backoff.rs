//! How long to wait before the next attempt to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
/// Below the two seconds within which service is to be normal once the store is back.
const LONGEST: Duration = Duration::from_millis(1500);

/// Doubles from attempt to attempt, each wait drawn from its upper half so that nodes which lost
/// one store together do not come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// After a call that the store answered.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    pub(super) fn wait(&mut self) -> Duration {
        let most = self.next;
        self.next = (most * 2).min(LONGEST);
        // The standard hasher's keys come from the system's random source.
        let draw = RandomState::new().hash_one(0u8) % 1024;
        most / 2 + most / 2 * draw as u32 / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_again_after_success() {
        let mut backoff = Backoff::new();
        let mut most = FIRST;
        for _ in 0..12 {
            let wait = backoff.wait();
            assert!(wait >= most / 2 && wait <= most, "{wait:?} of {most:?}");
            most = (most * 2).min(LONGEST);
        }
        backoff.reset();
        assert!(backoff.wait() <= FIRST);
    }
}
