//! `GET /v1/decisions/ID`: why a request was denied. `POST /v1/explain`: what would apply to one.
//! Both show what tenants send and what the policy says.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};

use super::answer::{Answered, error, json, refused};
use super::body;
use super::connection::HttpDoor;
use super::document::Json;
use super::insiders::admit_insider;
use super::question::{Form, Questions, questions};
use crate::decision_id::DecisionId;
use crate::explain::{Ring, put_kept, when_kept};
use crate::pipeline::Refused;

/// The path up to the id.
pub const PATH: &str = "/v1/decisions/";

const EXPLAINED: &str = "explanations need the admin token";

/// Tells of a kept denial.
pub fn decision<T>(door: &HttpDoor, peer: Option<IpAddr>, request: &Request<T>) -> Answered {
    if let Err(response) = admit_insider(door, peer, request.headers(), EXPLAINED) {
        return *response;
    }
    let id = request.uri().path().strip_prefix(PATH).unwrap_or_default();
    let Some(id) = DecisionId::parse(id.as_bytes()) else {
        let detail = "this is no decision id: it has 26 letters and digits, as in an answer's \
                      decision_id";
        return error(StatusCode::NOT_FOUND, detail);
    };
    let denials = door.node.node().denials();
    match denials.find(&id) {
        Some(record) => {
            let mut out = Vec::with_capacity(1024);
            put_kept(&mut out, &record);
            json(StatusCode::OK, out)
        }
        None => error(StatusCode::NOT_FOUND, &unknown(denials, &id)),
    }
}

fn unknown(denials: &Ring, id: &DecisionId) -> String {
    let places = denials.capacity();
    let reach = match denials.oldest() {
        None if places == 0 => "it keeps no denials: start it with --denials-kept".to_owned(),
        None => "it has denied nothing since it started".to_owned(),
        Some(record) => {
            format!(
                "it keeps its last {places} denials, which reach back to {}",
                when_kept(&record)
            )
        }
    };
    format!(
        "no decision {id} on this node; {reach}. What was allowed is not kept, and each node keeps \
         its own: ask the one that answered"
    )
}

/// Explains what would apply to a request; takes nothing.
pub async fn explain(
    door: &HttpDoor,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> Answered {
    let (head, body) = request.into_parts();
    if let Err(response) = admit_insider(door, peer, &head.headers, EXPLAINED) {
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
    let question = match questions(&document, Form::Peek) {
        Ok(Questions::One(question)) => question,
        Ok(Questions::Many(_)) => {
            return error(StatusCode::BAD_REQUEST, "checks: explain takes one request at a time");
        }
        Err(detail) => return error(StatusCode::BAD_REQUEST, &detail),
    };
    let descriptors = question.descriptors();
    let Some(explained) = door.node.node().explain(&question.ask(&descriptors)) else {
        return refused(&Refused::NotReady);
    };
    json(StatusCode::OK, explained)
}
