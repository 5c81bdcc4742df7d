//! What a decision was asked for, kept so that it can be given back.

use pyo3::prelude::*;
use smallvec::SmallVec;

/// The key and the cost of a charge.
pub enum Asked {
    /// Nothing was taken: a look, a refund.
    Nothing,
    /// The key parts of a limit made in code.
    Parts(SmallVec<[Py<PyAny>; 2]>, u64),
    /// The descriptors and costs of a policy, copied from what the caller holds.
    Descriptors(Py<PyAny>, Py<PyAny>),
}
