//! Ports for servers that must be told theirs before they start.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that systems give away by themselves (from 32,768 on, on Linux): between the look and
/// the server's start no connection of anybody's can take one.
const PORTS: Range<u32> = 10_000..32_768;

/// A port of loopback that nobody has now, and that this process was not given before.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run beside this one begin elsewhere.
    let begin = std::process::id().wrapping_mul(7_919);
    loop {
        let at = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + at % PORTS.len() as u32) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
