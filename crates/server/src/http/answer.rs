//! What leaves: JSON, text, or a problem.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use crate::pipeline::Refused;
use crate::problem;

/// An answer with its whole body.
pub type Answered = Response<Full<Bytes>>;

/// An answer of this type; never kept by a cache.
pub fn body(status: StatusCode, media_type: &'static str, body: Vec<u8>) -> Answered {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A JSON document.
pub fn json(status: StatusCode, document: Vec<u8>) -> Answered {
    body(status, "application/json", document)
}

/// A problem: what was wrong, and what to do.
pub fn error(status: StatusCode, detail: &str) -> Answered {
    let mut document = Vec::with_capacity(128 + detail.len());
    let title = status.canonical_reason().unwrap_or_default();
    problem::put_error(&mut document, status.as_u16(), title, detail);
    body(status, problem::MEDIA_TYPE, document)
}

/// No decision.
pub fn refused(refused: &Refused) -> Answered {
    let status = match refused {
        Refused::NotReady | Refused::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        Refused::Request(_) => StatusCode::BAD_REQUEST,
        Refused::MustWait => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = error(status, &refused.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
