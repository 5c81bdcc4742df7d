//! The header profiles, over HTTP.

use serde_json::{Value, json};
use tidegate_server::HeaderProfile;

use crate::http_client::{Answer, post};
use crate::node::{Running, limit, numbers, start_with, with};

fn check(running: &Running, cost: u64) -> Answer {
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}], "cost": cost});
    post(running.http(), "/v1/check", &body)
}

fn limits() -> Vec<Value> {
    let bucket = json!({"algorithm": "token_bucket", "numbers": numbers(100, 60, 200)});
    let daily = json!({"numbers": numbers(1000, 86_400, 1000)});
    let trial = with(limit("trial", 1), json!({"on_exceed": "shadow"}));
    vec![with(limit("burst", 100), bucket), with(limit("daily \"x\"", 1000), daily), trial]
}

#[test]
fn draft03_lists_limits_and_shows_the_one_with_least_left() {
    let running = start_with(&limits(), HeaderProfile::Draft03);
    running.at(10_500_000);
    let passed = check(&running, 50);
    let listed = "100, 100;w=60;name=\"burst\", 1000;w=86400;name=\"daily x\"";
    assert_eq!(passed.header("x-ratelimit-limit"), Some(listed));
    assert_eq!(passed.header("x-ratelimit-remaining"), Some("100"), "150, but never above N");
    assert_eq!(passed.header("x-ratelimit-reset"), Some("30"));
    assert_eq!(passed.header("retry-after"), None);
    let denied = check(&running, 160);
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("100"));
    assert_eq!(denied.header("x-ratelimit-reset"), Some("6"), "the wait, rounded up");
    assert_eq!(denied.header("retry-after"), Some("6"));
    let never = check(&running, 1001);
    assert_eq!((never.header("retry-after"), never.status), (None, 200));
}

#[test]
fn ietf_says_policy_and_state_for_both_readings_of_the_draft() {
    let running = start_with(&limits(), HeaderProfile::Ietf);
    let passed = check(&running, 50);
    let policy = "\"burst\";q=200;w=120, \"daily x\";q=1000;w=86400";
    assert_eq!(passed.header("ratelimit-policy"), Some(policy));
    let state = "\"burst\";r=150;t=90;a=150;w=90, \"daily x\";r=950;t=82080;a=950;w=82080";
    assert_ne!(passed.header("ratelimit"), None);
    let told = passed.header("ratelimit").unwrap();
    assert!(told.starts_with("\"burst\";r=150;t=90;a=150;w=90, "), "{told}");
    assert_eq!(state.len(), told.len(), "{told}");
    let denied = check(&running, 160);
    let told = denied.header("ratelimit").unwrap();
    assert!(told.starts_with("\"burst\";r=150;t=6;a=150;w=6, "), "{told}");
    assert_eq!(denied.header("retry-after"), Some("6"), "never before the reset");
    assert_eq!(denied.header("x-ratelimit-limit"), None);
}

#[test]
fn rate_that_is_told_is_never_above_the_limits() {
    let running = start_with(&[limit("window", 60)], HeaderProfile::Ietf);
    running.at(59_000_000);
    let told = check(&running, 0).header("ratelimit").unwrap().to_owned();
    assert_eq!(told, "\"window\";r=60;t=60;a=60;w=60", "though the window ends in a second");
}

#[test]
fn rates_of_one_limit_have_names_of_their_own() {
    let day = json!({"numbers": numbers(100, 86_400, 100)});
    let limits = [limit("search", 5), with(limit("search", 100), day)];
    let running = start_with(&limits, HeaderProfile::Ietf);
    let policy = "\"search/60s\";q=5;w=60, \"search/86400s\";q=100;w=86400";
    assert_eq!(check(&running, 1).header("ratelimit-policy"), Some(policy));
}

#[test]
fn other_kinds_of_cost_are_named() {
    let tokens = with(limit("tokens", 5), json!({"counts": "tokens"}));
    let running = start_with(&[tokens], HeaderProfile::Ietf);
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "a"}], "cost": {"tokens": 2}});
    let answer = post(running.http(), "/v1/check", &body);
    assert_eq!(answer.header("ratelimit-policy"), Some("\"tokens\";q=5;qu=\"tokens\";w=60"));
}

#[test]
fn what_is_not_shown_is_shown_in_no_profile() {
    let trial = with(limit("trial", 1), json!({"on_exceed": "shadow"}));
    for profile in [HeaderProfile::Draft03, HeaderProfile::Ietf, HeaderProfile::Github] {
        let running = start_with(std::slice::from_ref(&trial), profile);
        let answer = check(&running, 2);
        let told = answer.headers.iter().find(|(name, _)| name.contains("ratelimit"));
        assert_eq!(told, None, "{profile:?}");
    }
}

#[test]
fn lists_are_bounded() {
    let many: Vec<_> = (0..200).map(|at| limit(&format!("limit-{at}"), 5)).collect();
    for profile in [HeaderProfile::Draft03, HeaderProfile::Ietf] {
        let answer = check(&start_with(&many, profile), 1);
        let length: usize = answer.headers.iter().map(|(_, value)| value.len()).sum();
        assert!(length < 6000, "{length}");
        assert!(length > 2000, "{length}");
    }
}
