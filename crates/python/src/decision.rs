//! The answer to one request, as Python sees it: a few words now, the rest when somebody looks.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::{SmallVec, smallvec};
use tidegate_core::{Decision as Concluded, LimitReport as LimitSaid, Plan, PlannedOp, Reason};
use tidegate_server::{Answer, DecisionId, headers};

use crate::asked::Asked;
use crate::report::{LimitReport, Row};
use crate::rules::Rules;
use crate::server;

/// The answer to one request: truthy when it may pass.
#[pyclass(frozen, module = "tidegate")]
pub struct Decision {
    rules: Arc<Rules>,
    rows: SmallVec<[Row; 1]>,
    asked: Asked,
    /// Made when somebody asks for it.
    id: OnceLock<DecisionId>,
    decided_us: u64,
    retry_after_us: Option<u64>,
    binding: u32,
    reason: Reason,
    allowed: bool,
    is_degraded: bool,
    /// Relaxed: `swap` alone decides who refunds, and orders no other memory.
    is_refunded: AtomicBool,
}

impl Decision {
    fn id(&self) -> &DecisionId {
        self.id.get_or_init(|| DecisionId::new(self.decided_us))
    }

    /// Keeps what was concluded.
    #[inline]
    pub fn new(
        rules: &Arc<Rules>,
        concluded: &Concluded<'_>,
        asked: Asked,
        decided_us: u64,
    ) -> Self {
        Self {
            rules: Arc::clone(rules),
            rows: concluded.limits.iter().map(Row::new).collect(),
            asked,
            id: OnceLock::new(),
            decided_us,
            retry_after_us: concluded.retry_after_us,
            binding: concluded.binding.map_or(u32::MAX, |at| at as u32),
            reason: concluded.reason,
            allowed: concluded.allowed,
            is_degraded: concluded.is_degraded,
            is_refunded: AtomicBool::new(false),
        }
    }

    /// Keeps what a limit said that the request met alone.
    #[inline]
    pub fn alone(rules: &Arc<Rules>, said: &LimitSaid<'_>, asked: Asked, decided_us: u64) -> Self {
        let denies = said.denies();
        Self {
            rules: Arc::clone(rules),
            rows: smallvec![Row::new(said)],
            asked,
            id: OnceLock::new(),
            decided_us,
            retry_after_us: if denies { said.wait_us } else { None },
            binding: 0,
            reason: if denies { said.reason } else { Reason::Ok },
            allowed: !denies,
            is_degraded: false,
            is_refunded: AtomicBool::new(false),
        }
    }

    /// What was asked, to give it back.
    pub const fn asked(&self) -> &Asked {
        &self.asked
    }

    /// True for the first caller alone: one decision is given back once.
    pub fn take_refund(&self) -> bool {
        !self.is_refunded.swap(true, Ordering::Relaxed)
    }

    /// True if this decision took something from a counter of that limit and rate whose window
    /// still runs at `now`.
    pub fn holds(&self, op: &PlannedOp<'_>, now_us: u64) -> bool {
        let is_it = |row: &&Row| {
            self.rules.domain.rules[row.rule as usize].uid == op.rule.uid
                && row.numbers.period_us == op.numbers.period_us
        };
        let is_charged = |row: &Row| self.allowed && !row.is_unasked && row.allowed;
        self.rows.iter().find(is_it).is_some_and(is_charged)
            && op.is_same_window(self.decided_us, now_us)
    }

    fn reports(&self) -> impl ExactSizeIterator<Item = LimitReport> {
        self.rows.iter().map(|row| row.report(&self.rules))
    }
}

#[pymethods]
impl Decision {
    /// Whether the request may pass.
    #[getter]
    const fn allowed(&self) -> bool {
        self.allowed
    }

    /// Why: ok, `over_limit`, `cost_exceeds_limit`, blocked, `missing_key`, `store_failure`.
    #[getter]
    const fn reason(&self) -> &'static str {
        self.reason.as_str()
    }

    /// Seconds until the same request passes if nobody else takes anything; None where it is
    /// allowed or no wait helps.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.retry_after_us.map(|wait| wait as f64 / 1e6)
    }

    /// Names this decision in logs.
    #[getter]
    fn decision_id(&self) -> &str {
        self.id().as_str()
    }

    /// The revision of the policy that decided.
    #[getter]
    fn revision(&self) -> &str {
        &self.rules.revision
    }

    /// Whether the store did not answer, so that `on_store_failure` decided.
    #[getter]
    const fn degraded(&self) -> bool {
        self.is_degraded
    }

    /// Index of the limit that headers show: the denying one that frees last, else the fullest.
    #[getter]
    fn binding(&self) -> Option<u32> {
        (self.binding != u32::MAX).then_some(self.binding)
    }

    /// Every limit that the request met.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.reports())
    }

    /// The decision as every door says it in JSON.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("allowed", self.allowed)?;
        dict.set_item("reason", self.reason())?;
        dict.set_item("retry_after_ms", self.retry_after_us.map(|wait| wait.div_ceil(1000)))?;
        dict.set_item("decision_id", self.decision_id())?;
        dict.set_item("revision", self.revision())?;
        dict.set_item("degraded", self.is_degraded)?;
        dict.set_item("binding", self.binding())?;
        let limits: PyResult<Vec<_>> = self.reports().map(|report| report.fill(py)).collect();
        dict.set_item("limits", limits?)?;
        Ok(dict)
    }

    /// The headers that tell a client where it stands, `retry-after` among them.
    #[pyo3(signature = (profile="github"))]
    fn headers<'py>(&self, py: Python<'py>, profile: &str) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        let decision = Concluded {
            allowed: self.allowed,
            reason: self.reason,
            retry_after_us: self.retry_after_us,
            is_degraded: self.is_degraded,
            binding: self.binding().map(|at| at as usize),
            limits: self.rows.iter().map(|row| row.said(&self.rules)).collect(),
        };
        let (plan, revision, now_us) = (&Plan::default(), self.revision(), self.decided_us);
        let answer = Answer::new(decision, plan, revision, now_us).with_id(*self.id());
        let mut failed = Ok(());
        headers::each(server::profile(profile)?, &answer, |name, value| {
            let put = || told.set_item(name, String::from_utf8_lossy(value));
            if let Err(error) = put() {
                failed = Err(error);
            }
        });
        failed.map(|()| told)
    }

    const fn __bool__(&self) -> bool {
        self.allowed
    }

    fn __repr__(&self) -> String {
        let verdict = if self.allowed { "allowed" } else { "denied" };
        let mut said = format!("<Decision {verdict}");
        if self.reason != Reason::Ok {
            let _ = write!(said, ", {}", self.reason.as_str());
        }
        if let Some(row) = self.rows.get(self.binding as usize) {
            let _ = write!(said, ": {}", row.report(&self.rules).summary());
        }
        if let Some(wait) = self.retry_after() {
            let _ = write!(said, ", retry after {wait:.3} s");
        }
        if self.is_degraded {
            said += ", degraded";
        }
        said + ">"
    }
}
