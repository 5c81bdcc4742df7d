//! A connection's bytes, whatever they come through: TCP, a socket file, TLS.

use std::io;
use std::net::{IpAddr, TcpStream as StdTcpStream};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// An accepted socket on its way to a worker's runtime.
#[derive(Debug)]
#[non_exhaustive]
pub enum Accepted {
    /// From the network.
    Tcp(StdTcpStream),
    /// From this machine.
    Unix(StdUnixStream),
}

/// Room for the first bytes, which tell the protocol: as long as HTTP/2's preface.
pub(super) const FIRST: usize = 24;

/// A connection. What was read to learn its protocol is read again.
#[derive(Debug)]
pub struct Socket {
    stream: Stream,
    first: [u8; FIRST],
    given: u8,
    read: u8,
}

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Gives an accepted socket to the runtime of this thread.
    pub fn new(accepted: Accepted) -> io::Result<Self> {
        let stream = match accepted {
            Accepted::Tcp(socket) => Stream::Tcp(TcpStream::from_std(socket)?),
            Accepted::Unix(socket) => Stream::Unix(UnixStream::from_std(socket)?),
        };
        Ok(Self::of(stream))
    }

    pub(super) const fn of(stream: Stream) -> Self {
        Self { stream, first: [0; FIRST], given: 0, read: 0 }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Keeps the first bytes, which the next reads give.
    pub(super) fn put_back(&mut self, first: [u8; FIRST], length: usize) {
        (self.first, self.given, self.read) = (first, 0, length as u8);
    }

    /// The peer's address; none on this machine's own sockets.
    pub fn peer(&self) -> Option<IpAddr> {
        let socket = match &self.stream {
            Stream::Tcp(socket) => socket,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Unix(_) => return None,
        };
        socket.peer_addr().ok().map(|peer| peer.ip())
    }
}

/// Does the same with each kind of stream.
macro_rules! with {
    ($self:ident, $stream:ident => $body:expr) => {
        match &mut $self.stream {
            Stream::Tcp(socket) => {
                let $stream = Pin::new(socket);
                $body
            }
            Stream::Unix(socket) => {
                let $stream = Pin::new(socket);
                $body
            }
            Stream::Tls(socket) => {
                let $stream = Pin::new(&mut **socket);
                $body
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.given < self.read {
            let kept = &self.first[self.given as usize..self.read as usize];
            let length = kept.len().min(buffer.remaining());
            buffer.put_slice(&kept[..length]);
            self.given += length as u8;
            return Poll::Ready(Ok(()));
        }
        with!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        with!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        // All three are.
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => stream.poll_shutdown(cx))
    }
}
