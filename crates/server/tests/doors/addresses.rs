//! Where the doors are, and what each of them speaks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidegate_counters::Clock;
use tidegate_server::ServerOptions;
use tidegate_server::listen::Address;

use crate::http_client::get;
use crate::node::{empty_node, limit, options, serve, start};

fn place(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("tidegate-doors-{name}-{}.sock", std::process::id()))
}

#[test]
fn socket_files_are_served_and_gone_after_the_drain() {
    let (http, grpc) = (place("http"), place("grpc"));
    let addresses = ServerOptions {
        http: Address::Unix(http.clone()),
        grpc: Address::Unix(grpc.clone()),
        ..options()
    };
    let running = serve(empty_node(), &addresses);
    for path in [&http, &grpc] {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(running);
    assert!(!http.exists() && !grpc.exists());
}

#[test]
fn http1_is_answered_at_the_grpc_door() {
    let running = start(&[limit("search", 1)]);
    assert_eq!(get(running.grpc(), "/healthz").status, 200);
}

#[test]
fn connection_that_says_nothing_is_closed_and_counted() {
    let opening_limit = Duration::from_millis(100);
    let running = serve(empty_node(), &ServerOptions { opening_limit, ..options() });
    for sent in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
        let clock = Clock::default();
        let began_us = clock.now_us();
        let mut socket = TcpStream::connect(running.grpc()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.write_all(sent).unwrap();
        assert_eq!(socket.read(&mut [0; 64]).unwrap_or(0), 0);
        assert!(clock.now_us() - began_us >= opening_limit.as_micros() as u64);
    }
    let metrics = get(running.http(), "/metrics").body;
    let line = "tidegate_connections_failed_total{reason=\"silent\"} 2";
    assert!(metrics.contains(line), "{metrics}");
}
