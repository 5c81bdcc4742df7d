//! A limit made in code: `posts.hit(user)`. The shortest way through the engine.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tidegate_core::{Action, Numbers, Plan, Rule, Verb};

use crate::asked::Asked;
use crate::decision::Decision;
use crate::engine::{Alone, Engine, Shared};
use crate::errors::{self, guarded};
use crate::parts::{Cost, Part, Parts};
use crate::rules::Rules;

/// A limit made in code; make one with `Limiter.limit`.
#[pyclass(frozen, subclass, module = "tidegate._native")]
pub struct Limit {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
}

#[pymethods]
impl Limit {
    #[new]
    fn new(engine: &Engine, snapshot: &[u8], domain: &str) -> PyResult<Self> {
        guarded(|| {
            let shared = Arc::clone(&engine.shared);
            let rules = Arc::new(shared.load(snapshot, domain)?);
            Ok(Self { shared, rules })
        })
    }

    /// Takes `cost` for this key if every rate of the limit has room, else nothing.
    #[pyo3(
        signature = (first=Part::Absent, second=Part::Absent, /, *rest, cost=Cost(1)),
        text_signature = "($self, /, *parts, cost=1)"
    )]
    fn hit<'a, 'py>(
        &self,
        py: Python<'py>,
        first: Part<'a, 'py>,
        second: Part<'a, 'py>,
        rest: &'a Bound<'py, PyTuple>,
        cost: Cost,
    ) -> PyResult<Decision> {
        guarded(|| self.ask(py, &Parts::new([first, second], rest)?, cost.0, Verb::Hit))
    }

    /// Says what a hit of that cost would say, and takes nothing.
    #[pyo3(
        signature = (first=Part::Absent, second=Part::Absent, /, *rest, cost=Cost(1)),
        text_signature = "($self, /, *parts, cost=1)"
    )]
    fn peek<'a, 'py>(
        &self,
        py: Python<'py>,
        first: Part<'a, 'py>,
        second: Part<'a, 'py>,
        rest: &'a Bound<'py, PyTuple>,
        cost: Cost,
    ) -> PyResult<Decision> {
        guarded(|| self.ask(py, &Parts::new([first, second], rest)?, cost.0, Verb::Peek))
    }

    /// Decides many, one after another: pairs of a key (one part, or a tuple of parts) and a cost.
    fn hit_many<'py>(&self, py: Python<'py>, hits: &Bound<'py, PyAny>) -> PyResult<Vec<Decision>> {
        guarded(|| {
            let pairs: PyResult<Vec<(Bound<'py, PyAny>, Cost)>> =
                hits.try_iter()?.map(|pair| pair?.extract()).collect();
            let (mut plans, mut asked) = (Vec::new(), Vec::new());
            for (key, cost) in &pairs? {
                let parts = Parts::of(key)?;
                plans.push(self.plan(&parts, cost.0, Verb::Hit));
                asked.push(asked_for(&parts, cost.0, Verb::Hit));
            }
            let now_us = self.shared.now_us(py)?;
            self.shared.answer_many(py, &self.rules, &plans, asked, now_us)
        })
    }

    /// Gives back what a decision took, once, or `cost` for a key; never into another window.
    #[pyo3(signature = (*parts, cost=Cost(1)), text_signature = "($self, /, *parts, cost=1)")]
    fn refund<'py>(
        &self,
        py: Python<'py>,
        parts: &Bound<'py, PyTuple>,
        cost: Cost,
    ) -> PyResult<Decision> {
        guarded(|| match parts.get_borrowed_item(0) {
            Ok(first) if parts.len() == 1 && first.is_instance_of::<Decision>() => {
                self.give_back(py, first.cast::<Decision>()?.get())
            }
            _ => self.ask(py, &Parts::of(parts.as_any())?, cost.0, Verb::Refund),
        })
    }

    /// Forgets what was counted for this key.
    #[pyo3(signature = (*parts))]
    fn reset(&self, py: Python<'_>, parts: &Bound<'_, PyTuple>) -> PyResult<()> {
        guarded(|| {
            let parts = Parts::of(parts.as_any())?;
            let plan = self.plan(&parts, 1, Verb::Peek);
            self.shared.reset(py, &plan)
        })
    }

    /// The revision of the limit's definition.
    #[getter]
    fn revision(&self) -> &str {
        &self.rules.revision
    }
}

impl Limit {
    #[inline]
    fn plan(&self, parts: &Parts<'_, '_>, cost: u64, verb: Verb) -> Plan<'_> {
        Plan::direct(&self.rules.domain, &parts.bytes(), cost, verb)
    }

    #[inline]
    fn ask(
        &self,
        py: Python<'_>,
        parts: &Parts<'_, '_>,
        cost: u64,
        verb: Verb,
    ) -> PyResult<Decision> {
        let now_us = self.shared.now_us(py)?;
        if let Some((rule, numbers)) = self.alone() {
            let ask = Alone { rule, numbers, parts: &parts.bytes(), action: verb.action(cost) };
            let asked = || asked_for(parts, cost, verb);
            if let Some(decision) = self.shared.answer_alone(&self.rules, ask, asked, now_us) {
                return Ok(decision);
            }
        }
        let plan = self.plan(parts, cost, verb);
        self.shared.answer(py, &self.rules, &plan, asked_for(parts, cost, verb), now_us)
    }

    /// The one rate of a limit that has one and asks the store.
    #[inline]
    fn alone(&self) -> Option<(&Rule, Numbers)> {
        let [rule] = self.rules.domain.rules.as_slice() else { return None };
        rule.numbers.filter(|numbers| numbers.n > 0).map(|numbers| (rule, numbers))
    }

    fn give_back(&self, py: Python<'_>, decision: &Decision) -> PyResult<Decision> {
        let Asked::Parts(objects, cost) = decision.asked() else {
            return Err(errors::config("this decision took nothing from a limit".into()));
        };
        let objects = PyTuple::new(py, objects)?;
        let parts = Parts::of(objects.as_any())?;
        let now_us = self.shared.now_us(py)?;
        let mut plan = self.plan(&parts, *cost, Verb::Refund);
        let is_first = decision.take_refund();
        for op in &mut plan.ops {
            if !is_first || !decision.holds(op, now_us) {
                op.action = Action::Peek(op.action.cost());
            }
        }
        self.shared.answer(py, &self.rules, &plan, Asked::Nothing, now_us)
    }
}

#[inline]
fn asked_for(parts: &Parts<'_, '_>, cost: u64, verb: Verb) -> Asked {
    match verb {
        Verb::Hit if cost > 0 => Asked::Parts(parts.objects(), cost),
        Verb::Hit | Verb::Peek | Verb::Refund => Asked::Nothing,
    }
}
