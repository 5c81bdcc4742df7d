//! The memory store: all or nothing, exact under threads, bounded without freeing anybody.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../core/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use support::{limit, rules, snapshot};
use tidegate_core::matching::Verb;
use tidegate_core::{Descriptor, Outcome, Plan, RuleSet};
use tidegate_counters::{MemoryOptions, MemoryStore};

const NOW: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;

fn store(max_counters: usize) -> MemoryStore {
    MemoryStore::new(MemoryOptions { max_counters })
}

fn call(
    store: &MemoryStore,
    rules: &RuleSet,
    key: &str,
    verb: Verb,
    cost: u64,
    now: u64,
) -> Vec<Outcome> {
    let entries: &[(&[u8], &[u8])] = &[(b"key", key.as_bytes())];
    let request = [Descriptor { entries, costs: &[(b"requests", cost)], verb, rate: None }];
    let plan = Plan::new(rules.domain(b"d").unwrap(), &request, now).unwrap();
    store.decide(&plan, now).to_vec()
}

fn hit(store: &MemoryStore, rules: &RuleSet, key: &str, now: u64) -> Outcome {
    call(store, rules, key, Verb::Hit, 1, now)[0]
}

fn numbers(n: u64, seconds: u64) -> Value {
    json!({"n": n, "period_us": seconds * SECOND, "burst": n})
}

#[test]
fn b42_a_denied_request_moves_no_counter_of_any_limit() {
    let rules = rules(&snapshot(&[
        limit("wide", json!({"numbers": numbers(10, 60)})),
        limit("narrow", json!({"numbers": numbers(3, 60)})),
    ]));
    let store = store(1000);
    for _ in 0..5 {
        call(&store, &rules, "k", Verb::Hit, 1, NOW);
    }
    let peeked = call(&store, &rules, "k", Verb::Peek, 1, NOW);
    assert_eq!(peeked.iter().map(|outcome| outcome.remaining).collect::<Vec<_>>(), [7, 0]);
}

#[test]
fn b116_a_shadow_limit_reports_and_never_denies() {
    let rules = rules(&snapshot(&[
        limit("s", json!({"numbers": numbers(5, 60), "on_exceed": "shadow"})),
        limit("e", json!({"numbers": numbers(10, 60)})),
    ]));
    let store = store(1000);
    let said: Vec<_> = (0..12).map(|_| call(&store, &rules, "k", Verb::Hit, 1, NOW)).collect();
    assert_eq!(said.iter().filter(|said| said[1].fits).count(), 10);
    assert_eq!(said.iter().position(|said| !said[0].fits), Some(5));
}

#[test]
fn b48_threads_admit_exactly_the_limit() {
    for algorithm in ["token_bucket", "fixed_window", "sliding_window", "sliding_log"] {
        let changes = json!({"algorithm": algorithm, "numbers": numbers(500, 3600)});
        let rules = rules(&snapshot(&[limit("a", changes.clone()), limit("b", changes)]));
        let (store, admitted) = (store(1000), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        let said = call(&store, &rules, "k", Verb::Hit, 1, NOW);
                        let passes = said.iter().all(|outcome| outcome.fits);
                        admitted.fetch_add(usize::from(passes), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 500, "{algorithm}");
    }
}

#[test]
fn b47_a_peek_and_a_refund_create_nothing() {
    for algorithm in ["token_bucket", "fixed_window", "sliding_window", "sliding_log"] {
        let rules = rules(&snapshot(&[limit("l", json!({"algorithm": algorithm}))]));
        let store = store(1000);
        call(&store, &rules, "k", Verb::Hit, 0, NOW);
        call(&store, &rules, "k", Verb::Peek, 3, NOW);
        call(&store, &rules, "k", Verb::Refund, 3, NOW);
        assert_eq!(store.counters(), 0, "{algorithm}");
        call(&store, &rules, "k", Verb::Hit, 11, NOW);
        assert_eq!(store.counters(), 0, "{algorithm}: a denied first call creates nothing");
    }
}

#[test]
fn b46_a_refund_gives_back_at_most_what_was_taken() {
    for algorithm in ["token_bucket", "fixed_window", "sliding_window", "sliding_log"] {
        let rules = rules(&snapshot(&[limit("l", json!({"algorithm": algorithm}))]));
        let store = store(1000);
        (0..10).for_each(|_| assert!(hit(&store, &rules, "k", NOW).fits));
        assert_eq!(call(&store, &rules, "k", Verb::Refund, 1, NOW)[0].remaining, 1);
        assert!(hit(&store, &rules, "k", NOW).fits);
        assert!(!hit(&store, &rules, "k", NOW).fits);
        assert_eq!(
            call(&store, &rules, "k", Verb::Refund, 50, NOW)[0].remaining,
            10,
            "{algorithm}"
        );
        assert_eq!(call(&store, &rules, "other", Verb::Refund, 5, NOW)[0].remaining, 10);
    }
}

#[test]
fn reset_forgets_a_counter() {
    for algorithm in ["token_bucket", "sliding_log"] {
        let rules = rules(&snapshot(&[limit("l", json!({"algorithm": algorithm}))]));
        let store = store(1000);
        (0..10).for_each(|_| assert!(hit(&store, &rules, "k", NOW).fits));
        let entries: &[(&[u8], &[u8])] = &[(b"key", b"k")];
        let request =
            [Descriptor { entries, costs: &[(b"requests", 1)], verb: Verb::Hit, rate: None }];
        store.reset(&Plan::new(rules.domain(b"d").unwrap(), &request, NOW).unwrap());
        assert_eq!(store.counters(), 0);
        assert_eq!(hit(&store, &rules, "k", NOW).remaining, 9);
    }
}

#[test]
fn b84_at_the_cap_unused_counters_make_place_and_the_store_stays_bounded() {
    for algorithm in ["token_bucket", "fixed_window", "sliding_window", "sliding_log"] {
        let changes = json!({"algorithm": algorithm, "numbers": numbers(10, 1)});
        let rules = rules(&snapshot(&[limit("a", changes.clone()), limit("b", changes)]));
        let store = store(4096);
        for round in 0..5u64 {
            for key in 0..4000 {
                let now = NOW + round * 10 * SECOND;
                let said = call(&store, &rules, &format!("{round}-{key}"), Verb::Hit, 1, now);
                assert!(said.iter().all(|outcome| outcome.fits), "{algorithm}");
            }
            assert!(store.counters() <= 4096, "{algorithm}: {}", store.counters());
        }
    }
}

#[test]
fn a_full_store_folds_newcomers_and_frees_nobody() {
    for algorithm in ["token_bucket", "fixed_window", "sliding_window", "sliding_log"] {
        let changes = json!({"algorithm": algorithm, "numbers": numbers(10, 3600)});
        let rules = rules(&snapshot(&[limit("l", changes)]));
        let store = store(2048);
        (0..10).for_each(|_| assert!(hit(&store, &rules, "victim", NOW).fits));
        let mut folded = 0;
        for key in 0..20_000 {
            folded += usize::from(hit(&store, &rules, &format!("flood-{key}"), NOW + 1).is_folded);
        }
        assert!(store.counters() <= 2048);
        assert!(folded > 17_000);
        assert!(!hit(&store, &rules, "victim", NOW + 2).fits, "{algorithm}");
        assert!(!hit(&store, &rules, "victim", NOW + 2).is_folded);
    }
}

#[test]
fn a_flooded_limit_leaves_places_for_the_others() {
    let rules = rules(&snapshot(&[
        limit("flooded", json!({"numbers": numbers(10, 3600)})),
        limit("quiet", json!({"per": ["user"], "numbers": numbers(10, 3600)})),
    ]));
    let store = store(2048);
    for key in 0..20_000 {
        hit(&store, &rules, &format!("flood-{key}"), NOW);
    }
    let entries: &[(&[u8], &[u8])] = &[(b"user", b"somebody")];
    let request = [Descriptor { entries, costs: &[(b"requests", 1)], verb: Verb::Hit, rate: None }];
    let plan = Plan::new(rules.domain(b"d").unwrap(), &request, NOW).unwrap();
    assert!(!store.decide(&plan, NOW)[0].is_folded);
}

#[test]
fn long_keys_are_kept_whole() {
    let rules = rules(&snapshot(&[limit("l", json!({"numbers": numbers(1, 3600)}))]));
    let store = store(1000);
    let (a, b) = ("x".repeat(100), format!("{}y", "x".repeat(99)));
    assert!(hit(&store, &rules, &a, NOW).fits);
    assert!(hit(&store, &rules, &b, NOW).fits);
    assert!(!hit(&store, &rules, &a, NOW).fits);
}

#[test]
fn what_was_foreseen_is_decided_as_if_it_were_not_even_after_the_index_has_grown() {
    let rules = rules(&snapshot(&[
        limit("wide", json!({"numbers": numbers(10, 60)})),
        limit("narrow", json!({"numbers": numbers(3, 60)})),
    ]));
    let (told, other) = (store(100_000), store(100_000));
    let entries: &[(&[u8], &[u8])] = &[(b"key", b"k")];
    let costs: &[(&[u8], u64)] = &[(b"requests", 1)];
    let request = [Descriptor { entries, costs, verb: Verb::Hit, rate: None }];
    let plan = Plan::new(rules.domain(b"d").unwrap(), &request, NOW).unwrap();
    for round in 0..6 {
        let foreseen = told.foreseen(&plan);
        for at in 0..2_000 {
            hit(&told, &rules, &format!("{round}-{at}"), NOW);
        }
        told.foresee(&foreseen);
        assert_eq!(told.decide_foreseen(&plan, &foreseen, NOW), other.decide(&plan, NOW));
    }
    assert_eq!(told.counters(), 2 + 6 * 2_000 * 2);
}
