//! What is said of one limit, as Python sees it.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_core::{LimitReport as Said, Numbers, Reason};

use crate::rules::Rules;

const SECOND_US: f64 = 1e6;
const MILLI_US: u64 = 1000;

/// One limit of a decision, as it is kept until somebody looks.
#[derive(Clone, Copy)]
pub struct Row {
    pub rule: u32,
    pub numbers: Numbers,
    pub allowed: bool,
    pub remaining: u64,
    pub wait_us: Option<u64>,
    pub reset_us: u64,
    pub reason: Reason,
    pub is_folded: bool,
    pub is_unasked: bool,
}

impl Row {
    #[inline]
    pub fn new(said: &Said<'_>) -> Self {
        Self {
            rule: said.rule.row,
            numbers: said.numbers,
            allowed: said.allowed,
            remaining: said.remaining,
            wait_us: said.wait_us,
            reset_us: said.reset_us,
            reason: said.reason,
            is_folded: said.is_folded,
            is_unasked: said.is_unasked,
        }
    }

    /// What the engine said.
    pub fn said<'r>(&self, rules: &'r Rules) -> Said<'r> {
        Said {
            rule: &rules.domain.rules[self.rule as usize],
            numbers: self.numbers,
            allowed: self.allowed,
            remaining: self.remaining,
            wait_us: self.wait_us,
            reset_us: self.reset_us,
            reason: self.reason,
            is_folded: self.is_folded,
            is_unasked: self.is_unasked,
        }
    }

    /// The form in which Python reads it.
    pub fn report(&self, rules: &Rules) -> LimitReport {
        let rule = &rules.domain.rules[self.rule as usize];
        LimitReport {
            id: rule.id.to_string(),
            allowed: self.allowed,
            limit: self.numbers.capacity(rule.algorithm),
            remaining: self.remaining,
            reset_us: self.reset_us,
            window_us: self.numbers.window_us(rule.algorithm),
            shadow: rule.is_shadow,
            folded: self.is_folded,
        }
    }
}

/// One limit that a request met.
#[pyclass(frozen, eq, module = "tidegate")]
#[derive(Debug, PartialEq, Eq)]
pub struct LimitReport {
    /// The limit's id.
    #[pyo3(get)]
    id: String,
    /// Whether this limit passes the request.
    #[pyo3(get)]
    allowed: bool,
    /// The most that can be taken at once.
    #[pyo3(get)]
    limit: u64,
    /// The largest cost that would pass now.
    #[pyo3(get)]
    remaining: u64,
    reset_us: u64,
    window_us: u64,
    /// Whether the limit only reports, and never denies.
    #[pyo3(get)]
    shadow: bool,
    /// Whether a full memory store made this counter one that others share.
    #[pyo3(get)]
    folded: bool,
}

#[pymethods]
impl LimitReport {
    /// Seconds until the window ends or the counter is as good as unused.
    #[getter]
    fn reset_after(&self) -> f64 {
        self.reset_us as f64 / SECOND_US
    }

    /// Seconds in which a full counter comes back.
    #[getter]
    fn window(&self) -> f64 {
        self.window_us as f64 / SECOND_US
    }

    fn __repr__(&self) -> String {
        let Self { id, limit, remaining, .. } = self;
        let verdict = if self.allowed { "allowed" } else { "denied" };
        let shadow = if self.shadow { ", shadow" } else { "" };
        let reset = self.reset_after();
        format!(
            "<LimitReport {id:?} {verdict}: {remaining} of {limit} left, reset in {reset:.3} s{shadow}>"
        )
    }
}

impl LimitReport {
    /// The limit's entry in the JSON of a decision.
    pub fn fill<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let entry = PyDict::new(py);
        entry.set_item("id", &self.id)?;
        entry.set_item("allowed", self.allowed)?;
        entry.set_item("limit", self.limit)?;
        entry.set_item("remaining", self.remaining)?;
        entry.set_item("reset_ms", self.reset_us.div_ceil(MILLI_US))?;
        entry.set_item("window_ms", self.window_us.div_ceil(MILLI_US))?;
        entry.set_item("shadow", self.shadow)?;
        if self.folded {
            entry.set_item("folded", true)?;
        }
        Ok(entry)
    }

    /// What a person reads of the limit that binds.
    pub fn summary(&self) -> String {
        format!("{} {} of {} left", self.id, self.remaining, self.limit)
    }
}
