//! Requests on the slow way share a call with those that come in the same turn of the event loop.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use redis_support::cluster::{Cluster, ask, of};
use redis_support::{Server, handle, limit, on_worker, policy};
use serde_json::json;
use tidegate_core::{RuleSet, Verb};
use tidegate_counters::redis::RedisHandle;

fn rules() -> RuleSet {
    let mut split = limit("split", "fixed_window", 1000, 86400, &[]);
    split["consistency"] = json!({"sharded": 2});
    policy(&[split])
}

fn calls(cluster: &Cluster) -> u64 {
    cluster.masters.iter().map(|master: &Server| master.calls("evalsha")).sum()
}

/// Once both masters have the script and the worker looks at the deadlines of what it has sent.
async fn warm(cluster: &Cluster, handle: &RedisHandle, rules: &RuleSet) -> u64 {
    assert!(ask(handle, &of(rules, Verb::Peek, 1, "")).await.1);
    assert!(ask(handle, &of(rules, Verb::Hit, 1, "")).await.1);
    calls(cluster)
}

/// Lets every task that is ready go first.
async fn last_of_the_turn() {
    let mut is_polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_call_does_not_leave_before_those_have_joined_that_are_ready_after_it() {
    let Some(cluster) = Cluster::start(false) else { return };
    let rules = rules();
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        let before = warm(&cluster, &handle, &rules).await;
        let hit = of(&rules, Verb::Hit, 1, "");
        let later = async {
            last_of_the_turn().await;
            ask(&handle, &hit).await
        };
        let (first, second) = tokio::join!(ask(&handle, &hit), later);
        assert!(first.1 && second.1);
        assert_eq!(calls(&cluster) - before, 1);
    });
}

#[test]
fn a_look_that_wakes_nobody_takes_no_turn() {
    let Some(cluster) = Cluster::start(false) else { return };
    let rules = rules();
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        let before = warm(&cluster, &handle, &rules).await;
        let hit = of(&rules, Verb::Hit, 1, "");
        let mut first = pin!(ask(&handle, &hit));
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let (first, second) = tokio::join!(first, ask(&handle, &hit));
        assert!(first.1 && second.1);
        assert_eq!(calls(&cluster) - before, 1);
    });
}
