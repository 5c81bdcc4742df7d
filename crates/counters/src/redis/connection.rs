//! A stream to the server, over TCP or a Unix socket, and the greeting on it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::handshake::Handshake;
use super::options::{Address, RedisOptions};
use super::resp::{self, Reply};

/// A peer that is gone without a word is noticed within half a minute of silence, before a
/// request meets the dead connection.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));

/// Sets what every TCP connection to the server has: no delay for small calls, keep-alive.
pub(super) fn tune<'s>(stream: impl Into<SockRef<'s>>) -> io::Result<()> {
    let socket: SockRef<'_> = stream.into();
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&KEEPALIVE)
}

/// A connected stream.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects, the name resolved anew, and greets. On failure says why.
    pub(super) async fn open(
        options: &RedisOptions,
        address: &Address,
    ) -> Result<(Self, Vec<String>), Arc<str>> {
        let attempt = async {
            let mut stream = Self::connect(address).await.map_err(|e| e.to_string())?;
            let warnings = stream.greet(options).await?;
            Ok::<_, String>((stream, warnings))
        };
        match tokio::time::timeout(options.connect_timeout, attempt).await {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(why)) => Err(Arc::from(format!("{address}: {why}"))),
            Err(_) => Err(Arc::from(format!(
                "{address}: no greeting within {:?}",
                options.connect_timeout
            ))),
        }
    }

    async fn connect(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                tune(&stream)?;
                Self::Tcp(stream)
            }
            Address::Unix(path) => Self::Unix(UnixStream::connect(path).await?),
            Address::Cluster(_) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    async fn greet(&mut self, options: &RedisOptions) -> Result<Vec<String>, String> {
        let mut handshake = Handshake::new(options);
        let request = std::mem::take(&mut handshake.request);
        self.ask(&request, |reply| {
            let is_last = handshake.accept(reply).map_err(|error| error.to_string())?;
            Ok(is_last.then_some(()))
        })
        .await?;
        Ok(handshake.warnings)
    }

    /// Says something and reads answers until `take` has what it wants, outside any batch.
    pub(super) async fn ask<T>(
        &mut self,
        request: &[u8],
        mut take: impl FnMut(&Reply<'_>) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        let said = |error: io::Error| error.to_string();
        match self {
            Self::Tcp(stream) => stream.write_all(request).await.map_err(said)?,
            Self::Unix(stream) => stream.write_all(request).await.map_err(said)?,
        }
        let mut input = Vec::new();
        loop {
            let mut used = 0;
            while let Some((reply, length)) =
                resp::parse(&input[used..]).map_err(|_| "this is no Redis server".to_owned())?
            {
                used += length;
                if let Some(taken) = take(&reply)? {
                    return Ok(taken);
                }
            }
            input.drain(..used);
            let count = match self {
                Self::Tcp(stream) => stream.read_buf(&mut input).await.map_err(said)?,
                Self::Unix(stream) => stream.read_buf(&mut input).await.map_err(said)?,
            };
            if count == 0 {
                return Err("closed by the server".to_owned());
            }
        }
    }

    /// Writes what the socket takes now.
    #[inline]
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Reads what is there. A read that does not fill the buffer ends the readiness without a
    /// second system call.
    #[inline]
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}
