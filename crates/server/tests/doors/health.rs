//! `grpc.health.v1` over a socket.

use bytes::BytesMut;
use tidegate_server::grpc::wire::put_bytes;

use crate::grpc_client::Client;
use crate::node::{empty_node, limit, options, serve, snapshot, start};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const SERVING: &[u8] = &[8, 1];
const NOT_SERVING: &[u8] = &[8, 2];
const SERVICE_UNKNOWN: &[u8] = &[8, 3];

fn name(service: &str) -> BytesMut {
    let mut out = BytesMut::new();
    put_bytes(&mut out, 1, service.as_bytes());
    out
}

/// The next message of a stream.
async fn next(body: &mut h2::RecvStream) -> Vec<u8> {
    let chunk = body.data().await.unwrap().unwrap();
    body.flow_control().release_capacity(chunk.len()).unwrap();
    chunk[5..].to_vec()
}

#[tokio::test]
async fn check_answers_by_name() {
    let running = start(&[limit("search", 1)]);
    let client = Client::connect(running.grpc()).await;
    let names = [
        "",
        "envoy.service.ratelimit.v3.RateLimitService",
        "grpc.health.v1.Health",
        "ratelimit",
        "liveness",
    ];
    for service in names {
        let ended = client.call(CHECK, &name(service), None).await;
        assert_eq!((ended.status, &ended.message[..]), (0, SERVING), "{service:?}");
    }
    assert_eq!(client.call(CHECK, b"", None).await.message, SERVING);
    assert_eq!(client.call(CHECK, &name("nope"), None).await.status, 5);
    assert_eq!(client.call("/grpc.health.v1.Health/List", b"", None).await.status, 12);
}

#[tokio::test]
async fn watch_tells_of_the_policy_and_of_the_drain() {
    let mut running = serve(empty_node(), &options());
    let client = Client::connect(running.grpc()).await;
    assert_eq!(client.call(CHECK, b"", None).await.message, NOT_SERVING);
    assert_eq!(client.call(CHECK, &name("liveness"), None).await.message, SERVING);
    let mut everything = client.begin(WATCH, b"", None).await.into_body();
    let mut unknown = client.begin(WATCH, &name("nope"), None).await.into_body();
    assert_eq!(next(&mut everything).await, NOT_SERVING);
    assert_eq!(next(&mut unknown).await, SERVICE_UNKNOWN);
    running.node.load(&snapshot(&[limit("search", 1)])).unwrap();
    assert_eq!(next(&mut everything).await, SERVING);
    running.node.load(&snapshot(&[limit("search", 2)])).unwrap();
    running.node.start_draining();
    assert_eq!(next(&mut everything).await, NOT_SERVING, "and nothing for the second policy");
    let server = running.server.take().unwrap();
    let draining = tokio::task::spawn_blocking(move || server.drain());
    assert!(everything.data().await.is_none());
    let trailers = everything.trailers().await.unwrap().unwrap();
    assert_eq!(trailers["grpc-status"], "14");
    assert!(unknown.data().await.is_none(), "stayed open until the end");
    draining.await.unwrap();
}
