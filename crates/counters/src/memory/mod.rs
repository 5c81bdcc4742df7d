//! Counters in this process: sharded, bounded, and never swept.

mod forms;
mod index;
mod record;
mod shard;
mod store;

pub use store::{MemoryOptions, MemoryStore};
