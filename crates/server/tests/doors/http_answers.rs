//! What HTTP answers: decisions, headers, probes, metrics.

use serde_json::json;

use crate::http_client::{get, post, send};
use crate::node::{START_US, empty_node, limit, numbers, options, serve, snapshot, start, with};

#[test]
fn decision_has_the_shape_of_every_door() {
    let bucket = json!({"algorithm": "token_bucket", "numbers": numbers(60, 60, 120)});
    let trial = with(limit("trial", 100), json!({"on_exceed": "shadow"}));
    let running = start(&[limit("search", 2), with(limit("burst", 1), bucket), trial]);
    let http = running.http();
    running.at(500);
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}], "cost": 2});
    let mut decision = post(http, "/v1/check", &body).json();
    let id = decision["decision_id"].take();
    assert_eq!(id.as_str().unwrap().len(), 26);
    assert_eq!(
        decision,
        json!({
            "allowed": true, "reason": "ok", "retry_after_ms": null, "decision_id": null,
            "revision": "0123456789ab", "degraded": false, "binding": 0,
            "limits": [
                {"id": "search", "allowed": true, "limit": 2, "remaining": 0,
                 "reset_ms": 60_000, "window_ms": 60_000, "shadow": false},
                {"id": "burst", "allowed": true, "limit": 120, "remaining": 118,
                 "reset_ms": 2_000, "window_ms": 120_000, "shadow": false},
                {"id": "trial", "allowed": true, "limit": 100, "remaining": 98,
                 "reset_ms": 60_000, "window_ms": 60_000, "shadow": true},
            ],
        })
    );
    let denied = post(http, "/v1/check", &body);
    assert_eq!(denied.status, 200, "a denial is no error");
    assert_eq!(denied.header("retry-after"), Some("60"));
    assert_eq!(denied.header("x-ratelimit-limit"), Some("2"));
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(denied.header("x-ratelimit-resource"), Some("search"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    let reset_s = (START_US / 1_000_000 + 60).to_string();
    assert_eq!(denied.header("x-ratelimit-reset"), Some(reset_s.as_str()));
    let decision = denied.json();
    assert_eq!(decision["allowed"], false);
    assert_eq!(decision["reason"], "over_limit");
    assert_eq!(decision["retry_after_ms"], 60_000);
    assert_eq!(decision["limits"][1]["remaining"], 118, "a denied request moves no counter");
}

#[test]
fn peek_and_cost_zero_move_nothing() {
    let running = start(&[limit("search", 2)]);
    let http = running.http();
    let whom = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let left = |path, changes| {
        let decision = post(http, path, &with(whom.clone(), changes)).json();
        (decision["allowed"].as_bool().unwrap(), decision["limits"][0]["remaining"].clone())
    };
    assert_eq!(left("/v1/peek", json!({})), (true, json!(2)));
    assert_eq!(left("/v1/check", json!({"cost": 0})), (true, json!(2)));
    assert_eq!(left("/v1/peek", json!({"cost": 3})), (false, json!(2)));
    assert_eq!(left("/v1/check", json!({"cost": 2})), (true, json!(0)));
    assert_eq!(left("/v1/peek", json!({})), (false, json!(0)));
    assert_eq!(left("/v1/check", json!({"cost": 0})), (false, json!(0)));
}

#[test]
fn batch_is_decided_in_order() {
    let running = start(&[limit("search", 3)]);
    let check = |cost| json!({"domain": "shop", "descriptors": [{"tenant": "a"}], "cost": cost});
    let batch = json!({"checks": [check(2), check(2), check(1), check(1)]});
    let answer = post(running.http(), "/v1/check", &batch).json();
    let allowed: Vec<_> =
        answer["decisions"].as_array().unwrap().iter().map(|it| it["allowed"].as_bool()).collect();
    assert_eq!(allowed, [Some(true), Some(false), Some(true), Some(false)]);
}

#[test]
fn unknown_domain_has_no_limits() {
    let running = start(&[limit("search", 1)]);
    let body = json!({"domain": "nope", "descriptors": [{}]});
    let decision = post(running.http(), "/v1/check", &body).json();
    assert_eq!((&decision["allowed"], &decision["reason"]), (&json!(true), &json!("ok")));
    assert_eq!((&decision["limits"], &decision["binding"]), (&json!([]), &json!(null)));
}

#[test]
fn readiness_follows_the_policy_and_tells_of_refused_ones() {
    let running = serve(empty_node(), &options());
    let http = running.http();
    assert_eq!(get(http, "/healthz").status, 200);
    let ready = get(http, "/readyz");
    assert_eq!((ready.status, &ready.json()["revision"]), (503, &json!(null)));
    let body = json!({"domain": "shop", "descriptors": [{}]});
    let early = post(http, "/v1/check", &body);
    assert_eq!((early.status, early.header("retry-after")), (503, Some("1")));
    running.node.load(&snapshot(&[limit("search", 1)])).unwrap();
    let ready = get(http, "/readyz");
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.json(),
        json!({
            "ready": true, "revision": "0123456789ab", "draining": false, "reload_error": null,
            "store": {"kind": "memory", "error": null, "warnings": []},
        })
    );
    running.node.note_reload_failure("policy.yaml:3:7: unknown field");
    running.node.load(b"{}").unwrap_err();
    running.node.note_reload_failure("policy.yaml:3:7: unknown field");
    let ready = get(http, "/readyz");
    assert_eq!(ready.status, 200, "a bad file changes nothing");
    assert_eq!(ready.json()["reload_error"], "policy.yaml:3:7: unknown field");
    assert!(get(http, "/metrics").body.contains("tidegate_policy_reload_failures_total 3\n"));
    running.node.load(&snapshot(&[limit("search", 2)])).unwrap();
    assert_eq!(get(http, "/readyz").json()["reload_error"], json!(null));
}

#[test]
fn metrics_count_by_names_from_the_policy_only() {
    let running = start(&[limit("search", 1)]);
    let http = running.http();
    for tenant in ["acme", "beta", "acme"] {
        let body = json!({"domain": "shop", "descriptors": [{"tenant": tenant}]});
        post(http, "/v1/check", &body);
    }
    running.at(90_000_000);
    let page = get(http, "/metrics");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let expected = [
        "tidegate_decisions_total{domain=\"shop\",result=\"allowed\"} 2",
        "tidegate_decisions_total{domain=\"shop\",result=\"denied\"} 1",
        "tidegate_limit_decisions_total{domain=\"shop\",limit=\"search\",result=\"denied\"} 1",
        "tidegate_policy_info{revision=\"0123456789ab\"} 1",
        "tidegate_policy_age_seconds 90",
        "tidegate_counters 2",
        "tidegate_folded_decisions_total 0",
        "tidegate_ready 1",
        "tidegate_connections{door=\"http\"} 1",
        "# TYPE tidegate_decisions_total counter",
    ];
    for line in expected {
        assert!(page.body.lines().any(|it| it == line), "{line} not in\n{}", page.body);
    }
    assert!(!page.body.contains("acme"));
    let names: Vec<_> = page.body.lines().filter(|it| it.starts_with("# TYPE")).collect();
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(names, unique);
}

#[test]
fn head_is_answered_without_a_body() {
    let running = start(&[limit("search", 1)]);
    let answer = send(running.http(), "HEAD", "/healthz", &[], "");
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
}
