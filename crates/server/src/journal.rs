//! What happens on the threads that serve, for the log: handed over through a bounded queue, so that
//! no request waits for whoever writes it.

use std::collections::VecDeque;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};

use crate::pipeline::Answer;

/// Events that wait at most; further ones are counted and dropped.
const MOST_WAITING: usize = 1024;
/// Denials are told at most so often.
const DENIAL_EVERY_US: u64 = 100_000;
/// Characters of a panic's text that are told at most: a text may repeat what it stumbled on.
const MOST_TEXT: usize = 200;
/// Threads of ours have names that begin so.
const OURS: &str = "tidegate-";

/// One line of the log to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `debug` or `error`.
    pub level: &'static str,
    /// What happened.
    pub message: &'static str,
    /// More of it.
    pub fields: Vec<(&'static str, String)>,
}

/// The events of this process: panics are those of a process, not of a node.
#[derive(Debug)]
pub struct Journal {
    // Guards what waits.
    waiting: Mutex<VecDeque<Event>>,
    came: Condvar,
    dropped: AtomicU64,
    is_read: AtomicBool,
    has_denials: AtomicBool,
    next_denial_us: AtomicU64,
}

static JOURNAL: Journal = Journal::new();

/// The journal of this process.
pub fn journal() -> &'static Journal {
    &JOURNAL
}

impl Journal {
    const fn new() -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
            came: Condvar::new(),
            dropped: AtomicU64::new(0),
            is_read: AtomicBool::new(false),
            has_denials: AtomicBool::new(false),
            next_denial_us: AtomicU64::new(0),
        }
    }

    /// Somebody reads until [`Journal::close`]: panics of our threads are told here, in one line,
    /// instead of by Rust on stderr. `has_denials`: some denials are told too.
    pub fn open(&'static self, has_denials: bool) {
        static HOOK: Once = Once::new();
        // Relaxed, here and below: both only switch what is told, and order nothing.
        self.is_read.store(true, Ordering::Relaxed);
        self.has_denials.store(has_denials, Ordering::Relaxed);
        HOOK.call_once(|| self.take_panics());
    }

    fn take_panics(&'static self) {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            if !name.starts_with(OURS) || !self.is_read.load(Ordering::Relaxed) {
                return before(info);
            }
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_default().chars().take(MOST_TEXT).collect();
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            self.note(Event {
                level: "error",
                message: "panicked, which is a bug",
                fields: vec![("panic", text), ("at", place), ("thread", name.to_owned())],
            });
        }));
    }

    /// Hands an event over; drops it where too many wait.
    pub fn note(&self, event: Event) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST_WAITING {
            // Relaxed: a total that orders nothing.
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(event);
        self.came.notify_one();
    }

    /// Tells of a denial, if denials are told and none was just now.
    #[inline]
    pub(crate) fn denial(&self, domain: &[u8], answer: &Answer<'_, '_>) {
        if self.has_denials.load(Ordering::Relaxed) {
            self.sampled_denial(domain, answer);
        }
    }

    #[cold]
    fn sampled_denial(&self, domain: &[u8], answer: &Answer<'_, '_>) {
        let (now_us, next_us) = (answer.now_us, self.next_denial_us.load(Ordering::Relaxed));
        let later_us = now_us.saturating_add(DENIAL_EVERY_US);
        let swapped = || {
            let (relaxed, next) = (Ordering::Relaxed, &self.next_denial_us);
            next.compare_exchange(next_us, later_us, relaxed, relaxed).is_ok()
        };
        if now_us < next_us || !swapped() {
            return;
        }
        let decision = &answer.decision;
        let limit = decision.binding.map(|at| decision.limits[at].rule.id.to_string());
        self.note(Event {
            level: "debug",
            message: "denied",
            fields: vec![
                ("decision", answer.id().to_string()),
                ("domain", String::from_utf8_lossy(domain).into_owned()),
                ("limit", limit.unwrap_or_default()),
                ("reason", decision.reason.as_str().to_owned()),
                ("degraded", decision.is_degraded.to_string()),
            ],
        });
    }

    /// The reader leaves: it gets what waits, and then no more.
    pub fn close(&self) {
        // Locked, so that the reader is either not yet at its question or already asleep.
        let _waiting = self.waiting.lock();
        self.has_denials.store(false, Ordering::Relaxed);
        self.is_read.store(false, Ordering::Relaxed);
        self.came.notify_all();
    }

    /// Waits for an event; none once the journal is closed and empty.
    pub fn next(&self) -> Option<Event> {
        let mut waiting = self.waiting.lock();
        while waiting.is_empty() && self.is_read.load(Ordering::Relaxed) {
            self.came.wait(&mut waiting);
        }
        waiting.pop_front()
    }

    /// Events that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: usize) -> Event {
        Event { level: "debug", message: "denied", fields: vec![("n", number.to_string())] }
    }

    #[test]
    fn a_panic_of_a_serving_thread_is_one_event() {
        journal().open(false);
        let serving = thread::Builder::new().name("tidegate-7".to_owned());
        let panicking = serving.spawn(|| panic!("two\nlines of {}", "x".repeat(999))).unwrap();
        assert!(panicking.join().is_err());
        let event = journal().next().unwrap();
        assert_eq!((event.level, event.message), ("error", "panicked, which is a bug"));
        let (name, text) = &event.fields[0];
        assert_eq!((*name, text.chars().count()), ("panic", MOST_TEXT));
        assert!(text.starts_with("two\nlines of x"), "{text}");
        assert!(event.fields[1].1.contains("journal.rs"), "{event:?}");
        journal().close();
        assert_eq!(journal().next(), None);
    }

    #[test]
    fn events_come_in_order_and_too_many_are_dropped() {
        let journal = Journal::new();
        for number in 0..MOST_WAITING + 3 {
            journal.note(event(number));
        }
        assert_eq!(journal.dropped(), 3);
        for number in 0..MOST_WAITING {
            assert_eq!(journal.next(), Some(event(number)));
        }
        assert_eq!(journal.next(), None);
    }
}
