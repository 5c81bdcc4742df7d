//! One counter as this node sees it: the store's state at its last answer, and what the node has
//! admitted since.
//!
//! Others only add to what the store holds, and what drains is known; so the mirror never holds
//! more than the counter does, and where it has no room the store has none. What it admits beyond
//! that is bounded by the units that it may hold unsettled. The store's clock is known within bounds:
//! the mirror looks at the latest time it may be there, and has what it admits count from the earliest
//! one, so that what it does not know is in favour of the caller.

use tidegate_core::algorithms::{Algorithm, Met, Numbers, State};
use tidegate_core::units::mul_add_div_ceil;
use tidegate_core::{Action, Outcome};

use super::ahead::Ahead;
use super::late::{Gaps, Late};
use super::taken::{Block, Taken};

/// What the mirror says to a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// The counter has no room, whatever others did.
    Denies(Outcome),
    /// It may be admitted here.
    Admits,
    /// It is beyond what a node admits by itself, or may hold unsettled; or it is not known in which
    /// window the store is.
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
    /// None: no store has been heard.
    ahead: Option<Ahead>,
    /// Admitted and not told; told and not answered; promised to requests that wait for another
    /// limit.
    unsettled: Taken,
    settling: Taken,
    pub(super) promised: u64,
    told_us: u64,
    /// Units of a bucket that may have drained, or not, for all that is known of the store's clock.
    pub(super) blur: u64,
}

/// A mirror that is older asks before it says anything, and one that is half as old had better.
const STALE_US: u64 = 1_000_000;

impl Mirror {
    /// As a store has told it.
    pub(super) fn new(algorithm: Algorithm, numbers: Numbers) -> Self {
        Self {
            algorithm,
            numbers,
            state: State::Absent,
            ahead: None,
            unsettled: Taken::default(),
            settling: Taken::default(),
            promised: 0,
            told_us: 0,
            blur: 0,
        }
    }

    /// The store's time: the earliest and the latest that it may be.
    fn store_us(&self, now_us: u64) -> (u64, u64) {
        self.ahead.map_or((now_us, now_us), |it| (it.earliest(now_us), it.latest(now_us)))
    }

    const fn window(&self, now: u64) -> u64 {
        now - now % self.numbers.period_us
    }

    fn met(&self, now: u64) -> Met {
        Met::new(self.algorithm, self.numbers, self.state.clone(), now)
    }

    /// May so much be admitted here, where the node may hold `most` units unsettled?
    pub(super) fn ask(&self, cost: u64, most: u64, now_us: u64) -> Verdict {
        if now_us.saturating_sub(self.told_us) > STALE_US {
            return Verdict::Stale;
        }
        let (earliest, latest) = self.store_us(now_us);
        let is_bucket = self.algorithm == Algorithm::TokenBucket;
        if !is_bucket && latest % self.numbers.period_us < latest - earliest {
            return Verdict::Full;
        }
        let met = self.met(latest);
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
        let met = self.met(self.store_us(now_us).1);
        met.report(action.cost(), met.fits(action.cost()))
    }

    /// Admits what was promised, whether it still fits or not.
    pub(super) fn charge(&mut self, cost: u64, now_us: u64) -> Outcome {
        let now = self.store_us(now_us).0;
        let since_us = match self.algorithm {
            Algorithm::TokenBucket => now,
            _ => self.window(now),
        };
        self.unsettled.add(Block { since_us, units: cost }, self.algorithm, self.numbers);
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
    pub(super) fn forget(&mut self) {
        self.unsettled = Taken::default();
        self.doubt();
    }

    /// Units that the store does not have, or may not have.
    pub(super) fn held(&self) -> u64 {
        self.unsettled.sum() + self.settling.sum()
    }

    pub(super) fn unsettled(&self) -> u64 {
        self.unsettled.sum()
    }

    /// What the store is to be told now.
    pub(super) fn settle(&mut self) -> Taken {
        self.settling = std::mem::take(&mut self.unsettled);
        self.settling.clone()
    }

    /// The store has it, and this is how the counter stood there at its time `store_us`; the
    /// question left at `sent_us`.
    pub(super) fn settled(
        &mut self,
        (state, gaps): (State, Gaps),
        store_us: u64,
        sent_us: u64,
        now_us: u64,
    ) {
        self.settling = Taken::default();
        let heard = Ahead::heard(store_us, sent_us, now_us);
        let ahead = self.ahead.map_or(heard, |ahead| ahead.and(heard));
        (self.ahead, self.told_us) = (Some(ahead), now_us);
        if self.algorithm == Algorithm::TokenBucket {
            let Numbers { n, period_us, .. } = self.numbers;
            self.blur = mul_add_div_ceil(ahead.width_us(), n, 0, period_us);
        }
        self.state = match state {
            state if self.unsettled.sum() == 0 => state,
            State::Bucket(bucket) => {
                self.with_unsettled(Late::told(bucket, gaps, self.numbers, store_us))
            }
            State::Absent if self.algorithm == Algorithm::TokenBucket => {
                self.with_unsettled(Late::idle(self.numbers, store_us))
            }
            state => {
                let now = self.store_us(now_us).1;
                let window = self.window(now);
                let before = window.saturating_sub(self.numbers.period_us);
                let mut met = Met::new(self.algorithm, self.numbers, state, now);
                met.add(self.unsettled.of(window), self.unsettled.of(before));
                met.take_state().0
            }
        };
    }

    fn with_unsettled(&self, mut late: Late) -> State {
        self.unsettled.blocks().for_each(|block| late.land(block));
        State::Bucket(late.bucket())
    }

    /// The question was lost. Where it may have been heard it is not told again.
    pub(super) fn lost(&mut self, is_unsent: bool) {
        let settling = std::mem::take(&mut self.settling);
        if is_unsent {
            self.unsettled.put_back(settling, self.algorithm, self.numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::local::late::Gap;
    use tidegate_core::algorithms::token_bucket::Bucket;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 60_000 * SECOND;
    const NUMBERS: Numbers = Numbers { n: 600, period_us: 60 * SECOND, burst: 600 };

    fn mirror(algorithm: Algorithm, told: State) -> Mirror {
        let mut mirror = Mirror::new(algorithm, NUMBERS);
        mirror.settled((told, Gaps::new()), NOW, NOW, NOW);
        mirror
    }

    fn of(level: u64) -> Bucket {
        Bucket { level, rem: 0, n: 600, period_us: 60 * SECOND, last: NOW }
    }

    fn bucket(level: u64) -> State {
        State::Bucket(of(level))
    }

    fn blocks(taken: &Taken) -> Vec<(u64, u64)> {
        taken.blocks().map(|block| (block.since_us, block.units)).collect()
    }

    #[test]
    fn a_settling_of_a_bucket_tells_when_its_units_came() {
        let mut mirror = mirror(Algorithm::TokenBucket, bucket(0));
        mirror.charge(5, NOW);
        mirror.charge(1, NOW + SECOND / 5);
        mirror.charge(1, NOW + SECOND);
        assert_eq!(blocks(&mirror.settle()), [(NOW, 6), (NOW + SECOND, 1)]);
    }

    #[test]
    fn units_count_from_the_earliest_time_and_are_seen_at_the_latest() {
        let mut mirror = Mirror::new(Algorithm::TokenBucket, NUMBERS);
        mirror.settled((bucket(600), Gaps::new()), NOW, NOW - SECOND / 10, NOW + SECOND / 10);
        assert_eq!(mirror.blur, 2);
        assert!(matches!(mirror.ask(1, 9, NOW), Verdict::Admits), "a unit may have drained");
        mirror.charge(1, NOW);
        assert_eq!(blocks(&mirror.settle()), [(NOW - SECOND / 10, 1)]);
    }

    #[test]
    fn what_is_not_told_yet_fills_the_time_in_which_the_store_was_idle() {
        let mut mirror = mirror(Algorithm::TokenBucket, State::Absent);
        mirror.charge(3, NOW);
        mirror.settle();
        mirror.charge(2, NOW);
        // Others have taken 598 meanwhile, and the store was idle for a unit's time before.
        let gap = Gap { stop_us: NOW + SECOND / 10, idle: 60 * u128::from(SECOND) };
        let told = Bucket { last: NOW + SECOND / 10, ..of(598) };
        let gaps = [gap].into_iter().collect();
        let then = NOW + SECOND / 10;
        mirror.settled((State::Bucket(told), gaps), then, then, then);
        assert!(matches!(mirror.ask(1, 9, then), Verdict::Admits), "599 are there, not 600");
        assert!(matches!(mirror.ask(2, 9, then), Verdict::Denies(_)));
    }

    #[test]
    fn near_the_edge_of_a_window_the_store_is_asked() {
        let mut mirror = Mirror::new(Algorithm::FixedWindow, NUMBERS);
        let edge = NOW + 60 * SECOND;
        mirror.settled(
            (State::Absent, Gaps::new()),
            edge - SECOND,
            edge - SECOND - 400,
            edge - SECOND,
        );
        assert!(matches!(mirror.ask(1, 9, edge - 401), Verdict::Admits));
        assert!(matches!(mirror.ask(1, 9, edge - 400), Verdict::Full));
        assert!(matches!(mirror.ask(1, 9, edge - 1), Verdict::Full));
        assert!(matches!(mirror.ask(1, 9, edge), Verdict::Admits));
        mirror.charge(1, edge - 1);
        assert_eq!(blocks(&mirror.settle()), [(NOW, 1)]);
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
        mirror.settle();
        assert!(matches!(mirror.ask(1, 3, NOW), Verdict::Full), "it is on its way");
        assert!(matches!(mirror.ask(598, 1000, NOW), Verdict::Denies(_)));
        assert!(matches!(mirror.ask(1, 3, NOW + 2 * SECOND), Verdict::Stale));
    }

    #[test]
    fn what_was_surely_not_told_is_told_again_and_what_may_have_been_is_not() {
        let mut mirror = mirror(Algorithm::FixedWindow, State::Absent);
        mirror.charge(2, NOW);
        assert_eq!(mirror.settle().sum(), 2);
        mirror.lost(true);
        mirror.charge(1, NOW);
        assert_eq!(mirror.settle().sum(), 3);
        mirror.lost(false);
        assert_eq!(mirror.held(), 0);
    }

    #[test]
    fn units_keep_the_window_in_which_they_were_admitted() {
        let mut mirror = mirror(Algorithm::SlidingWindow, State::Absent);
        mirror.charge(2, NOW + 59 * SECOND);
        mirror.charge(3, NOW + 60 * SECOND);
        assert_eq!(blocks(&mirror.settle()), [(NOW, 2), (NOW + 60 * SECOND, 3)]);
    }
}
