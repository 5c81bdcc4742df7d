//! What a node takes up from its state file at the start.

use std::path::Path;

use pyo3::prelude::*;
use tidegate_server::Node;

/// What became of the file.
#[pyclass(frozen, get_all, module = "tidegate._native")]
pub struct StateTaken {
    /// Counters that still hold something.
    counters: u64,
    /// Those that hold nothing any more.
    ended: u64,
    /// Those that the store has no room for.
    no_room: u64,
    /// Microseconds since it was written; negative where the clock was set back meanwhile.
    age_us: i64,
    /// Why none of it was taken up; None if it was.
    error: Option<String>,
}

/// Takes up the file; none if there is none.
pub fn take(node: &Node, path: &str) -> Option<StateTaken> {
    match node.load_state(Path::new(path)) {
        Ok(loaded) => loaded.map(|loaded| StateTaken {
            counters: loaded.counters,
            ended: loaded.ended,
            no_room: loaded.no_room,
            age_us: loaded.age_us,
            error: None,
        }),
        Err(error) => Some(StateTaken {
            counters: 0,
            ended: 0,
            no_room: 0,
            age_us: 0,
            error: Some(error.to_string()),
        }),
    }
}
