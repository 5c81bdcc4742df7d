//! An open loop's schedule: when each request is due, and how late the generator came to it.
//!
//! The generator sleeps between ticks by a timer of the kernel, so that it neither spins away a
//! core that it shares with a store nor hands the server each request by itself.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde_json::{Map, Value};

use crate::count::{quantiles, times};

/// Between two looks at the schedule, in microseconds.
pub const TICK_US: u64 = 100;
/// A generator that is later than this measures itself: a quarter of the strictest bar at p99,
/// a fifth of that at p99.9.
const LATE_P99_US: u64 = 250;
const LATE_P999_US: u64 = 1_000;

/// A fixed rate. Times are microseconds since the start.
#[derive(Debug)]
pub struct Schedule {
    rate: u64,
    /// How many requests were found due so far.
    found: u64,
    next_tick: u64,
    is_measuring: bool,
    lateness: Histogram<u64>,
    timer: OwnedFd,
}

impl Schedule {
    /// So many requests a second, the first one at once. The poll is woken with the token.
    pub fn new(rate: u64, poll: &Poll, token: Token) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self {
            rate: rate.max(1),
            found: 0,
            next_tick: 0,
            is_measuring: false,
            lateness: times(),
            timer,
        })
    }

    /// Lateness counts from here on.
    pub const fn measure(&mut self) {
        self.is_measuring = true;
    }

    /// At a tick: the number of requests due since the start. Between ticks none are newly due.
    pub fn due(&mut self, now: u64) -> u64 {
        if now >= self.next_tick {
            while self.due_at(self.found) <= now {
                if self.is_measuring {
                    let late = now - self.due_at(self.found);
                    self.lateness.saturating_record(late.max(1));
                }
                self.found += 1;
            }
            self.next_tick = self.due_at(self.found).max(now + 1).next_multiple_of(TICK_US);
        }
        self.found
    }

    /// When a request, counted from zero, is due.
    pub fn due_at(&self, request: u64) -> u64 {
        (u128::from(request) * 1_000_000 / u128::from(self.rate)) as u64
    }

    /// Has the poll woken at the next tick; false if that is already there.
    pub fn arm(&self, now: u64) -> io::Result<bool> {
        let Some(wait) = self.next_tick.checked_sub(now).filter(|wait| *wait > 0) else {
            return Ok(false);
        };
        let wait = Duration::from_micros(wait);
        let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(true)
    }

    /// How late it was; and what is wrong with that, if it was too late.
    pub fn report(&self) -> (Map<String, Value>, Option<String>) {
        let (p99, p999) =
            (self.lateness.value_at_quantile(0.99), self.lateness.value_at_quantile(0.999));
        let is_late = p99 > LATE_P99_US || p999 > LATE_P999_US;
        let problem = is_late.then(|| {
            format!(
                "the generator was late: p99 {p99} us, p99.9 {p999} us; the core is not its own"
            )
        });
        (quantiles(&self.lateness), problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate: u64) -> Schedule {
        let mut schedule = Schedule::new(rate, &Poll::new().unwrap(), Token(0)).unwrap();
        schedule.measure();
        schedule
    }

    #[test]
    fn requests_are_found_at_ticks_and_their_lateness_counts_from_when_they_were_due() {
        let mut schedule = schedule(100_000);
        assert_eq!(schedule.due(0), 1);
        assert_eq!(schedule.due(TICK_US - 1), 1, "between ticks");
        assert_eq!(schedule.due(TICK_US), 11);
        assert_eq!(schedule.due_at(3), 30);
        assert_eq!(schedule.report().0["max_us"], 90);
        assert_eq!(schedule.report().1, None);
    }

    #[test]
    fn a_generator_that_sleeps_too_long_says_so() {
        let mut schedule = schedule(100_000);
        assert_eq!(schedule.due(10_000), 1_001);
        assert!(schedule.report().1.unwrap().contains("late"));
    }

    #[test]
    fn the_timer_is_set_for_the_next_tick_and_not_for_one_that_is_there() {
        let mut schedule = schedule(1_000);
        schedule.due(10);
        assert!(schedule.arm(20).unwrap(), "the first one is due after a millisecond");
        assert!(schedule.arm(TICK_US).unwrap());
        assert!(!schedule.arm(1_000).unwrap());
    }
}
