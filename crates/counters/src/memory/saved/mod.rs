//! The memory store in a file, from a clean stop to the next start, so that nobody is forgiven in
//! between.

mod error;
mod file;
mod format;
mod read;
mod store;
mod sum;
mod write;

pub use error::{LoadError, SaveError};
pub use store::{Loaded, SaveTimes, Saved, TakenUp};
pub use write::Held;
