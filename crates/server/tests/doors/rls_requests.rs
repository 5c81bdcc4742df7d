//! What `ShouldRateLimit` makes of a request: hits, kinds, refunds, mistakes.

use serde_json::json;

use crate::grpc_client::{Ask, Client, Described, described, shop};
use crate::node::{TOKEN, empty_node, limit, options, serve, snapshot, start, with};

const INVALID_ARGUMENT: u16 = 3;
const PERMISSION_DENIED: u16 = 7;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

/// Looking was impossible where 0 and missing could not be told apart.
#[tokio::test]
async fn b47_hits_of_the_request_and_of_the_descriptor() {
    let running = start(&[limit("search", 100)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    let left = async |ask: Ask| client.told(&ask).await.statuses[0].remaining;
    assert_eq!(left(ask.clone()).await, 99, "missing is 1");
    assert_eq!(left(Ask { hits: 0, ..ask.clone() }).await, 98, "the request's 0 is unset");
    assert_eq!(left(Ask { hits: 5, ..ask.clone() }).await, 93);
    assert_eq!(left(ask.clone().hits(0)).await, 93, "the descriptor's 0 looks");
    assert_eq!(left(Ask { hits: 50, ..ask.clone().hits(3) }).await, 90, "its own beat");
}

#[tokio::test]
async fn b47_look_at_a_full_limit_is_over_and_moves_nothing() {
    let running = start(&[limit("search", 2)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    let look = ask.clone().hits(0);
    assert_eq!(client.told(&look).await.code, 1);
    assert_eq!(running.node.store().kind(), "memory");
    client.told(&ask.clone().hits(2)).await;
    let told = client.told(&look).await;
    assert_eq!((told.code, told.statuses[0].remaining), (2, 0));
    let again = client.told(&look).await;
    assert_eq!(again.statuses, told.statuses);
    assert_eq!(client.told(&shop(&[("tenant", b"other")]).hits(0)).await.code, 1);
}

#[tokio::test]
async fn largest_cost_wins_where_descriptors_meet_one_counter() {
    let running = start(&[limit("search", 100)]);
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("tenant", b"acme")]).hits(3);
    ask.descriptors.push(Described { hits: Some(7), ..described(&[("tenant", b"acme")]) });
    ask.descriptors.push(Described { hits: Some(0), ..described(&[("tenant", b"acme")]) });
    let told = client.told(&ask).await;
    let left: Vec<_> = told.statuses.iter().map(|status| status.remaining).collect();
    assert_eq!(left, [93, 93, 93]);
}

#[tokio::test]
async fn entry_counts_names_the_kind_and_is_no_part_of_a_key() {
    let tokens = with(limit("tokens", 1000), json!({"counts": "tokens"}));
    let running = start(&[limit("requests", 10), tokens]);
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("tenant", b"acme")]);
    let spent = described(&[("counts", b"tokens"), ("tenant", b"acme")]);
    ask.descriptors.push(Described { hits: Some(900), ..spent });
    let told = client.told(&ask).await;
    let names: Vec<_> =
        told.statuses.iter().map(|it| (it.limit.clone().unwrap().2, it.remaining)).collect();
    assert_eq!(names, [("requests".into(), 9), ("tokens".into(), 100)]);
    let requests = shop(&[("tenant", b"acme"), ("counts", b"requests")]);
    assert_eq!(client.told(&requests).await.statuses[0].remaining, 8, "the same counter");
    let unknown = client.told(&shop(&[("tenant", b"acme"), ("counts", b"bytes")])).await;
    assert_eq!((unknown.code, &unknown.statuses[0].limit), (1, &None));
}

#[tokio::test]
async fn refunds_need_the_token_and_stay_within_the_limit() {
    let running = start(&[limit("search", 10)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    client.told(&ask.clone().hits(5)).await;
    for token in [None, Some("wrong")] {
        let ended = client.ask(&ask.clone().refund(2, token)).await;
        assert_eq!(ended.status, PERMISSION_DENIED);
        assert!(ended.text.contains("admin token"), "{}", ended.text);
    }
    let told = client.told(&ask.clone().refund(2, Some(TOKEN))).await;
    assert_eq!((told.code, told.statuses[0].remaining), (1, 7));
    let told = client.told(&ask.clone().refund(50, Some(TOKEN))).await;
    assert_eq!(told.statuses[0].remaining, 10, "never above the limit");
}

#[tokio::test]
async fn charge_and_refund_of_one_counter_is_refused() {
    let running = start(&[limit("search", 10)]);
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("tenant", b"acme")]).refund(1, Some(TOKEN));
    ask.descriptors.push(described(&[("tenant", b"acme")]));
    let ended = client.ask(&ask).await;
    assert_eq!(ended.status, INVALID_ARGUMENT);
    assert!(ended.text.contains("charge and refund"), "{}", ended.text);
    let look = shop(&[("tenant", b"acme")]).hits(0);
    assert_eq!(client.told(&look).await.statuses[0].remaining, 10);
}

#[tokio::test]
async fn mistakes_are_named() {
    let running = start(&[limit("search", 10)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    let with_unit = |unit| {
        let mut ask = ask.clone();
        ask.descriptors[0].limit = Some((3, unit, 1));
        ask
    };
    let brings = |limit| {
        let mut ask = ask.clone();
        ask.descriptors[0].limit = Some(limit);
        ask
    };
    let cases = [
        (Ask { domain: "", ..ask.clone() }, "domain is empty"),
        (Ask { descriptors: vec![], ..ask.clone() }, "no descriptors"),
        (Ask { descriptors: vec![Described::default(); 1001], ..ask.clone() }, "at most 1000"),
        (with_unit(0), "limit.unit 0"),
        (with_unit(8), "limit.unit 8"),
        (brings((3, 6, 2)), "at most 366 days"),
    ];
    for (ask, expected) in cases {
        let ended = client.ask(&ask).await;
        assert_eq!(ended.status, INVALID_ARGUMENT, "{expected}");
        assert!(ended.text.contains(expected), "{}", ended.text);
    }
    for unit in 1..=7 {
        let told = client.told(&with_unit(unit)).await;
        assert_eq!(told.statuses[0].limit.as_ref().unwrap().0, 10, "the policy decides");
    }
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    assert_eq!(client.call(path, b"\x0a\xff", None).await.status, INTERNAL);
}

#[tokio::test]
async fn a_rate_that_the_request_brings_holds_where_the_policy_lets_it() {
    let free = |id, changes| with(with(limit(id, 10), json!({"request_override": true})), changes);
    let bucket = json!({
        "per": ["user"], "algorithm": "token_bucket", "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": false,
        "numbers": {"n": 10, "period_us": 60_000_000, "burst": 20},
    });
    let running = start(&[
        limit("fixed", 10),
        free("free", json!({"per": ["api_key"]})),
        free("bucket", bucket),
        free(
            "shut",
            json!({"per": ["shut"], "numbers": {"n": 0, "period_us": 1_000_000, "burst": 0}}),
        ),
        free("open", json!({"per": ["open"], "numbers": null})),
    ]);
    let client = Client::connect(running.grpc()).await;
    let told = async |key, limit| {
        let mut ask = shop(&[(key, b"x")]);
        ask.descriptors[0].limit = limit;
        let told = client.told(&ask).await;
        let status = &told.statuses[0];
        (status.limit.clone().map(|it| (it.0, it.1, it.3)), status.remaining, told.code)
    };
    assert_eq!(told("tenant", Some((3, 2, 1))).await, (Some((10, 2, 0)), 9, 1), "not allowed");
    assert_eq!(told("api_key", Some((3, 2, 1))).await, (Some((3, 2, 0)), 2, 1));
    assert_eq!(told("api_key", None).await, (Some((10, 2, 0)), 8, 1), "the counter is the same");
    assert_eq!(told("api_key", Some((2, 2, 1))).await, (Some((2, 2, 0)), 0, 2));
    assert_eq!(told("api_key", Some((3, 2, 15))).await, (Some((3, 2, 15)), 2, 1), "a new window");
    assert_eq!(told("api_key", Some((0, 2, 1))).await, (Some((0, 2, 0)), 0, 2), "0 blocks");
    assert_eq!(told("user", Some((5, 2, 1))).await, (Some((5, 2, 0)), 9, 1), "burst 10");
    assert_eq!(told("user", None).await.1, 18);
    assert_eq!(told("shut", Some((100, 2, 1))).await.2, 2, "what is shut stays shut");
    assert_eq!(told("open", None).await, (None, 0, 1));
    assert_eq!(told("open", Some((3, 7, 1))).await, (Some((3, 7, 0)), 2, 1));
}

#[tokio::test]
async fn of_two_descriptors_on_one_counter_the_first_rate_that_is_brought_holds() {
    let running = start(&[with(limit("free", 10), json!({"request_override": true}))]);
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("tenant", b"acme")]);
    for limit in [(4, 2, 1), (2, 2, 1)] {
        ask.descriptors.push(described(&[("tenant", b"acme")]));
        ask.descriptors.last_mut().unwrap().limit = Some(limit);
    }
    let told = client.told(&ask).await;
    for status in &told.statuses {
        assert_eq!((status.limit.as_ref().unwrap().0, status.remaining), (4, 3));
    }
}

#[tokio::test]
async fn a_look_then_the_cost_after_the_fact_limits_the_next_look() {
    let tokens = json!({"count_denied": true, "counts": "tokens"});
    let running = start(&[with(limit("tokens", 100), tokens)]);
    let client = Client::connect(running.grpc()).await;
    let ask = |hits| shop(&[("tenant", b"acme"), ("counts", b"tokens")]).hits(hits);
    assert_eq!(client.told(&ask(0)).await.code, 1);
    assert_eq!(client.told(&ask(58)).await.code, 1);
    assert_eq!(client.told(&ask(0)).await.statuses[0].remaining, 42);
    assert_eq!(client.told(&ask(80)).await.code, 2, "denied, and taken in full");
    assert_eq!(client.told(&ask(0)).await.code, 2);
    running.at(60_000_000);
    assert_eq!(client.told(&ask(0)).await.statuses[0].remaining, 100);
}

#[tokio::test]
async fn unknown_domain_has_no_limits_and_one_label() {
    let running = start(&[limit("search", 1)]);
    let client = Client::connect(running.grpc()).await;
    for domain in ["nope", "neither"] {
        let told = client.told(&Ask { domain, ..shop(&[("tenant", b"acme")]) }).await;
        assert_eq!((told.code, told.statuses[0].code, told.headers.len()), (1, 1, 0));
        assert_eq!(told.statuses[0].limit, None);
    }
    let domains = running.node.metrics().by_domain();
    assert_eq!(domains[""].allowed, 2);
    assert_eq!(domains.len(), 2, "{domains:?}");
}

#[tokio::test]
async fn before_the_first_policy_there_is_no_answer() {
    let running = serve(empty_node(), &options());
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    assert_eq!(client.ask(&ask).await.status, UNAVAILABLE);
    running.node.load(&snapshot(&[limit("search", 1)])).unwrap();
    assert_eq!(client.told(&ask).await.code, 1);
}

#[tokio::test]
async fn repeated_key_counts_once_and_order_does_not_matter() {
    let running = start(&[with(limit("pair", 10), json!({"per": ["tenant", "user"]}))]);
    let client = Client::connect(running.grpc()).await;
    let orders: [&[(&str, &[u8])]; 3] = [
        &[("tenant", b"a"), ("user", b"u")],
        &[("user", b"u"), ("tenant", b"a")],
        &[("user", b"u"), ("tenant", b"a"), ("tenant", b"b")],
    ];
    for (entries, left) in orders.into_iter().zip([9, 8, 7]) {
        assert_eq!(client.told(&shop(entries)).await.statuses[0].remaining, left);
    }
}
