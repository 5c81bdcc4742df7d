//! One counter whose store is away: what was last seen of it, what this node admits alone, and
//! what it owes.

use tidegate_core::algorithms::token_bucket::Bucket;
use tidegate_core::algorithms::windows::Windows;
use tidegate_core::algorithms::{Algorithm, Met, Numbers, State};
use tidegate_core::units::mul_div;
use tidegate_core::{Action, Outcome};

/// Nodes come and go, and load is never even: each takes a tenth more than its share.
const MARGIN: (u64, u64) = (11, 10);

/// A counter.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) algorithm: Algorithm,
    pub(super) numbers: Numbers,
    /// Units taken as the store last said, and when, unix microseconds.
    seen: Option<(u64, u64)>,
    /// What this node has admitted of its share; `None` while the store answers.
    alone: Option<State>,
    /// What it admitted and the store does not know.
    owed: State,
}

/// What is to be charged: (start of the window, units), older first. A bucket has one window, which
/// names the time of its level, and a quota one that names its end.
pub(super) type Debt = [(u64, u64); 2];

impl Counter {
    pub(super) const fn new(algorithm: Algorithm, numbers: Numbers) -> Self {
        Self { algorithm, numbers, seen: None, alone: None, owed: State::Absent }
    }

    /// The store has answered.
    pub(super) fn see(&mut self, outcome: &Outcome, now_us: u64) {
        let capacity = self.numbers.capacity(self.algorithm);
        self.seen = Some((capacity.saturating_sub(outcome.remaining), now_us));
        self.alone = None;
    }

    /// Goes on under the numbers in force.
    pub(super) const fn renumber(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    /// True if something is owed.
    pub(super) const fn owes(&self) -> bool {
        !matches!(self.owed, State::Absent)
    }

    /// True if there is nothing to remember.
    pub(super) fn is_idle(&self, now_us: u64) -> bool {
        let is_stale = match self.seen {
            Some((_, at_us)) => now_us.saturating_sub(at_us) > self.numbers.period_us,
            None => true,
        };
        is_stale && !self.owes() && !self.has_taken_alone(now_us)
    }

    /// True if some of what this node admitted of its share still counts.
    fn has_taken_alone(&self, now_us: u64) -> bool {
        match &self.alone {
            None => false,
            Some(State::Log(log)) => log.used(self.numbers.period_us, now_us) > 0,
            Some(State::Slots(slots)) => {
                slots.is_split_as(&self.numbers)
                    && !slots.is_unused(&self.numbers, now_us.max(slots.last))
            }
            Some(state) => is_something(self.units(state, now_us)),
        }
    }

    /// Forgets what the store said, and the share.
    pub(super) fn forget(&mut self) {
        (self.seen, self.alone) = (None, None);
    }

    /// The numbers of one of so many nodes.
    fn share(&self, nodes: u32) -> Numbers {
        let of = |whole: u64| {
            let (share, _) = mul_div(whole, MARGIN.0, MARGIN.1 * u64::from(nodes.max(1)));
            share.clamp(1, whole.max(1))
        };
        let Numbers { n, period_us, burst } = self.numbers;
        // Of the others it says how their period is made up.
        let is_bucket = self.algorithm == Algorithm::TokenBucket;
        Numbers { n: of(n), period_us, burst: if is_bucket { of(burst) } else { burst } }
    }

    /// The state from which a node begins alone: its share of what was last seen.
    fn seed(&self, share: Numbers, now_us: u64) -> State {
        let Some((used, at_us)) = self.seen else { return State::Absent };
        let capacity = self.numbers.capacity(self.algorithm).max(1);
        let (level, _) = mul_div(used.min(capacity), share.capacity(self.algorithm), capacity);
        let Numbers { n, period_us, .. } = share;
        match self.algorithm {
            Algorithm::TokenBucket => {
                let bucket = Bucket { level, rem: 0, n, period_us, last: at_us };
                State::Bucket(bucket.drained(now_us.max(at_us)))
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                State::Windows(Windows { prev: 0, cur: level, last: at_us })
            }
            // Where in the period it was taken is more than was seen.
            Algorithm::SlidingLog | Algorithm::SlidingSlots | Algorithm::Quota => State::Absent,
        }
    }

    /// What this node's share of the limit says.
    pub(super) fn ask(&mut self, action: Action, nodes: u32, now_us: u64) -> Outcome {
        let mut met = self.met_alone(nodes, now_us);
        let fits = matches!(action, Action::Refund(_)) || met.fits(action.cost());
        let outcome = met.report(action.cost(), fits);
        self.alone = Some(met.take_state().0);
        Outcome { is_unasked: true, ..outcome }
    }

    /// Takes it of the share.
    pub(super) fn take(&mut self, cost: u64, nodes: u32, now_us: u64) {
        let mut met = self.met_alone(nodes, now_us);
        met.charge(cost);
        self.alone = Some(met.take_state().0);
    }

    fn met_alone(&mut self, nodes: u32, now_us: u64) -> Met {
        let share = self.share(nodes);
        let state = match self.alone.take() {
            Some(state) => state,
            None => self.seed(share, now_us),
        };
        Met::new(self.algorithm, share, state, now_us)
    }

    /// Notes that so much was admitted and never sent; true if it was owed nothing before.
    pub(super) fn owe(&mut self, cost: u64, now_us: u64) -> bool {
        if matches!(self.algorithm, Algorithm::SlidingLog | Algorithm::SlidingSlots) {
            // They keep when it was, and that has passed.
            return false;
        }
        let was_nothing = self.owed == State::Absent;
        let owed = std::mem::take(&mut self.owed);
        let mut met = Met::new(self.algorithm, self.numbers, owed, now_us);
        met.charge(cost);
        self.owed = met.take_state().0;
        was_nothing && self.owed != State::Absent
    }

    /// What is owed, which is owed no longer, and what of it is still to be charged now.
    pub(super) fn debt(&mut self, now_us: u64) -> (State, Debt) {
        let owed = std::mem::take(&mut self.owed);
        let debt = self.units(&owed, now_us);
        (owed, debt)
    }

    /// What of a state still counts; at most a whole limit for each window, parts of a unit whole.
    fn units(&self, state: &State, now_us: u64) -> Debt {
        let period = self.numbers.period_us;
        let most = self.numbers.capacity(self.algorithm);
        match state {
            State::Bucket(bucket) => {
                let left = bucket.drained(now_us.max(bucket.last));
                [(0, 0), (now_us, left.used().min(most))]
            }
            State::Windows(windows) => {
                let is_sliding = self.algorithm == Algorithm::SlidingWindow;
                let now = now_us.max(windows.last);
                let rolled = windows.rolled(period, now, is_sliding);
                let start = now - now % period;
                [
                    (start.saturating_sub(period), rolled.prev.min(most)),
                    (start, rolled.cur.min(most)),
                ]
            }
            State::Spent(spent) if now_us < spent.end => {
                [(0, 0), (spent.end, spent.count.min(most))]
            }
            State::Absent | State::Spent(_) | State::Log(_) | State::Slots(_) => [(0, 0); 2],
        }
    }

    /// What could not be told is owed again as it was: it has drained, and windows have passed,
    /// since it was admitted, however often it was tried. True if it was owed nothing before.
    pub(super) fn owe_again(&mut self, told: State, now_us: u64) -> bool {
        if !is_something(self.units(&told, now_us)) {
            return false;
        }
        let since = std::mem::replace(&mut self.owed, told);
        if since == State::Absent {
            return true;
        }
        let [(_, before), (_, here)] = self.units(&since, now_us);
        let told = std::mem::take(&mut self.owed);
        let mut met = Met::new(self.algorithm, self.numbers, told, now_us);
        met.add(here, before);
        self.owed = met.take_state().0;
        false
    }
}

/// True if any unit is left.
fn is_something(debt: Debt) -> bool {
    debt.iter().any(|(_, units)| *units > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::algorithms::calendar::Spent;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 1_000_000 * 60_000;

    fn counter(algorithm: Algorithm, n: u64) -> Counter {
        Counter::new(algorithm, Numbers { n, period_us: 60 * SECOND, burst: n })
    }

    fn seen(counter: &mut Counter, remaining: u64) {
        let outcome =
            Outcome { fits: true, remaining, wait_us: Some(0), reset_us: 0, ..Outcome::SHUT };
        counter.see(&outcome, NOW);
    }

    fn admitted(counter: &mut Counter, nodes: u32, now: u64) -> u64 {
        let mut count = 0;
        while counter.ask(Action::Charge(1), nodes, now).fits {
            counter.take(1, nodes, now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_node_alone_has_its_share_and_a_tenth() {
        for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow]
        {
            assert_eq!(admitted(&mut counter(algorithm, 100), 4, NOW), 27);
            assert_eq!(
                admitted(&mut counter(algorithm, 100), 1, NOW),
                100,
                "never above the limit"
            );
            assert_eq!(admitted(&mut counter(algorithm, 2), 50, NOW), 1, "never nothing");
        }
    }

    #[test]
    fn what_was_used_when_the_store_was_last_seen_is_used() {
        for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow]
        {
            let mut counter = counter(algorithm, 100);
            seen(&mut counter, 40);
            assert_eq!(admitted(&mut counter, 4, NOW), 11, "27 less 60 % of them");
            seen(&mut counter, 0);
            let denied = counter.ask(Action::Charge(1), 4, NOW);
            assert!(!denied.fits && denied.is_unasked && denied.wait_us.is_some());
        }
    }

    #[test]
    fn a_debt_drains_and_windows_pass_and_a_whole_limit_is_the_most() {
        let mut bucket = counter(Algorithm::TokenBucket, 60);
        assert!(bucket.owe(50, NOW));
        assert_eq!(bucket.debt(NOW + 20 * SECOND).1[1].1, 30);
        assert_eq!(bucket.debt(NOW).1[1], (0, 0), "told once");
        let mut window = counter(Algorithm::SlidingWindow, 60);
        assert!(window.owe(90, NOW));
        let start = NOW - NOW % (60 * SECOND);
        let debt = window.debt(NOW + 60 * SECOND).1;
        assert_eq!(debt, [(start, 60), (start + 60 * SECOND, 0)]);
        let mut fixed = counter(Algorithm::FixedWindow, 60);
        fixed.owe(5, NOW);
        assert_eq!(fixed.debt(NOW + 60 * SECOND).1.map(|(_, units)| units), [0, 0]);
    }

    #[test]
    fn what_could_not_be_told_is_owed_again() {
        let mut window = counter(Algorithm::FixedWindow, 60);
        assert!(window.owe(5, NOW));
        assert!(!window.owe(1, NOW));
        let (told, _) = window.debt(NOW);
        assert!(window.owe(2, NOW));
        assert!(!window.owe_again(told, NOW));
        assert_eq!(window.debt(NOW).1[1].1, 8);
    }

    #[test]
    fn what_could_not_be_told_stays_in_its_window_and_drains_meanwhile() {
        for (algorithm, left) in [
            (Algorithm::TokenBucket, [0, 4]),
            (Algorithm::FixedWindow, [0, 0]),
            (Algorithm::SlidingWindow, [5, 0]),
        ] {
            let mut counter = counter(algorithm, 60);
            counter.owe(5, NOW + 59 * SECOND);
            let (told, _) = counter.debt(NOW + 59 * SECOND);
            let is_owed = left != [0, 0];
            assert_eq!(counter.owe_again(told, NOW + 60 * SECOND), is_owed);
            let (_, debt) = counter.debt(NOW + 60 * SECOND);
            assert_eq!(debt.map(|(_, units)| units), left, "{algorithm:?}");
        }
        let mut quota = counter(Algorithm::Quota, 60);
        quota.owe_again(State::Spent(Spent { count: 5, end: NOW, last: NOW - 1 }), NOW);
        assert!(!quota.owes(), "its period is over");
    }

    #[test]
    fn a_debt_that_is_refused_again_and_again_drains_all_the_same() {
        let mut bucket = counter(Algorithm::TokenBucket, 10);
        bucket.owe(5, NOW);
        for round in 1..=150 {
            let now = NOW + round * SECOND / 5;
            let (told, debt) = bucket.debt(now);
            let drained = 10 * (now - NOW) / (60 * SECOND);
            assert!(debt[1].1 <= 5 - drained, "{round}: {debt:?}");
            bucket.owe_again(told, now);
        }
        assert!(!bucket.owes(), "5 units drain in 30 s");
    }

    #[test]
    fn a_share_that_is_used_is_not_forgotten_before_it_comes_back() {
        for algorithm in [
            Algorithm::TokenBucket,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
            Algorithm::SlidingSlots,
        ] {
            let mut counter = counter(algorithm, 100);
            if algorithm == Algorithm::SlidingSlots {
                counter.numbers.burst = 2 * 6;
            }
            assert!(counter.is_idle(NOW));
            counter.take(1, 100, NOW);
            assert!(!counter.is_idle(NOW), "{algorithm:?}");
            assert!(counter.is_idle(NOW + 150 * SECOND), "{algorithm:?}");
        }
    }
}
