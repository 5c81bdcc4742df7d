//! `/v1/forward-auth/NAME`: may the request pass that a proxy is holding? Any method, any suffix.
//! 200 lets it pass; anything else is for the client, status, headers and body.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tidegate_core::Reason;
use tokio::time::timeout;

use super::answer::{Answered, error, refused};
use super::connection::HttpDoor;
use crate::forward_auth::{Door, Said, Subject, Told, descriptors, unified};
use crate::headers;
use crate::pipeline::{Answer, Ask, Refused};
use crate::problem;
use crate::traces::Span;

/// Where it is served; the door's name follows, then whatever a proxy adds.
pub const PREFIX: &str = "/v1/forward-auth";

/// A sub-request's body says nothing: it is read so that the connection can go on, and no further.
const MOST_BODY: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// What follows the prefix, if a path is of this kind.
pub fn suffix(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a proxy.
pub async fn answer(
    door: &HttpDoor,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
    span: &mut Span,
) -> Answered {
    let (head, body) = request.into_parts();
    let is_whole = drain(body).await;
    let mut response = match decide(door, peer, &head, span).await {
        Ok(told) => respond(told),
        Err(response) => *response,
    };
    if !is_whole {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn decide(
    http: &HttpDoor,
    peer: Option<IpAddr>,
    head: &Parts,
    span: &mut Span,
) -> Result<Told, Box<Answered>> {
    let rest = suffix(head.uri.path()).unwrap_or_default().trim_start_matches('/');
    let (name, _) = rest.split_once('/').unwrap_or((rest, ""));
    let Some(door) = http.forward_auth.door(name) else { return Err(unknown(http, name)) };
    let after_name = &rest[name.len()..];
    let said = Said {
        peer: peer.map(unified),
        method: head.method.as_str(),
        suffix: if after_name.is_empty() { "/" } else { after_name },
        headers: &head.headers,
    };
    let subject = door
        .subject(&said)
        .map_err(|refusal| Box::new(error(StatusCode::BAD_REQUEST, &refusal.to_string())))?;
    if !subject.is_named() {
        return ask(http, door, &subject, span)
            .await
            .map_err(|refusal| Box::new(refused(&refusal)));
    }
    let repeats = &http.forward_auth.repeats;
    let (key, clock) = (repeats.key(&(door.name(), &subject)), http.node.node().clock());
    if let Some(told) = repeats.told(key, clock.now_us()) {
        return Ok(told);
    }
    let told =
        ask(http, door, &subject, span).await.map_err(|refusal| Box::new(refused(&refusal)))?;
    repeats.keep(key, clock.now_us(), told.clone());
    Ok(told)
}

async fn ask(
    http: &HttpDoor,
    door: &Door,
    subject: &Subject,
    span: &mut Span,
) -> Result<Told, Refused> {
    let (entries, costs) = (subject.entries(), door.costs());
    let descriptors = descriptors(&entries, &costs);
    let ask = Ask { domain: &door.domain, descriptors: &descriptors };
    let decided = http.node.decide(&ask, |answer| {
        span.note(ask.domain, answer);
        word(http, door, answer)
    });
    decided.await
}

fn word(http: &HttpDoor, door: &Door, answer: &Answer<'_, '_>) -> Told {
    let decision = &answer.decision;
    let mut told = Told {
        status: match decision.reason {
            _ if decision.allowed => StatusCode::OK,
            Reason::StoreFailure => StatusCode::SERVICE_UNAVAILABLE,
            _ => door.deny_status,
        },
        headers: Vec::with_capacity(8),
        body: Bytes::new(),
    };
    headers::each(http.rate_limit.profile, answer, |name, value| {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            told.headers.push((HeaderName::from_static(name), value));
        }
    });
    if !decision.allowed {
        let mut body = Vec::with_capacity(512);
        problem::put_denial(&mut body, answer, &answer.id());
        told.body = Bytes::from(body);
        let media_type = HeaderValue::from_static(problem::MEDIA_TYPE);
        told.headers.push((CONTENT_TYPE, media_type));
    }
    told
}

fn respond(told: Told) -> Answered {
    let mut response = Response::new(Full::new(told.body));
    *response.status_mut() = told.status;
    let headers = response.headers_mut();
    headers.extend(told.headers);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Reads a body to its end; false if it is longer or slower than is waited for.
async fn drain(body: Incoming) -> bool {
    if body.is_end_stream() {
        return true;
    }
    if body.size_hint().lower() > MOST_BODY as u64 {
        return false;
    }
    matches!(timeout(BODY_TIMEOUT, Limited::new(body, MOST_BODY).collect()).await, Ok(Ok(_)))
}

/// A proxy that asks at no door is set up wrongly, whatever its client did: none of the statuses
/// that proxies take for a denial.
fn unknown(http: &HttpDoor, name: &str) -> Box<Answered> {
    let detail = if http.forward_auth.is_off() {
        "forward-auth is off; start the server with --forward-auth FILE".to_owned()
    } else if name.is_empty() {
        format!("name a door, such as {PREFIX}/NAME, by its table [forward_auth.NAME]")
    } else {
        let name: String = name.chars().take(64).collect();
        format!("there is no door {name:?}; it needs a table [forward_auth.{name}]")
    };
    Box::new(error(StatusCode::NOT_FOUND, &detail))
}
