//! What nodes owe a store that was away.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::time::Duration;

use redis_support::ports::free_port;
use redis_support::{
    Plain, Server, decide, handle, hit, limit, on_worker, plan, policy, recovers, store,
};
use serde_json::json;
use tidegate_core::{RuleSet, Verb};
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisHandle, StoreError};
use tokio::time::sleep;

const NODES: u32 = 5;
const N: u64 = 40;

/// Units taken of the only counter, as the store holds it: form, time of the last write, units.
fn taken(server: &Server) -> f64 {
    const HELD: &str = "local keys = redis.call('KEYS', '*abuser*') return #keys > 0 and \
                        redis.call('GET', keys[1])";
    let held = Plain::connect(server.port).bytes(&["EVAL", HELD, "0"]);
    if held.is_empty() {
        return 0.0;
    }
    f64::from_le_bytes(held[9..17].try_into().unwrap())
}

#[test]
fn what_many_nodes_owe_takes_a_counter_to_twice_its_limit_at_most() {
    for algorithm in ["token_bucket", "fixed_window", "sliding_window"] {
        let Some(mut server) = Server::start(&[]) else { return };
        // More than N has no meaning in a window that ends as a whole.
        let most = if algorithm == "fixed_window" { N } else { 2 * N } as f64;
        let rules = policy(&[limit("id", algorithm, N, 86400, &["tenant"])]);
        on_worker(async {
            let mut nodes = Vec::new();
            for _ in 0..NODES {
                let store = store(&server.url());
                nodes.push((handle(&store).await, store));
            }
            server.kill();
            for (handle, _) in &nodes {
                let hit = hit(&rules, "abuser");
                while !matches!(decide(handle, &hit).await, Err(StoreError::Disconnected { .. })) {}
                for _ in 0..2 * N {
                    assert!(handle.decide(&hit).await.is_err());
                }
            }
            server.spawn();
            for (handle, _) in &nodes {
                let peek = plan(&rules, Verb::Peek, 1, &[(b"tenant", b"other")]);
                let deadline = Deadline::after(Duration::from_secs(20));
                while handle.decide(&peek).await.is_err() {
                    assert!(!deadline.is_over());
                    sleep(Duration::from_millis(5)).await;
                }
            }
            // All are told within some rounds from now.
            let end = Deadline::after(Duration::from_secs(1));
            while !end.is_over() {
                assert!(taken(&server) <= most, "{algorithm}: {}", taken(&server));
                sleep(Duration::from_millis(20)).await;
            }
            assert!(taken(&server) >= most - 1.0, "{algorithm}: {}", taken(&server));
        });
    }
}

/// A store of one server, and what many tenants owe it once it is back; it has answered by then.
async fn owing(rules: &RuleSet, server: &mut Server, tenants: u64) -> RedisHandle {
    let handle = handle(&store(&server.url())).await;
    server.kill();
    while !matches!(decide(&handle, &hit(rules, "t0")).await, Err(StoreError::Disconnected { .. }))
    {
    }
    for at in 1..tenants {
        assert!(handle.decide(&hit(rules, &format!("t{at}"))).await.is_err());
    }
    server.spawn();
    recovers(&handle, rules).await;
    handle
}

#[test]
fn a_worker_that_ends_has_charged_what_it_owes() {
    const TENANTS: u64 = 3_000;
    let Some(mut server) = Server::start(&[]) else { return };
    let rules = policy(&[limit("id", "fixed_window", N, 86400, &["tenant"])]);
    on_worker(async {
        let handle = owing(&rules, &mut server, TENANTS).await;
        // What was on its way has been answered before this.
        recovers(&handle, &rules).await;
        handle.leave().await;
    });
    let keys = server.run(&["EVAL", "return #redis.call('KEYS', '*{shop|t*')", "0"]);
    assert_eq!(keys, TENANTS.to_string());
}

#[test]
fn a_counter_that_is_reset_owes_nothing() {
    const TENANTS: u64 = 3_000;
    let Some(mut server) = Server::start(&[]) else { return };
    let rules = policy(&[limit("id", "fixed_window", N, 86400, &["tenant"])]);
    on_worker(async {
        let handle = owing(&rules, &mut server, TENANTS).await;
        // Some of them have been charged by now, most have not.
        for at in 0..TENANTS {
            handle.reset(&hit(&rules, &format!("t{at}"))).await.unwrap();
        }
        sleep(Duration::from_millis(300)).await;
        for at in 0..TENANTS {
            let peek = plan(&rules, Verb::Peek, 1, &[(b"tenant", format!("t{at}").as_bytes())]);
            assert_eq!(handle.decide(&peek).await.unwrap()[0].remaining, N, "t{at}");
        }
    });
}

/// A Cluster of one master.
fn cluster() -> Option<Server> {
    let bus = free_port();
    let server = Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()])?;
    server.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    serves(&server);
    Some(server)
}

fn serves(server: &Server) {
    let deadline = Deadline::after(Duration::from_secs(20));
    while !server.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        assert!(!deadline.is_over(), "no Cluster came of it");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_split_counter_that_is_reset_owes_nothing() {
    const TENANTS: u64 = 1_000;
    let Some(mut server) = cluster() else { return };
    let mut split = limit("id", "fixed_window", N, 86400, &["tenant"]);
    split["consistency"] = json!({"sharded": 4});
    let rules = policy(&[split]);
    on_worker(async {
        let store = store(&format!("redis+cluster://127.0.0.1:{}", server.port));
        let handle = handle(&store).await;
        server.kill();
        for at in 0..TENANTS {
            assert!(handle.decide(&hit(&rules, &format!("t{at}"))).await.is_err());
        }
        server.spawn();
        serves(&server);
        recovers(&handle, &rules).await;
        for at in 0..TENANTS {
            handle.reset(&hit(&rules, &format!("t{at}"))).await.unwrap();
        }
        sleep(Duration::from_millis(300)).await;
        assert_eq!(server.run(&["EVAL", "return #redis.call('KEYS', '*|t*')", "0"]), "0");
    });
}

#[test]
fn callers_that_block_owe_nothing_for_nobody_would_charge_it() {
    let Some(mut server) = cluster() else { return };
    let rules = policy(&[limit("id", "fixed_window", N, 86400, &["tenant"])]);
    let store = store(&format!("redis+cluster://127.0.0.1:{}", server.port));
    store.decide_blocking(&hit(&rules, "acme")).unwrap();
    server.kill();
    while !matches!(
        store.decide_blocking(&hit(&rules, "acme")).map_err(StoreError::cause),
        Err(StoreError::Disconnected { .. })
    ) {}
    server.spawn();
    serves(&server);
    // Whoever tends from now on finds nothing.
    on_worker(async {
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        sleep(Duration::from_millis(300)).await;
        let peek = plan(&rules, Verb::Peek, 1, &[(b"tenant", b"acme")]);
        assert_eq!(handle.decide(&peek).await.unwrap()[0].remaining, N);
    });
}
