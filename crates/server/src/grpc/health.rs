//! `grpc.health.v1.Health`: Check and Watch. Readiness is a policy in force and no drain; the
//! store plays no part.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;

use super::transport::{Code, Message, MessageBuilder, Status};
use super::wire::{Fields, Value, put_number};
use crate::node::{Node, Readiness};

/// Names that follow readiness: everything, what Envoy asks, this service, what the protocol's
/// reference server calls itself.
const READINESS: [&[u8]; 4] =
    [b"", b"envoy.service.ratelimit.v3.RateLimitService", b"grpc.health.v1.Health", b"ratelimit"];
/// The name that is in service while the process works.
const LIVENESS: &[u8] = b"liveness";

/// `HealthCheckResponse.ServingStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Health {
    Serving = 1,
    NotServing = 2,
    Unknown = 3,
}

fn of(name: &[u8], readiness: Readiness) -> Health {
    if name == LIVENESS {
        Health::Serving
    } else if !READINESS.contains(&name) {
        Health::Unknown
    } else if readiness.is_ready() {
        Health::Serving
    } else {
        Health::NotServing
    }
}

/// Answers `Check`.
pub fn check(node: &Node, message: &[u8]) -> Result<Message, Status> {
    match of(service(message)?, node.readiness()) {
        Health::Unknown => Err(Status::new(Code::NotFound, "unknown service name")),
        serving => Ok(response(serving)),
    }
}

/// Answers `Watch`: the state now, then each change until the client leaves. An unknown name is
/// told so and stays open, as the protocol wants.
pub fn watch(
    node: &Arc<Node>,
    message: &[u8],
) -> Result<mpsc::Receiver<Result<Message, Status>>, Status> {
    let name = service(message)?.to_vec();
    let (send, receive) = mpsc::channel(4);
    spawn_local(follow(name, node.watch_readiness(), send));
    Ok(receive)
}

async fn follow(
    name: Vec<u8>,
    mut readiness: watch::Receiver<Readiness>,
    send: mpsc::Sender<Result<Message, Status>>,
) {
    let mut said = None;
    loop {
        let now = of(&name, *readiness.borrow_and_update());
        if said != Some(now) {
            if send.send(Ok(response(now))).await.is_err() {
                return;
            }
            said = Some(now);
        }
        tokio::select! {
            () = send.closed() => return,
            changed = readiness.changed() => if changed.is_err() { return },
        }
    }
}

fn service(message: &[u8]) -> Result<&[u8], Status> {
    let malformed = |_| Status::internal("the message is no HealthCheckRequest");
    let mut service: &[u8] = b"";
    for field in Fields::new(message) {
        if let (1, Value::Bytes(name)) = field.map_err(malformed)? {
            service = name;
        }
    }
    Ok(service)
}

fn response(serving: Health) -> Message {
    let mut out = MessageBuilder::with_capacity(2);
    put_number(&mut out, 1, serving as u64);
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_what_they_stand_for() {
        let ready = Readiness { has_policy: true, is_draining: false };
        let draining = Readiness { has_policy: true, is_draining: true };
        for name in READINESS {
            assert_eq!(of(name, ready), Health::Serving);
            assert_eq!(of(name, draining), Health::NotServing);
            assert_eq!(of(name, Readiness::default()), Health::NotServing);
        }
        assert_eq!(of(LIVENESS, draining), Health::Serving);
        assert_eq!(of(b"other", ready), Health::Unknown);
    }
}
