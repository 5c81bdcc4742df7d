//! How many nodes share a store: each says once a second that it is alive.

use std::hash::BuildHasher;
use std::rc::Weak;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::sleep;

use crate::redis::call::Kind;
use crate::redis::error::StoreError;
use crate::redis::handle::Inner;
use crate::redis::resp;
use crate::redis::slots::slot_of;
use crate::redis::store::Shared;

const SCRIPT: &str = include_str!("../lua/nodes.lua");
const EVERY: Duration = Duration::from_secs(1);
/// A node that has been silent for so long is none, in microseconds.
const PATIENCE_US: u64 = 3_500_000;
/// The hash tag of the key; no counter's tag is without a bar.
const TAG: &[u8] = b"nodes";
/// Beats in a row that must see another policy elsewhere before it is said: while a policy goes
/// round, nodes differ.
const ROLL_OUT: u64 = 30;

/// This node among those of its store.
#[derive(Debug)]
pub(in crate::redis) struct Nodes {
    id: u64,
    /// Names the policy in force.
    mark: AtomicU64,
    /// True while one of the workers speaks for the node.
    is_spoken_for: AtomicBool,
    /// Nodes with another policy, and for how many beats there have been any.
    differing: AtomicU64,
    since: AtomicU64,
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            id: RandomState::default().hash_one(std::process::id()),
            mark: AtomicU64::new(0),
            is_spoken_for: AtomicBool::new(false),
            differing: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }
}

impl Nodes {
    /// Says which policy is in force.
    pub(in crate::redis) fn run(&self, revision: &str) {
        let mut mark = [0; 8];
        mark.iter_mut().zip(revision.bytes()).for_each(|(to, from)| *to = from);
        self.mark.store(u64::from_le_bytes(mark), Ordering::Relaxed);
    }

    /// What an operator should know.
    pub(in crate::redis) fn warning(&self) -> Option<String> {
        let differing = self.differing.load(Ordering::Relaxed);
        (self.since.load(Ordering::Relaxed) >= ROLL_OUT).then(|| {
            format!(
                "{differing} other nodes on this store have run another policy for over \
                 {ROLL_OUT} s; give all nodes the same file"
            )
        })
    }

    fn heard(&self, differing: u64) {
        self.differing.store(differing, Ordering::Relaxed);
        if differing == 0 {
            self.since.store(0, Ordering::Relaxed);
        } else {
            self.since.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The right of one worker to speak for the node.
struct Voice(Arc<Shared>);

impl Voice {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let is_taken = shared.nodes.is_spoken_for.swap(true, Ordering::Relaxed);
        (!is_taken).then(|| Self(Arc::clone(shared)))
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        self.0.nodes.is_spoken_for.store(false, Ordering::Relaxed);
    }
}

/// Speaks for the node while no other worker does, until nobody needs the handle.
pub(in crate::redis) async fn speak(inner: Weak<Inner>) {
    let mut voice = None;
    loop {
        let Some(inner) = inner.upgrade() else { return };
        voice = voice.or_else(|| Voice::take(&inner.shared));
        // Where the store is away, as many are alive as were.
        if voice.is_some()
            && let Ok((alive, differing)) = beat(&inner).await
        {
            inner.shared.local.set_nodes(alive);
            inner.shared.nodes.heard(differing);
        }
        drop(inner);
        sleep(EVERY).await;
    }
}

/// One sign of life; how many are alive, and how many of them run another policy.
async fn beat(inner: &Inner) -> Result<(u32, u64), StoreError> {
    let mut key = inner.shared.options.prefix.as_bytes().to_vec();
    key.extend_from_slice(b"{");
    key.extend_from_slice(TAG);
    key.extend_from_slice(b"}");
    let nodes = &inner.shared.nodes;
    let (id, mark) = (nodes.id.to_le_bytes(), nodes.mark.load(Ordering::Relaxed).to_le_bytes());
    let patience = PATIENCE_US.to_string();
    let mut words = Vec::with_capacity(1024);
    let parts = [b"EVAL", SCRIPT.as_bytes(), b"1", &key, &id, &mark, patience.as_bytes()];
    resp::append_command(&mut words, &parts);
    let slot = inner.owner.is_cluster().then(|| slot_of(TAG));
    let wire = inner.owner.wire(slot)?;
    let seat = wire.line.borrow_mut().send_call(Kind::Words, slot, |call| call.say(words))?;
    let told = seat.told().await?;
    let told = told.first_chunk().map_or(0, |told| u64::from_le_bytes(*told));
    Ok(((told >> 16) as u32, told & 0xffff))
}
