//! A socket that remembers when it last heard of its peer and since when the peer does not read.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Signs of life of a peer.
#[derive(Debug)]
pub(super) struct Activity {
    pub last_read: Cell<Instant>,
    pub blocked_since: Cell<Option<Instant>>,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        Self { last_read: Cell::new(now), blocked_since: Cell::new(None) }
    }

    fn note_write<T>(&self, written: &Poll<T>) {
        if written.is_ready() {
            self.blocked_since.set(None);
        } else if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(Instant::now()));
        }
    }
}

/// The socket under watch.
#[derive(Debug)]
pub(super) struct Watched<I> {
    inner: I,
    activity: Rc<Activity>,
}

impl<I> Watched<I> {
    pub(super) fn new(inner: I, activity: Rc<Activity>) -> Self {
        Self { inner, activity }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.last_read.set(Instant::now());
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.activity.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let written = match bufs {
            // Cheaper for the system, and nearly every turn writes one piece.
            [whole] => inner.poll_write(cx, whole),
            _ => inner.poll_write_vectored(cx, bufs),
        };
        self.activity.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
