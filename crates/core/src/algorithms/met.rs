//! A counter met at a time: the clock rule first, then fits, charge, refund and report.

use super::calendar::Spent;
use super::sliding_log::Log;
use super::slots::Slots;
use super::token_bucket::Bucket;
use super::windows::{self, Windows};
use super::{Algorithm, Numbers};
use crate::decision::Outcome;
use crate::units::{FREEZE_US, add};

/// What a store keeps for a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    #[default]
    Absent,
    /// Fixed and sliding window.
    Windows(Windows),
    /// Token bucket.
    Bucket(Bucket),
    /// Sliding log.
    Log(Box<Log>),
    /// Quota.
    Spent(Spent),
    /// Sliding window in slots.
    Slots(Box<Slots>),
}

impl State {
    fn last(&self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Windows(windows) => Some(windows.last),
            Self::Bucket(bucket) => Some(bucket.last),
            Self::Log(log) => log.last(),
            Self::Spent(spent) => Some(spent.last),
            Self::Slots(slots) => Some(slots.last),
        }
    }
}

/// A counter as it stands at one instant, before and after a charge.
#[derive(Debug)]
pub struct Met {
    algorithm: Algorithm,
    numbers: Numbers,
    /// The time that this counter lives at: never before its last write.
    now: u64,
    /// How far the caller's clock is behind that, microseconds.
    skew: u64,
    state: State,
    /// What stood before, where meeting it alone must not change it.
    unwritten: State,
    is_dirty: bool,
    exists: bool,
}

impl Met {
    /// Applies the clock rule, rolls or drains the state to `now`, and settles a changed rate.
    pub fn new(algorithm: Algorithm, numbers: Numbers, stored: State, clock: u64) -> Self {
        let mut met = Self::nobody();
        met.meet(algorithm, numbers, stored, clock);
        met
    }

    /// A place in which to [`Met::meet`] a counter.
    #[inline]
    pub fn nobody() -> Self {
        Self {
            algorithm: Algorithm::TokenBucket,
            numbers: Numbers { n: 0, period_us: 0, burst: 0 },
            now: 0,
            skew: 0,
            state: State::Absent,
            unwritten: State::Absent,
            is_dirty: false,
            exists: false,
        }
    }

    /// [`Met::new`] in the place of [`Met::nobody`], where it will be used: it is large, and to
    /// move it costs as much as to meet the counter.
    pub fn meet(&mut self, algorithm: Algorithm, numbers: Numbers, mut stored: State, clock: u64) {
        let last = stored.last().unwrap_or(clock);
        let skew = last.saturating_sub(clock);
        self.is_dirty = skew > FREEZE_US;
        (self.now, self.skew) = if self.is_dirty { (clock, 0) } else { (clock + skew, skew) };
        if self.is_dirty {
            rebase(&mut stored, &numbers, clock);
        }
        (self.algorithm, self.numbers) = (algorithm, numbers);
        self.settle(stored, clock);
    }

    fn settle(&mut self, stored: State, clock: u64) {
        let (now, period) = (self.now, self.numbers.period_us);
        match stored {
            State::Windows(windows) => {
                let sliding = self.algorithm == Algorithm::SlidingWindow;
                let rolled = windows.rolled(period, now, sliding);
                self.exists = rolled.prev > 0 || rolled.cur > 0;
                self.unwritten = State::Windows(windows);
                self.state = State::Windows(rolled);
            }
            State::Bucket(bucket) => {
                let drained = bucket.drained(now);
                let is_other =
                    bucket.n != self.numbers.n || bucket.period_us != self.numbers.period_us;
                let settled = if is_other { drained.at_rate(&self.numbers) } else { drained };
                self.exists = settled.used() > 0;
                self.is_dirty |= is_other;
                self.unwritten = State::Bucket(bucket);
                self.state = State::Bucket(settled);
            }
            State::Log(log) => {
                self.exists = log.used(period, now) > 0;
                self.state = State::Log(log);
            }
            State::Spent(spent) => {
                let rolled = spent.rolled(&self.numbers, now);
                self.exists = rolled.count > 0;
                self.unwritten = State::Spent(spent);
                self.state = State::Spent(rolled);
            }
            State::Slots(slots) if !slots.is_split_as(&self.numbers) => self.state = self.fresh(),
            State::Slots(slots) => {
                self.exists = !slots.is_unused(&self.numbers, now);
                self.state = State::Slots(slots);
            }
            State::Absent => self.state = self.fresh(),
        }
        if !self.exists {
            // A counter that holds nothing is no counter: it has no clock and is not rewritten.
            (self.now, self.skew, self.is_dirty) = (clock, 0, false);
            if matches!(self.state, State::Spent(_)) {
                self.state = self.fresh();
            }
        }
    }

    fn fresh(&self) -> State {
        match self.algorithm {
            Algorithm::TokenBucket => State::Bucket(Bucket::fresh(&self.numbers, self.now)),
            Algorithm::SlidingLog => State::Log(Box::default()),
            Algorithm::Quota => State::Spent(Spent::fresh(&self.numbers, self.now)),
            Algorithm::SlidingSlots => {
                State::Slots(Box::new(Slots::fresh(&self.numbers, self.now)))
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                State::Windows(Windows { prev: 0, cur: 0, last: self.now })
            }
        }
    }

    /// Units taken as this algorithm sees them now; may pass the capacity after a lowering.
    #[inline]
    fn used(&self) -> u64 {
        match &self.state {
            State::Absent => 0,
            State::Bucket(bucket) => bucket.used(),
            State::Log(log) => log.used(self.numbers.period_us, self.now),
            State::Spent(spent) => spent.count,
            State::Slots(slots) => slots.used(&self.numbers, self.now),
            State::Windows(state) if self.algorithm == Algorithm::SlidingWindow => {
                windows::sliding_used(state, self.numbers.period_us, self.now)
            }
            State::Windows(state) => windows::fixed_used(state),
        }
    }

    #[inline]
    fn room(&self) -> u64 {
        self.numbers.capacity(self.algorithm).saturating_sub(self.used())
    }

    /// True if `cost` passes now.
    #[inline]
    pub fn fits(&self, cost: u64) -> bool {
        cost <= self.room()
    }

    /// Takes `cost`, which fits or is taken anyway: then counts pass the limit up to [`MAX`], a level
    /// its burst up to twice of it.
    #[inline]
    pub fn charge(&mut self, cost: u64) {
        let (now, period) = (self.now, self.numbers.period_us);
        match &mut self.state {
            State::Absent => {}
            State::Windows(windows) => windows.cur = add(windows.cur, cost),
            State::Bucket(bucket) => bucket.charge(self.numbers.burst, cost),
            State::Log(log) => log.charge(period, now, cost),
            State::Spent(spent) => spent.count = add(spent.count, cost),
            State::Slots(slots) => slots.charge(&self.numbers, now, cost),
        }
        self.exists = true;
        self.is_dirty = true;
    }

    /// Adds what was taken elsewhere, in the current window and in the one before; a bucket takes
    /// both.
    pub fn add(&mut self, here: u64, before: u64) {
        self.charge(here);
        match &mut self.state {
            State::Windows(windows) if self.algorithm == Algorithm::SlidingWindow => {
                windows.prev = add(windows.prev, before);
            }
            State::Bucket(bucket) => bucket.charge(self.numbers.burst, before),
            _ => {}
        }
    }

    /// Gives `cost` back to the current window or level; creates nothing.
    pub fn refund(&mut self, cost: u64) {
        if !self.exists {
            return;
        }
        let (now, period) = (self.now, self.numbers.period_us);
        match &mut self.state {
            State::Absent => {}
            State::Windows(windows) => windows.cur = windows.cur.saturating_sub(cost),
            State::Spent(spent) => spent.count = spent.count.saturating_sub(cost),
            State::Slots(slots) => slots.refund(&self.numbers, now, cost),
            State::Bucket(bucket) if cost > bucket.level => (bucket.level, bucket.rem) = (0, 0),
            State::Bucket(bucket) => bucket.level -= cost,
            State::Log(log) => {
                log.refund(period, now, cost);
                if log.is_empty() {
                    // Nothing is left, and with it the clock that the entries had.
                    self.skew = 0;
                }
            }
        }
        self.is_dirty = true;
    }

    /// What is said of this counter, `fits` being what [`Met::fits`] said before any charge.
    #[inline]
    pub fn report(&self, cost: u64, fits: bool) -> Outcome {
        self.outcome(cost, fits, fits)
    }

    /// The same of a counter that was charged in a denied request: it says when the next like it
    /// passes, which may be later than now even where this one fitted.
    pub fn report_charged(&self, cost: u64, fits: bool) -> Outcome {
        self.outcome(cost, fits, self.fits(cost))
    }

    #[inline]
    fn outcome(&self, cost: u64, fits: bool, passes_now: bool) -> Outcome {
        let capacity = self.numbers.capacity(self.algorithm);
        let wait_us = if passes_now {
            Some(0)
        } else if cost > capacity {
            None
        } else {
            Some(add(self.wait(cost), self.skew))
        };
        let reset_us = match (&self.state, self.reset()) {
            // A log that holds nothing has no time of its own.
            (State::Log(_), 0) => 0,
            (_, reset) => add(reset, self.skew),
        };
        let remaining = self.room();
        Outcome { fits, remaining, wait_us, reset_us, is_folded: false, is_unasked: false }
    }

    fn wait(&self, cost: u64) -> u64 {
        let (now, period) = (self.now, self.numbers.period_us);
        match &self.state {
            State::Absent => 0,
            State::Bucket(bucket) => bucket.wait(self.numbers.burst, cost),
            State::Log(log) => log.wait(period, self.numbers.n, now, cost),
            State::Spent(spent) => spent.end.saturating_sub(now),
            State::Slots(slots) => slots.wait(&self.numbers, now, cost),
            State::Windows(state) if self.algorithm == Algorithm::SlidingWindow => {
                windows::sliding_wait(state, &self.numbers, now, cost)
            }
            State::Windows(_) => windows::fixed_wait(period, now),
        }
    }

    fn reset(&self) -> u64 {
        let (now, period) = (self.now, self.numbers.period_us);
        match &self.state {
            State::Absent => 0,
            State::Bucket(bucket) => bucket.reset(),
            State::Log(log) => log.reset(period, now),
            State::Spent(spent) => spent.end.saturating_sub(now),
            State::Slots(slots) => slots.reset(&self.numbers, now),
            State::Windows(state) if self.algorithm == Algorithm::SlidingWindow => {
                windows::sliding_reset(state, period, now)
            }
            State::Windows(_) => windows::fixed_wait(period, now),
        }
    }

    /// What the store must keep, and whether it differs from what it gave. Nothing is left here.
    pub fn take_state(&mut self) -> (State, bool) {
        let state = std::mem::take(&mut self.state);
        if !self.is_dirty {
            // Logs and slots change only by charge, refund and rebase, so they go back as they came.
            return match state {
                State::Log(log) if !log.is_empty() => (State::Log(log), false),
                State::Slots(slots) => (State::Slots(slots), false),
                _ => (std::mem::take(&mut self.unwritten), false),
            };
        }
        let now = self.now;
        let state = match state {
            State::Windows(windows) => State::Windows(Windows { last: now, ..windows }),
            State::Bucket(bucket) => State::Bucket(Bucket { last: now, ..bucket }),
            State::Spent(spent) => State::Spent(Spent { last: now, ..spent }),
            other => other,
        };
        (state, true)
    }
}

/// A clock far behind the last write is taken over once, without credit.
fn rebase(state: &mut State, numbers: &Numbers, now: u64) {
    match state {
        State::Absent => {}
        State::Windows(windows) => windows.last = now,
        State::Bucket(bucket) => bucket.last = now,
        State::Log(log) => log.rebase(now),
        State::Spent(spent) => spent.rebase(numbers, now),
        State::Slots(slots) => slots.last = now,
    }
}
