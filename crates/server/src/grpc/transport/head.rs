//! A request's head: what gRPC demands of it before its message is read.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::status::Status;
use super::timeout;

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// What the head says about the call.
#[derive(Debug)]
pub(super) struct Head {
    pub timeout: Option<Duration>,
    /// The request names a message encoding other than `identity`.
    pub has_encoding: bool,
}

/// Why a request is answered without its message.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Not gRPC: a bare HTTP status.
    Http(StatusCode),
    /// gRPC, but not this way.
    Grpc(Status),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Grpc(status)
    }
}

/// Whether the request is gRPC at all.
pub(super) fn check_is_grpc(parts: &Parts) -> Result<(), Refusal> {
    if parts.method != Method::POST {
        return Err(Refusal::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    if parts.headers.get(CONTENT_TYPE).is_some_and(|value| is_grpc_type(value.as_bytes())) {
        return Ok(());
    }
    Err(Refusal::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// The path and query, compared whole: a query never reaches a method.
pub(super) fn path(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str)
}

/// Reads the headers that steer the call.
pub(super) fn read(headers: &HeaderMap) -> Result<Head, Refusal> {
    let timeout = match headers.get(GRPC_TIMEOUT) {
        None => None,
        Some(value) => Some(
            timeout::parse(value.as_bytes())
                .ok_or_else(|| Status::internal("grpc-timeout is not 1 to 8 digits and a unit"))?,
        ),
    };
    let has_encoding = headers.get(GRPC_ENCODING).is_some_and(|value| value != "identity");
    Ok(Head { timeout, has_encoding })
}

/// `application/grpc`, alone or followed by `+` or `;` (`application/grpc-web` is another thing).
fn is_grpc_type(value: &[u8]) -> bool {
    value
        .strip_prefix(b"application/grpc")
        .is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_is_grpc_with_or_without_a_suffix() {
        for good in ["application/grpc", "application/grpc+proto", "application/grpc;charset=x"] {
            assert!(is_grpc_type(good.as_bytes()), "{good}");
        }
        for bad in ["application/grpc-web", "application/grpcx", "text/plain", "", "Application/x"]
        {
            assert!(!is_grpc_type(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn steering_headers_are_read() {
        let mut headers = HeaderMap::new();
        assert!(read(&headers).unwrap().timeout.is_none());
        headers.insert(GRPC_TIMEOUT, "20m".parse().unwrap());
        headers.insert(GRPC_ENCODING, "identity".parse().unwrap());
        let head = read(&headers).unwrap();
        assert_eq!(head.timeout, Some(Duration::from_millis(20)));
        assert!(!head.has_encoding);
        headers.insert(GRPC_ENCODING, "gzip".parse().unwrap());
        assert!(read(&headers).unwrap().has_encoding);
        headers.insert(GRPC_TIMEOUT, "5x".parse().unwrap());
        assert!(matches!(read(&headers), Err(Refusal::Grpc(_))));
    }
}
