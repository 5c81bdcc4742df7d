//! The counters that a node mirrors, shared by its workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use tidegate_core::{Consistency, LimitUid, Numbers, PlannedOp};
use tokio::sync::Notify;

use super::mirror::Mirror;

const SHARDS: usize = 64;
/// Counters mirrored at most; others are asked for exactly.
const MOST: usize = 1 << 16;
/// A hundredth of a limit, over all nodes, is what nodes may hold unsettled.
const SHARE: u64 = 100;

/// A counter's place: which counter, and how it is called in the store.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Name {
    pub(super) hash: u64,
    pub(super) limit: LimitUid,
    pub(super) key: Box<[u8]>,
}

/// A counter of the table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Name,
    /// Its key in the store, and its slot in a Cluster.
    pub(super) stored: Box<[u8]>,
    pub(super) slot: Option<u16>,
    pub(super) mirror: Mirror,
    /// True while it waits for the next settling, and while one is under way.
    pub(super) is_due: bool,
    pub(super) is_settling: bool,
    /// Told when a settling of it has ended.
    pub(super) settled: Arc<Notify>,
    /// True if somebody asked since the last settling.
    pub(super) is_touched: bool,
    /// Why it is mirrored.
    pub(super) consistency: Consistency,
    /// Rounds since anybody asked for it, or since it ran hot.
    pub(super) idle: u32,
}

/// The counters that this node mirrors.
#[derive(Debug)]
pub(in crate::redis) struct Table {
    // Each guards its counters; a request locks one at a time.
    shards: Box<[Mutex<HashTable<Entry>>]>,
    count: AtomicUsize,
    /// Nodes that are alive, this one included; 0 while that is not known.
    nodes: AtomicU32,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            nodes: AtomicU32::new(0),
        }
    }
}

impl Table {
    /// How many nodes are alive; 0: not known, so nothing is decided here.
    pub(in crate::redis) fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// The nodes that are alive, as last heard.
    pub(in crate::redis) fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Units of a limit that this node may hold unsettled; it settles at half of them.
    pub(super) fn most(&self, op: &PlannedOp<'_>) -> u64 {
        match (op.rule.consistency, self.nodes()) {
            (_, 0) => 0,
            (Consistency::Sampled(units), _) => 2 * u64::from(units),
            _ => self.share(op),
        }
    }

    /// Units of a limit that each node may hold unsettled where it is local; 0 where it is too
    /// small for the nodes that are alive, or these are not known.
    pub(in crate::redis) fn share(&self, op: &PlannedOp<'_>) -> u64 {
        let all = op.numbers.capacity(op.rule.algorithm) / SHARE;
        all.checked_div(u64::from(self.nodes())).unwrap_or(0)
    }

    /// Units that the node may hold, of so many, while the store's clock is not known better: what
    /// may have drained meanwhile, or not, is part of what is admitted over. A sampled limit asks once
    /// for half of them in any case.
    pub(super) fn at_most(&self, entry: &Entry, most: u64) -> u64 {
        let known = most.saturating_sub(entry.mirror.blur.div_ceil(u64::from(self.nodes().max(1))));
        match entry.consistency {
            Consistency::Sampled(units) => known.max(units.into()),
            _ => known,
        }
    }

    /// True if no counter is mirrored.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry>> {
        self.shards[(hash >> 32) as usize % SHARDS].lock()
    }

    /// Does something with a counter that is mirrored under these numbers.
    pub(super) fn with<T>(
        &self,
        (hash, limit, key): (u64, LimitUid, &[u8]),
        numbers: Numbers,
        act: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let mut shard = self.shard(hash);
        let entry = shard.find_mut(hash, |entry| entry.is(limit, key))?;
        if entry.mirror.numbers != numbers {
            return None;
        }
        Some(act(entry))
    }

    /// True if a counter is mirrored under these numbers.
    pub(in crate::redis) fn mirrors(
        &self,
        counter: (u64, LimitUid, &[u8]),
        numbers: Numbers,
    ) -> bool {
        !self.is_empty() && self.with(counter, numbers, |_| ()).is_some()
    }

    /// Mirrors one more counter, or one under other numbers; gives who is told when it has settled,
    /// and says whether it is new here. None: there are too many.
    pub(super) fn insert(&self, new: Entry) -> Option<(Arc<Notify>, bool)> {
        let mut shard = self.shard(new.name.hash);
        let Name { hash, limit, key } = &new.name;
        if let Some(entry) = shard.find_mut(*hash, |entry| entry.is(*limit, key)) {
            if entry.mirror.numbers != new.mirror.numbers && !entry.is_settling {
                entry.mirror.renumber(new.mirror.numbers);
            }
            return Some((Arc::clone(&entry.settled), false));
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (hash, settled) = (*hash, Arc::clone(&new.settled));
        shard.insert_unique(hash, new, |entry| entry.name.hash);
        Some((settled, true))
    }

    /// Does something with a counter that is mirrored, whatever its numbers.
    pub(super) fn kept<T>(
        &self,
        (hash, limit, key): (u64, LimitUid, &[u8]),
        act: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        self.shard(hash).find_mut(hash, |entry| entry.is(limit, key)).map(act)
    }

    /// Something was given back to a counter.
    pub(in crate::redis) fn doubt(&self, counter: (u64, LimitUid, &[u8])) {
        if !self.is_empty() {
            self.kept(counter, |entry| entry.mirror.doubt());
        }
    }

    /// A counter was reset.
    pub(in crate::redis) fn forget(&self, counter: (u64, LimitUid, &[u8])) {
        if !self.is_empty() {
            self.kept(counter, |entry| entry.mirror.forget());
        }
    }

    /// Does something with a counter by its name.
    pub(super) fn at<T>(&self, name: &Name, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.kept((name.hash, name.limit, &name.key), act)
    }

    /// Lets a counter go if nothing of it is unsettled; true if it is gone.
    pub(super) fn remove(&self, name: &Name) -> bool {
        let mut shard = self.shard(name.hash);
        let found = shard.find_entry(name.hash, |entry| {
            entry.is(name.limit, &name.key)
                && !entry.is_settling
                && !entry.is_due
                && entry.mirror.held() + entry.mirror.promised == 0
        });
        let Ok(place) = found else { return false };
        place.remove();
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

impl Entry {
    /// One that has not heard of the store yet.
    pub(super) fn new(
        name: Name,
        stored: Box<[u8]>,
        slot: Option<u16>,
        mirror: Mirror,
        consistency: Consistency,
    ) -> Self {
        Self {
            name,
            stored,
            slot,
            mirror,
            is_due: false,
            is_settling: false,
            settled: Arc::default(),
            is_touched: true,
            consistency,
            idle: 0,
        }
    }

    /// True if it neither waits for a settling nor has one under way.
    pub(super) const fn may_be_due(&self) -> bool {
        !self.is_due && !self.is_settling
    }

    /// True if it is mirrored because it ran hot.
    pub(super) const fn is_auto(&self) -> bool {
        matches!(self.consistency, Consistency::Auto)
    }

    /// True if the store must be heard again, now that somebody has asked: one that is sampled
    /// goes by what it admits, as long as what it heard is not too old.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        let is_sampled = matches!(self.consistency, Consistency::Sampled(_));
        !is_sampled || self.mirror.is_aging(now_us)
    }

    fn is(&self, limit: LimitUid, key: &[u8]) -> bool {
        self.name.limit == limit && *self.name.key == *key
    }
}
