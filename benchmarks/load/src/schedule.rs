//! An open loop's schedule: when each request is due, and how late the generator came to it.
//!
//! Requests go out at ticks, so that the server is not handed each by itself. Between ticks the
//! generator may sleep by a timer of the kernel, so as not to spin away a core that it shares.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde_json::{Map, Value, json};

use crate::count::quantiles;
use crate::seconds::{BySecond, Stolen};

/// Between two looks at the schedule, in microseconds.
pub const TICK_US: u64 = 100;
/// A generator that is later than this measures itself: a quarter of the strictest bar at p99,
/// a fifth of that at p99.9.
const LATE_P99_US: u64 = 250;
const LATE_P999_US: u64 = 1_000;

/// What is kept of the measured time.
#[derive(Debug)]
struct Measured {
    since: u64,
    stolen: Stolen,
}

/// A fixed rate. Times are microseconds since the start.
#[derive(Debug)]
pub struct Schedule {
    rate: u64,
    /// How many requests were found due so far.
    found: u64,
    next_tick: u64,
    lateness: BySecond,
    /// None before the measured time.
    measured: Option<Measured>,
    timer: OwnedFd,
}

impl Schedule {
    /// So many requests a second, the first one at once, with room for the lateness of so many
    /// seconds. The poll is woken with the token.
    pub fn new(rate: u64, seconds: usize, poll: &Poll, token: Token) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        let (rate, lateness) = (rate.max(1), BySecond::of_seconds(seconds));
        Ok(Self { rate, found: 0, next_tick: 0, lateness, measured: None, timer })
    }

    /// Lateness counts from here on.
    pub fn measure(&mut self, now: u64) {
        self.measured = Some(Measured { since: now, stolen: Stolen::since_now() });
    }

    /// At a tick: the number of requests due since the start. Between ticks none are newly due.
    pub fn due(&mut self, now: u64) -> u64 {
        if now >= self.next_tick {
            while self.due_at(self.found) <= now {
                let due_at = self.due_at(self.found);
                if let Some(measured) = &self.measured
                    && let Some(at) = due_at.checked_sub(measured.since)
                {
                    self.lateness.record(at, now - due_at);
                }
                self.found += 1;
            }
            if let Some(measured) = &mut self.measured {
                measured.stolen.note(now - measured.since);
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

    /// What is told of a run of so many seconds: how late it was, the times of those seconds in
    /// which no core was away, and whether it was too late in those to speak of the server's times.
    pub fn report(&self, times: &BySecond, seconds: usize) -> Map<String, Value> {
        let Some(Measured { stolen, .. }) = &self.measured else {
            return Map::new();
        };
        let late = self.lateness.of(&stolen.undisturbed(seconds));
        let (p99, p999) = (late.value_at_quantile(0.99), late.value_at_quantile(0.999));
        let is_late = p99 > LATE_P99_US || p999 > LATE_P999_US;
        let mut lateness = quantiles(&late);
        lateness.insert("is_late".to_owned(), json!(is_late));
        let undisturbed = stolen.report(times, seconds);
        [("lateness", lateness), ("undisturbed", undisturbed)]
            .into_iter()
            .map(|(name, told)| (name.to_owned(), Value::Object(told)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rate: u64) -> Schedule {
        let mut schedule = Schedule::new(rate, 1, &Poll::new().unwrap(), Token(0)).unwrap();
        schedule.measure(0);
        schedule
    }

    #[test]
    fn requests_are_found_at_ticks_and_their_lateness_counts_from_when_they_were_due() {
        let mut schedule = schedule(100_000);
        assert_eq!(schedule.due(0), 1);
        assert_eq!(schedule.due(TICK_US - 1), 1, "between ticks");
        assert_eq!(schedule.due(TICK_US), 11);
        assert_eq!(schedule.due_at(3), 30);
        assert_eq!(schedule.lateness.of(&[0]).max(), 90);
    }

    #[test]
    fn a_generator_that_sleeps_too_long_says_so() {
        let mut schedule = schedule(100_000);
        assert_eq!(schedule.due(10_000), 1_001);
        schedule.measured.as_mut().unwrap().stolen = Stolen::of(&[0]);
        let report = schedule.report(&BySecond::default(), 1);
        assert_eq!(report["lateness"]["is_late"], json!(true));
        assert!(report["lateness"]["max_us"].as_u64().is_some_and(|late| late >= 10_000));
    }

    #[test]
    fn a_generator_that_was_kept_from_its_core_is_not_late_in_the_seconds_that_count() {
        let mut schedule = schedule(100_000);
        assert_eq!(schedule.due(10_000), 1_001);
        schedule.measured.as_mut().unwrap().stolen = Stolen::of(&[1]);
        let report = schedule.report(&BySecond::default(), 1);
        assert_eq!(report["lateness"]["is_late"], json!(false));
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
