//! Patterns of policy files, checked by the engine that will run them.

use pyo3::pyfunction;
use tidegate_core::RuleSet;

/// Says what is wrong with a pattern of a policy file; None if nothing is.
#[pyfunction]
pub fn check_regex(pattern: &str) -> Option<String> {
    RuleSet::check_regex(pattern).err()
}
