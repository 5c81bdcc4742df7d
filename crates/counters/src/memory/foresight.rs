//! Hints that bring into the cache what a decision is about to read. They change nothing.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use smallvec::SmallVec;
use tidegate_core::matching::FEW;

/// The hashes of the counters that a plan meets, for whoever decides it soon.
#[derive(Debug, Default)]
pub struct Foreseen(pub(super) SmallVec<[u64; FEW]>);

/// Where the slots of an index stood when it was last locked, for those who do not lock it.
/// Relaxed throughout: what is outdated brings a line in vain.
#[derive(Debug, Default)]
pub struct Whereabouts {
    slots: AtomicPtr<u32>,
    mask: AtomicUsize,
}

impl Whereabouts {
    /// Brings the slot in which a search for this hash begins.
    #[inline]
    pub fn foresee(&self, hash: u64) {
        let at = hash as usize & self.mask.load(Ordering::Relaxed);
        foresee(self.slots.load(Ordering::Relaxed).wrapping_add(at));
    }

    /// Notes where the slots stand now.
    #[inline]
    pub fn note(&self, slots: &[u32]) {
        let place = slots.as_ptr().cast_mut();
        if self.slots.load(Ordering::Relaxed) != place {
            self.slots.store(place, Ordering::Relaxed);
            self.mask.store(slots.len().saturating_sub(1), Ordering::Relaxed);
        }
    }
}

/// Asks the processor for a line of the cache.
#[inline]
pub fn foresee<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "a hint takes any address and reads nothing the program sees")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
}
