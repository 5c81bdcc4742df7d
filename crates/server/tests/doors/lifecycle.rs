//! From the first address to the last answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tidegate_server::{Server, ServerOptions};

use crate::http_client::{get, post};
use crate::node::{empty_node, limit, options, serve, snapshot, start};

#[test]
fn taken_address_is_named_with_what_to_do() {
    let running = start(&[limit("search", 1)]);
    let taken = ServerOptions { grpc: running.http().into(), ..options() };
    let error = Server::start(empty_node(), &taken).unwrap_err().to_string();
    assert!(error.contains("the gRPC door"), "{error}");
    assert!(error.contains(&running.http().to_string()), "{error}");
    assert!(error.contains("choose another port"), "{error}");
}

#[test]
fn drain_is_told_before_it_closes_and_ends_in_time() {
    let node = empty_node();
    node.load(&snapshot(&[limit("search", 5)])).unwrap();
    let notice = Duration::from_millis(300);
    let drain_limit = Duration::from_secs(5);
    // One worker, so that the connection under way hears of the drain no later than the idle one.
    let drained = ServerOptions { workers: 1, drain_notice: notice, drain_limit, ..options() };
    let mut running = serve(node, &drained);
    let http = running.http();
    let mut idle = TcpStream::connect(http).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_ne!(idle.read(&mut [0; 1024]).unwrap(), 0);
    // A request whose body is still on its way when the drain begins.
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "a"}]}).to_string();
    let mut slow = TcpStream::connect(http).unwrap();
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    slow.write_all(head.as_bytes()).unwrap();
    let server = running.server.take().unwrap();
    let draining = thread::spawn(move || server.drain());
    let ready = loop {
        let ready = get(http, "/readyz");
        if ready.status == 503 {
            break ready;
        }
    };
    assert_eq!((&ready.json()["ready"], &ready.json()["draining"]), (&json!(false), &json!(true)));
    let check = json!({"domain": "shop", "descriptors": [{"tenant": "a"}]});
    assert_eq!(post(http, "/v1/check", &check).status, 200, "what still comes is answered");
    assert_eq!(idle.read(&mut [0; 1024]).unwrap(), 0, "an idle connection is closed");
    slow.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "in flight is finished: {answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    draining.join().unwrap();
    assert!(TcpStream::connect(http).is_err());
}
