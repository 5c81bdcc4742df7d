//! The one place where errors of the crates below become exceptions of `tidegate.errors`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_core::{RequestError, SnapshotError};
use tidegate_counters::redis::{OptionsError, StoreError as Failure};
use tidegate_server::StartError;

import_exception!(tidegate.errors, ConfigError);
import_exception!(tidegate.errors, InternalError);
import_exception!(tidegate.errors, StoreError);

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

/// A store URL or option that cannot be used.
pub fn options(error: &OptionsError) -> PyErr {
    ConfigError::new_err(error.to_string())
}

/// A service that does not start: an address that is taken or not ours.
pub fn start(error: &StartError) -> PyErr {
    ConfigError::new_err(error.to_string())
}

/// A store that did not decide.
pub fn store(py: Python<'_>, error: &Failure) -> PyErr {
    let raised = || {
        let told = PyDict::new(py);
        told.set_item("retry", !error.may_have_written())?;
        told.set_item("may_have_written", error.may_have_written())?;
        py.get_type::<StoreError>().call((error.to_string(),), Some(&told))
    };
    raised().map_or_else(|failed| failed, PyErr::from_value)
}

/// A clock that only builds for tests have.
#[cfg(not(feature = "fake-clock"))]
pub fn no_fake_clock() -> PyErr {
    InternalError::new_err("this build has no clock that can be set")
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
