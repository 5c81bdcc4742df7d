//! One connection: takes what the peer sent in batches, answers each batch, then writes once.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::io::{Activity, Watched};
use super::lifecycle::{Due, Lifecycle};
use super::server::Server;
use super::service::Service;
use super::stats::{Stats, count};
use crate::drain::Place;
use crate::together::TOGETHER;

/// Requests taken before the first of them is answered. Each turn of the library's `accept`
/// flushes, so answering one by one would cost a system call each; the answers of this many fit
/// its write buffer of 16 KiB.
const BATCH: usize = 128;

pub(super) type Accepted = (Request<RecvStream>, SendResponse<Bytes>);

/// Serves a connection to its end.
pub(super) fn serve<S, I>(server: Rc<Server<S>>, io: I) -> impl Future<Output = ()>
where
    S: Service,
    I: AsyncRead + AsyncWrite + Unpin,
{
    let activity = Rc::new(Activity::new(Instant::now()));
    // Boxed, so that its state is gone while the connection lives.
    let shaken = Box::pin(shake(Rc::clone(&server), Watched::new(io, Rc::clone(&activity))));
    async move {
        let Some(mut connection) = shaken.await else { return };
        count(&server.stats.opened);
        let mut open = Open {
            lifecycle: Lifecycle::new(&server.settings, Instant::now()),
            place: None,
            is_draining: false,
            pings: None,
            server,
            activity,
        };
        poll_fn(|cx| open.poll(&mut connection, cx)).await;
        count(&open.server.stats.closed);
    }
}

/// Exchanges prefaces. None: the peer was too slow or wrong, or the server stops.
async fn shake<S, I>(server: Rc<Server<S>>, io: I) -> Option<Connection<I, Bytes>>
where
    S: Service,
    I: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = server.settings.builder().handshake(io);
    let shaken = tokio::select! {
        shaken = timeout(server.settings.handshake_timeout, handshake) => shaken,
        () = server.drain.clone().started() => return None,
    };
    let Ok(Ok(connection)) = shaken else {
        count(&server.stats.failed_handshakes);
        return None;
    };
    Some(connection)
}

/// The state beside the library's connection: small, for many connections are silent.
struct Open<S> {
    server: Rc<Server<S>>,
    activity: Rc<Activity>,
    lifecycle: Lifecycle,
    /// None until the connection is first polled.
    place: Option<Place>,
    is_draining: bool,
    /// None until the first is due.
    pings: Option<PingPong>,
}

impl<S: Service> Open<S> {
    fn poll<I>(&mut self, connection: &mut Connection<I, Bytes>, cx: &mut Context<'_>) -> Poll<()>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let mut batch = self.server.batch.take();
        let is_over = loop {
            let ended = accept(connection, &mut batch, &self.server.stats, cx);
            if batch.is_empty() {
                break ended || self.tend(connection, cx);
            }
            let mut taken = batch.drain(..);
            while taken.len() > 0 {
                let few = taken.by_ref().take(TOGETHER);
                self.server.begin_together(few, cx);
            }
        };
        self.server.batch.replace(batch);
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Looks at the drain signal and the clock. True: the connection must go.
    fn tend<I>(&mut self, connection: &mut Connection<I, Bytes>, cx: &mut Context<'_>) -> bool
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let draining = &self.server.draining;
        let place = self.place.get_or_insert_with(|| draining.enter(cx.waker().clone()));
        if draining.is_started() && !self.is_draining {
            self.is_draining = true;
            self.lifecycle.drain(Instant::now(), &self.server.settings);
            place.make_due();
            leave(connection, cx);
        }
        while place.is_due() {
            let blocked_since = self.activity.blocked_since.get();
            let last_read = self.activity.last_read.get();
            let settings = &self.server.settings;
            let (due, next) =
                self.lifecycle.step(settings, Instant::now(), last_read, blocked_since);
            match due {
                Due::Nothing => {}
                Due::Ping => ping(&mut self.pings, connection, cx),
                Due::Leave => leave(connection, cx),
                Due::Unresponsive => {
                    count(&self.server.stats.unresponsive);
                    return true;
                }
                Due::Expired => return true,
            }
            place.wake_at(next);
        }
        false
    }
}

fn ping<I>(
    pings: &mut Option<PingPong>,
    connection: &mut Connection<I, Bytes>,
    cx: &mut Context<'_>,
) where
    I: AsyncRead + AsyncWrite + Unpin,
{
    if pings.is_none() {
        *pings = connection.ping_pong();
        // The library looks for PINGs from its next turn on.
        cx.waker().wake_by_ref();
    }
    if let Some(pings) = pings {
        // An earlier PING's answer must be taken before the next one may be sent.
        let _ = pings.poll_pong(cx);
        let _ = pings.send_ping(Ping::opaque());
    }
}

/// Fills the batch with what has arrived. True: the connection is over.
fn accept<I>(
    connection: &mut Connection<I, Bytes>,
    batch: &mut Vec<Accepted>,
    stats: &Stats,
    cx: &mut Context<'_>,
) -> bool
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    while batch.len() < BATCH {
        match connection.poll_accept(cx) {
            Poll::Ready(Some(Ok(accepted))) => batch.push(accepted),
            Poll::Ready(Some(Err(error))) => {
                if error.is_library() {
                    count(&stats.malformed);
                }
                return true;
            }
            Poll::Ready(None) => return true,
            Poll::Pending => return false,
        }
    }
    false
}

fn leave<I>(connection: &mut Connection<I, Bytes>, cx: &Context<'_>)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    connection.graceful_shutdown();
    // The GOAWAY is written by the next turn of the connection.
    cx.waker().wake_by_ref();
}
