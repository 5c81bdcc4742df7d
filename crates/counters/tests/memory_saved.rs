//! The memory store through a file: as if it had never stopped, whatever the clocks did meanwhile.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../core/tests/support/mod.rs"]
mod support;

mod saved_support;

use std::fs;

use proptest::prelude::*;
use saved_support::{Place, Process};
use serde_json::{Value, json};
use support::{limit, snapshot};
use tidegate_core::matching::Verb;
use tidegate_core::{Identities, RuleSet};
use tidegate_counters::{LoadError, Saved};

const NOW: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3600 * SECOND;
const ALGORITHMS: [&str; 6] =
    ["token_bucket", "fixed_window", "sliding_window", "sliding_log", "quota", "sliding_slots"];

/// A limit of that algorithm; a window in slots has six.
fn limit_of(id: &str, algorithm: &str, numbers: &Value) -> Value {
    let mut changes = json!({"algorithm": algorithm, "numbers": numbers});
    changes["keyed_by_period"] = json!(algorithm != "token_bucket");
    if algorithm == "quota" {
        changes["time_zone"] = json!("UTC");
    }
    if algorithm == "sliding_slots" {
        changes["slots"] = json!(6);
    }
    limit(id, changes)
}

/// A policy whose calendar has these hours: each a run's begin and the length of its periods.
fn with_hours(limits: &[Value], hours: &[(u64, u64)]) -> Value {
    let mut document = snapshot(limits);
    document["calendars"] = json!({"UTC": {"hour": hours}});
    document
}

/// One limit for each algorithm: ten in an hour.
fn all_algorithms() -> Value {
    let numbers = json!({"n": 10, "period_us": HOUR, "burst": 10});
    let limits = ALGORITHMS.map(|algorithm| limit_of(algorithm, algorithm, &numbers));
    with_hours(&limits, &[(0, 3600)])
}

/// The start of an hour, so that windows of an hour have all of it before them.
const fn full_hour() -> u64 {
    NOW / HOUR * HOUR
}

#[derive(Clone, Debug)]
struct Step {
    gap_us: u64,
    key: usize,
    cost: u64,
    verb: Verb,
    is_stopped: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![0..3 * SECOND, Just(0), 0..40 * SECOND];
    let verb = prop_oneof![4 => Just(Verb::Hit), 1 => Just(Verb::Peek), 1 => Just(Verb::Refund)];
    let step = (gap, 0..4usize, 1..6u64, verb, prop::bool::weighted(0.2));
    let step = step.prop_map(|(gap_us, key, cost, verb, is_stopped)| Step {
        gap_us,
        key,
        cost,
        verb,
        is_stopped,
    });
    prop::collection::vec(step, 1..60)
}

fn policy_of(rows: &[(usize, u64, u64, u64)]) -> Value {
    let limits: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(at, (algorithm, n, seconds, burst))| {
            let algorithm = ALGORITHMS[*algorithm];
            let burst = if algorithm == "token_bucket" { burst } else { n };
            // The calendar below has hours of its own.
            let period_us = if algorithm == "quota" { HOUR } else { seconds * SECOND };
            let numbers = json!({"n": n, "period_us": period_us, "burst": burst});
            limit_of(&format!("l{at}"), algorithm, &numbers)
        })
        .collect();
    let now = NOW / SECOND;
    with_hours(&limits, &[(now - 1000, 4), (now, 5), (now + 20, 7), (now + 160, 90)])
}

proptest! {
    #[test]
    fn a_store_that_stopped_decides_like_one_that_did_not(
        rows in prop::collection::vec((0..6usize, 1..30u64, 1..60u64, 1..30u64), 1..5),
        steps in steps(),
    ) {
        let (policy, place) = (policy_of(&rows), Place::new());
        let (always, mut stopping) = (Process::new(&policy), Process::new(&policy));
        let mut now = NOW;
        for (at, step) in steps.iter().enumerate() {
            now += step.gap_us;
            if step.is_stopped {
                stopping.save(&place.0, now);
                // Limits have other numbers in each process.
                let mut identities = Identities::default();
                for other in 0..at {
                    identities.uid("d", &format!("o{other}"), tidegate_core::Algorithm::SlidingLog);
                }
                stopping = Process::with(&policy, 10_000, identities);
                stopping.load(&place.0, now).unwrap();
            }
            let key = format!("key {}", step.key);
            let expected = always.call(&key, step.verb, step.cost, now);
            let found = stopping.call(&key, step.verb, step.cost, now);
            prop_assert_eq!(expected, found, "step {} of {:?}", at, steps);
        }
    }

    #[test]
    fn a_file_that_was_changed_anywhere_is_refused_whole(at in 0..10_000usize, bit in 0..8u8) {
        let (place, bytes) = sample();
        let mut changed = bytes.clone();
        let at = at % bytes.len();
        changed[at] ^= 1 << bit;
        fs::write(&place.0, &changed).unwrap();
        let mut process = Process::new(&all_algorithms());
        prop_assert!(process.load(&place.0, NOW).is_err(), "byte {} bit {}", at, bit);
        prop_assert_eq!(process.store.counters(), 0);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let place = Place::new();
        for head in [&b""[..], b"tgstate\n", b"tgstate\n\x01\x00\x00\x00"] {
            fs::write(&place.0, [head, &bytes[..]].concat()).unwrap();
            let mut process = Process::new(&all_algorithms());
            prop_assert!(process.load(&place.0, NOW).is_err());
        }
    }
}

/// A file with a counter of each algorithm, and what it holds.
fn sample() -> (Place, Vec<u8>) {
    let (place, process) = (Place::new(), Process::new(&all_algorithms()));
    for gap in 0..3 {
        process.call("ada", Verb::Hit, 2, NOW + gap);
    }
    assert_eq!(process.save(&place.0, NOW + 2), Saved { counters: 6, left_out: 0 });
    let bytes = fs::read(&place.0).unwrap();
    (place, bytes)
}

#[test]
fn a_file_that_ends_early_or_late_is_refused_whole() {
    let (place, bytes) = sample();
    for length in 0..bytes.len() {
        fs::write(&place.0, &bytes[..length]).unwrap();
        let mut process = Process::new(&all_algorithms());
        assert!(process.load(&place.0, NOW).is_err(), "{length} bytes");
        assert_eq!(process.store.counters(), 0);
    }
    fs::write(&place.0, [&bytes[..], b"x"].concat()).unwrap();
    let error = Process::new(&all_algorithms()).load(&place.0, NOW).unwrap_err();
    assert!(error.to_string().contains("follows its end"), "{error}");
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let (place, bytes) = sample();
    let said = |content: &[u8]| {
        fs::write(&place.0, content).unwrap();
        Process::new(&all_algorithms()).load(&place.0, NOW).unwrap_err()
    };
    assert!(matches!(said(b"version: 1\n"), LoadError::Foreign));
    assert!(matches!(said(b""), LoadError::Foreign));
    assert!(matches!(said(&bytes[..bytes.len() - 1]), LoadError::Damaged(_)));
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(said(&newer).to_string(), "it has form 2, and this version reads up to 1");
}

#[test]
fn a_missing_file_is_nothing_to_take_up() {
    let place = Place::new();
    assert!(Process::new(&all_algorithms()).load(&place.0, NOW).unwrap().is_none());
}

#[test]
fn time_that_passed_meanwhile_counts_and_what_is_over_is_dropped() {
    let (place, process, start) = (Place::new(), Process::new(&all_algorithms()), full_hour());
    process.call("ada", Verb::Hit, 10, start);
    process.save(&place.0, start);
    let mut next = Process::new(&all_algorithms());
    let loaded = next.load(&place.0, start + HOUR / 2).unwrap().unwrap();
    assert_eq!((loaded.counters, loaded.ended), (6, 0));
    assert_eq!(loaded.age_us, (HOUR / 2) as i64);
    assert_eq!(next.remaining("ada", start + HOUR / 2), [5, 0, 0, 0, 0, 0]);
    let mut later = Process::new(&all_algorithms());
    let loaded = later.load(&place.0, start + 2 * HOUR).unwrap().unwrap();
    assert_eq!((loaded.counters, loaded.ended, later.store.counters()), (0, 6, 0));
}

#[test]
fn a_file_that_is_taken_up_twice_counts_once() {
    let (place, process) = (Place::new(), Process::new(&all_algorithms()));
    process.call("ada", Verb::Hit, 3, NOW);
    process.save(&place.0, NOW);
    let mut next = Process::new(&all_algorithms());
    next.load(&place.0, NOW).unwrap();
    next.call("ada", Verb::Hit, 1, NOW);
    let again = next.load(&place.0, NOW).unwrap().unwrap();
    assert_eq!((again.counters, again.ended), (0, 6));
    assert_eq!(next.remaining("ada", NOW), [6; 6]);
}

/// A wall clock that was set back between stop and start: nobody is forgiven, nobody waits longer.
#[test]
fn a_clock_that_was_set_back_gives_no_credit_and_freezes_nobody() {
    let (place, process, start) = (Place::new(), Process::new(&all_algorithms()), full_hour());
    process.call("ada", Verb::Hit, 10, start);
    let stop = start + HOUR / 5;
    assert_eq!(process.remaining("ada", stop), [2, 0, 0, 0, 0, 0]);
    process.save(&place.0, stop);
    for back in [2 * SECOND, HOUR / 2, 5 * HOUR, 1000 * HOUR] {
        let mut next = Process::new(&all_algorithms());
        let now = stop - back;
        let loaded = next.load(&place.0, now).unwrap().unwrap();
        assert_eq!((loaded.counters, loaded.age_us), (6, -(back as i64)));
        assert_eq!(next.remaining("ada", now), [2, 0, 0, 0, 0, 0], "back by {back} us");
        let later = now + HOUR / 5;
        assert_eq!(next.remaining("ada", later)[0], 4, "drains from the start on");
        let waits: Vec<_> = next.call("ada", Verb::Peek, 10, now);
        assert!(waits.iter().all(|outcome| outcome.wait_us.unwrap() <= 2 * HOUR), "{waits:?}");
        assert_eq!(waits[3].wait_us, Some(HOUR - HOUR / 5), "the log lost none of what had passed");
    }
}

/// The clock of a process goes on by itself while the wall clock is set: the next process begins at
/// the wall clock.
#[test]
fn a_wall_clock_that_was_set_while_a_process_ran_gives_no_credit() {
    for (wall, what) in [(full_hour() + 9 * HOUR, "on"), (full_hour() - 9 * HOUR, "back")] {
        let (place, process) = (Place::new(), Process::new(&all_algorithms()));
        let start = full_hour();
        process.call("ada", Verb::Hit, 10, start);
        process.save_at(&place.0, start + HOUR / 5, wall);
        let mut next = Process::new(&all_algorithms());
        next.load(&place.0, wall + HOUR / 5).unwrap();
        // By the calendar nine hours on, the hour of the quota is over.
        let quota = if what == "on" { 10 } else { 0 };
        let remaining = next.remaining("ada", wall + HOUR / 5);
        assert_eq!(remaining, [4, 0, 0, 0, quota, 0], "set {what}");
    }
}

#[test]
fn a_quota_ends_where_the_calendar_says_after_a_clock_was_set() {
    let start = full_hour();
    for (wall, end) in [
        (start + HOUR / 2, start + HOUR),
        (start + HOUR / 10, start + HOUR),
        // Far behind its last write it counts in the hour that the clock shows.
        (start - HOUR / 2, start),
        (start - 1000 * HOUR - HOUR / 2, start - 1000 * HOUR),
    ] {
        let (place, process) = (Place::new(), Process::new(&all_algorithms()));
        process.call("ada", Verb::Hit, 10, start + HOUR / 4);
        process.save_at(&place.0, start + HOUR / 3, wall);
        let mut next = Process::new(&all_algorithms());
        next.load(&place.0, wall).unwrap();
        let wait_us = next.call("ada", Verb::Peek, 1, wall)[4].wait_us;
        assert_eq!(wait_us, Some(end - wall), "wall {wall}");
        assert_eq!(next.remaining("ada", end)[4], 10);
    }
}

#[test]
fn a_clock_behind_by_less_than_a_second_stands_still() {
    let (place, process) = (Place::new(), Process::new(&all_algorithms()));
    process.call("ada", Verb::Hit, 10, NOW);
    process.save(&place.0, NOW);
    let mut next = Process::new(&all_algorithms());
    next.load(&place.0, NOW - SECOND / 2).unwrap();
    assert_eq!(next.remaining("ada", NOW - SECOND / 2), [0; 6]);
}

#[test]
fn counters_of_a_limit_wait_for_a_policy_that_names_it() {
    let (place, process) = (Place::new(), Process::new(&all_algorithms()));
    process.call("ada", Verb::Hit, 7, NOW);
    process.save(&place.0, NOW);
    let mut next = Process::new(&snapshot(&[limit("else", json!({}))]));
    assert_eq!(next.load(&place.0, NOW).unwrap().unwrap().counters, 6);
    // And through a stop of a process that never knew it.
    next.save(&place.0, NOW);
    let mut last = Process::new(&snapshot(&[]));
    last.load(&place.0, NOW).unwrap();
    let policy = all_algorithms().to_string();
    last.rules = RuleSet::load(policy.as_bytes(), &mut last.identities).unwrap();
    assert_eq!(last.remaining("ada", NOW), [3; 6]);
}

#[test]
fn a_limit_of_another_algorithm_begins_anew() {
    let place = Place::new();
    let of = |algorithm: &str| snapshot(&[limit("l", json!({"algorithm": algorithm}))]);
    let process = Process::new(&of("token_bucket"));
    process.call("ada", Verb::Hit, 7, NOW);
    process.save(&place.0, NOW);
    let mut next = Process::new(&of("fixed_window"));
    next.load(&place.0, NOW).unwrap();
    assert_eq!(next.remaining("ada", NOW), [10]);
}

#[test]
fn a_smaller_store_takes_what_it_has_room_for_and_says_so() {
    let policy = snapshot(&[limit("l", json!({}))]);
    let (place, process) = (Place::new(), Process::new(&policy));
    for number in 0..50 {
        process.call(&format!("key {number}"), Verb::Hit, 1, NOW);
    }
    process.save(&place.0, NOW);
    let mut small = Process::with(&policy, 20, Identities::default());
    let loaded = small.load(&place.0, NOW).unwrap().unwrap();
    assert_eq!((loaded.counters, loaded.no_room), (20, 30));
    assert_eq!(small.store.counters(), 20);
}

#[test]
fn shared_counters_are_left_out_and_told() {
    let policy = snapshot(&[limit("l", json!({}))]);
    let (place, process) = (Place::new(), Process::with(&policy, 4, Identities::default()));
    for number in 0..10 {
        process.call(&format!("key {number}"), Verb::Hit, 1, NOW);
    }
    let saved = process.save(&place.0, NOW);
    assert!(saved.counters <= 4 && saved.left_out >= 1, "{saved:?}");
    assert_eq!(saved.counters, process.store.counters() as u64);
}

#[test]
fn counters_that_hold_nothing_are_not_saved() {
    let (place, process) = (Place::new(), Process::new(&all_algorithms()));
    process.call("ada", Verb::Hit, 1, NOW);
    assert_eq!(process.save(&place.0, NOW + 3 * HOUR).counters, 0);
    let loaded = Process::new(&all_algorithms()).load(&place.0, NOW + 3 * HOUR).unwrap().unwrap();
    assert_eq!((loaded.counters, loaded.ended), (0, 0));
}
