//! What a gRPC service is to the transport: methods by path, calls by message.

use std::rc::Rc;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::message::Message;
use super::several::{Calls, Group};
use super::status::Status;

/// A set of methods that take one message each. One instance lives on each worker thread.
pub trait Service: 'static {
    /// A method, as found by its path.
    type Method: Copy + 'static;

    /// An answer that is not there yet. Dropped when the client takes the request back.
    type Later: Future<Output = Result<Message, Status>> + 'static;

    /// Answers that are not there yet, of several requests: says them to the [`Group`].
    type Several: Future<Output = ()> + Unpin + 'static;

    /// The method of a path (`/package.Service/Method`, compared whole); none: UNIMPLEMENTED.
    fn method(&self, path: &str) -> Option<Self::Method>;

    /// Takes the one message of a request. Not called for a request that was cancelled or whose
    /// time is over. Must not block; a panic becomes INTERNAL and a count.
    fn call(&self, method: Self::Method, call: Call) -> Reply<Self::Later>;

    /// Answers the first of some calls that arrived together, in their order and as
    /// [`Service::call`] would; those that it leaves are called one by one. A service that gains
    /// nothing from seeing several leaves them all.
    #[inline]
    fn call_together(
        &self,
        _calls: &[(Self::Method, Call)],
        _answer: impl FnMut(Result<Message, Status>),
    ) {
    }

    /// Takes calls that arrived together and must wait, to be answered through the group; gives
    /// them back where they had better be called one by one. Polled once at once, with a waker
    /// that does nothing: what is answered then needs no task.
    ///
    /// # Errors
    /// The calls, untouched.
    #[inline]
    fn call_several(
        &self,
        calls: Calls<Self::Method>,
        _group: &Rc<Group>,
    ) -> Result<Self::Several, Calls<Self::Method>> {
        Err(calls)
    }

    /// True for a method whose stream carries questions until the client ends it, each answered
    /// before the next is read by [`Service::answer_each`] instead of [`Service::call`].
    #[inline]
    fn is_dialogue(&self, _method: Self::Method) -> bool {
        false
    }

    /// Answers one question of a dialogue at once. An error ends the stream.
    ///
    /// # Errors
    /// How the stream ends.
    fn answer_each(
        &self,
        _method: Self::Method,
        _question: &[u8],
        _metadata: &HeaderMap,
    ) -> Result<Message, Status> {
        Err(Status::unimplemented("this method takes one message"))
    }
}

/// A request whose message has arrived in full.
#[derive(Debug)]
pub struct Call {
    /// The message without its prefix, a slice of the receive buffer.
    pub message: Bytes,
    /// When the caller stops waiting (`grpc-timeout`).
    pub deadline: Option<Instant>,
    /// The request's headers.
    pub metadata: HeaderMap,
}

/// The way an answer comes.
#[derive(Debug)]
pub enum Reply<Later> {
    /// Now: nothing is spawned, nothing boxed.
    Ready(Result<Message, Status>),
    /// After waiting: polled in a task of its own on this thread, dropped on cancellation and at
    /// the deadline (which is then answered with `DEADLINE_EXCEEDED`).
    Later(Later),
    /// Many messages: each is sent as it comes; a closed channel ends the stream with OK, an
    /// error with its status, a drain with UNAVAILABLE after what is already in the channel.
    Stream(mpsc::Receiver<Result<Message, Status>>),
}
