//! The first seconds of a connection: TLS where it is asked for, then the bytes that tell HTTP/2
//! from HTTP/1.1. All of it within one deadline, and under the cap on connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::socket::{FIRST, Socket, Stream};
use crate::drain::Drain;
use crate::tls::Certificates;

/// What an HTTP/2 client begins with (RFC 9113, section 3.4).
const PREFACE: &[u8; FIRST] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/2: the gRPC services.
    Http2,
    /// Anything else is read as HTTP/1.1, whose parser knows how to complain.
    Http1,
}

/// Connections that were turned away or cut. Totals that order nothing else: `Relaxed`.
#[derive(Debug, Default)]
pub struct OpeningStats {
    /// Their TLS handshake failed or took too long.
    pub failed_tls: AtomicU64,
    /// They sent nothing, or half a preface, in time.
    pub silent: AtomicU64,
    /// They came above the cap on connections.
    pub full: AtomicU64,
    /// They came while their peer had its share of the places.
    pub crowded: AtomicU64,
    /// They sent what is no HTTP/1.1.
    pub malformed: AtomicU64,
    /// They read nothing of an answer over HTTP/1.1.
    pub unread: AtomicU64,
}

/// How connections are opened, the same at every door.
#[derive(Clone, Debug)]
pub struct Opening {
    tls: Option<Arc<Certificates>>,
    limit: Duration,
    drain: Drain,
    stats: Arc<OpeningStats>,
}

impl Opening {
    /// With these certificates, if connections from the network are to be encrypted.
    pub const fn new(
        tls: Option<Arc<Certificates>>,
        limit: Duration,
        drain: Drain,
        stats: Arc<OpeningStats>,
    ) -> Self {
        Self { tls, limit, drain, stats }
    }

    /// Opens a connection; none: it failed, was too slow, or the server stops.
    pub async fn open(&self, socket: Socket) -> Option<(Socket, Protocol)> {
        tokio::select! {
            opened = self.steps(socket) => opened,
            () = self.drain.clone().started() => None,
        }
    }

    async fn steps(&self, socket: Socket) -> Option<(Socket, Protocol)> {
        let deadline = Instant::now() + self.limit;
        let mut socket = match (&self.tls, socket.into_stream()) {
            (Some(tls), Stream::Tcp(stream)) => {
                // Boxed: its state is large, and gone before the connection serves.
                let handshake = Box::pin(TlsAcceptor::from(tls.config()).accept(stream));
                let Ok(Ok(stream)) = timeout_at(deadline, handshake).await else {
                    self.stats.failed_tls.fetch_add(1, Ordering::Relaxed);
                    return None;
                };
                Socket::of(Stream::Tls(Box::new(stream)))
            }
            (_, stream) => Socket::of(stream),
        };
        let Ok(protocol) = timeout_at(deadline, protocol_of(&mut socket)).await else {
            self.stats.silent.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        protocol.map(|protocol| (socket, protocol))
    }
}

/// Reads until it is clear what the peer speaks. None: it left.
async fn protocol_of(socket: &mut Socket) -> Option<Protocol> {
    let (mut first, mut length) = ([0; FIRST], 0);
    let protocol = loop {
        match socket.read(&mut first[length..]).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => length += read,
        }
        if first[..length] != PREFACE[..length] {
            break Protocol::Http1;
        }
        if length == FIRST {
            break Protocol::Http2;
        }
    };
    socket.put_back(first, length);
    Some(protocol)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncWriteExt;

    use super::super::socket::Accepted;
    use super::*;
    use crate::drain::drain;

    fn pair() -> (tokio::net::UnixStream, Socket) {
        let (peer, socket) = UnixStream::pair().unwrap();
        peer.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let peer = tokio::net::UnixStream::from_std(peer).unwrap();
        (peer, Socket::new(Accepted::Unix(socket)).unwrap())
    }

    fn opening(drain: Drain) -> Opening {
        Opening::new(None, Duration::from_secs(5), drain, Arc::default())
    }

    async fn opened(sent: &[&[u8]]) -> Option<(Protocol, Vec<u8>)> {
        let (_stop, drain) = drain();
        let (mut peer, socket) = pair();
        let opening = opening(drain);
        let write = async {
            for part in sent {
                peer.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            peer.shutdown().await.unwrap();
        };
        let ((), opened) = tokio::join!(write, opening.open(socket));
        let (mut socket, protocol) = opened?;
        let mut all = Vec::new();
        socket.read_to_end(&mut all).await.unwrap();
        Some((protocol, all))
    }

    #[tokio::test]
    async fn preface_means_http2_and_all_bytes_are_read_again() {
        let sent = [&PREFACE[..], b"more"].concat();
        assert_eq!(opened(&[&sent]).await, Some((Protocol::Http2, sent.clone())));
        let pieces: Vec<&[u8]> = sent.chunks(1).collect();
        assert_eq!(opened(&pieces).await, Some((Protocol::Http2, sent.clone())));
    }

    #[tokio::test]
    async fn other_bytes_mean_http1_and_are_read_again() {
        for sent in
            [&b"G"[..], b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"PROPFIND /"]
        {
            assert_eq!(opened(&[sent]).await, Some((Protocol::Http1, sent.to_vec())));
        }
    }

    #[tokio::test]
    async fn peer_that_leaves_is_forgotten() {
        assert_eq!(opened(&[]).await, None);
        assert_eq!(opened(&[b"PRI * HT"]).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_preface_is_given_five_seconds() {
        let (_stop, drain) = drain();
        let (mut peer, socket) = pair();
        let opening = opening(drain);
        peer.write_all(&PREFACE[..20]).await.unwrap();
        let start = Instant::now();
        assert!(opening.open(socket).await.is_none());
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(opening.stats.silent.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn drain_ends_the_waiting() {
        let (stop, drain) = drain();
        let (_peer, socket) = pair();
        stop.start();
        assert!(opening(drain).open(socket).await.is_none());
    }
}
