//! Counters that threads add to without meeting: each thread has a stripe, each limit a row.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_core::LimitUid;

/// Threads that count without sharing cache lines; more share stripes, and stay exact.
const STRIPES: usize = 8;
const FIRST_CHUNK_BITS: u32 = 6;
const CHUNKS: usize = 26;

/// What a row counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    LimitAllowed,
    LimitDenied,
    LimitShadowDenied,
    LimitNear,
    DomainAllowed,
    DomainDenied,
}

/// One cache line, so that two stripes never share one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row([AtomicU64; 6]);

/// Rows by a limit's number, in chunks that double: a row never moves once it is there, so
/// adding takes no lock while policies grow.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    chunks: [OnceLock<Box<[Row]>>; CHUNKS],
    other: Row,
}

/// All stripes.
#[derive(Debug, Default)]
pub(super) struct Rows([Stripe; STRIPES]);

/// (chunk, place in it, size of the chunk).
#[inline]
const fn place(uid: usize) -> (usize, usize, usize) {
    let shifted = uid + (1 << FIRST_CHUNK_BITS);
    let bits = shifted.ilog2();
    ((bits - FIRST_CHUNK_BITS) as usize, shifted - (1 << bits), 1 << bits)
}

impl Row {
    // Totals that order nothing else: Relaxed.
    #[inline]
    fn add(&self, cell: Cell) {
        self.0[cell as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self, cell: Cell) -> u64 {
        self.0[cell as usize].load(Ordering::Relaxed)
    }
}

impl Stripe {
    #[inline]
    pub(super) fn add(&self, uid: LimitUid, cell: Cell) {
        let (chunk, at, size) = place(uid.0 as usize);
        let rows = self.chunks[chunk]
            .get_or_init(|| std::iter::repeat_with(Row::default).take(size).collect());
        rows[at].add(cell);
    }

    #[inline]
    pub(super) fn add_other(&self, cell: Cell) {
        self.other.add(cell);
    }
}

impl Rows {
    /// The calling thread's stripe.
    #[inline]
    pub(super) fn stripe(&self) -> &Stripe {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            // Only spreads threads over stripes: Relaxed.
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        &self.0[MINE.with(|mine| *mine)]
    }

    pub(super) fn total(&self, uid: usize, cell: Cell) -> u64 {
        let (chunk, at, _) = place(uid);
        let rows = self.0.iter().filter_map(|stripe| stripe.chunks[chunk].get());
        rows.map(|rows| rows[at].get(cell)).sum()
    }

    pub(super) fn other(&self, cell: Cell) -> u64 {
        self.0.iter().map(|stripe| stripe.other.get(cell)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_its_own_place() {
        let places: Vec<_> = (0..1000).map(place).collect();
        assert_eq!(places[0], (0, 0, 64));
        assert_eq!(places[63], (0, 63, 64));
        assert_eq!(places[64], (1, 0, 128));
        let mut unique: Vec<_> = places.iter().map(|(chunk, at, _)| (chunk, at)).collect();
        unique.dedup();
        assert_eq!(unique.len(), places.len());
    }

    #[test]
    fn threads_add_up() {
        let rows = Rows::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        rows.stripe().add(LimitUid(700), Cell::LimitDenied);
                    }
                });
            }
        });
        assert_eq!(rows.total(700, Cell::LimitDenied), 2000);
        assert_eq!(rows.total(700, Cell::LimitAllowed), 0);
    }
}
