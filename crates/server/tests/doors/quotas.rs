//! Calendar quotas at the doors: what each says of a month.

use serde_json::{Value, json};
use tidegate_server::HeaderProfile;

use crate::grpc_client::{Client, shop};
use crate::http_client::{post, post_as};
use crate::node::{SECOND_US, TOKEN, limit, numbers, start, start_with, with};

const DAY_US: u64 = 86_400 * SECOND_US;

/// A quota by its nominal days.
fn quota(id: &str, n: u64, days: u64) -> Value {
    let changes = json!({
        "algorithm": "quota", "time_zone": "UTC", "numbers": numbers(n, days * 86_400, n),
    });
    with(limit(id, n), changes)
}

fn ask() -> Value {
    json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]})
}

#[tokio::test]
async fn envoy_is_told_a_month_and_how_long_it_is_to_its_end() {
    let running = start(&[quota("monthly", 2, 30), quota("daily", 9, 1)]);
    let client = Client::connect(running.grpc()).await;
    let told = client.told(&shop(&[("tenant", b"acme")])).await;
    assert_eq!(told.statuses[0].limit, Some((2, 5, "monthly".into(), 0)), "MONTH");
    client.told(&shop(&[("tenant", b"acme")])).await;
    let denied = client.told(&shop(&[("tenant", b"acme")])).await;
    assert_eq!(denied.code, 2);
    let rest = (31 * 86_400 - 7200).to_string();
    assert_eq!(denied.header("retry-after"), Some(rest.as_str()));
    running.at(31 * DAY_US - 7200 * SECOND_US - 1);
    assert_eq!(client.told(&shop(&[("tenant", b"acme")])).await.header("retry-after"), Some("1"));
    running.at(31 * DAY_US - 7200 * SECOND_US);
    assert_eq!(client.told(&shop(&[("tenant", b"acme")])).await.code, 1);
}

#[test]
fn the_window_is_the_length_of_the_current_month_and_reset_begins_anew() {
    let running = start(&[quota("monthly", 2, 30)]);
    let told = post(running.http(), "/v1/check", &ask()).json()["limits"][0].clone();
    assert_eq!((&told["limit"], &told["remaining"]), (&json!(2), &json!(1)));
    assert_eq!(told["window_ms"], json!(31 * 86_400_000_u64));
    assert_eq!(told["reset_ms"], json!((31 * 86_400 - 7200) * 1000_u64));
    running.at(65 * DAY_US);
    let told = post(running.http(), "/v1/check", &ask()).json()["limits"][0].clone();
    assert_eq!((&told["window_ms"], &told["remaining"]), (&json!(28 * 86_400_000_u64), &json!(1)));
    assert_eq!(post_as(running.http(), "/v1/reset", TOKEN, &ask()).status, 200);
    let told = post(running.http(), "/v1/peek", &ask()).json()["limits"][0].clone();
    assert_eq!(told["remaining"], 2);
}

#[test]
fn headers_tell_the_length_of_the_current_period() {
    let both = [quota("all", 100, 30), quota("all", 9, 1)];
    let running = start_with(&both, HeaderProfile::Ietf);
    let policy = "\"all/day\";q=9;w=86400, \"all/month\";q=100;w=2678400";
    let told = post(running.http(), "/v1/check", &ask());
    assert_eq!(told.header("ratelimit-policy"), Some(policy));
    let running = start_with(&both, HeaderProfile::Draft03);
    let listed = "9, 100;w=2678400;name=\"all\", 9;w=86400;name=\"all\"";
    let told = post(running.http(), "/v1/check", &ask());
    assert_eq!(told.header("x-ratelimit-limit"), Some(listed));
    assert_eq!(told.header("x-ratelimit-reset"), Some("79200"));
}

#[test]
fn explain_names_the_calendar() {
    let running = start(&[quota("monthly", 2, 30), limit("pace", 5)]);
    let told = post_as(running.http(), "/v1/explain", TOKEN, &ask()).json();
    let applies = &told["descriptors"][0]["applies"];
    assert_eq!(applies[0]["algorithm"], "quota");
    assert_eq!(applies[0]["calendar"], json!({"unit": "month", "time_zone": "UTC"}));
    assert_eq!(applies[0]["rate"], json!({"n": 2, "period_ms": 31 * 86_400_000_u64}));
    assert_eq!(applies[1]["calendar"], Value::Null);
}
