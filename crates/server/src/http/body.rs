//! A request's body: bounded in size and in time.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tokio::time::timeout;

use super::answer::{Answered, error};

const MAX_BODY: usize = 1 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a body never became whole.
enum Broken {
    TooLong,
    Off,
}

/// Reads a JSON body whole.
///
/// # Errors
/// The answer to a body that is none, too long, too slow or broken off.
pub async fn read(headers: &HeaderMap, body: Incoming) -> Result<Bytes, Box<Answered>> {
    if let Some(media_type) = headers.get(CONTENT_TYPE)
        && !is_json(media_type.as_bytes())
    {
        let detail = "the body must be JSON; send content-type: application/json";
        return Err(Box::new(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)));
    }
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    let mut collected = pin!(collect(body));
    // Most bodies come with their head: these need no timer.
    let at_once = poll_fn(|cx| Poll::Ready(collected.as_mut().poll(cx))).await;
    let collected = match at_once {
        Poll::Ready(collected) => Ok(collected),
        Poll::Pending => timeout(BODY_TIMEOUT, collected).await,
    };
    match collected {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(Broken::TooLong)) => Err(too_long()),
        Ok(Err(Broken::Off)) => {
            Err(Box::new(closing(StatusCode::BAD_REQUEST, "the body broke off before its end")))
        }
        Err(_) => {
            let detail = "the body did not arrive within 5 seconds";
            Err(Box::new(closing(StatusCode::REQUEST_TIMEOUT, detail)))
        }
    }
}

/// A body that comes in one piece is not copied.
async fn collect(mut body: Incoming) -> Result<Bytes, Broken> {
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        // What is no data is trailers, which say nothing here.
        let Ok(piece) = frame.map_err(|_| Broken::Off)?.into_data() else { continue };
        if first.len() + all.len() + piece.len() > MAX_BODY {
            return Err(Broken::TooLong);
        }
        if first.is_empty() && all.is_empty() {
            first = piece;
        } else {
            if all.is_empty() {
                all = mem::take(&mut first).into();
            }
            all.extend_from_slice(&piece);
        }
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

fn too_long() -> Box<Answered> {
    let detail = "the body is longer than 1 MiB; send fewer checks at a time";
    Box::new(closing(StatusCode::PAYLOAD_TOO_LARGE, detail))
}

/// The rest of the body is not read, so the connection cannot go on.
fn closing(status: StatusCode, detail: &str) -> Answered {
    let mut response = error(status, detail);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Forms and plain text are refused: a web page may send them to a loopback port unasked.
fn is_json(media_type: &[u8]) -> bool {
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
        || (essence.len() > 17
            && essence[..12].eq_ignore_ascii_case(b"application/")
            && essence[essence.len() - 5..].eq_ignore_ascii_case(b"+json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_with_parameters_and_suffixes() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/x+json"] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"] {
            assert!(!is_json(bad.as_bytes()), "{bad}");
        }
    }
}
