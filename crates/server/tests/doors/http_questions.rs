//! What HTTP does not take: wrong paths, methods, types, sizes, speeds and bodies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http_client::{exchange, get, post, send};
use crate::node::{limit, start};

#[test]
fn wrong_path_and_method_are_told_the_right_one() {
    let running = start(&[limit("search", 1)]);
    let http = running.http();
    let lost = post(http, "/v1/chek", &json!({}));
    assert_eq!(lost.status, 404);
    assert!(lost.detail().ends_with("did you mean /v1/check?"), "{}", lost.detail());
    assert!(get(http, "/").detail().contains("/healthz"));
    let wrong = get(http, "/v1/check");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    let wrong = post(http, "/metrics", &json!({}));
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn body_must_be_json() {
    let running = start(&[limit("search", 1)]);
    let http = running.http();
    let body = r#"{"domain":"shop","descriptors":[{"tenant":"a"}]}"#;
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let answer = send(http, "POST", "/v1/check", &form, body);
    assert_eq!(answer.status, 415);
    assert!(answer.detail().contains("content-type: application/json"));
    assert_eq!(send(http, "POST", "/v1/check", &[], body).status, 200, "none is taken for JSON");
    let answer = send(http, "POST", "/v1/check", &[], "{\"domain\": \"shop\",\n oops}");
    assert_eq!(answer.status, 400);
    assert!(answer.detail().contains("line 2 column"), "{}", answer.detail());
    let answer = post(http, "/v1/check", &json!({"domain": "shop", "descriptor": [{}]}));
    assert_eq!(answer.status, 400);
    assert!(answer.detail().contains("did you mean \"descriptors\"?"), "{}", answer.detail());
}

/// Costs that are no whole number were taken for something else.
#[test]
fn b47_costs_that_are_no_whole_numbers_are_refused() {
    let running = start(&[limit("search", 100)]);
    let http = running.http();
    for cost in [json!(-1), json!(1.5), json!("1"), json!(null), json!(true), json!([1])] {
        let body = json!({"domain": "shop", "descriptors": [{"tenant": "a"}], "cost": cost});
        let answer = post(http, "/v1/check", &body);
        assert_eq!(answer.status, 400, "{cost}");
        assert!(answer.detail().starts_with("cost: "), "{}", answer.detail());
    }
    let look = json!({"domain": "shop", "descriptors": [{"tenant": "a"}]});
    assert_eq!(post(http, "/v1/peek", &look).json()["limits"][0]["remaining"], 100);
}

#[test]
fn long_bodies_are_refused_by_their_length_and_by_their_bytes() {
    let running = start(&[limit("search", 1)]);
    let http = running.http();
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 1048577\r\n\r\n";
    assert_eq!(exchange(http, head.as_bytes()).status, 413, "before a byte of it came");
    let mut chunked =
        b"POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n100001\r\n"
            .to_vec();
    chunked.resize(chunked.len() + 0x10_0001, b' ');
    assert_eq!(exchange(http, &chunked).status, 413);
}

#[test]
fn long_heads_are_refused() {
    let running = start(&[limit("search", 1)]);
    let head = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(70_000));
    assert_eq!(exchange(running.http(), head.as_bytes()).status, 431);
}

#[test]
fn slow_heads_and_bodies_are_cut_after_five_seconds() {
    let running = start(&[limit("search", 1)]);
    let begin = |text: &str| {
        let mut socket = TcpStream::connect(running.http()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(9))).unwrap();
        socket.write_all(text.as_bytes()).unwrap();
        socket
    };
    let mut head = begin("GET /heal");
    let mut body = begin("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{");
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    let start = Instant::now();
    let mut answer = String::new();
    body.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    head.read_to_end(&mut Vec::new()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(8));
}

#[test]
fn connection_serves_many_requests() {
    let running = start(&[limit("search", 1)]);
    let mut socket = TcpStream::connect(running.http()).unwrap();
    for _ in 0..3 {
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut answer = [0; 1024];
        let length = socket.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[test]
fn a_request_names_one_host() {
    let running = start(&[limit("search", 1)]);
    let asked = |version: &str, hosts: &str| {
        let request = format!("GET /healthz HTTP/{version}\r\nconnection: close\r\n{hosts}\r\n");
        exchange(running.http(), request.as_bytes())
    };
    assert_eq!(asked("1.1", "host: limits.example:8080\r\n").status, 200);
    assert_eq!(asked("1.1", "host:\r\n").status, 200, "whoever asks by an address of no name");
    assert_eq!(asked("1.0", "").status, 200);
    assert!(asked("1.1", "").detail().contains("wants the header host"));
    for (version, hosts) in [
        ("1.1", ""),
        ("1.1", "host: a\r\nhost: a\r\n"),
        ("1.0", "host: a\r\nhost: b\r\n"),
        ("1.1", "host: a@b\r\n"),
    ] {
        assert_eq!(asked(version, hosts).status, 400, "{version} {hosts:?}");
    }
}

#[test]
fn a_request_by_the_whole_url_names_its_host_as_well() {
    let running = start(&[limit("search", 1)]);
    let whole = "GET http://limits.example/healthz HTTP/1.1\r\nconnection: close\r\n";
    assert_eq!(exchange(running.http(), format!("{whole}\r\n").as_bytes()).status, 400);
    let named = format!("{whole}host: limits.example\r\n\r\n");
    assert_eq!(exchange(running.http(), named.as_bytes()).status, 200);
}
