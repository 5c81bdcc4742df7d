//! Counts of what the transport met, for the metrics page.

use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals, shared by all workers. Each is a plain total that orders nothing: `Relaxed`.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections whose preface arrived.
    pub opened: AtomicU64,
    /// Connections that ended after it.
    pub closed: AtomicU64,
    /// Connections without a preface in time, or with a wrong one.
    pub failed_handshakes: AtomicU64,
    /// Connections closed because the peer was silent or did not read.
    pub unresponsive: AtomicU64,
    /// Connections ended for what the peer sent: broken frames, or too many of one kind.
    pub malformed: AtomicU64,
    /// Requests answered by the transport itself: malformed, unknown, too long, too late.
    pub refused: AtomicU64,
    /// Requests that the client took back before their answer.
    pub cancelled: AtomicU64,
    /// Requests whose handling panicked: each is a bug of ours.
    pub panics: AtomicU64,
}

pub(super) fn count(total: &AtomicU64) {
    total.fetch_add(1, Ordering::Relaxed);
}

impl Stats {
    /// Connections open now.
    pub fn open(&self) -> u64 {
        let closed = self.closed.load(Ordering::Relaxed);
        self.opened.load(Ordering::Relaxed).saturating_sub(closed)
    }
}
