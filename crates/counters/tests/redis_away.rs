//! What nodes owe a store that was away.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::time::Duration;

use redis_support::{Plain, Server, decide, handle, hit, limit, on_worker, plan, policy, store};
use tidegate_core::Verb;
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::StoreError;
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
