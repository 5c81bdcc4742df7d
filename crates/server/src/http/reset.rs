//! `POST /v1/reset`: forgets the counters that a request would meet. Needs the admin token.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};

use super::answer::{Answered, error, json, refused};
use super::body;
use super::check::admit;
use super::connection::HttpDoor;
use super::document::Json;
use super::question::{Form, Questions, questions};
use crate::json::put_text;

/// Forgets, and says of which limits.
pub async fn reset(door: &HttpDoor, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    if let Err(response) = admit(door, &head.headers, "a reset needs the admin token") {
        return *response;
    }
    let document = match body::read(&head.headers, body).await {
        Ok(document) => document,
        Err(response) => return *response,
    };
    let document = match Json::parse(&document) {
        Ok(document) => document,
        Err(detail) => return error(StatusCode::BAD_REQUEST, &detail),
    };
    let question = match questions(&document, Form::Reset) {
        Ok(Questions::One(question)) => question,
        Ok(Questions::Many(_)) => {
            return error(StatusCode::BAD_REQUEST, "checks: a reset takes one request at a time");
        }
        Err(detail) => return error(StatusCode::BAD_REQUEST, &detail),
    };
    let descriptors = question.descriptors();
    let ask = question.ask(&descriptors);
    match door.node.reset(&ask).await {
        Ok(limits) => json(StatusCode::OK, document_of(&limits)),
        Err(refusal) => refused(&refusal),
    }
}

fn document_of(limits: &[String]) -> Vec<u8> {
    let mut out = b"{\"reset\":[".to_vec();
    for (at, id) in limits.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put_text(&mut out, id);
    }
    out.extend_from_slice(b"]}");
    out
}
