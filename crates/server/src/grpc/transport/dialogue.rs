//! A stream of questions, each answered before the next is read, until the client ends it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use tokio::time::{sleep_until, timeout};

use super::exchange::{Pending, Respond};
use super::message::Splitter;
use super::server::Server;
use super::service::Service;
use super::stats::count;
use super::status::{Code, Status};

/// Longest question, in bytes: names and numbers.
const MAX_QUESTION: usize = 16 << 10;

impl<S: Service> Server<S> {
    /// Serves a dialogue to its end. Between two questions it may wait as long as the connection
    /// lives; a question that has begun must arrive in the time that any message has.
    pub(super) async fn converse(
        self: Rc<Self>,
        pending: Pending<S::Method>,
        has_encoding: bool,
        mut body: RecvStream,
        mut respond: Respond,
    ) {
        let Ok(mut stream) = self.heads.open(&mut respond) else { return };
        let outcome = {
            let talk = pin!(self.talk(&pending, has_encoding, &mut body, &mut stream));
            let late = async {
                match pending.deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                outcome = talk => outcome,
                () = late => Some(Err(Status::deadline_exceeded())),
                () = self.drain.clone().started() => {
                    Some(Err(Status::unavailable("the server is stopping")))
                }
            }
        };
        match outcome {
            Some(outcome) => {
                let _ = stream.send_trailers(self.heads.trailers(outcome));
            }
            None => count(&self.stats.cancelled),
        }
    }

    /// How the stream ends; none where the client is gone.
    async fn talk(
        &self,
        pending: &Pending<S::Method>,
        has_encoding: bool,
        body: &mut RecvStream,
        stream: &mut SendStream<Bytes>,
    ) -> Option<Result<(), Status>> {
        let mut splitter = Splitter::new(MAX_QUESTION, has_encoding);
        loop {
            loop {
                let question = match splitter.next() {
                    Ok(Some(question)) => question,
                    Ok(None) => break,
                    Err(status) => return Some(Err(status)),
                };
                let answer = catch_unwind(AssertUnwindSafe(|| {
                    self.service.answer_each(pending.method, &question, &pending.metadata)
                }));
                match answer.unwrap_or_else(|_| Err(self.panicked())) {
                    Ok(message) => {
                        if !self.send(stream, message.into_bytes()).await {
                            return None;
                        }
                    }
                    Err(status) => return Some(Err(status)),
                }
            }
            let more = poll_fn(|cx| body.poll_data(cx));
            let chunk = if splitter.is_empty() {
                more.await
            } else if let Ok(chunk) = timeout(self.settings.body_timeout, more).await {
                chunk
            } else {
                let text = "the message did not arrive in time";
                return Some(Err(Status::new(Code::DeadlineExceeded, text)));
            };
            match chunk {
                Some(Ok(chunk)) => {
                    let _ = body.flow_control().release_capacity(chunk.len());
                    splitter.push(&chunk);
                }
                Some(Err(_)) => return None,
                None if splitter.is_empty() => return Some(Ok(())),
                None => {
                    return Some(Err(Status::internal("the request ends inside its message")));
                }
            }
        }
    }
}
