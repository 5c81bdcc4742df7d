//! The last denials of a node, in a ring of fixed size: the newest takes the oldest's place.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::packed::LONGEST_RECORD;
use super::record::is_of;
use crate::decision_id::DecisionId;

/// Records that a ring may hold; each takes 1 KiB at most.
pub const MOST_KEPT: usize = 1 << 20;

/// Places grow by so many bytes.
const STEP: usize = 64;

thread_local! {
    /// A record is written here before it takes its place.
    static DRAFT: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(LONGEST_RECORD));
}

/// A ring of packed records. Writers meet only if they are a whole round apart.
#[derive(Debug)]
pub struct Ring {
    // Each guards its own bytes; empty until a record came.
    slots: Box<[Mutex<Vec<u8>>]>,
    next: AtomicU64,
}

impl Ring {
    /// A ring of so many places; with none it keeps nothing.
    pub fn new(places: usize) -> Self {
        let slots = std::iter::repeat_with(Mutex::default).take(places.min(MOST_KEPT));
        Self { slots: slots.collect(), next: AtomicU64::new(0) }
    }

    /// Records that fit.
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Lets `write` fill the next place; `write` appends no more than a record's length.
    #[inline]
    pub(crate) fn keep(&self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.slots.is_empty() {
            return;
        }
        DRAFT.with_borrow_mut(|draft| {
            draft.clear();
            write(draft);
            self.put(draft);
        });
    }

    /// A place is as large as the largest record that it held, so that the ring of a node whose
    /// denials are alike stays in the processor's cache.
    fn put(&self, record: &[u8]) {
        // Relaxed: it deals places out; what is in them is guarded by their locks.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let mut slot = self.slots[(turn % self.slots.len() as u64) as usize].lock();
        slot.clear();
        slot.reserve_exact(record.len().next_multiple_of(STEP));
        slot.extend_from_slice(record);
    }

    /// The record of a decision.
    pub fn find(&self, id: &DecisionId) -> Option<Vec<u8>> {
        self.slots.iter().find_map(|slot| {
            let record = slot.lock();
            is_of(&record, id).then(|| record.clone())
        })
    }

    /// The oldest record.
    pub fn oldest(&self) -> Option<Vec<u8>> {
        let next = self.next.load(Ordering::Relaxed);
        let places = self.slots.len() as u64;
        let first = if next > places { next % places } else { 0 };
        let record = self.slots.get(first as usize)?.lock();
        (!record.is_empty()).then(|| record.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(at: u64) -> DecisionId {
        DecisionId::new(1_764_554_400_000_000 + at * 1000)
    }

    #[test]
    fn the_newest_takes_the_place_of_the_oldest() {
        let ring = Ring::new(3);
        assert!(ring.oldest().is_none());
        let ids: Vec<_> = (0..5).map(id).collect();
        for (at, id) in ids.iter().enumerate() {
            ring.keep(|slot| slot.extend_from_slice(id.as_bytes()));
            assert_eq!(ring.oldest().unwrap(), ids[at.saturating_sub(2)].as_bytes());
        }
        assert!(ids[..2].iter().all(|id| ring.find(id).is_none()));
        assert!(ids[2..].iter().all(|id| ring.find(id).unwrap() == id.as_bytes()));
    }

    #[test]
    fn a_ring_without_places_keeps_nothing() {
        let ring = Ring::new(0);
        ring.keep(|_| panic!("nothing to write to"));
        assert!(ring.oldest().is_none() && ring.find(&id(0)).is_none());
    }

    #[test]
    fn memory_is_bounded_by_places_times_the_longest_record() {
        let ring = Ring::new(4);
        for _ in 0..100 {
            ring.keep(|record| record.resize(LONGEST_RECORD, 7));
        }
        assert!(ring.slots.iter().all(|slot| slot.lock().capacity() == LONGEST_RECORD));
    }

    #[test]
    fn a_place_is_no_larger_than_its_records() {
        let ring = Ring::new(2);
        for length in [150, 10, 150, 130] {
            ring.keep(|record| record.resize(length, 7));
        }
        let places = ring.slots.iter().map(|slot| slot.lock().capacity());
        assert!(places.eq([192, 192]));
    }
}
