//! The form of the file. All numbers are little-endian:
//!
//! ```text
//! magic, form (u32)
//! the clock that the counters lived by, and the wall clock at the same instant (u64, us)
//! limits (u32), each: algorithm (u8), domain and id (each u16 and bytes)
//! counters, each: limit (u32), key (u16 and bytes), N and period (u64), then by algorithm
//!   token_bucket                    level, remainder, last (u64)
//!   fixed_window, sliding_window    previous, current, last (u64)
//!   sliding_log                     entries (u32), each time and cost (u64)
//!   quota                           count, end of its period, last (u64)
//!   sliding_slots                   slots (u32), each count, newest first, then last (u64)
//! the end: 2^32 - 1 in place of a limit, then how many counters came (u64)
//! SHA-256 of all that
//! ```
//!
//! Limits have their names, for the numbers that they have in a process hold there alone.

use tidegate_core::Algorithm;

/// What each file begins with.
pub const MAGIC: [u8; 8] = *b"tgstate\n";
/// The form that is written. A change of a counter's key is one of the form.
pub const FORM: u32 = 1;
/// In place of a limit: no counter follows.
pub const END: u32 = u32::MAX;
/// Bytes of the checksum.
pub const SUM_BYTES: usize = 32;

/// A limit as the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its domain.
    pub domain: String,
    /// Its id.
    pub id: String,
    /// How it counts.
    pub algorithm: Algorithm,
}

/// What stands before the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The clock that the counters lived by, microseconds.
    pub clock_us: u64,
    /// The wall clock at the same instant, microseconds.
    pub wall_us: u64,
    /// The limits, by the numbers that the counters name them by.
    pub limits: Vec<Named>,
}

/// The number of an algorithm in files.
pub const fn code(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::TokenBucket => 0,
        Algorithm::FixedWindow => 1,
        Algorithm::SlidingWindow => 2,
        Algorithm::SlidingLog => 3,
        Algorithm::Quota => 4,
        Algorithm::SlidingSlots => 5,
    }
}

/// The algorithm of a number in a file.
pub const fn algorithm(code: u8) -> Option<Algorithm> {
    Some(match code {
        0 => Algorithm::TokenBucket,
        1 => Algorithm::FixedWindow,
        2 => Algorithm::SlidingWindow,
        3 => Algorithm::SlidingLog,
        4 => Algorithm::Quota,
        5 => Algorithm::SlidingSlots,
        _ => return None,
    })
}
