//! With the store away: answers by `on_store_failure`, flagged, and service goes on.

use serde_json::json;

use crate::grpc_client::{Client, shop};
use crate::http_client::{get, post};
use crate::node::{limit, node_without_store, options, serve, snapshot, with};

#[tokio::test]
async fn open_passes_closed_denies_and_both_say_so() {
    let node = node_without_store();
    let closed = json!({"on_store_failure": "closed", "per": ["ip"]});
    node.load(&snapshot(&[limit("open", 1), with(limit("closed", 1), closed)])).unwrap();
    let running = serve(node, &options());
    let client = Client::connect(running.grpc()).await;
    let told = client.told(&shop(&[("tenant", b"acme")])).await;
    assert_eq!((told.code, told.statuses[0].code), (1, 1));
    assert_eq!(told.statuses[0].limit, None, "its numbers are unknown");
    assert!(told.headers.is_empty());
    assert_eq!(told.metadata("degraded"), Some("1"));
    assert_eq!(told.metadata("reason"), Some("ok"));
    let told = client.told(&shop(&[("tenant", b"acme"), ("ip", b"10.0.0.1")])).await;
    assert_eq!((told.code, told.statuses[0].code), (2, 2));
    assert_eq!(told.metadata("degraded"), Some("1"));
    assert_eq!(told.metadata("reason"), Some("store_failure"));
    assert_eq!(told.metadata("limit"), Some("closed"));
    assert_eq!(told.header("retry-after"), Some("1"));
    assert!(told.body.contains("temporary-reduced-capacity"), "{}", told.body);
    assert_eq!(running.node.metrics().degraded().values().sum::<u64>(), 2);
}

#[tokio::test]
async fn node_stays_ready_and_says_what_is_wrong() {
    let node = node_without_store();
    node.load(&snapshot(&[limit("open", 1)])).unwrap();
    let running = serve(node, &options());
    let http = running.http();
    let client = Client::connect(running.grpc()).await;
    client.told(&shop(&[("tenant", b"acme")])).await;
    let ready = get(http, "/readyz");
    assert_eq!(ready.status, 200);
    let store = &ready.json()["store"];
    assert_eq!(store["kind"], "redis");
    assert!(store["error"].is_string(), "{store}");
    let health = client.call("/grpc.health.v1.Health/Check", b"", None).await;
    assert_eq!(&health.message[..], [8, 1]);
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let decision = post(http, "/v1/check", &body).json();
    assert_eq!((&decision["allowed"], &decision["degraded"]), (&json!(true), &json!(true)));
    let many = post(http, "/v1/check", &json!({"checks": [body, body]})).json();
    assert_eq!(many["decisions"].as_array().unwrap().len(), 2);
    let metrics = get(http, "/metrics").body;
    assert!(metrics.contains("tidegate_degraded_decisions_total{reason=\"disconnected\"} 4"));
}

#[tokio::test]
async fn reset_that_did_not_reach_the_store_is_an_error() {
    let node = node_without_store();
    node.load(&snapshot(&[limit("open", 1)])).unwrap();
    let running = serve(node, &options());
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let answer =
        crate::http_client::post_as(running.http(), "/v1/reset", crate::node::TOKEN, &body);
    assert_eq!(answer.status, 503);
    assert!(answer.detail().contains("did not answer"), "{}", answer.detail());
}
