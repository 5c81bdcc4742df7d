//! Where the numbers live. A store takes all operations of a request and gives all outcomes back.

pub mod clock;
pub mod join;
pub mod memory;
pub mod redis;

pub use clock::{Clock, Stopwatch};
pub use memory::{
    Foreseen, LoadError, Loaded, MemoryOptions, MemoryStore, SaveError, SaveTimes, Saved,
};

/// What a store says of a request's operations, in the order of `Plan::asked`.
pub type Outcomes = smallvec::SmallVec<[tidegate_core::Outcome; tidegate_core::matching::FEW]>;
