//! How long a peer may be silent: long between two requests, not within the head of one.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// For a request's head, from its first byte; and for the first byte of a connection.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For the silence between two requests.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A small answer's head and body leave as one piece: to copy them costs less than the system
/// call that takes several.
const MOST_JOINED: usize = 1024;

/// Where a connection stands: set by whoever answers its requests, and by the first byte of a
/// head. While a request is answered nothing is waited for: its body has a time of its own.
#[derive(Clone, Debug)]
pub struct Phase(Rc<Cell<WaitsFor>>);

/// Deadlines are set where something is waited for indeed: reading the clock for each request
/// that came whole would be in vain.
#[derive(Clone, Copy, Debug)]
enum WaitsFor {
    Head(Option<Instant>),
    Byte(Option<Instant>),
    Nothing,
}

impl Phase {
    /// A new connection, whose first head is due.
    pub fn new() -> Self {
        Self(Rc::new(Cell::new(WaitsFor::Head(Some(Instant::now() + HEAD_TIMEOUT)))))
    }

    /// A request is there.
    pub fn answers(&self) {
        self.0.set(WaitsFor::Nothing);
    }

    /// It is answered; the next may come.
    pub fn is_idle(&self) {
        self.0.set(WaitsFor::Byte(None));
    }

    fn sees_bytes(&self) {
        if matches!(self.0.get(), WaitsFor::Byte(_)) {
            self.0.set(WaitsFor::Head(None));
        }
    }

    /// When the wait that begins or goes on now is over.
    fn deadline(&self) -> Option<Instant> {
        match self.0.get() {
            WaitsFor::Head(Some(deadline)) | WaitsFor::Byte(Some(deadline)) => Some(deadline),
            WaitsFor::Head(None) => {
                let deadline = Instant::now() + HEAD_TIMEOUT;
                self.0.set(WaitsFor::Head(Some(deadline)));
                Some(deadline)
            }
            WaitsFor::Byte(None) => {
                let deadline = Instant::now() + IDLE_TIMEOUT;
                self.0.set(WaitsFor::Byte(Some(deadline)));
                Some(deadline)
            }
            WaitsFor::Nothing => None,
        }
    }
}

/// A socket whose reads fail once its peer was silent for too long.
#[derive(Debug)]
pub struct Watched<S> {
    socket: S,
    phase: Phase,
    // One timer for the connection's life: it is set anew only where it would ring too late, or
    // where it rang too early, so that a busy connection does not touch it.
    timer: Pin<Box<Sleep>>,
}

impl<S> Watched<S> {
    /// Watches a socket.
    pub fn new(socket: S, phase: Phase) -> Self {
        let first = phase.deadline().unwrap_or_else(Instant::now);
        Self { socket, phase, timer: Box::pin(sleep_until(first)) }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.phase.deadline() else { return false };
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return true;
            }
            self.timer.as_mut().reset(deadline);
        }
        false
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.phase.sees_bytes();
        }
        if read.is_pending() && self.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length > MOST_JOINED {
            return Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        }
        let mut joined: SmallVec<[u8; MOST_JOINED]> = SmallVec::new();
        for slice in slices {
            joined.extend_from_slice(slice);
        }
        Pin::new(&mut self.socket).poll_write(cx, &joined)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{advance, pause};

    /// Reads until an answer; how many seconds that took, and whether it was an end by time.
    async fn silence(watched: &mut Watched<tokio::io::DuplexStream>) -> (u64, bool) {
        let began = Instant::now();
        let read = watched.read_u8().await;
        let is_over = read.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        (began.elapsed().as_secs(), is_over)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn silence_is_long_between_requests_and_short_within_a_head() {
        pause();
        let (mut peer, socket) = duplex(64);
        let phase = Phase::new();
        let mut watched = Watched::new(socket, phase.clone());
        peer.write_u8(b'G').await.unwrap();
        assert_eq!(silence(&mut watched).await, (0, false));
        advance(Duration::from_secs(4)).await;
        assert_eq!(silence(&mut watched).await, (1, true), "of the head");
        phase.answers();
        phase.is_idle();
        assert_eq!(silence(&mut watched).await, (60, true));
        phase.is_idle();
        advance(Duration::from_secs(50)).await;
        peer.write_u8(b'G').await.unwrap();
        assert_eq!(silence(&mut watched).await, (0, false));
        assert_eq!(silence(&mut watched).await, (5, true));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nothing_is_waited_for_while_a_request_is_answered() {
        pause();
        let (mut peer, socket) = duplex(64);
        let phase = Phase::new();
        let mut watched = Watched::new(socket, phase.clone());
        phase.answers();
        let read = tokio::time::timeout(Duration::from_secs(600), watched.read_u8()).await;
        assert!(read.is_err(), "it still waits");
        peer.write_u8(b'x').await.unwrap();
        assert_eq!(silence(&mut watched).await, (0, false));
    }
}
