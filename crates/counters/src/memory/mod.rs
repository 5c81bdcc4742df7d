//! Counters in this process: sharded, bounded, and never swept.

mod foresight;
mod forms;
mod index;
mod record;
mod saved;
mod shard;
mod store;

pub use foresight::Foreseen;
pub use saved::{LoadError, Loaded, SaveError, SaveTimes, Saved};
pub use store::{MemoryOptions, MemoryStore};
