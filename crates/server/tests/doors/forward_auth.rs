//! What proxies are told, and what of their word is believed.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_server::{ForwardAuth, HeaderProfile, ServerOptions};

use crate::http_client::{Answer, exchange, send};
use crate::node::{
    Running, START_US, empty_node, limit, node_without_store, options, serve, snapshot, with,
};

/// A door `web` that believes loopback, with some settings changed.
fn door(changes: Value) -> std::sync::Arc<ForwardAuth> {
    let door = json!({
        "domain": "shop", "cost": 1, "descriptors": [{"ip": "{address}", "route": "{path}"}],
        "trusted_proxies": ["127.0.0.0/8", "10.0.0.0/8"], "address": "x-forwarded-for",
        "uri": "x-original-uri", "method": null, "request_id": "x-request-id",
        "ipv4_prefix": 32, "ipv6_prefix": 64, "fold_case": false, "keep_trailing_slash": false,
        "deny_status": 429,
    });
    ForwardAuth::load(json!({"web": with(door, changes)}).to_string().as_bytes()).unwrap()
}

/// A server with that door and one limit for each address and path.
fn start(n: u64, changes: Value) -> Running {
    let node = empty_node();
    node.load(&snapshot(&[with(limit("each", n), json!({"per": ["ip", "route"]}))])).unwrap();
    serve(node, &ServerOptions { forward_auth: door(changes), ..options() })
}

fn ask(running: &Running, headers: &[(&str, &str)]) -> Answer {
    send(running.http(), "GET", "/v1/forward-auth/web", headers, "")
}

/// How many of these pass; each is `x-forwarded-for` lines from one client.
fn passed<'a>(running: &Running, hops: impl IntoIterator<Item = &'a str>) -> usize {
    let statuses = hops.into_iter().map(|hops| {
        let mut headers = vec![("x-original-uri", "/")];
        headers.extend(hops.split('|').map(|line| ("x-forwarded-for", line)));
        ask(running, &headers).status
    });
    statuses.filter(|status| *status == 200).count()
}

#[test]
fn b56_passes_empty_and_denies_with_all_that_a_client_needs() {
    let running = start(1, json!({}));
    let headers = [("x-original-uri", "/a"), ("x-forwarded-for", "203.0.113.7")];
    let passed = ask(&running, &headers);
    assert_eq!((passed.status, passed.body.as_str()), (200, ""));
    assert_eq!(passed.header("cache-control"), Some("no-store"));
    assert_eq!(passed.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(passed.header("content-type"), None);
    let denied = ask(&running, &headers);
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("retry-after"), Some("60"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!(denied.json()["violated-policies"], json!(["each"]));
}

#[test]
fn any_method_and_any_suffix_ask() {
    let running =
        start(100, json!({"uri": null, "descriptors": [{"ip": "{method}", "route": "{path}"}]}));
    let remaining = |method: &str, path: &str| {
        let answer = send(running.http(), method, path, &[], "");
        assert_eq!(answer.status, 200, "{method} {path}");
        answer.header("x-ratelimit-remaining").unwrap().to_owned()
    };
    for method in ["GET", "HEAD", "OPTIONS", "POST", "DELETE", "BREW"] {
        assert_eq!(remaining(method, "/v1/forward-auth/web/a/b?domain=other&cost=9"), "99");
    }
    assert_eq!(remaining("GET", "/v1/forward-auth/web/x/../a//b"), "98", "one path");
    assert_eq!(remaining("GET", "/v1/forward-auth/web"), "99");
    assert_eq!(remaining("GET", "/v1/forward-auth/web/"), "98");
}

#[test]
fn b67_rightmost_hop_that_is_not_trusted_is_the_client() {
    let running = start(10, json!({}));
    let forged: Vec<_> = (0..20).map(|at| format!("1.2.3.{at}, 203.0.113.7")).collect();
    assert_eq!(passed(&running, forged.iter().map(String::as_str)), 10);
    assert_eq!(passed(&running, ["203.0.113.7, 10.0.0.9", "9.9.9.9|203.0.113.7, 10.0.0.9"]), 0);
    assert_eq!(passed(&running, vec!["203.0.113.8, garbage"; 20]), 10, "counted as the peer");
    assert_eq!(passed(&running, ["", "127.0.0.1"]), 0, "which is used up");
    assert_eq!(passed(&running, ["203.0.113.8"]), 1);
}

#[test]
fn b67_peer_that_is_not_trusted_is_counted_by_its_own_address() {
    let running = start(5, json!({"trusted_proxies": ["10.0.0.0/8"], "uri": null}));
    let forged: Vec<_> = (0..10).map(|at| format!("1.2.3.{at}")).collect();
    let limited = with(limit("each", 5), json!({"per": ["ip"]}));
    running.node.load(&snapshot(&[limited])).unwrap();
    assert_eq!(passed(&running, forged.iter().map(String::as_str)), 5);
    let named = [("x-request-id", "1")];
    assert_eq!(ask(&running, &named).status, 429, "nor is its request id believed");
}

#[test]
fn forwarded_counts_only_where_it_is_the_header() {
    let running = start(1, json!({}));
    let forwarded = |value| [("x-original-uri", "/"), ("forwarded", value)];
    assert_eq!(ask(&running, &forwarded("for=203.0.113.7")).status, 200);
    assert_eq!(ask(&running, &forwarded("for=203.0.113.8")).status, 429, "both are the peer");
    let running = start(1, json!({"address": "forwarded"}));
    assert_eq!(ask(&running, &forwarded("for=203.0.113.7")).status, 200);
    assert_eq!(ask(&running, &forwarded("for=203.0.113.8;proto=https")).status, 200);
    assert_eq!(ask(&running, &forwarded("for=1.1.1.1, for=\"203.0.113.8:80\"")).status, 429);
}

#[test]
fn b68_ports_and_brackets_make_no_other_client() {
    let running = start(10, json!({}));
    let ports: Vec<_> = (50_001..=50_020).map(|port| format!("1.2.3.4:{port}")).collect();
    assert_eq!(passed(&running, ports.iter().map(String::as_str)), 10);
    assert_eq!(passed(&running, ["1.2.3.4", "::ffff:1.2.3.4", "\"1.2.3.4:80\""]), 0);
    let v6 =
        ["[2001:db8::1]:443", "2001:db8::1", "\"[2001:DB8:0::0001]:8080\"", "2001:db8::1%eth0"];
    assert_eq!(passed(&running, v6.into_iter().cycle().take(20)), 10);
}

#[test]
fn b70_customer_of_ipv6_has_one_counter_for_its_network() {
    let hosts = |network: &str, count: u32| -> Vec<String> {
        (0..count).map(|at| format!("{network}:{:x}:{:x}::{at:x}", at * 7 % 65_536, at)).collect()
    };
    for (prefix, other_is_separate) in [(64, true), (56, false), (128, true)] {
        let running = start(10, json!({"ipv6_prefix": prefix}));
        let many = hosts("2001:db8:1:2", 1000);
        let allowed = passed(&running, many.iter().map(String::as_str));
        assert_eq!(allowed, if prefix == 128 { 1000 } else { 10 }, "/{prefix}");
        let other = passed(&running, ["2001:db8:1:3::1"]);
        assert_eq!(other == 1, other_is_separate, "/{prefix}");
        if prefix == 64 {
            let tidegate_server::Store::Memory(memory) = running.node.store() else { panic!() };
            assert_eq!(memory.counters(), 2);
        }
    }
}

#[test]
fn wider_networks_may_have_limits_of_their_own() {
    let descriptors =
        json!([{"ip": "{address}", "route": "x"}, {"ip": "{address/48}", "route": "wide"}]);
    let running = start(1, json!({"descriptors": descriptors}));
    assert_eq!(passed(&running, ["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2::1"]), 2);
}

#[test]
fn b63_spellings_of_a_path_share_a_counter() {
    let lang = ["/lang", "/lang/", "//lang", "/./lang", "/%6Cang", "/lang?x=1", "/x/%2e%2e/lang"];
    let passed = |running: &Running| {
        let ask = |uri: &&str| ask(running, &[("x-original-uri", uri)]).status == 200;
        lang.iter().chain(&["/LANG"]).filter(|uri| ask(uri)).count()
    };
    assert_eq!(passed(&start(3, json!({"fold_case": true}))), 3);
    assert_eq!(passed(&start(3, json!({}))), 4, "/LANG is another page");
}

#[test]
fn domain_cost_and_limits_are_not_the_clients_to_choose() {
    let running = start(3, json!({"cost": 2, "deny_status": 403}));
    let headers = [
        ("x-original-uri", "/"),
        ("domain", "other"),
        ("x-tidegate-domain", "other"),
        ("cost", "0"),
        ("hits-addend", "0"),
    ];
    let path = "/v1/forward-auth/web?domain=other&cost=0&descriptors=none";
    let statuses: Vec<_> =
        (0..2).map(|_| send(running.http(), "GET", path, &headers, "").status).collect();
    assert_eq!(statuses, [200, 403]);
}

#[test]
fn doubled_and_missing_headers_are_refused() {
    let running = start(10, json!({"address": "x-real-ip", "method": "x-original-method"}));
    let good = [("x-original-uri", "/"), ("x-original-method", "GET"), ("x-real-ip", "1.2.3.4")];
    assert_eq!(ask(&running, &good).status, 200);
    for at in 0..good.len() {
        let mut doubled = good.to_vec();
        doubled.push(good[at]);
        let refused = ask(&running, &doubled);
        assert_eq!(refused.status, 400);
        assert!(refused.detail().starts_with(&format!("{}: came twice", good[at].0)));
    }
    for at in 0..2 {
        let mut missing = good.to_vec();
        missing.remove(at);
        let refused = ask(&running, &missing);
        assert!(refused.detail().starts_with(&format!("{}: is missing", good[at].0)));
    }
}

#[test]
fn header_of_the_proxy_may_be_an_entry() {
    let running = start(1, json!({"descriptors": [{"ip": "{header:x-tenant}", "route": "all"}]}));
    let tenant = |name| ask(&running, &[("x-original-uri", "/"), ("x-tenant", name)]).status;
    assert_eq!([tenant("a"), tenant("b"), tenant("a"), tenant("")], [200, 200, 429, 200]);
    let without = [("x-original-uri", "/")];
    let statuses = [ask(&running, &without).status, ask(&running, &without).status];
    assert_eq!(statuses, [200, 200], "missing is not empty: the limit says skip");
}

#[test]
fn request_that_is_asked_twice_is_charged_once() {
    let running = start(2, json!({}));
    let named = |id| ask(&running, &[("x-original-uri", "/"), ("x-request-id", id)]);
    let first = named("a");
    assert_eq!((first.status, first.header("x-ratelimit-remaining")), (200, Some("1")));
    assert_eq!(named("a").header("x-ratelimit-remaining"), Some("1"), "told again");
    assert_eq!(named("b").header("x-ratelimit-remaining"), Some("0"));
    let denied = named("c");
    assert_eq!(denied.status, 429);
    assert_eq!(named("c").json(), denied.json());
    let elsewhere = [("x-original-uri", "/other"), ("x-request-id", "a")];
    assert_eq!(ask(&running, &elsewhere).header("x-ratelimit-remaining"), Some("1"));
    running.at(5_000_000);
    assert_eq!(named("a").status, 429, "too late to be the same request");
}

#[test]
fn b56_store_that_is_away_closes_with_503_or_opens() {
    for (mode, expected) in [("closed", 503), ("open", 200)] {
        let node = node_without_store();
        let each = with(limit("each", 1), json!({"per": ["ip"], "on_store_failure": mode}));
        node.load(&snapshot(&[each])).unwrap();
        let running = serve(node, &ServerOptions { forward_auth: door(json!({})), ..options() });
        let answer = ask(&running, &[("x-original-uri", "/")]);
        assert_eq!(answer.status, expected);
        if mode == "closed" {
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert_eq!(answer.json()["reason"], "store_failure");
        }
    }
}

#[test]
fn unknown_door_is_named() {
    let running = start(1, json!({}));
    for (path, expected) in [
        ("/v1/forward-auth/other", "there is no door \"other\""),
        ("/v1/forward-auth", "name a door"),
        ("/v1/forward-auth?x", "name a door"),
        ("/v1/forward-authority", "nothing is served"),
    ] {
        let answer = send(running.http(), "GET", path, &[], "");
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.detail().contains(expected), "{}", answer.detail());
    }
    let off = crate::node::start(&[limit("each", 1)]);
    let answer = send(off.http(), "GET", "/v1/forward-auth/web", &[], "");
    assert!(answer.detail().contains("--forward-auth"), "{}", answer.detail());
}

#[test]
fn body_is_read_no_further_than_the_connection_needs() {
    let running = start(100, json!({}));
    let http: SocketAddr = running.http();
    let long = "x".repeat(70_000);
    let head = "POST /v1/forward-auth/web HTTP/1.1\r\nhost: x\r\nx-original-uri: /\r\n";
    let chunked =
        format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    for request in [
        format!("{head}content-length: 999999999\r\n\r\nxxx"),
        format!("{head}content-length: 70000\r\n\r\n{long}"),
        chunked,
        format!("{head}content-length: 10\r\n\r\nxxx"),
    ] {
        let answer = exchange(http, request.as_bytes());
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    }
    let short = "x".repeat(60_000);
    let request = format!("{head}connection: close\r\ncontent-length: 60000\r\n\r\n{short}");
    assert_eq!(exchange(http, request.as_bytes()).status, 200);
}

#[test]
fn headers_follow_the_profile() {
    let node = empty_node();
    node.load(&snapshot(&[with(limit("each", 2), json!({"per": ["ip"]}))])).unwrap();
    let options = ServerOptions {
        forward_auth: door(json!({})),
        header_profile: HeaderProfile::Ietf,
        drain_notice: Duration::ZERO,
        ..options()
    };
    let running = serve(node, &options);
    let answer = ask(&running, &[("x-original-uri", "/")]);
    assert_eq!(answer.header("ratelimit"), Some("\"each\";r=1;t=60;a=1;w=60"));
    assert!(START_US.is_multiple_of(60_000_000));
}
