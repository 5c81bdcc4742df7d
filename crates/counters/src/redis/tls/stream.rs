//! A worker's TLS stream: a session on a socket of the event loop.

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::{Need, Session};

#[derive(Debug)]
pub(in crate::redis) struct TlsStream {
    socket: TcpStream,
    session: Session,
    /// A child of a fork must not say goodbye on its parent's socket.
    process: u32,
}

impl TlsStream {
    /// Makes the handshake.
    pub(in crate::redis) async fn open(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        host: &str,
    ) -> Result<Self, String> {
        let mut session = Session::new(config, host)?;
        let said = |error: io::Error| error.to_string();
        while let Some(need) = session.shake(&mut Now(&socket)).map_err(said)? {
            match need {
                Need::Read => socket.readable().await.map_err(said)?,
                Need::Write => socket.writable().await.map_err(said)?,
            }
        }
        Ok(Self { socket, session, process: std::process::id() })
    }

    #[inline]
    pub(in crate::redis) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    pub(in crate::redis) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(cx)
    }

    /// Takes bytes as [`Session::write`] does.
    #[inline]
    pub(in crate::redis) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.write(&mut Now(&self.socket), bytes)
    }

    #[inline]
    pub(in crate::redis) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut socket = Polled { socket: &mut self.socket, cx };
        match self.session.read(&mut socket, buffer.initialize_unfilled()) {
            Ok(count) => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            // The socket was polled dry just now, so it wakes us.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.session.close(&mut Now(&self.socket));
        }
    }
}

/// The socket as it is now, for those who are not woken.
struct Now<'s>(&'s TcpStream);

impl Read for Now<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The socket for a task that is woken when there is more.
struct Polled<'s, 'c> {
    socket: &'s mut TcpStream,
    cx: &'s mut Context<'c>,
}

impl Read for Polled<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut *self.socket).poll_read(self.cx, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(buffer.filled().len()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
