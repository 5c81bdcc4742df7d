//! From method and path to what answers.

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};

use super::answer::{Answered, error};
use super::connection::HttpDoor;
use super::suggest::nearest;
use super::{check, metrics, probes, reset};

#[derive(Clone, Copy)]
enum Route {
    Check,
    Peek,
    Reset,
    Health,
    Ready,
    Metrics,
}

const ROUTES: [(&str, Route); 6] = [
    ("/v1/check", Route::Check),
    ("/v1/peek", Route::Peek),
    ("/v1/reset", Route::Reset),
    ("/healthz", Route::Health),
    ("/readyz", Route::Ready),
    ("/metrics", Route::Metrics),
];

/// Answers a request.
pub async fn route(door: &HttpDoor, request: Request<Incoming>) -> Answered {
    let path = request.uri().path();
    let Some((_, route)) = ROUTES.iter().find(|(known, _)| *known == path) else {
        return unknown(path);
    };
    let is_post = request.method() == Method::POST;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match route {
        Route::Check | Route::Peek | Route::Reset if !is_post => wrong_method("POST"),
        Route::Health | Route::Ready | Route::Metrics if !is_get => wrong_method("GET, HEAD"),
        Route::Check => check::check(door, request).await,
        Route::Peek => check::peek(door, request).await,
        Route::Reset => reset::reset(door, request).await,
        Route::Health => probes::health(),
        Route::Ready => probes::ready(door.node.node()),
        Route::Metrics => metrics::page(door),
    }
}

fn unknown(path: &str) -> Answered {
    let known = ROUTES.map(|(path, _)| path);
    let advice = match nearest(path, &known) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", known.join(", ")),
    };
    error(StatusCode::NOT_FOUND, &format!("nothing is served at {path:?}; {advice}"))
}

fn wrong_method(allowed: &'static str) -> Answered {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, &format!("send {allowed}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
