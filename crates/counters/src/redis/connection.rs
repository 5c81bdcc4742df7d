//! A stream to the server, over TCP, TLS or a Unix socket, and the greeting on it.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::handshake::{self, Handshake};
use super::options::{Address, RedisOptions};
use super::resp::{self, Reply};
use super::sentinel::{Question, Sentinels, Tour};
use super::tls::{TlsOptions, TlsStream};

/// A peer that is gone without a word is noticed within half a minute of silence, before a
/// request meets the dead connection.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));

/// Read at once while an answer is awaited outside any batch.
const PIECE: usize = 64 * 1024;

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
    Tls(TlsStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects, the name resolved and certificates read anew, and greets. On failure says why.
    pub(super) async fn open(
        options: &RedisOptions,
        address: &Address,
    ) -> Result<(Self, Vec<String>), Arc<str>> {
        let span = options.connect_timeout;
        let Address::Sentinels(sentinels) = address else {
            let greeted = Self::greeted(address, options, span).await;
            return greeted.map_err(Arc::from);
        };
        let mut tour = Tour::new(sentinels, span);
        while let Some((node, span)) = tour.next() {
            let opened = match Self::master(node, sentinels, options, span).await {
                Ok(master) => match tour.visit(&master) {
                    Some(span) => Self::greeted(&master, options, span).await,
                    None => continue,
                },
                Err(why) => Err(why),
            };
            match opened {
                Ok(opened) => {
                    tour.found();
                    return Ok(opened);
                }
                Err(why) => tour.failed(why),
            }
        }
        Err(tour.why().into())
    }

    async fn greeted(
        address: &Address,
        options: &RedisOptions,
        span: Duration,
    ) -> Result<(Self, Vec<String>), String> {
        let mut handshake = Handshake::new(options);
        let request = std::mem::take(&mut handshake.request);
        let take = |reply: &Reply<'_>| Ok(handshake.accept(reply)?.then_some(()));
        let (stream, ()) = Self::asked(address, options, span, &request, take).await?;
        Ok((stream, handshake.warnings))
    }

    async fn master(
        node: &Address,
        sentinels: &Sentinels,
        options: &RedisOptions,
        span: Duration,
    ) -> Result<Address, String> {
        let mut question = Question::new(sentinels);
        let request = std::mem::take(&mut question.request);
        let take = |reply: &Reply<'_>| question.accept(reply);
        Ok(Self::asked(node, options, span, &request, take).await?.1)
    }

    /// Connects and asks, all within the span.
    async fn asked<T>(
        address: &Address,
        options: &RedisOptions,
        span: Duration,
        request: &[u8],
        take: impl FnMut(&Reply<'_>) -> Result<Option<T>, String>,
    ) -> Result<(Self, T), String> {
        let awaited = Cell::new(("connection", ""));
        let attempt = async {
            let mut stream = Self::connect(address, options.tls.as_ref(), &awaited).await?;
            awaited.set(("greeting", ""));
            let taken = stream.ask(request, take).await?;
            Ok::<_, String>((stream, taken))
        };
        match tokio::time::timeout(span, attempt).await {
            Ok(Ok(asked)) => Ok(asked),
            Ok(Err(why)) => Err(format!("{address}: {why}")),
            Err(_) => {
                let (what, hint) = awaited.get();
                Err(format!("{address}: no {what} within {span:.1?}{hint}"))
            }
        }
    }

    async fn connect(
        address: &Address,
        tls: Option<&TlsOptions>,
        awaited: &Cell<(&'static str, &'static str)>,
    ) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let (host, port) = match address {
            Address::Tcp(host, port) => (host.as_str(), *port),
            Address::Unix(path) => {
                return Ok(Self::Unix(UnixStream::connect(path).await.map_err(said)?));
            }
            Address::Cluster(_) | Address::Sentinels(_) => {
                return Err("this names others, and is no server".to_owned());
            }
        };
        let Some(tls) = tls else { return Ok(Self::Tcp(tcp(host, port).await?)) };
        let config = tls.clone();
        // Files may lie on a disk that is slow; the worker serves others meanwhile.
        let config = tokio::task::spawn_blocking(move || config.config());
        let config = config.await.map_err(|error| error.to_string())??;
        let socket = tcp(host, port).await?;
        awaited.set(TlsOptions::AWAITED);
        let stream = TlsStream::open(socket, config, host).await;
        Ok(Self::Tls(stream.inspect_err(|_| tls.forget())?))
    }

    /// Says something and reads answers until `take` has what it wants, outside any batch.
    pub(super) async fn ask<T>(
        &mut self,
        request: &[u8],
        mut take: impl FnMut(&Reply<'_>) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        let written = self.write_all(request).await;
        let mut input = Vec::new();
        let mut has_answered = false;
        loop {
            let mut used = 0;
            while let Some((reply, length)) =
                resp::parse(&input[used..]).map_err(|_| handshake::not_resp(&input[used..]))?
            {
                used += length;
                has_answered = true;
                if let Some(taken) = take(&reply)? {
                    return Ok(taken);
                }
            }
            input.drain(..used);
            // Where the server has closed, what it said before that says why.
            let read = self.read_some(&mut input).await;
            let is_over = read.as_ref().map_or_else(handshake::is_closed, |count| *count == 0);
            match (read, &written) {
                (_, Ok(())) if is_over => {
                    return Err(handshake::closed(has_answered, self.is_tls(), &input));
                }
                (_, Err(error)) if is_over => return Err(error.to_string()),
                (Err(error), _) => return Err(error.to_string()),
                (Ok(_), _) => {}
            }
        }
    }

    const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        poll_fn(|cx| {
            while !bytes.is_empty() || self.wants_write() {
                ready!(self.poll_write_ready(cx))?;
                match self.try_write(bytes) {
                    Ok(count) => bytes = &bytes[count..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    async fn read_some(&mut self, input: &mut Vec<u8>) -> io::Result<usize> {
        let start = input.len();
        // The map of a Cluster may be long, and is looked through anew with each piece.
        input.resize(start + PIECE, 0);
        let mut buffer = ReadBuf::new(&mut input[start..]);
        let read = poll_fn(|cx| self.poll_read(cx, &mut buffer)).await;
        let count = buffer.filled().len();
        input.truncate(start + count);
        read.map(|()| count)
    }

    /// Writes what the socket takes now, or over TLS what the session takes: what that keeps back
    /// leaves with further writes, empty ones too.
    #[inline]
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Tls(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// True while something that was taken waits for the socket.
    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.wants_write())
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Tls(stream) => stream.poll_write_ready(cx),
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
            Self::Tls(stream) => stream.poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, String> {
    let connected = async {
        let stream = TcpStream::connect((host, port)).await?;
        tune(&stream)?;
        Ok::<_, io::Error>(stream)
    };
    connected.await.map_err(|error| error.to_string())
}
