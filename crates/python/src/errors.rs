//! The one place where errors of the crates below become exceptions of `tidegate.errors`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::{PyErr, PyResult, import_exception};
use tidegate_core::{RequestError, SnapshotError};

import_exception!(tidegate.errors, ConfigError);
import_exception!(tidegate.errors, InternalError);

/// The author's mistake.
pub fn config(message: String) -> PyErr {
    ConfigError::new_err(message)
}

/// A snapshot that this build cannot use. The compiler makes snapshots, so this is a bug of ours
/// or a file of another version.
pub fn snapshot(error: &SnapshotError) -> PyErr {
    InternalError::new_err(error.to_string())
}

/// A request that has no answer.
pub fn request(error: &RequestError) -> PyErr {
    ConfigError::new_err(error.to_string())
}

/// Runs a call from Python; a panic becomes an `InternalError` instead of killing the thread.
#[inline]
pub fn guarded<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer,
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    InternalError::new_err(format!("the engine panicked: {}", said.unwrap_or("without a message")))
}
