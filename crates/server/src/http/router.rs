//! From method and path to what answers.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};

use super::answer::{Answered, error};
use super::check::enter;
use super::connection::HttpDoor;
use super::question::Form;
use super::suggest::nearest;
use super::{check, decisions, forward_auth, host, hot, metrics, openapi, probes, reset};
use crate::traces::{Asked, Ended, Span};

#[derive(Clone, Copy)]
enum Route {
    Check,
    Peek,
    Reset,
    ForwardAuth,
    OpenApi,
    Explain,
    Decision,
    Hot,
    Health,
    Ready,
    Metrics,
}

const ROUTES: [(&str, Route); 11] = [
    ("/v1/check", Route::Check),
    ("/v1/peek", Route::Peek),
    ("/v1/reset", Route::Reset),
    (forward_auth::PREFIX, Route::ForwardAuth),
    ("/openapi.json", Route::OpenApi),
    ("/v1/explain", Route::Explain),
    (decisions::PATH, Route::Decision),
    ("/v1/hot", Route::Hot),
    ("/healthz", Route::Health),
    ("/readyz", Route::Ready),
    ("/metrics", Route::Metrics),
];

/// Answers a request.
pub async fn route(door: &HttpDoor, peer: Option<IpAddr>, request: Request<Incoming>) -> Answered {
    if let Some(mistake) = host::mistake(request.version(), request.headers()) {
        return error(StatusCode::BAD_REQUEST, mistake);
    }
    let path = request.uri().path();
    #[cfg(test)]
    assert_ne!(path, super::panics::PATH, "a bug that was asked for");
    let Some(route) = route_of(path) else { return unknown(path) };
    let mut span = begin(door, route, &request);
    let answered = answer(door, peer, route, request, &mut span).await;
    span.end(Ended::Http(answered.status()));
    answered
}

async fn answer(
    door: &HttpDoor,
    peer: Option<IpAddr>,
    route: Route,
    request: Request<Incoming>,
    span: &mut Span,
) -> Answered {
    if !route.is_open()
        && let Err(response) = enter(door, request.headers())
    {
        return *response;
    }
    let is_post = request.method() == Method::POST;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    match route {
        Route::Check | Route::Peek | Route::Reset | Route::Explain if !is_post => {
            wrong_method("POST")
        }
        Route::OpenApi
        | Route::Decision
        | Route::Hot
        | Route::Health
        | Route::Ready
        | Route::Metrics
            if !is_get =>
        {
            wrong_method("GET, HEAD")
        }
        Route::Check => check::decide(door, request, Form::Check, span).await,
        Route::Peek => check::decide(door, request, Form::Peek, span).await,
        // Boxed, so that the state of a request under way is as large as a check needs it, not as
        // the largest of all.
        Route::Reset => Box::pin(reset::reset(door, request)).await,
        Route::ForwardAuth => Box::pin(forward_auth::answer(door, peer, request, span)).await,
        Route::OpenApi => openapi::document(),
        Route::Explain => Box::pin(decisions::explain(door, peer, request)).await,
        Route::Decision => decisions::decision(door, peer, &request),
        Route::Hot => hot::hot(door, peer, &request),
        Route::Health => probes::health(),
        Route::Ready => probes::ready(door.node.node()),
        Route::Metrics => metrics::page(door),
    }
}

/// The span of a request, if it is one that asks for something and is traced.
fn begin(door: &HttpDoor, route: Route, request: &Request<Incoming>) -> Span {
    let Some(path) = route.traced() else { return Span::default() };
    let asked = || Asked::Http { method: name_of(request.method()), route: path };
    door.node.node().span(request.headers(), asked)
}

/// A method by the names of the semantic conventions, which know a few.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "_OTHER",
    }
}

fn route_of(path: &str) -> Option<Route> {
    let exact = ROUTES.iter().find(|(known, _)| *known == path).map(|(_, route)| *route);
    exact
        .or_else(|| forward_auth::suffix(path).map(|_| Route::ForwardAuth))
        .or_else(|| path.starts_with(decisions::PATH).then_some(Route::Decision))
}

impl Route {
    /// Whether anybody may ask: those who probe a node know no token, and the document tells
    /// nothing of it.
    const fn is_open(self) -> bool {
        matches!(self, Self::Health | Self::Ready | Self::OpenApi)
    }

    /// The name that its requests are traced under, if they are.
    const fn traced(self) -> Option<&'static str> {
        match self {
            Self::Check => Some("/v1/check"),
            Self::Peek => Some("/v1/peek"),
            Self::Reset => Some("/v1/reset"),
            // What follows is the client's own path.
            Self::ForwardAuth => Some(forward_auth::PREFIX),
            _ => None,
        }
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
