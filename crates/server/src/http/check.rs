//! `POST /v1/check` and `POST /v1/peek`: one decision or many. A denial is no error: 200.

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Request, StatusCode};

use super::answer::{Answered, error, json, refused};
use super::body;
use super::connection::HttpDoor;
use super::document::Json;
use super::question::{Form, Question, Questions, questions};
use crate::access::Denied;
use crate::headers;
use crate::json::{put_decision, put_text};
use crate::pipeline::Answer;
use crate::traces::Span;

/// Passes those who hold the token of the doors, if there is one.
///
/// # Errors
/// The answer to others.
pub fn enter(door: &HttpDoor, headers: &HeaderMap) -> Result<(), Box<Answered>> {
    let Err(denied) = door.rate_limit.enter(headers) else { return Ok(()) };
    Err(unauthorized(denied == Denied::Missing, denied.door_advice()))
}

/// Passes holders of the admin token.
///
/// # Errors
/// The answer to others.
pub fn admit(door: &HttpDoor, headers: &HeaderMap, what: &str) -> Result<(), Box<Answered>> {
    let Err(denied) = door.rate_limit.admin.check(headers) else { return Ok(()) };
    let detail = format!("{what}: {}", denied.advice());
    Err(unauthorized(denied == Denied::Missing, &detail))
}

fn unauthorized(is_missing: bool, detail: &str) -> Box<Answered> {
    if !is_missing {
        return Box::new(error(StatusCode::FORBIDDEN, detail));
    }
    let mut response = error(StatusCode::UNAUTHORIZED, detail);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Box::new(response)
}

/// Charges or gives back (`Form::Check`), or looks (`Form::Peek`).
pub async fn decide(
    door: &HttpDoor,
    request: Request<Incoming>,
    form: Form,
    span: &mut Span,
) -> Answered {
    let (head, body) = request.into_parts();
    let document = match body::read(&head.headers, body).await {
        Ok(document) => document,
        Err(response) => return *response,
    };
    let document = match Json::parse(&document) {
        Ok(document) => document,
        Err(detail) => return error(StatusCode::BAD_REQUEST, &detail),
    };
    let questions = match questions(&document, form) {
        Ok(questions) => questions,
        Err(detail) => return error(StatusCode::BAD_REQUEST, &detail),
    };
    if questions.has_refund()
        && let Err(response) = admit(door, &head.headers, "a refund needs the admin token")
    {
        return *response;
    }
    match questions {
        Questions::One(question) if door.node.node().is_immediate() => {
            decide_now(door, &question, span)
        }
        // Boxed: what waits for a store holds a whole plan, and every request would carry its room.
        Questions::One(question) => Box::pin(decide_later(door, &question, span)).await,
        Questions::Many(questions) => Box::pin(decide_many(door, &questions, span)).await,
    }
}

fn decide_now(door: &HttpDoor, question: &Question<'_>, span: &mut Span) -> Answered {
    let descriptors = question.descriptors();
    let ask = question.ask(&descriptors);
    let decided = door.node.node().decide_now(&ask, |answer| {
        span.note(ask.domain, answer);
        word(door, answer)
    });
    decided.unwrap_or_else(|refusal| refused(&refusal))
}

async fn decide_later(door: &HttpDoor, question: &Question<'_>, span: &mut Span) -> Answered {
    let descriptors = question.descriptors();
    let ask = question.ask(&descriptors);
    let decided = door
        .node
        .decide(&ask, |answer| {
            span.note(ask.domain, answer);
            word(door, answer)
        })
        .await;
    decided.unwrap_or_else(|refusal| refused(&refusal))
}

fn word(door: &HttpDoor, answer: &Answer<'_, '_>) -> Answered {
    let mut document = Vec::with_capacity(512);
    put_decision(&mut document, answer, &answer.id());
    let mut response = json(StatusCode::OK, document);
    headers::each(door.rate_limit.profile, answer, |name, value| {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    });
    response
}

/// One after another, so that later ones see what earlier ones took. One that cannot be decided
/// says so in its place.
async fn decide_many(door: &HttpDoor, questions: &[Question<'_>], span: &mut Span) -> Answered {
    let descriptors: Vec<_> = questions.iter().map(Question::descriptors).collect();
    let pairs = questions.iter().zip(&descriptors);
    let asks: Vec<_> = pairs.map(|(question, descriptors)| question.ask(descriptors)).collect();
    let mut document = Vec::with_capacity(512 * questions.len().min(64));
    document.extend_from_slice(b"{\"decisions\":[");
    let mut domains = asks.iter().map(|ask| ask.domain);
    let decided = door.node.decide_many(&asks, |answer| {
        let domain = domains.next().unwrap_or_default();
        if !document.ends_with(b"[") {
            document.push(b',');
        }
        match answer {
            Ok(answer) => {
                span.note(domain, answer);
                put_decision(&mut document, answer, &answer.id());
            }
            Err(problem) => {
                document.extend_from_slice(b"{\"error\":");
                put_text(&mut document, &problem.to_string());
                document.push(b'}');
            }
        }
    });
    if let Err(refusal) = decided.await {
        return refused(&refusal);
    }
    document.extend_from_slice(b"]}");
    json(StatusCode::OK, document)
}
