//! Limits that nodes decide by themselves: what is promised is given, and the store is spared.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::sync::Arc;
use std::time::Duration;

use redis_support::cluster::{Cluster, ask, of};
use redis_support::{Server, decide, handle, limit, on_worker, plan, policy, store, store_with};
use serde_json::{Value, json};
use tidegate_core::{Plan, RuleSet, Verb};
use tidegate_counters::clock::{Clock, Deadline};
use tidegate_counters::redis::RedisHandle;
use tokio::time::{sleep, timeout};

const N: u64 = 1_000;

fn local(id: &str, n: u64, per: &[&str]) -> Value {
    let mut limit = limit(id, "fixed_window", n, 86400, per);
    limit["consistency"] = json!("local");
    limit
}

/// A local limit over everybody, and an exact one for each tenant.
fn rules() -> RuleSet {
    policy(&[local("all", N, &[]), limit("each", "fixed_window", N, 86400, &["tenant"])])
}

/// What nobody's tenant asks: the local limit alone.
fn alone(rules: &RuleSet, verb: Verb, cost: u64) -> Plan<'_> {
    plan(rules, verb, cost, &[])
}

async fn left(handle: &RedisHandle, rules: &RuleSet) -> u64 {
    decide(handle, &alone(rules, Verb::Peek, 1)).await.unwrap()[0].remaining
}

/// Asks until the node decides by itself; says how many were admitted.
async fn warmed(server: &Server, handle: &RedisHandle, rules: &RuleSet) -> u64 {
    let deadline = Deadline::after(Duration::from_secs(10));
    let mut admitted = 0;
    loop {
        let before = server.calls("evalsha");
        for _ in 0..5 {
            admitted +=
                u64::from(decide(handle, &alone(rules, Verb::Hit, 1)).await.unwrap()[0].fits);
        }
        if server.calls("evalsha") == before {
            return admitted;
        }
        assert!(!deadline.is_over(), "the store decides for ever");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A Cluster whose first master has a local limit over everybody, and its second an exact one for a
/// tenant.
fn apart() -> Option<(Cluster, RuleSet, String)> {
    let cluster = Cluster::start(false)?;
    let (tenant, all) = cluster.names();
    let each = limit("each", "fixed_window", N, 86400, &["tenant"]);
    let rules = policy(&[local(&all, N, &[]), each]);
    Some((cluster, rules, tenant))
}

async fn until_left(handle: &RedisHandle, rules: &RuleSet, expected: u64) {
    let deadline = Deadline::after(Duration::from_secs(10));
    while left(handle, rules).await != expected {
        assert!(!deadline.is_over(), "{} left", left(handle, rules).await);
        sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn who_was_charged_elsewhere_is_not_denied_for_what_others_took_meanwhile() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&server.url()));
        let handle = handle(&store).await;
        let used = warmed(&server, &handle, &rules).await;
        let most = alone(&rules, Verb::Hit, N - 1 - used);
        assert!(decide(&handle, &most).await.unwrap()[0].fits);
        until_left(&handle, &rules, 1).await;
        let hit = || plan(&rules, Verb::Hit, 1, &[(b"tenant", b"acme")]);
        let (first, second) = (hit(), hit());
        let (first, second) = tokio::join!(decide(&handle, &first), decide(&handle, &second));
        let is_admitted = |told: &[tidegate_core::Outcome]| told.iter().all(|one| one.fits);
        let admitted =
            [first, second].into_iter().filter(|told| is_admitted(told.as_ref().unwrap()));
        let look = plan(&rules, Verb::Peek, 1, &[(b"tenant", b"acme")]);
        // Another worker has heard no denial.
        let other = redis_support::handle(&store).await;
        let each = decide(&other, &look).await.unwrap()[1].remaining;
        assert_eq!(N - each, admitted.count() as u64, "a denied request moves no counter");
    });
}

#[test]
fn counters_that_are_asked_for_rarely_are_asked_for_together() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = policy(&[local("ip", N, &["ip"])]);
        let store = store(&server.url());
        let handle = handle(&store).await;
        let names: Vec<_> =
            (0..1_000).map(|at| format!("10.0.{}.{}", at / 250, at % 250)).collect();
        let plans: Vec<_> =
            names.iter().map(|ip| plan(&rules, Verb::Hit, 1, &[(b"ip", ip.as_bytes())])).collect();
        sleep(Duration::from_millis(200)).await;
        let before = server.calls("evalsha");
        let all = plans.iter().map(|plan| Box::pin(decide(&handle, plan)));
        for told in tidegate_counters::join::join(all).await {
            assert!(told.unwrap()[0].fits);
        }
        assert!(server.calls("evalsha") - before < 40, "{}", server.calls("evalsha") - before);
    });
}

#[test]
fn what_is_given_back_before_it_was_told_is_not_lost() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&server.url()));
        let handle = handle(&store).await;
        let used = warmed(&server, &handle, &rules).await;
        for _ in 0..3 {
            assert!(decide(&handle, &alone(&rules, Verb::Hit, 1)).await.unwrap()[0].fits);
        }
        decide(&handle, &alone(&rules, Verb::Refund, 3)).await.unwrap();
        until_left(&handle, &rules, N - used).await;
        sleep(Duration::from_millis(200)).await;
        assert_eq!(left(&handle, &rules).await, N - used);
    });
}

#[test]
fn a_reset_takes_what_was_not_told_yet_along() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&server.url()));
        let handle = handle(&store).await;
        warmed(&server, &handle, &rules).await;
        decide(&handle, &alone(&rules, Verb::Hit, 2)).await.unwrap();
        handle.reset(&alone(&rules, Verb::Peek, 1)).await.unwrap();
        assert_eq!(left(&handle, &rules).await, N);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(left(&handle, &rules).await, N);
    });
}

#[test]
fn numbers_that_change_while_a_request_waits_cost_no_promise() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let mut identities = tidegate_core::Identities::default();
        let mut rules_of = |n: u64| {
            let limits =
                [local("all", n, &[]), limit("each", "fixed_window", N, 86400, &["tenant"])];
            redis_support::policy_with(&limits, &mut identities)
        };
        let (old, new) = (rules_of(N), rules_of(2 * N));
        let store = store(&server.url());
        let handle = handle(&store).await;
        let used = warmed(&server, &handle, &old).await;
        let most = N / 100;
        for round in 0..most {
            server.pause();
            let tenant = format!("t{round}");
            let both = plan(&old, Verb::Hit, 1, &[(b"tenant", tenant.as_bytes())]);
            let other = alone(&new, Verb::Peek, 1);
            let resumes = async {
                sleep(Duration::from_millis(20)).await;
                server.resume();
            };
            let (told, _, ()) =
                tokio::join!(decide(&handle, &both), decide(&handle, &other), resumes);
            assert!(told.unwrap().iter().all(|one| one.fits));
            left(&handle, &old).await;
        }
        let admitted = used + most;
        until_left(&handle, &old, N - admitted).await;
        let more = warmed(&server, &handle, &old).await;
        until_left(&handle, &old, N - admitted - more).await;
    });
}

#[test]
fn a_worker_that_leaves_has_told_what_it_admitted() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&server.url()));
        let handle = handle(&store).await;
        let used = warmed(&server, &handle, &rules).await;
        for _ in 0..3 {
            assert!(decide(&handle, &alone(&rules, Verb::Hit, 1)).await.unwrap()[0].fits);
        }
        handle.leave().await;
        let other = redis_support::store(&server.url());
        let other = redis_support::handle(&other).await;
        assert_eq!(left(&other, &rules).await, N - used - 3);
    });
}

#[test]
fn what_drained_at_a_node_takes_no_room_from_another() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        // So many that the first few are not told at once.
        let n = 10 * N;
        let mut bucket = limit("all", "token_bucket", n, 1, &[]);
        bucket["consistency"] = json!("local");
        let rules = policy(&[bucket]);
        let clocks = [0; 2].map(|_| Arc::new(Clock::default()));
        let stores = clocks
            .each_ref()
            .map(|clock| store_with(&server.url(), Duration::from_secs(2), Arc::clone(clock)));
        let [one, other] = &stores;
        let (one, other) = (handle(one).await, handle(other).await);
        warmed(&server, &one, &rules).await;
        let begin = clocks[0].now_us() + 100_000;
        let set = |now_us| clocks.iter().for_each(|clock| clock.set_us(now_us));
        set(begin);
        for _ in 0..3 {
            assert!(decide(&one, &alone(&rules, Verb::Hit, 1)).await.unwrap()[0].fits);
        }
        set(begin + 20_000);
        assert!(decide(&other, &alone(&rules, Verb::Hit, 1)).await.unwrap()[0].fits);
        one.leave().await;
        assert_eq!(left(&other, &rules).await, n - 1, "200 units' time has passed for those 3");
    });
}

/// Puts a bucket whose period is 0 in place of every counter; says how many there were.
const SPOIL: &str = "local keys = redis.call('KEYS', '*|*') for _, key in ipairs(keys) do \
                     redis.call('SET', key, struct.pack('<Bddddd', 20, 1, 1, 1, 1, 0)) end \
                     return #keys";

#[test]
fn a_value_that_is_none_of_ours_stops_no_settling() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let bucket = |id: &str| {
            let mut limit = limit(id, "token_bucket", N, 86400, &[]);
            limit["consistency"] = json!("local");
            limit
        };
        let rules = policy(&[bucket("one"), bucket("two")]);
        let store = store(&server.url());
        let handle = handle(&store).await;
        warmed(&server, &handle, &rules).await;
        let spoilt = server.run(&["EVAL", SPOIL, "0"]);
        assert_eq!(spoilt, "2");
        let deadline = Deadline::after(Duration::from_secs(10));
        // Mirrors go by what they heard for a while.
        while decide(&handle, &alone(&rules, Verb::Hit, 1)).await.is_ok() {
            assert!(!deadline.is_over(), "nobody has met it");
            sleep(Duration::from_millis(20)).await;
        }
        server.run(&["FLUSHALL"]);
        let deadline = Deadline::after(Duration::from_secs(10));
        while decide(&handle, &alone(&rules, Verb::Hit, 1)).await.is_err() {
            assert!(!deadline.is_over(), "it is gone, and still met");
            sleep(Duration::from_millis(20)).await;
        }
        warmed(&server, &handle, &rules).await;
    });
}

#[test]
fn a_worker_that_is_gone_leaves_no_counter_behind_that_is_settled_no_more() {
    let Some(server) = Server::start(&[]) else { return };
    let (rules, store) = (rules(), store(&server.url()));
    on_worker(async {
        let handle = handle(&store).await;
        warmed(&server, &handle, &rules).await;
        server.pause();
        for _ in 0..3 {
            // Where it may admit no more by itself, it asks in vain.
            let asked = alone(&rules, Verb::Hit, 1);
            let _ = timeout(Duration::from_millis(20), decide(&handle, &asked)).await;
        }
        // Two rounds: the counter is on its way by then.
        sleep(Duration::from_millis(120)).await;
    });
    server.resume();
    on_worker(async {
        let handle = handle(&store).await;
        warmed(&server, &handle, &rules).await;
    });
}

#[test]
fn a_refund_that_brings_new_numbers_gives_back_what_was_not_told_yet() {
    // Under the last ones the limit is too small for shares of nodes.
    for n in [2 * N, 50] {
        let Some(server) = Server::start(&[]) else { return };
        on_worker(async {
            let mut identities = tidegate_core::Identities::default();
            let mut rules_of =
                |n: u64| redis_support::policy_with(&[local("all", n, &[])], &mut identities);
            let (old, new) = (rules_of(N), rules_of(n));
            let store = store(&server.url());
            let handle = handle(&store).await;
            warmed(&server, &handle, &old).await;
            handle.reset(&alone(&old, Verb::Peek, 1)).await.unwrap();
            for _ in 0..3 {
                assert!(decide(&handle, &alone(&old, Verb::Hit, 1)).await.unwrap()[0].fits);
            }
            decide(&handle, &alone(&new, Verb::Refund, 3)).await.unwrap();
            sleep(Duration::from_millis(200)).await;
            until_left(&handle, &new, n).await;
        });
    }
}

#[test]
fn what_passes_beside_a_master_that_is_away_is_counted_where_the_node_decides() {
    let Some((cluster, rules, tenant)) = apart() else { return };
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        let look = alone(&rules, Verb::Peek, 1);
        let mut used = 0;
        while !store.is_mirrored(&look, &look.ops[0]) {
            used += u64::from(ask(&handle, &alone(&rules, Verb::Hit, 1)).await.0[0].fits);
            sleep(Duration::from_millis(5)).await;
        }
        cluster.masters[1].pause();
        for _ in 0..2 {
            let (told, is_whole) = ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await;
            assert!(!is_whole && told[1].is_unasked && !told[0].is_unasked);
            assert!(told.iter().all(|one| one.fits));
        }
        until_left(&handle, &rules, N - used - 2).await;
        cluster.masters[1].resume();
    });
}

#[test]
fn what_the_node_denies_is_denied_beside_a_master_that_is_away() {
    let Some((cluster, rules, tenant)) = apart() else { return };
    on_worker(async {
        let store = cluster.store();
        // This one has heard no denial.
        let (handle, other) = (handle(&store).await, redis_support::handle(&store).await);
        let deadline = Deadline::after(Duration::from_secs(20));
        let look = alone(&rules, Verb::Peek, 1);
        while !store.is_mirrored(&look, &look.ops[0]) || ask(&other, &look).await.0[0].fits {
            assert!(!deadline.is_over());
            let left = ask(&other, &look).await.0[0].remaining;
            ask(&other, &alone(&rules, Verb::Hit, left.max(1))).await;
        }
        cluster.masters[1].pause();
        let (told, is_whole) = ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await;
        assert!(!is_whole && told[1].is_unasked && !told[0].is_unasked);
        assert!(!told[0].fits);
        cluster.masters[1].resume();
    });
}
