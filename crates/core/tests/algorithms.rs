//! Properties that hold for each algorithm, whatever happened before.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use proptest::prelude::*;
use tidegate_core::algorithms::calendar::{Around, Calendar, Table, Unit};
use tidegate_core::algorithms::slots::Shape;
use tidegate_core::algorithms::{Met, State};
use tidegate_core::units::{MAX, mul_div};
use tidegate_core::{Algorithm, Numbers};

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
    Algorithm::Quota,
    Algorithm::SlidingSlots,
];

#[derive(Clone, Debug)]
struct Case {
    algorithm: Algorithm,
    numbers: Numbers,
    start: u64,
    steps: Vec<(u64, u64)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let numbers = (1..200u64, 1..100u64, 1..300u64);
    let start = 1_700_000_000_000_000..1_700_000_100_000_000u64;
    let steps = prop::collection::vec((0..3_000_000u64, 1..40u64), 1..40);
    (0..6usize, numbers, start, steps).prop_map(|(at, (n, seconds, burst), start, steps)| {
        let algorithm = ALGORITHMS[at];
        let burst = if algorithm == Algorithm::TokenBucket { burst } else { n };
        let numbers = if algorithm == Algorithm::Quota {
            let begin = (start / 1_000_000).next_multiple_of(seconds);
            Around { unit: Unit::Day, begin, length: seconds, next: seconds + 1 }.numbers(n)
        } else if algorithm == Algorithm::SlidingSlots {
            let shape = Shape { slots: 1 + burst % 60, is_conservative: burst % 3 == 0 };
            Numbers { n, period_us: seconds * 1_000_000, burst: shape.packed() }
        } else {
            Numbers { n, period_us: seconds * 1_000_000, burst }
        };
        Case { algorithm, numbers, start, steps }
    })
}

fn call(case: &Case, state: &mut State, now: u64, cost: u64) -> (bool, Option<u64>, u64, u64) {
    let mut met = Met::new(case.algorithm, case.numbers, std::mem::take(state), now);
    let fits = met.fits(cost);
    if fits {
        met.charge(cost);
    }
    let outcome = met.report(cost, fits);
    *state = met.take_state().0;
    (fits, outcome.wait_us, outcome.reset_us, outcome.remaining)
}

fn passes(case: &Case, state: &State, now: u64, cost: u64) -> bool {
    Met::new(case.algorithm, case.numbers, state.clone(), now).fits(cost)
}

proptest! {
    #[test]
    fn a_denied_cost_passes_at_its_wait_and_not_a_microsecond_before(case in cases()) {
        let (mut state, mut now) = (State::Absent, case.start);
        for (gap, cost) in &case.steps {
            now += gap;
            let (fits, wait, _, remaining) = call(&case, &mut state, now, *cost);
            if fits {
                continue;
            }
            prop_assert!(remaining < *cost);
            match wait {
                None => prop_assert!(*cost > case.numbers.capacity(case.algorithm)),
                Some(wait) => {
                    prop_assert!(wait > 0);
                    prop_assert!(passes(&case, &state, now + wait, *cost));
                    prop_assert!(!passes(&case, &state, now + wait - 1, *cost));
                }
            }
        }
    }

    #[test]
    fn at_its_reset_a_counter_is_as_good_as_unused(case in cases()) {
        let (mut state, mut now) = (State::Absent, case.start);
        for (gap, cost) in &case.steps {
            now += gap;
            let (_, _, reset, _) = call(&case, &mut state, now, *cost);
            prop_assert!(passes(&case, &state, now + reset, case.numbers.capacity(case.algorithm)));
        }
    }

    #[test]
    fn remaining_is_the_largest_cost_that_passes(case in cases()) {
        let (mut state, mut now) = (State::Absent, case.start);
        for (gap, cost) in &case.steps {
            now += gap;
            let (_, _, _, remaining) = call(&case, &mut state, now, *cost);
            prop_assert!(remaining == 0 || passes(&case, &state, now, remaining));
            prop_assert!(!passes(&case, &state, now, remaining + 1));
        }
    }

    #[test]
    fn a_refund_undoes_a_charge(case in cases(), cost in 1..40u64) {
        let (mut state, mut now) = (State::Absent, case.start);
        for (gap, cost) in &case.steps {
            now += gap;
            call(&case, &mut state, now, *cost);
        }
        let before = Met::new(case.algorithm, case.numbers, state.clone(), now).report(1, true);
        let mut met = Met::new(case.algorithm, case.numbers, state, now);
        if met.fits(cost) {
            met.charge(cost);
            met.refund(cost);
            prop_assert_eq!(met.report(1, true).remaining, before.remaining);
        }
    }

    #[test]
    fn mul_div_is_exact(a in 0..=MAX, b in 0..=MAX, d in 1..=MAX) {
        let exact = u128::from(a) * u128::from(b);
        let (quotient, rest) = mul_div(a, b, d);
        if exact / u128::from(d) > u128::from(MAX) {
            prop_assert_eq!((quotient, rest), (MAX, 0));
        } else {
            prop_assert_eq!(u128::from(quotient) * u128::from(d) + u128::from(rest), exact);
            prop_assert!(rest < d);
        }
    }
}

#[test]
fn b34_an_idle_bucket_neither_overflows_nor_overfills() {
    let numbers = Numbers { n: 1_000_000, period_us: 3_600_000_000, burst: 1_000_000 };
    let case = Case { algorithm: Algorithm::TokenBucket, numbers, start: 0, steps: vec![] };
    let (mut state, mut now) = (State::Absent, 1_700_000_000_000_000);
    for idle in [43_200, 31_536_000, 1_576_800_000u64] {
        assert!(call(&case, &mut state, now, 1).0);
        now += idle * 1_000_000;
        assert!(call(&case, &mut state, now, 1).0);
        assert!(!call(&case, &mut state, now, 1_000_000).0);
        assert!(call(&case, &mut state, now, 999_999).0);
        now += 3_600_000_000;
    }
}

#[test]
fn b21_a_clock_far_behind_is_taken_over_once_without_credit() {
    let numbers = Numbers { n: 10, period_us: 10_000_000, burst: 10 };
    let case = Case { algorithm: Algorithm::TokenBucket, numbers, start: 0, steps: vec![] };
    let mut state = State::Absent;
    let mut at =
        |seconds: u64| call(&case, &mut state, 1_700_000_000_000_000 + seconds * 1_000_000, 1);
    assert_eq!([at(100), at(100), at(100)].map(|said| said.3), [9, 8, 7]);
    assert_eq!(at(89).3, 6);
    assert_eq!(at(100).3, 9 /* eleven seconds later by the clock that was taken over */);
}

#[test]
fn a_clock_slightly_behind_stands_still_and_waits_say_so() {
    let numbers = Numbers { n: 1, period_us: 10_000_000, burst: 1 };
    let case = Case { algorithm: Algorithm::TokenBucket, numbers, start: 0, steps: vec![] };
    let (mut state, now) = (State::Absent, 1_700_000_000_000_000);
    assert!(call(&case, &mut state, now, 1).0);
    let (fits, wait, reset, _) = call(&case, &mut state, now - 400_000, 1);
    assert_eq!((fits, wait, reset), (false, Some(10_400_000), 10_400_000));
}

#[test]
fn a_raised_rate_settles_the_level_first_and_back_and_forth_changes_nothing() {
    let slow = Numbers { n: 10, period_us: 10_000_000, burst: 10 };
    let fast = Numbers { n: 20, burst: 20, ..slow };
    let now = 1_700_000_000_000_000;
    let mut met = Met::new(Algorithm::TokenBucket, slow, State::Absent, now);
    met.charge(10);
    let (state, _) = met.take_state();
    let mut met = Met::new(Algorithm::TokenBucket, fast, state, now);
    assert_eq!(met.report(1, true).remaining, 10);
    let (state, is_dirty) = met.take_state();
    assert!(is_dirty);
    let met = Met::new(Algorithm::TokenBucket, slow, state, now);
    assert_eq!(met.report(1, false).remaining, 0);
    assert_eq!(met.report(1, false).wait_us, Some(1_000_000));
}

const DAY: u64 = 86_400;

/// Days of 24 hours, one of 23, days of 24, one of 25, days of 24.
fn days() -> Calendar {
    let mut calendar = Calendar::new("Europe/Berlin".into());
    let runs = vec![
        (1_000 * DAY, DAY),
        (1_010 * DAY, DAY - 3600),
        (1_011 * DAY - 3600, DAY),
        (1_020 * DAY - 3600, DAY + 3600),
        (1_021 * DAY, DAY),
    ];
    calendar.set(Unit::Day, Table::new(runs).unwrap());
    calendar
}

proptest! {
    #[test]
    fn periods_meet_before_in_and_after_the_table(time in 0..2_000 * DAY * 1_000_000) {
        let around = days().around(Unit::Day, time).unwrap();
        let end = around.end_at(time);
        prop_assert!(around.begin * 1_000_000 <= time && time < end);
        prop_assert_eq!(end, (around.begin + around.length) * 1_000_000);
        let after = days().around(Unit::Day, end).unwrap();
        prop_assert_eq!((after.begin * 1_000_000, after.length), (end, around.next));
        let numbers = around.numbers(7);
        prop_assert_eq!(Around::of(&numbers), around);
        prop_assert_eq!(numbers.n, 7);
    }

    #[test]
    fn the_store_finds_its_own_period_while_its_clock_is_less_than_one_off(
        caller in 999 * DAY..1_030 * DAY,
        error in -(82_800 * 1_000_000 - 1)..82_800 * 1_000_000i64,
    ) {
        let calendar = days();
        let caller = caller * 1_000_000;
        let store = caller.checked_add_signed(error).unwrap();
        let own = calendar.around(Unit::Day, store).unwrap();
        let told = calendar.around(Unit::Day, caller).unwrap();
        prop_assert_eq!(told.end_at(store), own.end_at(store));
    }
}

#[test]
fn another_calendar_holds_from_the_next_period_on() {
    let utc = Around { unit: Unit::Day, begin: 1_000 * DAY, length: DAY, next: DAY };
    let berlin = Around { begin: 1_000 * DAY - 7200, ..utc };
    let now = (1_000 * DAY + 100) * 1_000_000;
    let mut met = Met::new(Algorithm::Quota, utc.numbers(5), State::Absent, now);
    met.charge(3);
    let (state, _) = met.take_state();
    let met = Met::new(Algorithm::Quota, berlin.numbers(5), state.clone(), now + 1);
    let outcome = met.report(3, met.fits(3));
    assert_eq!((outcome.remaining, outcome.fits), (2, false));
    assert_eq!(
        outcome.wait_us,
        Some((DAY - 100) * 1_000_000 - 1),
        "the period under way ends first"
    );
    let next = 1_001 * DAY * 1_000_000;
    let met = Met::new(Algorithm::Quota, berlin.numbers(5), state, next);
    assert_eq!(met.report(1, true).reset_us, (DAY - 7200) * 1_000_000);
}
