//! Counters in this process: sharded, bounded, and never swept.

mod forms;
mod index;
mod record;
mod saved;
mod shard;
mod store;

pub use saved::{LoadError, Loaded, SaveError, SaveTimes, Saved};
pub use store::{MemoryOptions, MemoryStore};
