//! Finds records by the hash of their key: one `u32` a slot, so that a look-up reads one line of
//! the cache before it reads the record.

/// A record's number within its shard, below 2^24 - 1.
pub type Place = u32;

/// Slots of a table that holds something.
const LEAST_SLOTS: usize = 16;
const PLACE_BITS: u32 = 24;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

/// Open addressing with linear probing. A slot is 0, or eight bits of the hash above the place
/// plus one.
#[derive(Debug, Default)]
pub struct Index {
    slots: Box<[u32]>,
    len: usize,
}

impl Index {
    /// All slots, for a hint.
    #[inline]
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The place under this hash that `is_it` recognises.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(Place) -> bool) -> Option<Place> {
        self.slot_of(hash, is_it).map(|at| place(self.slots[at]))
    }

    #[inline]
    fn slot_of(&self, hash: u64, is_it: impl Fn(Place) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> PLACE_BITS == tag(hash) && is_it(place(slot)) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a place that is not there yet. `rehash` gives the hash of any place.
    pub fn insert(&mut self, hash: u64, place: Place, rehash: impl Fn(Place) -> u64) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow(rehash);
        }
        self.len += 1;
        put(&mut self.slots, hash, place);
    }

    /// Takes a place out, and moves those behind it so that no search ends early.
    pub fn remove(&mut self, hash: u64, gone: Place, rehash: impl Fn(Place) -> u64) {
        let Some(mut hole) = self.slot_of(hash, |place| place == gone) else { return };
        self.len -= 1;
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = rehash(place(slot)) as usize & mask;
            // It may move back to the hole unless its home lies behind the hole.
            let from_home = at.wrapping_sub(home) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }

    fn grow(&mut self, rehash: impl Fn(Place) -> u64) {
        let size = (self.slots.len() * 2).max(LEAST_SLOTS);
        let mut slots = vec![0; size].into_boxed_slice();
        for slot in self.slots.iter().filter(|slot| **slot != 0) {
            put(&mut slots, rehash(place(*slot)), place(*slot));
        }
        self.slots = slots;
    }
}

fn put(slots: &mut [u32], hash: u64, place: Place) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at] != 0 {
        at = (at + 1) & mask;
    }
    slots[at] = tag(hash) << PLACE_BITS | (place + 1);
}

#[inline]
const fn tag(hash: u64) -> u32 {
    (hash >> 56) as u32
}

#[inline]
const fn place(slot: u32) -> Place {
    (slot & PLACE_MASK) - 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Few homes and few tags, so that everything collides.
    fn hash_of(place: Place) -> u64 {
        u64::from(place % 5) | u64::from(place % 3) << 56
    }

    proptest! {
        #[test]
        fn holds_what_a_set_holds(steps in prop::collection::vec((0..40u32, any::<bool>()), 0..300)) {
            let (mut index, mut set) = (Index::default(), HashSet::new());
            for (place, is_insert) in steps {
                if is_insert && set.insert(place) {
                    index.insert(hash_of(place), place, hash_of);
                } else if !is_insert {
                    set.remove(&place);
                    index.remove(hash_of(place), place, hash_of);
                }
                for place in 0..40 {
                    let found = index.find(hash_of(place), |other| other == place);
                    prop_assert_eq!(found.is_some(), set.contains(&place));
                }
            }
        }
    }
}
