//! The counters that a node mirrors, shared by its workers.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use tidegate_core::{LimitUid, Numbers};
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
    /// True while a settling is under way.
    pub(super) is_settling: bool,
    /// True if somebody asked since the last settling.
    pub(super) is_touched: bool,
    /// True if it is mirrored because it ran hot.
    pub(super) is_auto: bool,
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
    /// Told when a settling has ended.
    pub(super) settled: Notify,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            nodes: AtomicU32::new(0),
            settled: Notify::new(),
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

    /// Units of such a limit that this node may hold unsettled.
    pub(super) fn most(&self, capacity: u64) -> u64 {
        match u64::from(self.nodes()) {
            0 => 0,
            nodes => capacity / SHARE / nodes,
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

    /// Mirrors one more counter, or one under other numbers; says whether it is new here. None:
    /// there are too many.
    pub(super) fn insert(&self, new: Entry) -> Option<bool> {
        let mut shard = self.shard(new.name.hash);
        let Name { hash, limit, key } = &new.name;
        if let Some(entry) = shard.find_mut(*hash, |entry| entry.is(*limit, key)) {
            if entry.mirror.numbers != new.mirror.numbers && !entry.is_settling {
                entry.mirror.renumber(new.mirror.numbers);
            }
            return Some(false);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let hash = *hash;
        shard.insert_unique(hash, new, |entry| entry.name.hash);
        Some(true)
    }

    /// Does something with a counter by its name.
    pub(super) fn at<T>(&self, name: &Name, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut shard = self.shard(name.hash);
        shard.find_mut(name.hash, |entry| entry.is(name.limit, &name.key)).map(act)
    }

    /// Lets a counter go if nothing of it is unsettled; true if it is gone.
    pub(super) fn remove(&self, name: &Name) -> bool {
        let mut shard = self.shard(name.hash);
        let found = shard.find_entry(name.hash, |entry| {
            entry.is(name.limit, &name.key)
                && !entry.is_settling
                && entry.mirror.held() + entry.mirror.promised == 0
        });
        let Ok(place) = found else { return false };
        place.remove();
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

impl Entry {
    fn is(&self, limit: LimitUid, key: &[u8]) -> bool {
        self.name.limit == limit && *self.name.key == *key
    }
}
