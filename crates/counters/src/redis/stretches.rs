//! Who owns each slot of a Cluster, as stretches of slots with one owner: a few lines of memory, which
//! stay near. A table of all slots does not.

use super::slots::SLOTS;

/// All slots in order, each stretch up to the next.
#[derive(Debug)]
pub(super) struct Stretches {
    inner: Vec<Stretch>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: u16,
    owner: u16,
}

impl Stretches {
    /// All slots are this one's.
    pub(super) fn of(owner: u16) -> Self {
        Self { inner: vec![Stretch { first: 0, owner }] }
    }

    /// Whose a slot is.
    #[inline]
    pub(super) fn owner(&self, slot: u16) -> u16 {
        let after = self.inner.partition_point(|stretch| stretch.first <= slot);
        // The first stretch begins with the first slot, so one lies before.
        self.inner[after - 1].owner
    }

    /// From now on these slots, of which the last is one too, are this one's.
    pub(super) fn assign(&mut self, first: u16, last: u16, owner: u16) {
        let next = last + 1;
        let rest =
            (usize::from(next) < SLOTS).then(|| Stretch { first: next, owner: self.owner(next) });
        let from = self.inner.partition_point(|stretch| stretch.first < first);
        let to = self.inner.partition_point(|stretch| stretch.first <= next);
        self.inner.splice(from..to, [Stretch { first, owner }].into_iter().chain(rest));
        self.inner.dedup_by_key(|stretch| stretch.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stretches_say_what_a_table_of_all_slots_would(
            moves in proptest::collection::vec((0..SLOTS, 0..SLOTS, 0_u16..4), 0..40),
        ) {
            let mut stretches = Stretches::of(9);
            let mut table = vec![9; SLOTS];
            for (one, other, owner) in moves {
                let (first, last) = (one.min(other), one.max(other));
                stretches.assign(first as u16, last as u16, owner);
                table[first..=last].fill(owner);
            }
            for (slot, owner) in table.into_iter().enumerate() {
                prop_assert_eq!(stretches.owner(slot as u16), owner, "slot {}", slot);
            }
            prop_assert!(stretches.inner.windows(2).all(|two| two[0].owner != two[1].owner));
        }
    }
}
