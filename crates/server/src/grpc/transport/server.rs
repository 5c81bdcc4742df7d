//! One worker's gRPC server: a service, its limits and its totals.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Heads;
use super::connection::{self, Accepted};
use super::room::Room;
use super::service::Service;
use super::settings::Settings;
use super::stats::Stats;
use crate::drain::Drain;

/// Serves connections on one thread, inside a runtime that has `spawn_local`.
#[derive(Debug)]
pub struct Server<S> {
    pub(super) service: S,
    pub(super) settings: Settings,
    pub(super) stats: Arc<Stats>,
    pub(super) drain: Drain,
    pub(super) heads: Heads,
    pub(super) room: Rc<Room>,
    /// Room for a batch, lent to the connection that is being polled.
    pub(super) batch: RefCell<Vec<Accepted>>,
}

impl<S: Service> Server<S> {
    /// A server for this thread.
    pub fn new(service: S, settings: Settings, stats: Arc<Stats>, drain: Drain) -> Rc<Self> {
        let (heads, batch) = (Heads::new(), RefCell::default());
        let room = Room::new(settings.max_buffered);
        Rc::new(Self { service, settings, stats, drain, heads, room, batch })
    }

    /// Serves one connection until the peer leaves, breaks a limit, or the drain is over.
    pub async fn serve<I>(self: Rc<Self>, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        connection::serve(self, io).await;
    }
}
