//! Says when a store has stopped answering in time, so that nobody waits for it in vain.
//!
//! Late calls alone do not open it: they must have been all there was for some time. While it is
//! open nobody is sent, and a probe of our own, which charges nothing and for which no request
//! waits, finds out when answers come in time again.

use std::time::Duration;

use super::backoff::Backoff;
use crate::clock::Deadline;

/// How long answers must have been missing, in deadlines of a decision.
const OPEN_AFTER: u32 = 3;
/// Lateness that was followed by so much silence is forgotten.
const FORGET_AFTER: Duration = Duration::from_millis(500);
/// Between two probes at most.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// The breaker of one line.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    late: Option<Late>,
    open: Option<Open>,
}

/// Since when no answer came in time.
#[derive(Clone, Copy, Debug)]
struct Late {
    opens_at: Deadline,
    forgotten_at: Deadline,
}

#[derive(Debug)]
struct Open {
    next_probe: Deadline,
    backoff: Backoff,
}

impl Breaker {
    /// A call is late, and its answer is not here. True if this opens it.
    pub(super) fn is_late(&mut self, deadline: Duration) -> bool {
        let forgotten_at = Deadline::after(FORGET_AFTER);
        let late = match self.late {
            Some(late) if !late.forgotten_at.is_over() => Late { forgotten_at, ..late },
            _ => Late { opens_at: Deadline::after(deadline * OPEN_AFTER), forgotten_at },
        };
        self.late = Some(late);
        let opens = self.open.is_none() && late.opens_at.is_over();
        if opens {
            let mut backoff = Backoff::new();
            self.open = Some(Open { next_probe: Deadline::after(backoff.wait()), backoff });
        }
        opens
    }

    /// A call was answered that was due then. True if this closes it.
    #[inline]
    pub(super) fn is_answered(&mut self, due: Option<Deadline>) -> bool {
        if self.late.is_none() || due.is_some_and(Deadline::is_over) {
            return false;
        }
        self.late = None;
        self.open.take().is_some()
    }

    /// True if nobody should be sent.
    #[inline]
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// True if it is time for a probe; the next one comes later.
    pub(super) fn wants_probe(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        let is_due = open.next_probe.is_over();
        if is_due {
            open.next_probe = Deadline::after(open.backoff.wait().min(LONGEST_REST));
        }
        is_due
    }

    /// When the next probe is due.
    pub(super) fn next_probe(&self) -> Option<Deadline> {
        self.open.as_ref().map(|open| open.next_probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const DEADLINE: Duration = Duration::from_millis(10);

    #[test]
    fn lateness_must_last_and_one_answer_in_time_ends_it() {
        let (past, ahead) = (Deadline::after(Duration::ZERO), Deadline::after(FORGET_AFTER));
        let mut breaker = Breaker::default();
        assert!(!breaker.is_late(DEADLINE));
        assert!(!breaker.is_late(DEADLINE), "no more than a moment");
        sleep(DEADLINE * OPEN_AFTER);
        assert!(!breaker.is_answered(Some(ahead)));
        assert!(!breaker.is_late(DEADLINE), "it begins anew");
        sleep(DEADLINE * OPEN_AFTER);
        assert!(!breaker.is_answered(Some(past)), "an answer that comes late is none");
        assert!(breaker.is_late(DEADLINE));
        assert!(breaker.is_open());
        assert!(!breaker.is_late(DEADLINE), "open already");
        assert!(!breaker.wants_probe(), "not at once");
        sleep(Duration::from_millis(51));
        assert!(breaker.wants_probe());
        assert!(!breaker.wants_probe(), "one at a time");
        assert!(!breaker.is_answered(Some(past)));
        assert!(breaker.is_open());
        assert!(breaker.is_answered(Some(ahead)));
        assert!(!breaker.is_open());
    }

    #[test]
    fn what_was_late_long_ago_counts_no_more() {
        let mut breaker = Breaker::default();
        assert!(!breaker.is_late(DEADLINE));
        sleep(FORGET_AFTER + DEADLINE);
        assert!(!breaker.is_late(DEADLINE));
        assert!(!breaker.is_open());
    }
}
