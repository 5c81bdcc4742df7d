//! Requests whose counters lie on several masters of a Cluster, one of which is away or denies.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis_support::cluster::{Cluster, DEADLINE, ask, of, with};
use redis_support::{Server, decide, handle, limit, on_worker, plan, policy, timed};
use serde_json::{Value, json};
use tidegate_core::{Descriptor, Plan, RuleSet, Verb};
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisHandle, StoreError};

type Entry<'e> = (&'e [u8], &'e [u8]);

/// A limit for all, which lies at one master, and one for each tenant, which lies at another.
fn apart(all: &str) -> [Value; 2] {
    [
        limit(all, "fixed_window", 1000, 86400, &[]),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
    ]
}

/// What the two limits have left, once both say so.
async fn comes_to(handle: &RedisHandle, rules: &RuleSet, tenant: &str, expected: [u64; 2]) {
    let deadline = Deadline::after(Duration::from_secs(20));
    loop {
        let (told, is_whole) = ask(handle, &of(rules, Verb::Peek, 1, tenant)).await;
        let left = [told[0].remaining, told[1].remaining];
        if is_whole && left == expected {
            return;
        }
        assert!(!deadline.is_over(), "{left:?} left instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn the_share_of_a_limit_holds_where_only_its_part_of_a_cluster_is_away() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let local =
        with(limit(&all, "fixed_window", 20, 86400, &[]), "on_store_failure", json!("local"));
    let rules = policy(&[local, limit("each", "fixed_window", 1000, 86400, &["tenant"])]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        for _ in 0..3 {
            assert!(ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
        }
        cluster.masters[0].pause();
        let mut passed = 0;
        for _ in 0..40 {
            let (told, is_whole) = ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await;
            assert!(!is_whole && told[0].is_unasked && !told[1].is_unasked);
            passed += u64::from(told[0].fits);
        }
        cluster.masters[0].resume();
        assert_eq!(passed, 17, "one node has all of it, less the three that were seen");
        // Each was charged, at once or when the master was back, and none that was denied.
        comes_to(&handle, &rules, &tenant, [0, 1000 - 20]).await;
    });
}

#[test]
fn what_passed_without_an_open_limit_is_owed_to_its_part_of_a_cluster() {
    let Some(mut cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let rules = policy(&apart(&all));
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        assert!(ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
        cluster.masters[0].pause();
        let mut passed = 1;
        for _ in 0..40 {
            passed += u64::from(!ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
        }
        cluster.masters[0].resume();
        comes_to(&handle, &rules, &tenant, [1000 - passed, 1000 - passed]).await;
    });
    cluster.masters[0].kill();
}

#[test]
fn giving_back_after_a_denial_is_within_the_deadline_though_the_node_dies_just_then() {
    let Some(cluster) = Cluster::start(true) else { return };
    let (tenant, all) = cluster.names();
    let hard = limit("hard", "fixed_window", 19, 86400, &["tenant"]);
    let rules = policy(&[
        limit(&all, "fixed_window", 10, 86400, &[]),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
        with(hard, "count_denied", json!(true)),
    ]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        // All seen far from their limits, so that the next one takes without a look.
        assert!(ask(&handle, &of(&rules, Verb::Hit, 4, &tenant)).await.1);
        cluster.is_closing.store(true, Ordering::SeqCst);
        let hit = of(&rules, Verb::Hit, 8, &tenant);
        let ((told, _), took) = timed(ask(&handle, &hit)).await;
        assert!(!told[0].fits && told[1].fits && told[2].fits);
        assert!(took < DEADLINE * 3 / 2, "{took:?}");
    });
}

#[test]
fn what_a_request_gives_back_stays_taken_if_another_part_denies_it() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let rules = policy(&[
        limit("kind", "fixed_window", 10, 86400, &["kind"]),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
    ]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        let kind: &[Entry<'_>] = &[(b"kind", all.as_bytes())];
        let who: &[Entry<'_>] = &[(b"tenant", tenant.as_bytes())];
        let both = |take: u64, verb: Verb, give: u64, other: Verb| {
            let one = [(&b"requests"[..], take)];
            let two = [(&b"requests"[..], give)];
            let descriptors = [
                Descriptor { entries: kind, costs: &one, verb, rate: None },
                Descriptor { entries: who, costs: &two, verb: other, rate: None },
            ];
            Plan::new(rules.domain(b"shop").unwrap(), &descriptors, 0).unwrap()
        };
        let left = async || {
            let (told, _) = ask(&handle, &both(1, Verb::Peek, 1, Verb::Peek)).await;
            [told[0].remaining, told[1].remaining]
        };
        assert!(ask(&handle, &both(4, Verb::Hit, 500, Verb::Hit)).await.1);
        let (told, _) = ask(&handle, &both(8, Verb::Hit, 100, Verb::Refund)).await;
        assert!(!told[0].fits && told[1].fits);
        assert_eq!(left().await, [6, 500], "denied: nothing moved");
        let (told, _) = ask(&handle, &both(2, Verb::Hit, 100, Verb::Refund)).await;
        assert!(told[0].fits && told[1].fits);
        assert_eq!(told[1].remaining, 600);
        assert_eq!(left().await, [4, 600]);
    });
}

#[test]
fn of_two_slots_that_do_not_answer_each_is_owed_what_it_has_not_heard_of() {
    for is_unsent_first in [true, false] {
        let Some(mut cluster) = Cluster::start(false) else { return };
        let (tenant, all) = cluster.names();
        let [all, each] = apart(&all);
        let rules = policy(&if is_unsent_first { [all, each] } else { [each, all] });
        on_worker(async {
            let store = cluster.store();
            let handle = handle(&store).await;
            // Both seen far from their limits, so that the next one takes without a look.
            assert!(ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
            cluster.masters[0].kill();
            let alone = plan(&rules, Verb::Peek, 1, &[]);
            while !matches!(decide(&handle, &alone).await, Err(StoreError::Disconnected { .. })) {}
            cluster.masters[1].pause();
            let (told, _) = ask(&handle, &of(&rules, Verb::Hit, 5, &tenant)).await;
            assert!(told.iter().all(|one| one.fits && one.is_unasked));
            cluster.masters[1].resume();
            cluster.masters[0].spawn();
            // The first was empty when it came back. The second has had it, late.
            let left = if is_unsent_first { [1000 - 5, 1000 - 6] } else { [1000 - 6, 1000 - 5] };
            comes_to(&handle, &rules, &tenant, left).await;
        });
    }
}

#[test]
fn what_two_slots_did_not_say_when_they_were_looked_at_is_owed() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let rules = policy(&apart(&all));
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        // Seen near to their limits, so that the next one looks first.
        assert!(ask(&handle, &of(&rules, Verb::Hit, 600, &tenant)).await.1);
        cluster.masters.iter().for_each(Server::pause);
        let (told, _) = ask(&handle, &of(&rules, Verb::Hit, 5, &tenant)).await;
        assert!(told.iter().all(|one| one.fits && one.is_unasked));
        cluster.masters.iter().for_each(Server::resume);
        comes_to(&handle, &rules, &tenant, [1000 - 605, 1000 - 605]).await;
    });
}

#[test]
fn a_refund_left_for_later_hides_no_charge_that_must_be_given_back() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let shadow = limit("shadow", "fixed_window", 1, 86400, &["tenant"]);
    let rules = policy(&[
        limit("back", "fixed_window", 1000, 86400, &["back"]),
        with(shadow, "on_exceed", json!("shadow")),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
        limit("kind", "fixed_window", 3, 86400, &["kind"]),
    ]);
    on_worker(async {
        let store = cluster.store();
        let handles = [handle(&store).await, handle(&store).await];
        let back: &[Entry<'_>] = &[(b"back", tenant.as_bytes())];
        let who: &[Entry<'_>] = &[(b"tenant", tenant.as_bytes()), (b"kind", all.as_bytes())];
        let hit = plan(&rules, Verb::Hit, 1, who);
        for _ in 0..2 {
            assert!(ask(&handles[0], &hit).await.1);
        }
        let costs = [(&b"requests"[..], 1)];
        let both = || {
            let of = |entries, verb| Descriptor { entries, costs: &costs, verb, rate: None };
            let descriptors = [of(back, Verb::Refund), of(who, Verb::Hit)];
            Plan::new(rules.domain(b"shop").unwrap(), &descriptors, 0).unwrap()
        };
        let (first, second) = (both(), both());
        // Both see the last unit.
        let (first, second) = tokio::join!(ask(&handles[0], &first), ask(&handles[1], &second));
        assert_ne!(first.0[3].fits, second.0[3].fits);
        let deadline = Deadline::after(Duration::from_secs(10));
        let look = plan(&rules, Verb::Peek, 1, &[(b"tenant", tenant.as_bytes())]);
        while ask(&handles[0], &look).await.0[1].remaining != 1000 - 3 {
            assert!(!deadline.is_over(), "a denied request keeps what it took");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(ask(&handles[0], &look).await.0[0].remaining, 0, "of the shadow it took none");
    });
}
