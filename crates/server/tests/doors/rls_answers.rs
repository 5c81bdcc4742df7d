//! What `ShouldRateLimit` answers: codes, statuses, headers, body, metadata.

use serde_json::{Value, json};
use tidegate_server::HeaderProfile;

use crate::grpc_client::{Client, described, shop};
use crate::node::{START_US, limit, numbers, start, start_with, with};

#[tokio::test]
async fn requests_pass_until_the_limit_and_are_told_where_they_stand() {
    let running = start(&[limit("search", 3)]);
    let client = Client::connect(running.grpc()).await;
    running.at(1_500_000);
    let ask = shop(&[("tenant", b"acme")]);
    for left in [2, 1, 0] {
        let told = client.told(&ask).await;
        assert_eq!(told.code, 1);
        let status = &told.statuses[0];
        assert_eq!((status.code, status.remaining, status.reset_s), (1, left, Some(59)));
        assert_eq!(status.limit, Some((3, 2, "search".into(), 0)));
        assert_eq!(told.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(told.header("x-ratelimit-remaining"), Some(left.to_string().as_str()));
        assert_eq!(told.header("x-ratelimit-used"), Some((3 - left).to_string().as_str()));
        assert_eq!(told.header("x-ratelimit-resource"), Some("search"));
        let reset_s = (START_US / 1_000_000 + 60).to_string();
        assert_eq!(told.header("x-ratelimit-reset"), Some(reset_s.as_str()));
        assert_eq!(told.header("retry-after"), None);
        assert_eq!((told.body.as_str(), told.metadata.len()), ("", 0));
    }
}

#[tokio::test]
async fn denial_says_why_and_when_to_come_back() {
    let running = start(&[limit("search", 1)]);
    let client = Client::connect(running.grpc()).await;
    running.at(1_500_000);
    let ask = shop(&[("tenant", b"acme")]);
    client.told(&ask).await;
    let told = client.told(&ask).await;
    assert_eq!((told.code, told.statuses[0].code), (2, 2));
    assert_eq!((told.statuses[0].remaining, told.statuses[0].reset_s), (0, Some(59)));
    assert_eq!(told.header("retry-after"), Some("59"));
    assert_eq!(told.header("content-type"), Some("application/problem+json"));
    let body: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(body["violated-policies"], json!(["search"]));
    assert_eq!((&body["retry_after"], &body["reason"]), (&json!(59), &json!("over_limit")));
    assert_eq!(told.metadata("decision_id"), body["decision_id"].as_str());
    assert_eq!(told.metadata("reason"), Some("over_limit"));
    assert_eq!(told.metadata("revision"), Some("0123456789ab"));
    assert_eq!(told.metadata("degraded"), Some("0"));
    assert_eq!(told.metadata("limit"), Some("search"));
}

#[tokio::test]
async fn statuses_follow_the_descriptors() {
    let key = with(limit("key", 1), json!({"per": ["tenant", "api_key"]}));
    let running = start(&[limit("tenant", 10), key]);
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("color", b"red")]);
    ask.descriptors.push(described(&[("tenant", b"acme"), ("api_key", b"k")]));
    ask.descriptors.push(described(&[("tenant", b"acme")]));
    let told = client.told(&ask).await;
    let names = |told: &crate::grpc_client::Told| -> Vec<Option<String>> {
        told.statuses.iter().map(|it| it.limit.as_ref().map(|limit| limit.2.clone())).collect()
    };
    assert_eq!(names(&told), [None, Some("key".into()), Some("tenant".into())]);
    assert_eq!(told.statuses.iter().map(|it| it.code).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(told.statuses[2].remaining, 9, "charged once though two descriptors met it");
    let told = client.told(&ask).await;
    assert_eq!(told.code, 2);
    assert_eq!(told.statuses.iter().map(|it| it.code).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(told.statuses[2].remaining, 9, "a denied request moves no counter");
}

#[tokio::test]
async fn periods_are_told_in_units() {
    let cases = [(10, (1, 10)), (900, (2, 15)), (86_400, (4, 0)), (1_209_600, (7, 2))];
    for (seconds, (unit, multiplier)) in cases {
        let changes = json!({"numbers": numbers(5_000_000_000, seconds, 5_000_000_000_u64)});
        let running = start(&[with(limit("big", 1), changes)]);
        let client = Client::connect(running.grpc()).await;
        let told = client.told(&shop(&[("tenant", b"acme")])).await;
        let most = u64::from(u32::MAX);
        assert_eq!(told.statuses[0].limit, Some((most, unit, "big".into(), multiplier)));
        assert_eq!(told.statuses[0].remaining, most, "clamped to 32 bits");
        assert_eq!(told.header("x-ratelimit-remaining"), Some("4999999999"));
    }
}

#[tokio::test]
async fn header_profile_off_leaves_only_retry_after() {
    let running = start_with(&[limit("search", 1)], HeaderProfile::Off);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    assert!(client.told(&ask).await.headers.is_empty());
    let denied = client.told(&ask).await;
    let names: Vec<_> = denied.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["retry-after", "content-type"]);
}

#[tokio::test]
async fn nothing_that_a_policy_names_can_split_an_answer() {
    let id = "a\r\nset-cookie: x\"\\ü";
    let running = start(&[limit(id, 1)]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    client.told(&ask).await;
    let told = client.told(&ask).await;
    for (name, value) in &told.headers {
        assert!(name.bytes().all(|it| it.is_ascii_lowercase() || it == b'-'), "{name}");
        assert!(value.bytes().all(|it| it.is_ascii_graphic()), "{value}");
    }
    let name = &told.statuses[0].limit.as_ref().unwrap().2;
    assert_eq!(name, "aset-cookie: xü");
    assert!(!told.body.contains(['\r', '\n']));
}

#[tokio::test]
async fn answer_stays_small_whatever_the_ids_are() {
    let limits: Vec<Value> =
        (0..50).map(|at| with(limit(&format!("{at}{}", "x".repeat(1000)), 1), json!({}))).collect();
    let running = start(&limits);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    client.told(&ask).await;
    let told = client.told(&ask).await;
    let headers: usize = told.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(headers < 8192 && told.body.len() < 8192, "{headers} {}", told.body.len());
}

#[tokio::test]
async fn no_wait_helps_against_a_block_or_a_cost_above_capacity() {
    let blocked = with(limit("blocked", 1), json!({"numbers": numbers(0, 60, 1)}));
    let running = start(&[blocked]);
    let client = Client::connect(running.grpc()).await;
    let told = client.told(&shop(&[("tenant", b"acme")])).await;
    assert_eq!((told.code, told.header("retry-after")), (2, None));
    assert_eq!(told.metadata("reason"), Some("blocked"));
    let running = start(&[limit("search", 5)]);
    let client = Client::connect(running.grpc()).await;
    for cost in [6, u64::MAX] {
        let told = client.told(&shop(&[("tenant", b"acme")]).hits(cost)).await;
        assert_eq!((told.code, told.header("retry-after")), (2, None));
        assert_eq!(told.metadata("reason"), Some("cost_exceeds_limit"));
        assert_eq!(told.statuses[0].remaining, 5);
    }
}

#[tokio::test]
async fn b116_limit_in_shadow_is_counted_and_not_felt() {
    let running = start(&[with(limit("trial", 1), json!({"on_exceed": "shadow"}))]);
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    for _ in 0..3 {
        let told = client.told(&ask).await;
        assert_eq!((told.code, told.statuses[0].code), (1, 1));
        assert!(told.headers.is_empty());
    }
    let totals = running.node.metrics().by_limit();
    let totals = totals[&("shop".into(), "trial".into())];
    assert_eq!((totals.allowed, totals.denied, totals.shadow_denied), (1, 0, 2));
}

/// Retry-After was rounded down by others: 0 while still limited.
#[tokio::test]
async fn b50_who_waits_as_told_passes_and_who_comes_a_second_earlier_does_not() {
    let algorithms = ["fixed_window", "sliding_window", "sliding_log", "token_bucket"];
    for algorithm in algorithms {
        let changes = json!({"algorithm": algorithm, "numbers": numbers(1, 10, 1)});
        let running = start(&[with(limit("slow", 1), changes)]);
        let client = Client::connect(running.grpc()).await;
        let ask = shop(&[("tenant", b"acme")]);
        // An odd step walks through phases of the window; microseconds, below 10 s each.
        let mut now = 200_000;
        for step in 1..200_u64 {
            running.at(now);
            if client.told(&ask).await.code == 1 {
                now += step * 7_919 % 9_999_999;
                continue;
            }
            let told = client.told(&ask).await;
            let wait: u64 = told.header("retry-after").unwrap().parse().unwrap();
            // A sliding window remembers for two periods, every other for one.
            assert!((1..=20).contains(&wait), "{algorithm}: {wait}");
            assert_eq!(told.statuses[0].reset_s, Some(wait));
            if wait > 1 {
                running.at(now + (wait - 1) * 1_000_000);
                assert_eq!(client.told(&ask.clone().hits(0)).await.code, 2, "{algorithm}");
            }
            now += wait * 1_000_000;
            running.at(now);
            assert_eq!(client.told(&ask).await.code, 1, "{algorithm}: waited {wait} s");
        }
    }
}
