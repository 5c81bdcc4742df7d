//! The one place that reads the time.

#![expect(clippy::disallowed_methods, reason = "this file is what the others are sent to")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(feature = "fake-clock")]
use std::sync::atomic::{AtomicU64, Ordering};

/// Unix time in microseconds that never steps back: the wall clock at the start, plus the
/// monotonic time since.
#[derive(Debug)]
pub struct Clock {
    wall_us: u64,
    start: Instant,
    /// What tests set; 0 while the real time runs.
    #[cfg(feature = "fake-clock")]
    fake_us: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            wall_us: wall.as_micros() as u64,
            start: Instant::now(),
            #[cfg(feature = "fake-clock")]
            fake_us: AtomicU64::new(0),
        }
    }
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    #[inline]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

impl Clock {
    /// Microseconds since 1970-01-01T00:00:00Z.
    #[inline]
    pub fn now_us(&self) -> u64 {
        #[cfg(feature = "fake-clock")]
        {
            // Relaxed: tests set it between requests and need no other memory ordered by it.
            let fake = self.fake_us.load(Ordering::Relaxed);
            if fake != 0 {
                return fake;
            }
        }
        self.wall_us + self.start.elapsed().as_micros() as u64
    }

    /// The wall clock as it is now, unix microseconds: it may have been set since the start. For
    /// what another process reads.
    pub fn wall_us(&self) -> u64 {
        #[cfg(feature = "fake-clock")]
        if let Some(fake) = self.fake_us() {
            return fake;
        }
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
    }

    /// Holds the clock at `now_us`; 0 lets the real time run again.
    #[cfg(feature = "fake-clock")]
    pub fn set_us(&self, now_us: u64) {
        self.fake_us.store(now_us, Ordering::Relaxed);
    }

    /// The time that a test has set, if one has.
    #[cfg(feature = "fake-clock")]
    pub fn fake_us(&self) -> Option<u64> {
        let fake = self.fake_us.load(Ordering::Relaxed);
        (fake != 0).then_some(fake)
    }
}

/// A point of monotonic time by which something must be over. For waits on a network only: no
/// decision depends on it, and a fake clock does not move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// This far from now.
    #[inline]
    pub fn after(span: Duration) -> Self {
        Self(Instant::now() + span)
    }

    /// This one moved on.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0 + span)
    }

    /// What is left until then; zero once it is over.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// True from that point on.
    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// The point itself, for timers.
    pub const fn instant(self) -> Instant {
        self.0
    }
}
