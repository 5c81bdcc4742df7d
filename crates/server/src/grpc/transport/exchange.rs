//! One request: at once where its message is here and the answer is known, else in a local task.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use smallvec::SmallVec;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::{give_up, has_room, send_in_pieces};
use super::connection::Accepted;
use super::head::{self, Refusal};
use super::message::{Assembler, Message};
use super::room::Share;
use super::server::Server;
use super::service::{Call, Reply, Service};
use super::several::Calls;
use super::stats::count;
use super::status::{Code, Status};
use crate::together::TOGETHER;

pub(super) type Respond = SendResponse<Bytes>;

/// A request whose head was accepted.
pub(super) struct Pending<M> {
    pub(super) method: M,
    pub(super) deadline: Option<Instant>,
    pub(super) metadata: HeaderMap,
}

/// Why a message never became whole.
enum Broken {
    /// The client reset the stream or left.
    Gone,
    Malformed(Status),
}

/// Reads the rest of a request's body. One that waits for more counts what it holds.
fn poll_message(
    body: &mut RecvStream,
    assembler: &mut Assembler,
    mut share: Option<&mut Share>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Broken>> {
    loop {
        match ready!(body.poll_data(cx)) {
            Some(Ok(chunk)) => {
                // Given back at once, whatever the bytes are: a window that is not given back
                // stops the connection for every other stream.
                let _ = body.flow_control().release_capacity(chunk.len());
                if share.as_mut().is_some_and(|share| !share.grow(chunk.len())) {
                    return Poll::Ready(Err(Broken::Malformed(no_room())));
                }
                if let Err(status) = assembler.push(chunk) {
                    return Poll::Ready(Err(Broken::Malformed(status)));
                }
                if body.is_end_stream() {
                    return Poll::Ready(Ok(()));
                }
            }
            Some(Err(_)) => return Poll::Ready(Err(Broken::Gone)),
            None => return Poll::Ready(Ok(())),
        }
    }
}

fn no_room() -> Status {
    Status::new(Code::ResourceExhausted, "too many unfinished requests at this server")
}

fn length_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

impl<S: Service> Server<S> {
    /// Takes up requests that arrived together. Called by the connection, whose context is `cx`.
    pub(super) fn begin_together(
        self: &Rc<Self>,
        requests: impl Iterator<Item = Accepted>,
        cx: &mut Context<'_>,
    ) {
        let (mut calls, mut responds) = (Calls::new(), SmallVec::<[Respond; TOGETHER]>::new());
        for (request, respond) in requests {
            if let Some((method, call, respond)) = self.begin(request, respond, cx) {
                calls.push((method, call));
                responds.push(respond);
            }
        }
        let count = calls.len();
        let mut waiting = responds.into_iter();
        // After a panic the call that made it is among those that wait: it gets its own.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.service.call_together(&calls, |outcome| {
                if let Some(respond) = waiting.next() {
                    self.answer(respond, outcome);
                }
            });
        }));
        calls.drain(..count - waiting.len());
        if !calls.is_empty() {
            self.call_all(calls, waiting.collect());
        }
    }

    /// Takes a request up; gives it back if it is a call whose message is here.
    fn begin(
        self: &Rc<Self>,
        request: Request<RecvStream>,
        mut respond: Respond,
        cx: &mut Context<'_>,
    ) -> Option<(S::Method, Call, Respond)> {
        let (parts, mut body) = request.into_parts();
        let (pending, has_encoding) = match self.admit(parts) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                self.refuse(&mut respond, &refusal);
                return None;
            }
        };
        if self.service.is_dialogue(pending.method) {
            spawn_local(Rc::clone(self).converse(pending, has_encoding, body, respond));
            return None;
        }
        let mut assembler = Assembler::new(self.settings.max_message, has_encoding);
        match poll_message(&mut body, &mut assembler, None, cx) {
            Poll::Ready(received) => self.received(pending, received.map(|()| assembler), respond),
            Poll::Pending => {
                let mut share = Share::of(&self.room);
                if share.grow(length_of(&pending.metadata) + assembler.received().len()) {
                    let server = Rc::clone(self);
                    spawn_local(server.receive(pending, body, assembler, share, respond));
                } else {
                    self.refuse(&mut respond, &no_room().into());
                }
                None
            }
        }
    }

    fn admit(&self, parts: http::request::Parts) -> Result<(Pending<S::Method>, bool), Refusal> {
        head::check_is_grpc(&parts)?;
        let path = head::path(&parts);
        let Some(method) = self.service.method(path) else {
            return Err(Status::unimplemented(format!("unknown method {path}")).into());
        };
        let head = head::read(&parts.headers)?;
        // A time beyond the clock's range is no limit.
        let deadline = head.timeout.and_then(|time| Instant::now().checked_add(time));
        let metadata = parts.headers;
        Ok((Pending { method, deadline, metadata }, head.has_encoding))
    }

    fn refuse(&self, respond: &mut Respond, refusal: &Refusal) {
        count(&self.stats.refused);
        self.heads.refuse(respond, refusal);
    }

    /// Waits for the rest of a message.
    async fn receive(
        self: Rc<Self>,
        pending: Pending<S::Method>,
        mut body: RecvStream,
        mut assembler: Assembler,
        mut share: Share,
        mut respond: Respond,
    ) {
        let whole = poll_fn(|cx| poll_message(&mut body, &mut assembler, Some(&mut share), cx));
        if let Ok(received) = timeout(self.settings.body_timeout, whole).await {
            let received = received.map(|()| assembler);
            if let Some((method, call, respond)) = self.received(pending, received, respond) {
                self.call(method, call, respond);
            }
        } else {
            let late = Status::new(Code::DeadlineExceeded, "the message did not arrive in time");
            self.refuse(&mut respond, &late.into());
        }
    }

    /// The call of a message that is whole, unless nobody waits for it any more.
    fn received(
        &self,
        pending: Pending<S::Method>,
        received: Result<Assembler, Broken>,
        mut respond: Respond,
    ) -> Option<(S::Method, Call, Respond)> {
        let whole = received.and_then(|whole| whole.finish().map_err(Broken::Malformed));
        let Pending { method, deadline, metadata } = pending;
        let refusal = match whole {
            Ok(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                Status::deadline_exceeded()
            }
            // A look, not a wait: nobody is to be woken.
            Ok(_) if respond.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready() => {
                count(&self.stats.cancelled);
                return None;
            }
            Ok(message) => return Some((method, Call { message, deadline, metadata }, respond)),
            Err(Broken::Malformed(status)) => status,
            Err(Broken::Gone) => {
                count(&self.stats.cancelled);
                return None;
            }
        };
        self.refuse(&mut respond, &refusal.into());
        None
    }

    /// Calls the service.
    pub(super) fn call(self: &Rc<Self>, method: S::Method, call: Call, respond: Respond) {
        let deadline = call.deadline;
        match catch_unwind(AssertUnwindSafe(|| self.service.call(method, call))) {
            Ok(Reply::Ready(outcome)) => self.answer(respond, outcome),
            Ok(Reply::Later(later)) => {
                spawn_local(Rc::clone(self).wait(later, deadline, respond));
            }
            Ok(Reply::Stream(messages)) => {
                spawn_local(Rc::clone(self).stream(messages, respond));
            }
            Err(_) => self.answer(respond, Err(self.panicked())),
        }
    }

    pub(super) fn panicked(&self) -> Status {
        count(&self.stats.panics);
        Status::internal("a bug in the server; its log holds the place")
    }

    pub(super) fn answer(self: &Rc<Self>, mut respond: Respond, outcome: Result<Message, Status>) {
        let message = match outcome {
            Ok(message) => message.into_bytes(),
            Err(status) => return self.heads.fail(&mut respond, &status),
        };
        let Ok(mut stream) = self.heads.open(&mut respond) else { return };
        if has_room(&mut stream, message.len()) {
            let _ = stream.send_data(message, false);
            let _ = stream.send_trailers(self.heads.trailers(Ok(())));
        } else {
            let server = Rc::clone(self);
            spawn_local(async move {
                if server.send(&mut stream, message).await {
                    let _ = stream.send_trailers(server.heads.trailers(Ok(())));
                }
            });
        }
    }

    /// Sends one message. False: the client is gone, or kept its window shut for too long.
    pub(super) async fn send(&self, stream: &mut SendStream<Bytes>, message: Bytes) -> bool {
        let sent = timeout(self.settings.send_timeout, send_in_pieces(stream, message)).await;
        sent.unwrap_or_else(|_| {
            give_up(stream);
            false
        })
    }

    /// Waits for an answer until it comes, the client takes the request back, or time is over.
    async fn wait(
        self: Rc<Self>,
        later: S::Later,
        deadline: Option<Instant>,
        mut respond: Respond,
    ) {
        let outcome = {
            let mut later = pin!(later);
            let answer = poll_fn(|cx| {
                if respond.poll_reset(cx).is_ready() {
                    return Poll::Ready(None);
                }
                match catch_unwind(AssertUnwindSafe(|| later.as_mut().poll(cx))) {
                    Ok(outcome) => outcome.map(Some),
                    Err(_) => Poll::Ready(Some(Err(self.panicked()))),
                }
            });
            match deadline {
                None => answer.await,
                Some(deadline) => timeout_at(deadline, answer)
                    .await
                    .unwrap_or_else(|_| Some(Err(Status::deadline_exceeded()))),
            }
        };
        match outcome {
            Some(outcome) => self.answer(respond, outcome),
            None => count(&self.stats.cancelled),
        }
    }

    /// Forwards messages until their channel closes or the server drains.
    async fn stream(
        self: Rc<Self>,
        mut messages: mpsc::Receiver<Result<Message, Status>>,
        mut respond: Respond,
    ) {
        let Ok(mut stream) = self.heads.open(&mut respond) else { return };
        let mut drained = pin!(self.drain.clone().started());
        let outcome = loop {
            let next = tokio::select! {
                biased;
                next = messages.recv() => next,
                _ = poll_fn(|cx| stream.poll_reset(cx)) => return count(&self.stats.cancelled),
                () = &mut drained => Some(Err(Status::unavailable("the server is stopping"))),
            };
            match next {
                None => break Ok(()),
                Some(Err(status)) => break Err(status),
                Some(Ok(message)) => {
                    if !self.send(&mut stream, message.into_bytes()).await {
                        return;
                    }
                }
            }
        };
        let _ = stream.send_trailers(self.heads.trailers(outcome));
    }
}
