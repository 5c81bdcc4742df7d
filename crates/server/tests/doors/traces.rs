//! Requests that come with a sampled trace have a span; others have none, and all are answered
//! alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_counters::{Clock, MemoryOptions, MemoryStore};
use tidegate_server::{Node, Store};

use crate::grpc_client::{Client, Told, shop};
use crate::http_client::send;
use crate::node::{Running, START_US, limit, node_without_store, options, serve, snapshot};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// A server that traces, with these limits in domain `shop`.
fn traced(limits: &[Value]) -> Running {
    let clock = Arc::new(Clock::default());
    clock.set_us(START_US);
    let store = MemoryStore::new(MemoryOptions { max_counters: 10_000 });
    let node = Arc::new(Node::new(Store::Memory(store), clock).with_traces());
    node.load(&snapshot(limits)).unwrap();
    serve(node, &options())
}

fn spans(running: &Running) -> Vec<Value> {
    let taken = running.node.spans().unwrap().take(usize::MAX);
    taken.iter().map(|span| serde_json::from_str(span).unwrap()).collect()
}

fn attributes(span: &Value) -> BTreeMap<String, Value> {
    let pairs = span["attributes"].as_array().unwrap().iter().map(|pair| {
        let (_, value) = pair["value"].as_object().unwrap().iter().next().unwrap();
        (pair["key"].as_str().unwrap().to_owned(), value.clone())
    });
    pairs.collect()
}

fn post(running: &Running, path: &str, traceparent: &str, body: &Value) -> u16 {
    let headers = [("content-type", "application/json"), ("traceparent", traceparent)];
    send(running.http(), "POST", path, &headers, &body.to_string()).status
}

#[tokio::test]
async fn a_sampled_call_has_a_span_that_tells_of_the_decision() {
    let running = traced(&[limit("search", 1)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    client.ask_traced(&ask, Some(SAMPLED)).await;
    let denied = Told::decode(&client.ask_traced(&ask, Some(SAMPLED)).await.message);
    assert_eq!(denied.code, 2);
    let found = spans(&running);
    assert_eq!(found.len(), 2);
    assert_ne!(found[0]["spanId"], found[1]["spanId"]);
    let span = &found[1];
    assert_eq!(span["traceId"], TRACE);
    assert_eq!(span["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(span["flags"], 0x301);
    let start: u64 = span["startTimeUnixNano"].as_str().unwrap().parse().unwrap();
    let end: u64 = span["endTimeUnixNano"].as_str().unwrap().parse().unwrap();
    assert_eq!(start, START_US * 1000);
    assert!((1..1_000_000_000).contains(&(end - start)), "{span}");
    let mut told = attributes(span);
    let id = told.remove("tidegate.decision_id").unwrap();
    let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let expected = json!({
        "rpc.system.name": "grpc", "rpc.method": method, "rpc.response.status_code": "OK",
        "tidegate.store": "memory", "tidegate.domain": "shop", "tidegate.allowed": false,
        "tidegate.reason": "over_limit", "tidegate.limit": "search", "tidegate.degraded": false,
    });
    assert_eq!(json!(told), expected);
    assert_eq!(span["name"], method);
    assert!(!span.to_string().contains("acme"), "no value of the request");
    assert_eq!(denied.metadata("decision_id"), id.as_str(), "the id of the answer");
}

#[tokio::test]
async fn calls_that_are_not_sampled_have_none() {
    let running = traced(&[limit("search", 10)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    for traceparent in [None, Some(UNSAMPLED), Some("00-nonsense")] {
        assert_eq!(client.ask_traced(&ask, traceparent).await.status, 0);
    }
    let check = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    assert_eq!(post(&running, "/v1/check", UNSAMPLED, &check), 200);
    assert_eq!(spans(&running), Vec::<Value>::new());
}

#[tokio::test]
async fn sampled_ones_among_calls_that_come_together_change_no_answer() {
    let running = traced(&[limit("search", 100)]);
    let client = Arc::new(Client::connect(running.grpc()).await);
    let begun: Vec<_> = (0..24)
        .map(|at| {
            let client = Arc::clone(&client);
            let traceparent = if at % 5 == 3 { SAMPLED } else { UNSAMPLED };
            let ask = shop(&[("tenant", b"acme")]);
            tokio::spawn(async move { client.ask_traced(&ask, Some(traceparent)).await })
        })
        .collect();
    for (at, call) in begun.into_iter().enumerate() {
        let told = Told::decode(&call.await.unwrap().message);
        assert_eq!(told.statuses[0].remaining, 99 - at as u64);
    }
    assert_eq!(spans(&running).len(), 5);
}

#[tokio::test]
async fn a_refused_call_has_a_span_without_a_decision() {
    let running = traced(&[limit("search", 10)]);
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("tenant", b"acme")]);
    ask.domain = "";
    client.ask_traced(&ask, Some(SAMPLED)).await;
    let told = attributes(&spans(&running)[0]);
    assert_eq!(told["rpc.response.status_code"], "INVALID_ARGUMENT");
    assert!(!told.contains_key("tidegate.allowed"));
}

#[tokio::test]
async fn a_store_that_is_away_is_told() {
    let node = Arc::into_inner(node_without_store()).unwrap().with_traces();
    node.load(&snapshot(&[limit("search", 10)])).unwrap();
    let running = serve(Arc::new(node), &options());
    let client = Client::connect(running.grpc()).await;
    client.ask_traced(&shop(&[("tenant", b"acme")]), Some(SAMPLED)).await;
    let told = attributes(&spans(&running)[0]);
    assert_eq!(
        (&told["tidegate.store"], &told["tidegate.degraded"]),
        (&json!("redis"), &json!(true))
    );
}

#[test]
fn the_state_of_a_trace_goes_with_its_span() {
    let running = traced(&[limit("search", 1)]);
    let headers = [("traceparent", SAMPLED), ("tracestate", "a=1"), ("tracestate", "b=2")];
    send(running.http(), "GET", "/v1/forward-auth/x", &headers, "");
    send(running.http(), "GET", "/v1/forward-auth/x", &[("traceparent", SAMPLED)], "");
    let found = spans(&running);
    assert_eq!(found[0]["traceState"], "a=1,b=2");
    assert_eq!(found[1].get("traceState"), None);
}

#[test]
fn over_http_what_asks_has_a_span_and_probes_have_none() {
    let running = traced(&[limit("search", 1)]);
    let check = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    assert_eq!(post(&running, "/v1/check", SAMPLED, &check), 200);
    assert_eq!(post(&running, "/v1/check", SAMPLED, &json!({"checks": [check, check]})), 200);
    assert_eq!(post(&running, "/v1/peek", SAMPLED, &json!({})), 400);
    assert_eq!(post(&running, "/v1/reset", SAMPLED, &check), 401);
    send(running.http(), "GET", "/readyz", &[("traceparent", SAMPLED)], "");
    send(running.http(), "GET", "/v1/forward-auth/a/b?c", &[("traceparent", SAMPLED)], "");
    let found = spans(&running);
    let names: Vec<_> = found.iter().map(|span| span["name"].as_str().unwrap()).collect();
    let paths = ["POST /v1/check", "POST /v1/check", "POST /v1/peek", "POST /v1/reset"];
    assert_eq!(names, [&paths[..], &["GET /v1/forward-auth"]].concat());
    let [one, many, wrong, denied, _] = &found[..] else { unreachable!() };
    assert_eq!(attributes(one)["tidegate.allowed"], json!(true));
    assert_eq!(attributes(one)["http.response.status_code"], "200");
    let many = attributes(many);
    assert_eq!((&many["tidegate.checks"], &many["tidegate.denied"]), (&json!("2"), &json!("2")));
    assert!(!many.contains_key("tidegate.domain"));
    assert_eq!(attributes(wrong)["http.response.status_code"], "400");
    assert_eq!(attributes(denied)["http.response.status_code"], "401");
    assert!(found.iter().all(|span| span.get("status").is_none()), "faults of clients");
}
