//! When a connection is asked for a sign of life, asked to leave, or closed.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::settings::Settings;

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The peer was silent: send a PING.
    Ping,
    /// The connection is old: ask the peer to leave.
    Leave,
    /// The peer is gone or does not read.
    Unresponsive,
    /// The time to finish is over.
    Expired,
}

/// The clockwork of one connection; takes the time and the limits from its caller.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "times, all of them")]
pub(super) struct Lifecycle {
    leaves_at: Instant,
    ends_at: Option<Instant>,
    pinged_at: Option<Instant>,
}

impl Lifecycle {
    pub(super) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            leaves_at: now + spread(settings.max_age, RandomState::new().hash_one(0)),
            ends_at: None,
            pinged_at: None,
        }
    }

    /// The server stops: what is open may finish until the limit.
    pub(super) fn drain(&mut self, now: Instant, settings: &Settings) {
        let end = now + settings.drain_limit;
        self.ends_at = Some(self.ends_at.map_or(end, |earlier| earlier.min(end)));
    }

    /// What is due, and when to ask again.
    pub(super) fn step(
        &mut self,
        settings: &Settings,
        now: Instant,
        last_read: Instant,
        blocked_since: Option<Instant>,
    ) -> (Due, Instant) {
        if self.ends_at.is_some_and(|end| now >= end) {
            return (Due::Expired, now);
        }
        if blocked_since.is_some_and(|since| now >= since + settings.keepalive_timeout) {
            return (Due::Unresponsive, now);
        }
        if self.ends_at.is_none() && now >= self.leaves_at {
            self.ends_at = Some(now + settings.age_grace);
            return (Due::Leave, self.next(settings, now, last_read));
        }
        match self.pinged_at {
            Some(pinged) if last_read >= pinged => self.pinged_at = None,
            Some(pinged) if now >= pinged + settings.keepalive_timeout => {
                return (Due::Unresponsive, now);
            }
            None if now >= last_read + settings.keepalive_idle => {
                self.pinged_at = Some(now);
                return (Due::Ping, self.next(settings, now, last_read));
            }
            Some(_) | None => {}
        }
        (Due::Nothing, self.next(settings, now, last_read))
    }

    /// The earliest time at which something may be due. A socket may block at any time, so never
    /// further away than the time that it may stay so.
    fn next(&self, settings: &Settings, now: Instant, last_read: Instant) -> Instant {
        let timeout = settings.keepalive_timeout;
        let alive = match self.pinged_at {
            Some(pinged) => pinged + timeout,
            None => last_read + settings.keepalive_idle,
        };
        alive.min(self.ends_at.unwrap_or(self.leaves_at)).min(now + timeout)
    }
}

/// `age` plus or minus a tenth of it, so that connections opened together do not leave together.
fn spread(age: Duration, random: u64) -> Duration {
    let tenth = (age / 10).as_nanos() as u64;
    age.saturating_sub(Duration::from_nanos(tenth)) + Duration::from_nanos(random % (2 * tenth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// A connection under the limits that ship.
    struct Life(Lifecycle, Settings);

    impl Life {
        fn step(
            &mut self,
            now: Instant,
            last_read: Instant,
            blocked_since: Option<Instant>,
        ) -> (Due, Instant) {
            self.0.step(&self.1, now, last_read, blocked_since)
        }
    }

    fn lifecycle(now: Instant) -> Life {
        let settings = Settings::default();
        Life(Lifecycle::new(&settings, now), settings)
    }

    #[test]
    fn silent_peer_is_pinged_at_60_s_and_closed_20_s_later() {
        let start = Instant::now();
        let mut life = lifecycle(start);
        assert_eq!(life.step(start + S * 59, start, None).0, Due::Nothing);
        assert_eq!(life.step(start + S * 60, start, None).0, Due::Ping);
        let (due, next) = life.step(start + S * 70, start, None);
        assert_eq!((due, next), (Due::Nothing, start + S * 80));
        assert_eq!(life.step(start + S * 80, start, None).0, Due::Unresponsive);
    }

    #[test]
    fn any_sign_of_life_answers_the_ping() {
        let start = Instant::now();
        let mut life = lifecycle(start);
        assert_eq!(life.step(start + S * 60, start, None).0, Due::Ping);
        let heard = start + S * 61;
        assert_eq!(life.step(start + S * 80, heard, None).0, Due::Nothing);
        assert_eq!(life.step(start + S * 121, heard, None).0, Due::Ping);
    }

    #[test]
    fn peer_that_does_not_read_is_closed() {
        let start = Instant::now();
        let mut life = lifecycle(start);
        let now = start + S * 20;
        assert_eq!(life.step(now, now, Some(start + S)).0, Due::Nothing);
        assert_eq!(life.step(now, now, Some(start)).0, Due::Unresponsive);
    }

    #[test]
    fn old_connection_leaves_once_and_ends_after_its_grace() {
        let start = Instant::now();
        let mut life = lifecycle(start);
        let old = start + S * 33 * 60;
        assert_eq!(life.step(old, old, None).0, Due::Leave);
        assert_eq!(life.step(old + S * 59, old + S * 59, None).0, Due::Nothing);
        assert_eq!(life.step(old + S * 60, old + S * 60, None).0, Due::Expired);
    }

    #[test]
    fn drain_ends_at_its_limit() {
        let start = Instant::now();
        let mut life = lifecycle(start);
        life.0.drain(start, &life.1);
        let (due, next) = life.step(start, start, None);
        assert_eq!((due, next), (Due::Nothing, start + S * 8));
        assert_eq!(life.step(start + S * 8, start, None).0, Due::Expired);
    }

    #[test]
    fn ages_are_spread_by_a_tenth() {
        let age = S * 1800;
        assert_eq!(spread(age, 0), S * 1620);
        assert_eq!(spread(age, 360_000_000_000), S * 1980);
        assert!((0..1000).all(|seed| {
            let spread = spread(age, RandomState::new().hash_one(seed));
            S * 1620 <= spread && spread <= S * 1980
        }));
    }
}
