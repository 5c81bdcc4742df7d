//! What the store's state is: for readiness, logs and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The store as its connections see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Connections of workers that stand now.
    pub connections: usize,
    /// Connections that were made since the start.
    pub made: u64,
    /// Attempts to connect, and connections, that failed since the start.
    pub failed: u64,
    /// Decisions whose charges fewer replicas had in time than are waited for.
    pub unreplicated: u64,
    /// True if one stands.
    pub is_up: bool,
    /// What went wrong last; none if nothing did since a connection was made.
    pub last_error: Option<Arc<str>>,
    /// What an operator should change at the server.
    pub warnings: Vec<String>,
}

/// The shared record behind [`Health`]. Touched when connections come and go, not on requests.
#[derive(Debug, Default)]
pub(super) struct Record {
    connections: AtomicUsize,
    made: AtomicU64,
    failed: AtomicU64,
    unreplicated: AtomicU64,
    /// True if the last charges lack replicas.
    is_short: AtomicBool,
    /// Guards the words alone.
    words: Mutex<Words>,
}

#[derive(Debug, Default)]
struct Words {
    last_error: Option<Arc<str>>,
    warnings: Vec<String>,
    shortage: String,
}

impl Record {
    // Relaxed throughout: a count for display, which orders nothing.
    pub(super) fn connected(&self, warnings: Vec<String>) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
        self.greeted(warnings);
    }

    /// A blocking caller connected.
    pub(super) fn greeted(&self, warnings: Vec<String>) {
        let mut words = self.words.lock();
        (words.last_error, words.warnings) = (None, warnings);
    }

    pub(super) fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, why: &Arc<str>) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.words.lock().last_error = Some(Arc::clone(why));
    }

    /// What went wrong is over, on the connection that stands.
    pub(super) fn recovered(&self) {
        self.words.lock().last_error = None;
    }

    /// So many decisions were told with fewer replicas than are waited for.
    pub(super) fn unreplicated(&self, decisions: usize, words: String) {
        self.unreplicated.fetch_add(decisions as u64, Ordering::Relaxed);
        self.words.lock().shortage = words;
        self.is_short.store(true, Ordering::Relaxed);
    }

    /// Replicas have the last charges.
    pub(super) fn replicated(&self) {
        if self.is_short.load(Ordering::Relaxed) {
            self.is_short.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.words.lock().last_error.is_some()
    }

    pub(super) fn read(&self) -> Health {
        let connections = self.connections.load(Ordering::Relaxed);
        let words = self.words.lock();
        let mut warnings = words.warnings.clone();
        if self.is_short.load(Ordering::Relaxed) {
            warnings.push(words.shortage.clone());
        }
        Health {
            connections,
            made: self.made.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            unreplicated: self.unreplicated.load(Ordering::Relaxed),
            is_up: connections > 0,
            last_error: words.last_error.clone(),
            warnings,
        }
    }
}
