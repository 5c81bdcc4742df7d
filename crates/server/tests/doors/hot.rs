//! The counters that most decisions meet, found by the node itself.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_core::Descriptor;
use tidegate_core::matching::Verb;
use tidegate_server::{Ask, Node};

use crate::grpc_client::{Client, shop};
use crate::http_client::{Answer, get, post, send};
use crate::node::{TOKEN, empty_node, limit, options, serve, snapshot, start, with};

fn hot(address: std::net::SocketAddr, query: &str) -> Answer {
    let token = format!("Bearer {TOKEN}");
    send(address, "GET", &format!("/v1/hot{query}"), &[("authorization", &token)], "")
}

const fn one<'a>(entries: &'a [(&'a [u8], &'a [u8])]) -> Descriptor<'a> {
    Descriptor { entries, costs: &[(b"requests", 1)], verb: Verb::Hit, rate: None }
}

fn decide(node: &Node, entries: &[(&[u8], &[u8])]) {
    let descriptors = [one(entries)];
    node.decide_now(&Ask { domain: b"shop", descriptors: &descriptors }, |_| ()).unwrap();
}

/// As often as makes it all but certain that some are looked at.
fn decide_often(node: &Node, entries: &[(&[u8], &[u8])]) {
    (0..1000).for_each(|_| decide(node, entries));
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"))
}

#[test]
fn the_hot_one_among_many_comes_first_with_its_rate_and_its_share() {
    let running = start(&[limit("each", 5)]);
    // 4,000 a second for 10 seconds: a quarter of one tenant, the rest of as many others.
    for step in 0..100u32 {
        running.at(u64::from(step) * 100_000);
        for at in 0..400u32 {
            let other = format!("t{}", step * 400 + at);
            let tenant = if at % 4 == 0 { "acme" } else { other.as_str() };
            decide(&running.node, &[(b"tenant", tenant.as_bytes())]);
        }
    }
    let answer = hot(running.http(), "?top=3");
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    assert_eq!(told["time"], "2025-12-01T02:00:09.900Z");
    assert_eq!((&told["one_in"], &told["half_life_ms"]), (&json!(32), &json!(5000)));
    // Every bound here is six standard deviations away or more.
    assert!((3_000.0..5_000.0).contains(&number(&told, "per_second")), "{told}");
    let rows = told["counters"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let first = &rows[0];
    assert_eq!((&first["domain"], &first["id"]), (&json!("shop"), &json!("each")));
    assert_eq!(
        (&first["rate"], &first["limit"]),
        (&json!({"n": 5, "period_ms": 60_000}), &json!(5))
    );
    assert_eq!((&first["consistency"], &first["decided_in"]), (&json!("exact"), &json!("node")));
    assert_eq!(first["could_be_local"], false, "in memory it is");
    assert_eq!(first["values"], json!([{"key": "tenant", "value": "acme"}]));
    assert!((600.0..1_400.0).contains(&number(first, "per_second")), "{first}");
    assert!((0.15..0.35).contains(&number(first, "share")), "{first}");
    assert!(number(first, "denied_share") > 0.95, "{first}");
    assert!(number(first, "at_least") < number(first, "per_second"));
    assert!(number(first, "at_most") > number(first, "per_second"));
    assert!(number(&rows[1], "per_second") < 100.0, "{}", rows[1]);
}

#[test]
fn what_is_no_longer_asked_fades() {
    let running = start(&[limit("each", 5)]);
    running.at(0);
    decide_often(&running.node, &[(b"tenant", b"acme")]);
    let before = hot(running.http(), "").json();
    running.at(5_000_000);
    let after = hot(running.http(), "").json();
    let [before, after] = [&before["counters"][0], &after["counters"][0]];
    assert!(number(after, "per_second") < number(before, "per_second") / 2.0, "{after}");
    running.at(600_000_000);
    let told = hot(running.http(), "").json();
    assert_eq!((&told["counters"], number(&told, "per_second")), (&json!([]), 0.0));
}

#[test]
fn each_limit_that_a_decision_meets_has_its_counter_and_what_meets_none_only_lowers_the_share() {
    let all = with(limit("all", 1), json!({"per": []}));
    let trial = with(limit("trial", 1), json!({"on_exceed": "shadow"}));
    let running = start(&[all, limit("each", 9_000), trial]);
    decide_often(&running.node, &[(b"tenant", b"a")]);
    decide_often(&running.node, &[(b"other", b"b")]);
    let node = &running.node;
    (0..2000).for_each(|_| {
        node.decide_now(&Ask { domain: b"none", descriptors: &[] }, |_| ()).unwrap();
    });
    let told = hot(running.http(), "").json();
    let rows = told["counters"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{told}");
    let find = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    assert_eq!(find("all")["values"], json!([]));
    assert!((0.25..0.75).contains(&number(find("all"), "share")), "{told}");
    assert!((0.05..0.45).contains(&number(find("each"), "share")), "{told}");
    assert!(number(find("all"), "denied_share") > 0.9);
    let denied = |id: &str| number(find(id), "denied_share");
    assert_eq!((denied("each"), denied("trial")), (0.0, 0.0), "a shadow denies nobody");
}

#[test]
fn values_are_escaped_and_cut_and_what_is_lacking_says_so() {
    let per: Vec<_> = ["tenant", "user"].iter().map(|key| json!(key)).collect();
    let shared = with(limit("shared", 5), json!({"per": per, "missing": "shared"}));
    let many: Vec<_> = (0..9).map(|at| format!("k{at}")).collect();
    let many_keys = with(limit("many", 5), json!({"per": many}));
    let running = start(&[shared, many_keys]);
    decide_often(&running.node, &[(b"tenant", b"a\xff\x1b[2J")]);
    let values = &hot(running.http(), "").json()["counters"][0]["values"];
    let tenant = json!({"key": "tenant", "value": "a\\xff\\x1b[2J"});
    assert_eq!(values, &json!([tenant, {"key": "user", "value": null}]));
    let long = "y".repeat(5000);
    let entries: Vec<_> = many.iter().map(|key| (key.as_bytes(), long.as_bytes())).collect();
    (0..3).for_each(|_| decide_often(&running.node, &entries));
    let told = hot(running.http(), "").json();
    let rows = told["counters"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == "many").unwrap();
    let shown = row["values"].as_array().unwrap();
    assert!(shown[0]["value"].as_str().unwrap().ends_with("y… (5000 bytes)"), "{row}");
    assert_eq!(shown.len() as u64 + row["values_left_out"].as_u64().unwrap(), 9);
    assert!(!shown.is_empty() && shown.len() < 9);
}

#[tokio::test]
async fn calls_that_arrive_together_are_looked_at_too() {
    let running = start(&[limit("each", 5)]);
    let client = Arc::new(Client::connect(running.grpc()).await);
    for _ in 0..10 {
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let client = Arc::clone(&client);
                tokio::spawn(async move { client.told(&shop(&[("tenant", b"acme")])).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    }
    let told = hot(running.http(), "").json();
    let first = &told["counters"][0];
    assert_eq!(first["values"], json!([{"key": "tenant", "value": "acme"}]));
    assert!(number(first, "per_second") > 200.0, "{told}");
}

#[test]
fn the_descriptor_that_met_a_counter_first_names_it() {
    let users = with(limit("users", 5), json!({"per": ["user"]}));
    let running = start(&[limit("each", 5), users]);
    let tenant: [(&[u8], &[u8]); 1] = [(b"tenant", b"a")];
    let both: [(&[u8], &[u8]); 3] = [(b"user", b"u"), (b"tenant", b"b"), (b"user", b"other")];
    let descriptors = [one(&tenant), one(&both)];
    for _ in 0..1000 {
        let ask = Ask { domain: b"shop", descriptors: &descriptors };
        running.node.decide_now(&ask, |_| ()).unwrap();
    }
    let told = hot(running.http(), "").json();
    let mut values: Vec<_> =
        told["counters"].as_array().unwrap().iter().map(|row| row["values"].to_string()).collect();
    values.sort();
    let pair = |key: &str, value: &str| json!([{"key": key, "value": value}]).to_string();
    assert_eq!(values, [pair("tenant", "a"), pair("tenant", "b"), pair("user", "u")]);
}

#[test]
fn a_counter_goes_by_the_keys_of_the_policy_in_force() {
    let running = start(&[limit("each", 5)]);
    decide_often(&running.node, &[(b"tenant", b"a")]);
    running.node.load(&snapshot(&[with(limit("each", 5), json!({"per": ["ip"]}))])).unwrap();
    decide_often(&running.node, &[(b"ip", b"a")]);
    let told = hot(running.http(), "").json();
    assert_eq!(told["counters"][0]["values"], json!([{"key": "ip", "value": "a"}]));
}

#[test]
fn hot_counters_need_the_token_where_there_is_one() {
    let closed = start(&[limit("each", 5)]);
    assert_eq!(get(closed.http(), "/v1/hot").status, 401);
    assert_eq!(hot(closed.http(), "").status, 200);
    let node = empty_node();
    let open = serve(node, &tidegate_server::ServerOptions { admin_token: None, ..options() });
    let told = get(open.http(), "/v1/hot");
    assert_eq!((told.status, &told.json()["counters"]), (200, &json!([])));
}

#[test]
fn a_question_that_cannot_be_answered_says_why() {
    let running = start(&[limit("each", 5)]);
    let answer = hot(running.http(), "?top=2000");
    assert_eq!((answer.status, &*answer.detail()), (400, "top: a whole number from 1 to 1024"));
    assert_eq!(hot(running.http(), "?limit=each").status, 400);
    assert_eq!(post(running.http(), "/v1/hot", &json!({})).status, 405);
    let node = std::sync::Arc::try_unwrap(empty_node()).unwrap().without_metrics();
    let unwatched = serve(std::sync::Arc::new(node), &options());
    let answer = hot(unwatched.http(), "");
    assert_eq!(answer.status, 404);
    assert!(answer.detail().contains("--metrics off"), "{}", answer.body);
}
