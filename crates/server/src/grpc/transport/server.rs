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
use crate::drain::{Drain, LocalDrain};

/// Serves connections on one thread, inside a runtime that has `spawn_local`.
#[derive(Debug)]
pub struct Server<S> {
    pub(super) service: S,
    pub(super) settings: Settings,
    pub(super) stats: Arc<Stats>,
    pub(super) drain: Drain,
    /// The same for the connections themselves, which look at it in each turn.
    pub(super) draining: Rc<LocalDrain>,
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
        let draining = LocalDrain::new(drain.clone());
        Rc::new(Self { service, settings, stats, drain, draining, heads, room, batch })
    }

    /// Serves one connection until the peer leaves, breaks a limit, or the drain is over. To be
    /// polled by one task.
    pub fn serve<I>(self: Rc<Self>, io: I) -> impl Future<Output = ()>
    where
        I: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        connection::serve(self, io)
    }
}
