//! Report B116: a limit in shadow says what it would refuse, is told apart, and refuses nothing.

use serde_json::{Value, json};

use crate::grpc_client::{Client, Told, shop};
use crate::node::{Running, limit, start, with};

const PASSES: u64 = 1;
const REFUSED: u64 = 2;
const CALLS: usize = 12;

fn in_shadow(limit: Value) -> Value {
    with(limit, json!({"on_exceed": "shadow"}))
}

/// What the door says to twelve calls of one tenant.
async fn twelve(running: &Running) -> Vec<Told> {
    let client = Client::connect(running.grpc()).await;
    let mut told = Vec::new();
    for _ in 0..CALLS {
        told.push(client.told(&shop(&[("tenant", b"acme")])).await);
    }
    told
}

fn codes(told: &[Told]) -> Vec<u64> {
    told.iter().map(|told| told.code).collect()
}

/// Passed, refused and would have been refused, as the limit's metric has them.
fn totals(running: &Running, limit: &str) -> (u64, u64, u64) {
    let all = running.node.metrics().by_limit();
    let totals = all[&("shop".into(), limit.into())];
    (totals.allowed, totals.denied, totals.shadow_denied)
}

fn waits(told: &Told) -> bool {
    told.header("retry-after").is_some()
}

#[tokio::test]
async fn b116_beside_an_enforced_limit_it_reports_each_call_that_it_would_refuse() {
    let running = start(&[in_shadow(limit("s", 5)), limit("e", 10)]);
    let told = twelve(&running).await;
    assert_eq!(codes(&told), [[PASSES; 10].as_slice(), &[REFUSED; 2]].concat());
    assert_eq!(totals(&running, "s"), (5, 0, 7), "from the sixth call on");
    assert_eq!(totals(&running, "e"), (10, 2, 0));
    let domain = running.node.metrics().by_domain()["shop"];
    assert_eq!((domain.allowed, domain.denied), (10, 2));
    for told in &told {
        assert_eq!(told.header("x-ratelimit-resource"), Some("e"), "a shadow is not shown");
    }
    assert!(told[..10].iter().all(|told| !waits(told)));
    assert!(told[10..].iter().all(|told| waits(told) && told.metadata("limit") == Some("e")));
}

#[tokio::test]
async fn b116_alone_it_lets_everything_pass_and_asks_nobody_to_wait() {
    let running = start(&[in_shadow(limit("s", 5))]);
    let told = twelve(&running).await;
    assert_eq!(codes(&told), [PASSES; CALLS]);
    assert_eq!(totals(&running, "s"), (5, 0, 7));
    for told in &told {
        assert!(!waits(told) && told.body.is_empty() && told.metadata.is_empty());
        assert_eq!(told.statuses[0].code, PASSES);
    }
}

#[tokio::test]
async fn b116_with_every_limit_in_shadow_all_pass_and_each_is_reported() {
    let running = start(&[in_shadow(limit("s", 5)), in_shadow(limit("e", 10))]);
    let told = twelve(&running).await;
    assert_eq!(codes(&told), [PASSES; CALLS]);
    assert!(!told.iter().any(waits));
    assert_eq!(totals(&running, "s"), (5, 0, 7));
    assert_eq!(totals(&running, "e"), (10, 0, 2));
}
