//! Why a request was denied, and what would apply to one.

use serde_json::{Value, json};

use crate::grpc_client::{Client, shop};
use crate::http_client::{Answer, get, post, post_as, send};
use crate::node::{
    TOKEN, empty_node, limit, node_without_store, options, serve, snapshot, start, with,
};

fn get_as(address: std::net::SocketAddr, path: &str, token: &str) -> Answer {
    send(address, "GET", path, &[("authorization", &format!("Bearer {token}"))], "")
}

fn ask(entries: Value) -> Value {
    let mut body = json!({"domain": "shop"});
    body["descriptors"] = Value::Array(vec![entries]);
    body
}

#[test]
fn a_denial_is_told_again_with_what_each_limit_said() {
    let search = with(
        limit("search", 2),
        json!({"when": [
        {"key": "route", "negate": false, "any": [{"exact": "/s"}]}]}),
    );
    let trial = with(limit("trial", 1), json!({"on_exceed": "shadow"}));
    let running = start(&[search, limit("all", 100), trial]);
    running.at(1_500_000);
    let body = with(ask(json!({"tenant": "acme", "route": "/s"})), json!({"cost": 2}));
    assert_eq!(post(running.http(), "/v1/check", &body).json()["allowed"], true);
    let denied = post(running.http(), "/v1/check", &body);
    let id = denied.json()["decision_id"].as_str().unwrap().to_owned();
    assert_eq!(denied.header("x-tidegate-decision-id"), Some(&*id));

    let path = format!("/v1/decisions/{}", id.to_lowercase());
    let told = get_as(running.http(), &path, TOKEN);
    assert_eq!(told.status, 200, "{}", told.body);
    let told = told.json();
    assert_eq!(told["decision_id"], id);
    assert_eq!((&told["allowed"], &told["reason"]), (&json!(false), &json!("over_limit")));
    assert_eq!((&told["degraded"], &told["revision"]), (&json!(false), &json!("0123456789ab")));
    assert_eq!(told["domain"], "shop");
    let entries = json!([{"key": "route", "value": "/s"}, {"key": "tenant", "value": "acme"}]);
    assert_eq!(told["descriptors"], json!([{"entries": entries, "entries_left_out": 0}]));
    let [search, all, trial] = &told["limits"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!((&search["id"], &search["denied"]), (&json!("search"), &json!(true)));
    assert_eq!((&search["limit"], &search["used"]), (&json!(2), &json!(2)));
    assert_eq!((&search["cost"], &search["action"]), (&json!(2), &json!("charge")));
    assert_eq!(search["rate"], json!({"n": 2, "period_ms": 60_000}));
    assert_eq!(search["retry_after_ms"], told["retry_after_ms"]);
    assert_eq!(
        (&all["id"], &all["denied"], &all["used"]),
        (&json!("all"), &json!(false), &json!(2))
    );
    assert_eq!((&trial["allowed"], &trial["denied"]), (&json!(false), &json!(false)));
    // When it ends, as a person reads it: the window's end.
    assert_eq!(told["retry_at"], search["reset_at"]);
    assert_eq!(told["time"].as_str().unwrap().len(), "2025-12-01T02:00:01.500Z".len());
}

#[tokio::test]
async fn a_denial_over_grpc_is_found_by_the_id_that_envoy_was_told() {
    let running = start(&[limit("search", 0)]);
    let client = Client::connect(running.grpc()).await;
    let told = client.told(&shop(&[("tenant", b"a\xff\x1b[2J")])).await;
    let id = told.header("x-tidegate-decision-id").unwrap();
    assert!(told.body.contains(id), "the same id everywhere");
    assert_eq!(told.metadata("decision_id"), Some(id));
    let told = get_as(running.http(), &format!("/v1/decisions/{id}"), TOKEN).json();
    assert_eq!(told["reason"], "blocked");
    assert_eq!(told["retry_after_ms"], Value::Null);
    let entries = json!([{"key": "tenant", "value": "a\\xff\\x1b[2J"}]);
    assert_eq!(told["descriptors"][0]["entries"], entries);
}

#[test]
fn long_and_many_entries_are_cut_and_marked() {
    let limits: Vec<_> =
        (0..100).map(|at| limit(&format!("l{at}-{}", "x".repeat(90)), 100)).collect();
    let running = start(&[limits, vec![limit("last", 0)]].concat());
    let mut entries: serde_json::Map<String, Value> =
        (0..100).map(|at| (format!("k{at}"), json!("y".repeat(5000)))).collect();
    entries.insert("a".into(), json!("z".repeat(5000)));
    entries.insert("tenant".into(), json!("acme"));
    let denied = post(running.http(), "/v1/check", &ask(Value::Object(entries))).json();
    let id = denied["decision_id"].as_str().unwrap();
    let told = get_as(running.http(), &format!("/v1/decisions/{id}"), TOKEN).json();
    let limits = told["limits"].as_array().unwrap();
    assert_eq!(limits[0]["id"], "last", "those that deny come first");
    let left_out = told["limits_left_out"].as_u64().unwrap();
    assert_eq!(limits.len() as u64 + left_out, 101);
    assert!(limits[1]["id"].as_str().unwrap().ends_with("… (93 bytes)"), "{}", limits[1]["id"]);
    let descriptor = &told["descriptors"][0];
    let shown = descriptor["entries"].as_array().unwrap();
    assert_eq!(shown.len() as u64 + descriptor["entries_left_out"].as_u64().unwrap(), 102);
    assert!(shown[0]["value"].as_str().unwrap().ends_with("… (5000 bytes)"), "{}", shown[0]);
}

#[test]
fn unknown_ids_say_how_far_the_ring_reaches() {
    let node = empty_node();
    node.load(&snapshot(&[limit("l", 0)])).unwrap();
    let running = serve(node, &options());
    let missing = "/v1/decisions/01KBBBBBBBBBBBBBBBBBBBBBBB";
    let answer = get_as(running.http(), missing, TOKEN);
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("it has denied nothing since it started"), "{}", answer.body);
    for second in 0..6 {
        running.at(second * 1_000_000);
        let checks = vec![ask(json!({"tenant": "a"})); 1000];
        post(running.http(), "/v1/check", &json!({"checks": checks}));
    }
    let answer = get_as(running.http(), missing, TOKEN).body;
    let reach = "its last 4096 denials, which reach back to 2025-12-01T02:00:01.000Z";
    assert!(answer.contains(reach), "{answer}");
    let answer = get_as(running.http(), "/v1/decisions/what", TOKEN);
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("26 letters and digits"), "{}", answer.body);
    assert_eq!(post(running.http(), missing, &json!({})).status, 405);
}

#[test]
fn explanations_need_the_token_where_there_is_one() {
    let closed = start(&[limit("l", 0)]);
    let open_options = tidegate_server::ServerOptions { admin_token: None, ..options() };
    let node = empty_node();
    node.load(&snapshot(&[limit("l", 0)])).unwrap();
    let open = serve(node, &open_options);
    let body = ask(json!({"tenant": "a"}));
    assert_eq!(post(closed.http(), "/v1/explain", &body).status, 401);
    assert_eq!(post_as(closed.http(), "/v1/explain", TOKEN, &body).status, 200);
    assert_eq!(post_as(closed.http(), "/v1/explain", "wrong", &body).status, 403);
    assert_eq!(post(open.http(), "/v1/explain", &body).status, 200);
    let id = post(closed.http(), "/v1/check", &body).json()["decision_id"].clone();
    let path = format!("/v1/decisions/{}", id.as_str().unwrap());
    assert_eq!(get(closed.http(), &path).status, 401);
    let id = post(open.http(), "/v1/check", &body).json()["decision_id"].clone();
    let path = format!("/v1/decisions/{}", id.as_str().unwrap());
    assert_eq!(get(open.http(), &path).status, 200);
}

#[test]
fn explain_says_what_applies_and_why_the_nearest_do_not_and_charges_nothing() {
    let search = with(
        limit("search", 5),
        json!({"per": ["tenant", "ip"], "when": [
        {"key": "route", "negate": false, "any": [{"exact": "/s"}, {"prefix": "/f/"}]}]}),
    );
    let running = start(&[limit("all", 10), search]);
    let body = ask(json!({"tenant": "acme", "route": "/x"}));
    for _ in 0..3 {
        let answer = post_as(running.http(), "/v1/explain", TOKEN, &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let told = answer.json();
        assert_eq!((&told["domain"], &told["is_known"]), (&json!("shop"), &json!(true)));
        let one = &told["descriptors"][0];
        assert_eq!(one["applies"].as_array().unwrap().len(), 1);
        let all = &one["applies"][0];
        assert_eq!((&all["id"], &all["limit"]), (&json!("all"), &json!(10)));
        assert_eq!(all["rate"], json!({"n": 10, "period_ms": 60_000}));
        assert_eq!(all["source"], json!({"kind": "limit"}));
        assert_eq!(one["nearest"][0]["id"], "search");
        assert_eq!(
            one["nearest"][0]["problems"],
            json!([
                "route is /x; it wants /s or /f/*",
                "the request has no ip, which it counts by"
            ])
        );
    }
    let left = post(running.http(), "/v1/peek", &body).json()["limits"][0]["remaining"].clone();
    assert_eq!(left, 10);
    let unknown = json!({"domain": "who", "descriptors": [{"tenant": "acme"}]});
    let told = post_as(running.http(), "/v1/explain", TOKEN, &unknown).json();
    assert_eq!(told["is_known"], false);
    assert_eq!(told["descriptors"][0]["applies"], json!([]));
}

#[test]
fn a_denial_without_the_store_says_degraded() {
    let node = node_without_store();
    let shut = with(limit("l", 5), json!({"on_store_failure": "closed"}));
    node.load(&snapshot(&[shut])).unwrap();
    let running = serve(node, &options());
    let denied = post(running.http(), "/v1/check", &ask(json!({"tenant": "a"}))).json();
    let path = format!("/v1/decisions/{}", denied["decision_id"].as_str().unwrap());
    let told = get_as(running.http(), &path, TOKEN).json();
    assert_eq!((&told["degraded"], &told["reason"]), (&json!(true), &json!("store_failure")));
}
