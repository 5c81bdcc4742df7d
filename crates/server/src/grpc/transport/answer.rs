//! Answers on the wire: HEADERS, DATA, HEADERS with the status; or the status alone.

use std::future::poll_fn;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::head::Refusal;
use super::status::{Status, encode_text};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Answer heads that are always the same, cloned for each use.
#[derive(Debug)]
pub(super) struct Heads {
    opening: HeaderMap,
    ok: HeaderMap,
}

impl Heads {
    pub(super) fn new() -> Self {
        let mut opening = HeaderMap::with_capacity(1);
        opening.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let mut ok = HeaderMap::with_capacity(1);
        ok.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        Self { opening, ok }
    }

    /// Opens an answer that carries messages.
    pub(super) fn open(
        &self,
        respond: &mut SendResponse<Bytes>,
    ) -> Result<SendStream<Bytes>, h2::Error> {
        respond.send_response(with_headers(self.opening.clone()), false)
    }

    /// Trailers of a call that ended well, or as the status says.
    pub(super) fn trailers(&self, outcome: Result<(), Status>) -> HeaderMap {
        match outcome {
            Ok(()) => self.ok.clone(),
            Err(status) => {
                let mut trailers = HeaderMap::with_capacity(2);
                write_status(&mut trailers, &status);
                trailers
            }
        }
    }

    /// An error without a message: one HEADERS frame, HTTP 200.
    pub(super) fn fail(&self, respond: &mut SendResponse<Bytes>, status: &Status) {
        let mut headers = self.opening.clone();
        write_status(&mut headers, status);
        // An error here means that the client is gone; nobody is left to tell.
        let _ = respond.send_response(with_headers(headers), true);
    }

    /// Answers a request that never became a call.
    pub(super) fn refuse(&self, respond: &mut SendResponse<Bytes>, refusal: &Refusal) {
        match refusal {
            Refusal::Grpc(status) => self.fail(respond, status),
            Refusal::Http(code) => {
                let mut response = Response::new(());
                *response.status_mut() = *code;
                if *code == StatusCode::METHOD_NOT_ALLOWED {
                    let post = HeaderValue::from_static("POST");
                    response.headers_mut().insert(http::header::ALLOW, post);
                }
                let _ = respond.send_response(response, true);
            }
        }
    }
}

fn with_headers(headers: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.headers_mut() = headers;
    response
}

fn write_status(headers: &mut HeaderMap, status: &Status) {
    headers.insert(GRPC_STATUS, HeaderValue::from_static(status.code.digits()));
    // Percent-encoding leaves visible ASCII and spaces only, which any header value may hold.
    if let Ok(text) = HeaderValue::from_maybe_shared(Bytes::from(encode_text(&status.message)))
        && !text.is_empty()
    {
        headers.insert(GRPC_MESSAGE, text);
    }
    if status.names_encodings {
        headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
}

/// Whether the client's windows take `length` bytes now; if not, they are asked for.
pub(super) fn has_room(stream: &mut SendStream<Bytes>, length: usize) -> bool {
    stream.reserve_capacity(length);
    stream.capacity() >= length
}

/// Sends bytes piece by piece as the client's windows open. False: the client is gone.
pub(super) async fn send_in_pieces(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> bool {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = match stream.capacity() {
            0 => match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(Ok(room)) => room,
                Some(Err(_)) | None => return false,
            },
            room => room,
        };
        let piece = bytes.split_to(room.min(bytes.len()));
        if stream.send_data(piece, false).is_err() {
            return false;
        }
    }
    true
}

/// Gives a stream up whose client keeps its window shut.
pub(super) fn give_up(stream: &mut SendStream<Bytes>) {
    stream.send_reset(Reason::CANCEL);
}
