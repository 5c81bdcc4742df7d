//! Which counters somebody at this node has given something back to, or reset, so that no worker
//! answers from what it knew of them before.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use tidegate_core::LimitUid;

/// Counters and limits share places by hash: a stranger's change costs one question more.
const PLACES: usize = 1024;

/// The changes that all workers of a node have made.
#[derive(Debug)]
pub(super) struct Changes {
    seeds: RandomState,
    all: AtomicU64,
    of_counters: Box<[AtomicU32]>,
    /// Limits that something was ever given back to.
    refunded: Box<[AtomicBool]>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            seeds: RandomState::default(),
            all: AtomicU64::new(0),
            of_counters: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
            refunded: (0..PLACES).map(|_| AtomicBool::new(false)).collect(),
        }
    }
}

impl Changes {
    /// The hash of a counter, the same on every worker.
    #[inline]
    pub(super) fn hash(&self, limit: LimitUid, key: &[u8]) -> u64 {
        let mut hasher = self.seeds.build_hasher();
        hasher.write_u32(limit.0);
        hasher.write(key);
        hasher.finish()
    }

    /// Changes so far, of all counters. What was learned across one is not kept.
    #[inline]
    pub(super) fn so_far(&self) -> u64 {
        self.all.load(Ordering::Acquire)
    }

    /// Changes so far of the counters that share this hash's place.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> u32 {
        self.of_counters[hash as usize % PLACES].load(Ordering::Acquire)
    }

    /// Notes one; called before it is sent and again when it has happened.
    pub(super) fn note(&self, hash: u64) {
        self.of_counters[hash as usize % PLACES].fetch_add(1, Ordering::Release);
        self.all.fetch_add(1, Ordering::Release);
    }

    /// Notes that this limit takes refunds.
    pub(super) fn note_refund(&self, limit: LimitUid) {
        self.refunded[limit.0 as usize % PLACES].store(true, Ordering::Relaxed);
    }

    /// True if this limit may take refunds.
    #[inline]
    pub(super) fn takes_refunds(&self, limit: LimitUid) -> bool {
        self.refunded[limit.0 as usize % PLACES].load(Ordering::Relaxed)
    }
}
