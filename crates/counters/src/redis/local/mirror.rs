//! One counter as this node sees it: the store's state at its last answer, and what the node has
//! admitted since.
//!
//! Others only add to what the store holds, and what drains is known; so the mirror never holds
//! more than the counter does, and where it has no room the store has none. What it admits beyond
//! that is bounded by the units that it may hold unsettled.

use tidegate_core::algorithms::{Algorithm, Met, Numbers, State};
use tidegate_core::units::mul_div;
use tidegate_core::{Action, Outcome};

/// Units that were admitted in one window, and in the one before. A bucket has one window, at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units {
    pub(super) start_us: u64,
    pub(super) here: u64,
    pub(super) before: u64,
}

impl Units {
    /// Both windows together.
    pub(super) const fn sum(self) -> u64 {
        self.here + self.before
    }

    /// Moves on to the window that starts then.
    const fn roll(&mut self, start_us: u64, period_us: u64) {
        if start_us <= self.start_us {
            return;
        }
        self.before = if self.start_us + period_us == start_us { self.here } else { 0 };
        (self.start_us, self.here) = (start_us, 0);
    }
}

/// What the mirror says to a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// The counter has no room, whatever others did.
    Denies(Outcome),
    /// It may be admitted here.
    Admits,
    /// It is beyond what a node admits by itself, or may hold unsettled.
    Full,
    /// It has not heard of the store for too long.
    Stale,
}

/// The counter, mirrored.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) algorithm: Algorithm,
    pub(super) numbers: Numbers,
    state: State,
    /// The same without what was admitted here.
    told: State,
    /// The store's clock less this node's, at most: how far it was ahead of the sending of the
    /// question that it answered.
    ahead_us: i64,
    /// How long the last question took.
    round_trip_us: u64,
    /// Admitted and not told; told and not answered; promised to requests that wait for another
    /// limit.
    unsettled: Units,
    settling: Units,
    pub(super) promised: u64,
    told_us: u64,
}

/// A mirror that is older asks before it says anything, and one that is half as old had better.
const STALE_US: u64 = 1_000_000;
/// What rounding may hide of what has drained: a part of a unit at the node and one at the store.
const PARTS: u64 = 2;

impl Mirror {
    /// As a store has told it.
    pub(super) fn new(algorithm: Algorithm, numbers: Numbers) -> Self {
        Self {
            algorithm,
            numbers,
            state: State::Absent,
            told: State::Absent,
            ahead_us: 0,
            round_trip_us: 0,
            unsettled: Units::default(),
            settling: Units::default(),
            promised: 0,
            told_us: 0,
        }
    }

    const fn now(&self, now_us: u64) -> u64 {
        now_us.saturating_add_signed(self.ahead_us)
    }

    const fn window(&self, now: u64) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => 0,
            _ => now - now % self.numbers.period_us,
        }
    }

    fn met(&self, now: u64) -> Met {
        Met::new(self.algorithm, self.numbers, self.state.clone(), now)
    }

    /// May so much be admitted here, where the node may hold `most` units unsettled?
    pub(super) fn ask(&self, cost: u64, most: u64, now_us: u64) -> Verdict {
        if now_us.saturating_sub(self.told_us) > STALE_US {
            return Verdict::Stale;
        }
        let met = self.met(self.now(now_us));
        if !met.fits(cost) {
            Verdict::Denies(met.report(cost, false))
        } else if self.held() + self.promised + cost > most {
            Verdict::Full
        } else {
            Verdict::Admits
        }
    }

    /// True if what it heard will soon be too old.
    pub(super) const fn is_aging(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.told_us) > STALE_US / 2
    }

    /// What it says to one that is not admitted, for whatever reason.
    pub(super) fn report(&self, action: Action, now_us: u64) -> Outcome {
        let met = self.met(self.now(now_us));
        met.report(action.cost(), met.fits(action.cost()))
    }

    /// Admits what was promised, whether it still fits or not.
    pub(super) fn charge(&mut self, cost: u64, now_us: u64) -> Outcome {
        let now = self.now(now_us);
        self.unsettled.roll(self.window(now), self.numbers.period_us);
        self.unsettled.here += cost;
        let mut met = self.met(now);
        met.charge(cost);
        let outcome = met.report(cost, true);
        self.state = met.take_state().0;
        outcome
    }

    /// Goes on under other numbers; what it says waits for the store's next word.
    pub(super) const fn renumber(&mut self, numbers: Numbers) {
        self.numbers = numbers;
        self.doubt();
    }

    /// Something was given back: what it says waits for the store's next word.
    pub(super) const fn doubt(&mut self) {
        self.told_us = 0;
    }

    /// It was reset, and with it what is not told yet.
    pub(super) const fn forget(&mut self) {
        (self.unsettled.here, self.unsettled.before) = (0, 0);
        self.doubt();
    }

    /// Units that the store does not have, or may not have.
    pub(super) const fn held(&self) -> u64 {
        self.unsettled.sum() + self.settling.sum()
    }

    pub(super) const fn unsettled(&self) -> u64 {
        self.unsettled.sum()
    }

    /// What the store is to be told now. Of a bucket's units, some have drained since they were
    /// admitted, if nobody else took anything: that stands in place of the start of their window.
    pub(super) fn settle(&mut self, now_us: u64) -> Units {
        self.settling = self.unsettled;
        (self.unsettled.here, self.unsettled.before) = (0, 0);
        match self.algorithm {
            Algorithm::TokenBucket => Units { start_us: self.drained(now_us), ..self.settling },
            _ => self.settling,
        }
    }

    /// How much of the settling units will no longer be in the mirrored bucket when the store hears
    /// of them; parts of a unit count whole.
    fn drained(&self, now_us: u64) -> u64 {
        let now = self.now(now_us);
        let level = |state: &State| match state {
            State::Bucket(bucket) => bucket.drained(now.max(bucket.last)).used(),
            _ => 0,
        };
        let Numbers { n, period_us, .. } = self.numbers;
        let (on_the_way, _) = mul_div(n, self.round_trip_us.min(STALE_US), period_us);
        let left = level(&self.state).saturating_sub(level(&self.told));
        let left = left.saturating_sub(on_the_way + PARTS);
        self.settling.sum().saturating_sub(left)
    }

    /// The store has it, and this is how the counter stood there at its time `store_us`; the
    /// question left at `sent_us`.
    pub(super) fn settled(&mut self, state: State, store_us: u64, sent_us: u64, now_us: u64) {
        self.settling = Units::default();
        self.ahead_us = store_us.cast_signed().saturating_sub(sent_us.cast_signed());
        self.told = state.clone();
        self.state = state;
        self.told_us = now_us;
        self.round_trip_us = now_us.saturating_sub(sent_us);
        let now = self.now(now_us);
        self.unsettled.roll(self.window(now), self.numbers.period_us);
        let Units { here, before, .. } = self.unsettled;
        if here + before > 0 {
            let mut met = self.met(now);
            met.add(here, before);
            self.state = met.take_state().0;
        }
    }

    /// The question was lost. Where it may have been heard it is not told again.
    pub(super) const fn lost(&mut self, is_unsent: bool) {
        if is_unsent {
            let Units { start_us, here, before } = self.settling;
            let mut told = Units { start_us, here, before };
            told.roll(self.unsettled.start_us, self.numbers.period_us);
            self.unsettled.here += told.here;
            self.unsettled.before += told.before;
        }
        self.settling = Units { start_us: 0, here: 0, before: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::algorithms::token_bucket::Bucket;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 60_000 * SECOND;
    const NUMBERS: Numbers = Numbers { n: 600, period_us: 60 * SECOND, burst: 600 };

    fn mirror(algorithm: Algorithm, told: State) -> Mirror {
        let mut mirror = Mirror::new(algorithm, NUMBERS);
        mirror.settled(told, NOW, NOW, NOW);
        mirror
    }

    fn bucket(level: u64) -> State {
        State::Bucket(Bucket { level, rem: 0, n: 600, period_us: 60 * SECOND, last: NOW })
    }

    #[test]
    fn what_drained_of_an_idle_bucket_is_told_and_of_a_busy_one_nothing_but_parts_has() {
        let mut idle = mirror(Algorithm::TokenBucket, bucket(0));
        idle.charge(5, NOW);
        assert_eq!(
            idle.settle(NOW + SECOND / 5),
            Units { start_us: 2 + PARTS, here: 5, before: 0 }
        );
        let mut busy = mirror(Algorithm::TokenBucket, bucket(100));
        busy.charge(5, NOW);
        assert_eq!(busy.settle(NOW + SECOND / 5), Units { start_us: PARTS, here: 5, before: 0 });
    }

    #[test]
    fn a_node_holds_no_more_unsettled_than_it_may_and_denies_what_has_no_room() {
        let mut mirror = mirror(Algorithm::FixedWindow, State::Absent);
        for _ in 0..3 {
            assert!(matches!(mirror.ask(1, 3, NOW), Verdict::Admits));
            mirror.charge(1, NOW);
        }
        assert!(matches!(mirror.ask(1, 3, NOW), Verdict::Full));
        assert!(matches!(mirror.ask(4, 9, NOW), Verdict::Admits));
        mirror.settle(NOW);
        assert!(matches!(mirror.ask(1, 3, NOW), Verdict::Full), "it is on its way");
        assert!(matches!(mirror.ask(598, 1000, NOW), Verdict::Denies(_)));
        assert!(matches!(mirror.ask(1, 3, NOW + 2 * SECOND), Verdict::Stale));
    }

    #[test]
    fn what_was_surely_not_told_is_told_again_and_what_may_have_been_is_not() {
        let mut mirror = mirror(Algorithm::FixedWindow, State::Absent);
        mirror.charge(2, NOW);
        assert_eq!(mirror.settle(NOW).here, 2);
        mirror.lost(true);
        mirror.charge(1, NOW);
        assert_eq!(mirror.settle(NOW).here, 3);
        mirror.lost(false);
        assert_eq!(mirror.held(), 0);
    }

    #[test]
    fn units_keep_the_window_in_which_they_were_admitted() {
        let mut mirror = mirror(Algorithm::SlidingWindow, State::Absent);
        mirror.charge(2, NOW + 59 * SECOND);
        mirror.charge(3, NOW + 60 * SECOND);
        let start_us = NOW + 60 * SECOND;
        assert_eq!(mirror.settle(NOW + 60 * SECOND), Units { start_us, here: 3, before: 2 });
    }
}
