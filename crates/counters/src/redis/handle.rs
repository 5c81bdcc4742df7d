//! One worker thread's way to the store.

use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::Plan;

use super::call::{Kind, whole};
use super::cluster::Cluster;
use super::error::StoreError;
use super::line::Line;
use super::options::Address;
use super::spread;
use super::store::Shared;
use super::wire::Wire;
use crate::Outcomes;

/// A worker's connection with the batches that wait for it. Stays on its thread; clones share the
/// connection, and the last one to go closes it.
#[derive(Clone, Debug)]
pub struct RedisHandle {
    owner: Rc<Owner>,
}

/// Where the counters of a plan are.
#[derive(Debug)]
enum Owner {
    /// All on one server.
    Server(Rc<Wire>),
    /// On the masters of a Cluster, by slot.
    Cluster(Rc<Cluster>),
}

impl Drop for Owner {
    fn drop(&mut self) {
        match self {
            Self::Server(wire) => wire.closing.notify_one(),
            Self::Cluster(cluster) => cluster.closing.notify_one(),
        }
    }
}

impl RedisHandle {
    pub(super) fn spawn(shared: Arc<Shared>) -> Self {
        let owner = match shared.options.address {
            Address::Cluster(_) => Owner::Cluster(Cluster::spawn(shared)),
            Address::Tcp(..) | Address::Unix(_) | Address::Sentinels(_) => {
                Owner::Server(Wire::spawn(&shared, None))
            }
        };
        Self { owner: Rc::new(owner) }
    }

    /// Decides a request: its outcomes in the order of [`Plan::asked`].
    ///
    /// What is ready in one turn of the event loop leaves in one call. Fails at once while there
    /// is no connection (the first attempt to make one is waited for), and at the deadline whatever the socket does. Dropped before the call
    /// left, the request is not charged.
    #[inline]
    pub async fn decide(&self, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
        match &*self.owner {
            _ if plan.asked().next().is_none() => Ok(Outcomes::new()),
            Owner::Server(wire) => wire.ask(plan, Kind::Decide, None, None, whole).await,
            Owner::Cluster(cluster) => spread::decide(cluster, plan).await,
        }
    }

    /// Forgets the counters that the plan meets.
    pub async fn reset(&self, plan: &Plan<'_>) -> Result<(), StoreError> {
        match &*self.owner {
            _ if plan.asked().next().is_none() => Ok(()),
            Owner::Server(wire) => {
                wire.ask(plan, Kind::Delete, None, None, whole).await.map(|_| ())
            }
            Owner::Cluster(cluster) => spread::reset(cluster, plan).await,
        }
    }

    /// True if a connection stands; in a Cluster, one to each master.
    pub(super) fn is_up(&self) -> bool {
        match &*self.owner {
            Owner::Server(wire) => wire.line.borrow().is_up(),
            Owner::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// Waits until a connection stands; in a Cluster, one to each master.
    pub async fn connected(&self) {
        match &*self.owner {
            Owner::Server(wire) => wire.attempt(Line::is_up).await,
            Owner::Cluster(cluster) => cluster.connected().await,
        }
    }
}
