//! The time of an engine: its own clock, or a Python callable that stands in for it.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_counters::Clock;

/// Latest time that is taken: the counters keep microseconds below 2^53.
const LATEST_S: f64 = 9_007_199_254.0;

/// Where an engine reads the time.
pub enum Source {
    /// The engine's own clock.
    Own(Arc<Clock>),
    /// A callable that gives unix seconds, whole or with a fraction.
    Callable(Py<PyAny>),
}

impl Source {
    /// Unix time in microseconds.
    #[inline]
    pub fn now_us(&self, py: Python<'_>) -> PyResult<u64> {
        match self {
            Self::Own(clock) => Ok(clock.now_us()),
            Self::Callable(callable) => ask(callable.bind(py)),
        }
    }
}

/// A double holds microseconds since 1970 exactly enough that rounding gives them back.
fn ask(callable: &Bound<'_, PyAny>) -> PyResult<u64> {
    let seconds: f64 = callable.call0()?.extract()?;
    if !(0.0..=LATEST_S).contains(&seconds) {
        let message = format!("clock() gave {seconds}: must be unix seconds from 0 to {LATEST_S}");
        return Err(PyValueError::new_err(message));
    }
    Ok((seconds * 1e6).round() as u64)
}
