//! What happens on the threads that serve, for the log of this process.

use pyo3::prelude::*;
use tidegate_server::journal::journal;

/// Level, message, fields.
type Event = (&'static str, &'static str, Vec<(&'static str, String)>);

/// Collects events for [`next_event`] until [`close_journal`]; `has_denials`: some denials too.
#[pyfunction]
pub fn open_journal(has_denials: bool) {
    journal().open(has_denials);
}

/// Waits for an event: level, message, fields. None once the journal is closed and empty.
#[pyfunction]
pub fn next_event(py: Python<'_>) -> Option<Event> {
    let event = py.detach(|| journal().next())?;
    Some((event.level, event.message, event.fields))
}

/// Lets whoever waits for events go.
#[pyfunction]
pub fn close_journal() {
    journal().close();
}
