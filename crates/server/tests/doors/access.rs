//! Resets and refunds over HTTP: only with the admin token.

use serde_json::json;
use tidegate_server::ServerOptions;

use crate::http_client::{post, post_as};
use crate::node::{TOKEN, empty_node, limit, numbers, options, serve, snapshot, start, with};

#[test]
fn reset_forgets_the_counters_that_a_request_meets() {
    let tokens = with(limit("tokens", 100), json!({"counts": "tokens"}));
    let other = with(limit("other", 5), json!({"per": ["ip"]}));
    let running = start(&[limit("search", 2), tokens, other]);
    let http = running.http();
    let spend = json!({
        "domain": "shop", "descriptors": [{"tenant": "acme", "ip": "::1"}],
        "cost": {"requests": 2, "tokens": 100},
    });
    assert_eq!(post(http, "/v1/check", &spend).json()["allowed"], true);
    assert_eq!(post(http, "/v1/check", &spend).json()["allowed"], false);
    let whom = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let reset = post_as(http, "/v1/reset", TOKEN, &whom);
    assert_eq!((reset.status, reset.json()), (200, json!({"reset": ["search", "tokens"]})));
    let decision = post(http, "/v1/check", &spend).json();
    let left: Vec<_> =
        decision["limits"].as_array().unwrap().iter().map(|it| &it["remaining"]).collect();
    assert_eq!(left, [&json!(0), &json!(0), &json!(1)], "the address keeps its counter");
}

#[test]
fn others_are_told_what_is_missing() {
    let running = start(&[limit("search", 2)]);
    let http = running.http();
    let whom = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let missing = post(http, "/v1/reset", &whom);
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer")));
    assert!(missing.detail().contains("authorization: Bearer"));
    let wrong = post_as(http, "/v1/reset", "guess", &whom);
    assert_eq!(wrong.status, 403);
    let refund = with(whom, json!({"refund": true}));
    assert_eq!(post(http, "/v1/check", &refund).status, 401);
    assert_eq!(post(http, "/v1/check", &json!({"checks": [refund]})).status, 401);
}

#[test]
fn without_a_token_nobody_may() {
    let node = empty_node();
    node.load(&snapshot(&[limit("search", 2)])).unwrap();
    let running = serve(node, &ServerOptions { admin_token: None, ..options() });
    let whom = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let answer = post_as(running.http(), "/v1/reset", "", &whom);
    assert_eq!(answer.status, 403);
    assert!(answer.detail().contains("--admin-token"));
}

#[test]
fn b46_refund_gives_back_and_never_more_than_was_taken() {
    let running = start(&[with(limit("search", 1), json!({"numbers": numbers(10, 60, 10)}))]);
    let http = running.http();
    let whom = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    post(http, "/v1/check", &with(whom.clone(), json!({"cost": 5})));
    let refund = with(whom.clone(), json!({"refund": true, "cost": 2}));
    assert_eq!(post_as(http, "/v1/check", TOKEN, &refund).json()["limits"][0]["remaining"], 7);
    let all = with(whom, json!({"refund": true, "cost": 100}));
    assert_eq!(post_as(http, "/v1/check", TOKEN, &all).json()["limits"][0]["remaining"], 10);
}
