//! `GET /healthz` and `GET /readyz`: is the process working, and should requests come.

use hyper::StatusCode;

use super::answer::{Answered, body, json};
use crate::json::{put_bool, put_text};
use crate::node::Node;

/// The process works.
pub fn health() -> Answered {
    body(StatusCode::OK, "text/plain; charset=utf-8", b"ok\n".to_vec())
}

/// A policy is in force and service is not about to end. The store's state is told and decides
/// nothing: a dead store must not take every node out of the balancer.
pub fn ready(node: &Node) -> Answered {
    let readiness = node.readiness();
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"ready\":");
    put_bool(&mut out, readiness.is_ready());
    out.extend_from_slice(b",\"revision\":");
    put_optional(&mut out, node.revision().as_deref());
    out.extend_from_slice(b",\"draining\":");
    put_bool(&mut out, readiness.is_draining);
    out.extend_from_slice(b",\"reload_error\":");
    put_optional(&mut out, node.reloads().last_error.as_deref());
    out.extend_from_slice(b",\"store\":{\"kind\":");
    put_text(&mut out, node.store().kind());
    out.extend_from_slice(b",\"error\":");
    put_optional(&mut out, node.store().error().as_deref());
    out.extend_from_slice(b",\"warnings\":[");
    for (at, warning) in node.store().warnings().iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put_text(&mut out, warning);
    }
    out.extend_from_slice(b"]}}");
    let is_ready = readiness.is_ready();
    json(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, out)
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.extend_from_slice(b"null"),
    }
}
