//! How long a peer may be silent: long between two requests, not within the head of one. And how
//! long it may leave an answer unread: a place that it holds is nobody else's.

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
/// How long a peer may read nothing of what it is sent.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(20);

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
    /// It took nothing of an answer for too long, and is waited for no more.
    Nobody,
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

    /// Whether the connection ended because its peer did not read.
    pub fn is_unread(&self) -> bool {
        matches!(self.0.get(), WaitsFor::Nobody)
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
            WaitsFor::Nothing | WaitsFor::Nobody => None,
        }
    }
}

/// A socket whose reads fail once its peer was silent for too long.
#[derive(Debug)]
pub struct Watched<S> {
    socket: S,
    phase: Phase,
    unread_until: Option<Instant>,
    // One timer for the connection's life: it is set anew only where it would ring too late, or
    // where it rang too early, so that a busy connection does not touch it.
    timer: Pin<Box<Sleep>>,
}

impl<S> Watched<S> {
    /// Watches a socket.
    pub fn new(socket: S, phase: Phase) -> Self {
        let first = phase.deadline().unwrap_or_else(Instant::now);
        Self { socket, phase, unread_until: None, timer: Box::pin(sleep_until(first)) }
    }

    fn is_over(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = deadline else { return false };
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

impl<S: Unpin> Watched<S> {
    /// Looks at how far a write came; an error once the peer took nothing for too long.
    fn written<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.unread_until = None;
            return written;
        }
        let deadline = *self.unread_until.get_or_insert_with(|| Instant::now() + UNREAD_TIMEOUT);
        if self.is_over(Some(deadline), cx) {
            self.phase.0.set(WaitsFor::Nobody);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
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
        if read.is_pending() {
            let deadline = self.phase.deadline().into_iter().chain(self.unread_until).min();
            if self.is_over(deadline, cx) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
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
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.written(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length > MOST_JOINED {
            let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
            return self.written(written, cx);
        }
        let mut joined: SmallVec<[u8; MOST_JOINED]> = SmallVec::new();
        for slice in slices {
            joined.extend_from_slice(slice);
        }
        let written = Pin::new(&mut self.socket).poll_write(cx, &joined);
        self.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.written(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.socket).poll_shutdown(cx);
        self.written(shut, cx)
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
    async fn what_is_not_read_is_written_for_20_seconds_and_no_longer() {
        pause();
        let (mut peer, socket) = duplex(64);
        let phase = Phase::new();
        let mut watched = Watched::new(socket, phase.clone());
        phase.answers();
        let began = Instant::now();
        let seconds = || began.elapsed().as_secs();
        watched.write_all(&[0; 64]).await.unwrap();
        let unread = watched.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((unread.kind(), seconds()), (io::ErrorKind::TimedOut, 20));
        assert!(phase.is_unread());
        peer.read_exact(&mut [0; 64]).await.unwrap();
        watched.write_all(&[0; 64]).await.unwrap();
        phase.is_idle();
        let unread = watched.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(
            (unread.kind(), seconds()),
            (io::ErrorKind::TimedOut, 40),
            "its time began anew"
        );
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
