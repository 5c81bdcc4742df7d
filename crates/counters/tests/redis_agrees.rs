//! Memory and Redis say the same, decision by decision, on random histories.

#![cfg(feature = "fake-clock")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis_support::{Server, limit, plan, plan_at, policy};
use serde_json::{Value, json};
use tidegate_core::{Plan, Verb};
use tidegate_counters::redis::{RedisOptions, RedisStore};
use tidegate_counters::{Clock, MemoryOptions, MemoryStore};

const ALGORITHMS: [&str; 6] =
    ["fixed_window", "sliding_window", "sliding_log", "token_bucket", "quota", "sliding_slots"];
const START_US: u64 = 1_700_000_000_000_000;

/// One limit: algorithm, n, period in seconds, burst, shadow, counts denials.
type Limit = (usize, u64, u64, u64, bool, bool);
/// Microseconds that pass (a clock may go back), what is done, how much, by which tenant.
type Step = (i64, u8, u64, u8);

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let big = prop_oneof![4 => 1..20u64, 1 => 1..100_000u64, 1 => 1..1u64 << 53];
    let seconds = prop_oneof![1..5u64, 1..100u64, Just(31_622_400)];
    let rarely = || prop::bool::weighted(0.25);
    let one = (0..6usize, big.clone(), seconds, big, rarely(), rarely());
    prop::collection::vec(one, 1..4)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let passes = prop_oneof![
        4 => 0..1_000_000i64,
        2 => 0..10_000_000i64,
        1 => Just(0),
        1 => -900_000..0i64,
        1 => -5_000_000..0i64,
    ];
    let cost = prop_oneof![6 => 0..4u64, 1 => 0..100_000u64, 1 => 0..=1u64 << 53];
    prop::collection::vec((passes, 0..8u8, cost, 0..2u8), 1..40)
}

fn document(at: usize, one: Limit) -> Value {
    let (algorithm, n, seconds, burst, is_shadow, counts_denied) = one;
    let name = ALGORITHMS[algorithm];
    let n = if name == "sliding_log" { n.min(100_000) } else { n };
    let mut row = limit(&format!("{name}-{at}"), name, n, seconds, &["tenant"]);
    if name == "token_bucket" {
        row["numbers"]["burst"] = json!(burst);
    }
    if name == "quota" {
        row["time_zone"] = json!("UTC");
        row["numbers"]["period_us"] = json!(3_600_000_000_u64);
    }
    if name == "sliding_slots" {
        row["slots"] = json!(2 + burst % 59);
        row["conservative"] = json!(burst % 3 == 0);
    }
    if is_shadow {
        row["on_exceed"] = json!("shadow");
    }
    row["count_denied"] = json!(counts_denied && name != "sliding_log");
    row
}

/// A history on both stores, each request compared; every fifth step is a batch of three.
fn agree(store: &RedisStore, clock: &Clock, limits: &[Limit], steps: &[Step]) {
    let rows: Vec<_> = limits.iter().enumerate().map(|(at, row)| document(at, *row)).collect();
    let rules = policy(&rows);
    let memory = MemoryStore::new(MemoryOptions { max_counters: 1000 });
    for tenant in [b"a", b"b"] {
        store.reset_blocking(&plan(&rules, Verb::Peek, 1, &[(b"tenant", tenant)])).unwrap();
    }
    let mut now = START_US;
    for (at, (passes, verb, cost, tenant)) in steps.iter().enumerate() {
        now = now.saturating_add_signed(*passes);
        clock.set_us(now);
        let verb = match verb {
            0 => Verb::Peek,
            1 => Verb::Refund,
            _ => Verb::Hit,
        };
        let entries: [(&[u8], &[u8]); 1] = [(b"tenant", &[b'a' + tenant])];
        // The caller's clock is up to some seconds ahead of the store's.
        let caller = now + at as u64 % 4 * 1_500_000;
        let request = || plan_at(&rules, verb, *cost, &entries, caller);
        let plans: Vec<Plan<'_>> =
            (0..if at % 5 == 4 { 3 } else { 1 }).map(|_| request()).collect();
        let answers = store.decide_many_blocking(&plans);
        for (plan, answer) in plans.iter().zip(answers) {
            assert_eq!(answer.unwrap(), memory.decide(plan, now), "step {at} at {now}");
        }
    }
}

/// Histories on which they once did not agree.
fn found_before() -> Vec<(Vec<Limit>, Vec<Step>)> {
    vec![
        // A log refunded to nothing while the clock stands still.
        (vec![(2, 2, 1, 1, false, false)], vec![(0, 2, 1, 0), (-2, 1, 1, 0)]),
        // Slots looked at once nothing was left of them, and then by a clock that stepped back.
        (
            vec![(5, 1, 1, 1, false, false)],
            vec![(0, 2, 1, 0), (1_333_334, 0, 0, 0), (-893_657, 0, 0, 0)],
        ),
    ]
}

#[test]
fn memory_and_redis_agree_on_random_histories() {
    let Some(server) = Server::start(&[]) else { return };
    let clock = Arc::new(Clock::default());
    let mut options = RedisOptions::parse(&server.url()).unwrap();
    options.deadline = Duration::from_secs(5);
    let store = RedisStore::new(options, Arc::clone(&clock)).unwrap();
    for (limits, steps) in found_before() {
        agree(&store, &clock, &limits, &steps);
    }
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(300), failure_persistence: None, ..Config::default() };
    let run = |(limits, steps): (Vec<Limit>, Vec<Step>)| {
        agree(&store, &clock, &limits, &steps);
        Ok(())
    };
    TestRunner::new(config).run(&(limits(), steps()), run).unwrap();
}
