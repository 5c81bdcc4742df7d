//! The token that every question must carry, where the server has one: over HTTP and gRPC.

use serde_json::json;
use tidegate_server::ServerOptions;

use crate::grpc_client::{Ask, Client, shop};
use crate::http_client::{get, post, post_as};
use crate::node::{Running, TOKEN, empty_node, limit, options, serve, snapshot};

fn guarded() -> Running {
    let node = empty_node();
    node.load(&snapshot(&[limit("search", 10)])).unwrap();
    serve(node, &ServerOptions { door_token: Some("door".to_owned()), ..options() })
}

#[test]
fn http_wants_it_for_questions_and_not_for_probes() {
    let running = guarded();
    let http = running.http();
    let body = json!({"domain": "shop", "descriptors": [{"tenant": "acme"}]});
    let missing = post(http, "/v1/check", &body);
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(post_as(http, "/v1/check", "guess", &body).status, 403);
    assert_eq!(post_as(http, "/v1/check", "door", &body).status, 200);
    assert_eq!(post_as(http, "/v1/check", TOKEN, &body).status, 200);
    assert_eq!(post_as(http, "/v1/reset", "door", &body).status, 403);
    assert_eq!(get(http, "/metrics").status, 401);
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(get(http, open).status, 200, "{open}");
    }
}

#[tokio::test]
async fn grpc_wants_it_for_questions_and_not_for_health() {
    let running = guarded();
    let client = Client::connect(running.grpc()).await;
    let ask = shop(&[("tenant", b"acme")]);
    for (token, status) in [(None, 16), (Some("guess"), 16), (Some("door"), 0), (Some(TOKEN), 0)] {
        let ended = client.ask(&Ask { token, ..ask.clone() }).await;
        assert_eq!(ended.status, status, "{}", ended.text);
    }
    let refund = client.ask(&ask.clone().refund(1, Some("door"))).await;
    assert_eq!(refund.status, 7, "the admin's alone");
    let health = client.call("/grpc.health.v1.Health/Check", b"", None).await;
    assert_eq!(health.status, 0);
}
