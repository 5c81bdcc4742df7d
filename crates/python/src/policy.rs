//! A policy in this process: the same rules as the service, asked without a network.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pyo3::prelude::*;
use tidegate_core::{Action, Verb};
use tidegate_server::explain::put_explanation;

use crate::asked::Asked;
use crate::decision::Decision;
use crate::descriptors::{Descriptors, copy_of};
use crate::engine::{Engine, Shared};
use crate::errors::{self, guarded};
use crate::rules::Rules;

/// One domain of a policy; make one with `Limiter.policy`.
#[pyclass(frozen, subclass, module = "tidegate._native")]
pub struct Policy {
    shared: Arc<Shared>,
    domain: String,
    rules: ArcSwap<Rules>,
}

#[pymethods]
impl Policy {
    #[new]
    fn new(engine: &Engine, snapshot: &[u8], domain: String) -> PyResult<Self> {
        guarded(|| {
            let shared = Arc::clone(&engine.shared);
            let rules = ArcSwap::from_pointee(shared.load(snapshot, &domain)?);
            Ok(Self { shared, domain, rules })
        })
    }

    /// Takes what each matching limit counts if all of them have room, else nothing.
    #[pyo3(signature = (descriptors, cost=None))]
    fn hit<'py>(
        &self,
        py: Python<'py>,
        descriptors: &Bound<'py, PyAny>,
        cost: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Decision> {
        guarded(|| self.ask(py, descriptors, cost, Verb::Hit))
    }

    /// Says what a hit of that cost would say, and takes nothing.
    #[pyo3(signature = (descriptors, cost=None))]
    fn peek<'py>(
        &self,
        py: Python<'py>,
        descriptors: &Bound<'py, PyAny>,
        cost: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Decision> {
        guarded(|| self.ask(py, descriptors, cost, Verb::Peek))
    }

    /// Gives back what a decision took, once, or a cost for descriptors; never into another
    /// window.
    #[pyo3(signature = (descriptors, cost=None))]
    fn refund<'py>(
        &self,
        py: Python<'py>,
        descriptors: &Bound<'py, PyAny>,
        cost: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Decision> {
        guarded(|| match descriptors.cast::<Decision>() {
            Ok(decision) => self.give_back(py, decision.get()),
            Err(_) => self.ask(py, descriptors, cost, Verb::Refund),
        })
    }

    /// What would apply to a request and why, and why the nearest other limits do not, as JSON.
    /// Takes nothing.
    #[pyo3(signature = (descriptors, cost=None))]
    fn explain_json<'py>(
        &self,
        py: Python<'py>,
        descriptors: &Bound<'py, PyAny>,
        cost: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<String> {
        guarded(|| {
            let rules = self.rules.load_full();
            let now_us = self.shared.now_us(py)?;
            let (name, domain) = (self.domain.as_bytes(), Some(&rules.domain));
            let mut out = Vec::new();
            let read = Descriptors::read(descriptors, cost)?;
            read.ask(Verb::Peek, |descriptors| {
                put_explanation(&mut out, &rules.revision, name, domain, descriptors, now_us);
            })?;
            Ok(String::from_utf8_lossy(&out).into_owned())
        })
    }

    /// Forgets what every matching limit counted.
    fn reset(&self, py: Python<'_>, descriptors: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            let rules = self.rules.load_full();
            let now_us = self.shared.now_us(py)?;
            let plan = Descriptors::read(descriptors, None)?.plan_all(&rules.domain, now_us)?;
            self.shared.reset(py, &plan)
        })
    }

    /// Decides by another snapshot from now on; what was counted stays.
    fn load(&self, snapshot: &[u8]) -> PyResult<()> {
        guarded(|| {
            self.rules.store(Arc::new(self.shared.load(snapshot, &self.domain)?));
            Ok(())
        })
    }

    /// The revision of the policy in force.
    #[getter]
    fn revision(&self) -> String {
        self.rules.load().revision.to_string()
    }

    /// The domain.
    #[getter]
    fn domain(&self) -> &str {
        &self.domain
    }
}

impl Policy {
    fn ask<'py>(
        &self,
        py: Python<'py>,
        descriptors: &Bound<'py, PyAny>,
        cost: Option<&Bound<'py, PyAny>>,
        verb: Verb,
    ) -> PyResult<Decision> {
        let rules = self.rules.load_full();
        let now_us = self.shared.now_us(py)?;
        let read = Descriptors::read(descriptors, cost)?;
        let plan = read.plan(&rules.domain, verb, now_us)?;
        let asked = if verb == Verb::Hit && read.takes() {
            let cost = cost.map_or_else(|| Ok(py.None()), copy_of)?;
            Asked::Descriptors(copy_of(descriptors)?, cost)
        } else {
            Asked::Nothing
        };
        self.shared.answer(py, &rules, &plan, asked, now_us)
    }

    fn give_back(&self, py: Python<'_>, decision: &Decision) -> PyResult<Decision> {
        let Asked::Descriptors(descriptors, cost) = decision.asked() else {
            return Err(errors::config("this decision took nothing from a policy".into()));
        };
        let cost = cost.bind(py);
        let cost = (!cost.is_none()).then_some(cost);
        let rules = self.rules.load_full();
        let now_us = self.shared.now_us(py)?;
        let read = Descriptors::read(descriptors.bind(py), cost)?;
        let mut plan = read.plan(&rules.domain, Verb::Refund, now_us)?;
        let is_first = decision.take_refund();
        for op in &mut plan.ops {
            if !is_first || !decision.holds(op, now_us) {
                op.action = Action::Peek(op.action.cost());
            }
        }
        self.shared.answer(py, &rules, &plan, Asked::Nothing, now_us)
    }
}
