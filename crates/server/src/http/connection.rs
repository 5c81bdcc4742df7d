//! One HTTP/1.1 connection: its limits, its requests one after another, its end at the drain.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

use super::answer::{Answered, error};
use super::idle::{Phase, Watched};
use super::router;
use crate::drain::LocalDrain;
use crate::forward_auth::ForwardAuth;
use crate::grpc::rls::RateLimitDoor;
use crate::grpc::transport;
use crate::listen::{OpeningStats, Socket};
use crate::metrics::Timed;
use crate::pipeline::WorkerNode;
use crate::tls::Certificates;

const MAX_HEAD: usize = 64 << 10;

/// What the HTTP door serves with on one worker's thread.
#[derive(Debug)]
pub struct HttpDoor {
    /// Who decides.
    pub node: Rc<WorkerNode>,
    /// What both doors answer by: headers, the admin token.
    pub rate_limit: Arc<RateLimitDoor>,
    /// The doors for proxies.
    pub forward_auth: Arc<ForwardAuth>,
    /// Totals of this door, over all workers.
    pub stats: Arc<HttpStats>,
    /// Totals of the gRPC door, for the metrics page.
    pub grpc_stats: Arc<transport::Stats>,
    /// Connections that came to nothing, for the metrics page.
    pub opening_stats: Arc<OpeningStats>,
    /// The certificates, for the metrics page; none: no TLS.
    pub certificates: Option<Arc<Certificates>>,
    /// The end of service, as this thread sees it.
    pub draining: Rc<LocalDrain>,
}

/// Running totals over all workers; they order nothing else: `Relaxed`.
#[derive(Debug, Default)]
pub struct HttpStats {
    /// Connections taken.
    pub opened: AtomicU64,
    /// Connections ended.
    pub closed: AtomicU64,
    /// Requests whose handling panicked: each is a bug of ours.
    pub panics: AtomicU64,
}

/// Counts a connection for as long as it lives.
struct Open(Arc<HttpStats>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl HttpDoor {
    /// Serves one connection until the peer leaves, is too slow, or the drain asks it to. To be
    /// polled by one task.
    pub async fn serve(self: Rc<Self>, socket: Socket) {
        self.stats.opened.fetch_add(1, Ordering::Relaxed);
        let _open = Open(Arc::clone(&self.stats));
        let peer = socket.peer();
        let (door, phase) = (Rc::clone(&self), Phase::new());
        let (socket, seen) = (Watched::new(socket, phase.clone()), phase.clone());
        let service = service_fn(move |request| {
            let (door, phase) = (Rc::clone(&door), phase.clone());
            async move {
                phase.answers();
                let answer = door.answer(peer, request).await;
                phase.is_idle();
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            // The socket watches its own times: hyper knows one for heads and silence alike.
            .header_read_timeout(None)
            .max_header_size(MAX_HEAD)
            .serve_connection(TokioIo::new(socket), service);
        let mut connection = pin!(connection);
        let (mut place, mut is_draining) = (None, false);
        let ended = poll_fn(|cx| {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            place.get_or_insert_with(|| self.draining.enter(cx.waker().clone()));
            if is_draining || !self.draining.is_started() {
                return Poll::Pending;
            }
            is_draining = true;
            connection.as_mut().graceful_shutdown();
            connection.as_mut().poll(cx)
        })
        .await;
        // How a connection ended concerns its peer alone; how many ended so, everybody.
        if seen.is_unread() {
            self.opening_stats.unread.fetch_add(1, Ordering::Relaxed);
        } else if ended.is_err_and(|error| error.is_parse()) {
            self.opening_stats.malformed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A panic costs one request, not the connection.
    async fn answer(&self, peer: Option<IpAddr>, request: Request<Incoming>) -> Answered {
        let metrics = self.node.node().metrics();
        let watch = metrics.watch(Timed::Http);
        let mut answer = pin!(router::route(self, peer, request));
        let answered = poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)));
            polled.unwrap_or_else(|_| {
                self.stats.panics.fetch_add(1, Ordering::Relaxed);
                let detail = "a bug in the server; its log holds the place";
                Poll::Ready(error(StatusCode::INTERNAL_SERVER_ERROR, detail))
            })
        })
        .await;
        metrics.took(Timed::Http, watch);
        answered
    }
}
