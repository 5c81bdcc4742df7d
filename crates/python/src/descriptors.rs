//! What Python passes to a policy: descriptors as dicts, costs as a number or by kind.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyTuple};
use smallvec::SmallVec;
use tidegate_core::{Descriptor, Domain, Plan, Verb};

use crate::errors;
use crate::parts::{self, Bytes, Cost};

/// What a bare number is counted as.
const REQUESTS: &[u8] = b"requests";

type Objects<'py> = SmallVec<[(Bound<'py, PyAny>, Bound<'py, PyAny>); 8]>;
type Entries<'a> = SmallVec<[(Bytes<'a>, Bytes<'a>); 8]>;
type Costs<'a> = SmallVec<[(&'a [u8], u64); 2]>;
type Slices<'a> = SmallVec<[(&'a [u8], &'a [u8]); 8]>;

/// The descriptors of one request, still as Python objects.
pub struct Descriptors<'py> {
    each: SmallVec<[Objects<'py>; 2]>,
    costs: SmallVec<[(Bound<'py, PyAny>, Cost); 2]>,
    cost: Cost,
}

impl<'py> Descriptors<'py> {
    /// Reads one mapping, or a list or tuple of them, and the cost.
    pub fn read(asked: &Bound<'py, PyAny>, cost: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        let mut each = SmallVec::new();
        if asked.is_instance_of::<PyList>() || asked.is_instance_of::<PyTuple>() {
            for descriptor in asked.try_iter()? {
                each.push(pairs(&descriptor?)?);
            }
        } else {
            each.push(pairs(asked)?);
        }
        let mut read = Self { each, costs: SmallVec::new(), cost: Cost(1) };
        match cost {
            None => {}
            Some(by_kind) if by_kind.is_instance_of::<PyDict>() => {
                for (kind, cost) in pairs(by_kind)? {
                    read.costs.push((kind, cost.extract()?));
                }
            }
            Some(cost) => read.cost = cost.extract()?,
        }
        Ok(read)
    }

    /// True if a hit would take something.
    pub fn takes(&self) -> bool {
        if self.costs.is_empty() {
            return self.cost.0 > 0;
        }
        self.costs.iter().any(|(_, cost)| cost.0 > 0)
    }

    /// Plans them against a domain.
    pub fn plan<'r>(&self, domain: &'r Domain, verb: Verb, now_us: u64) -> PyResult<Plan<'r>> {
        self.ask(verb, |descriptors| Plan::new(domain, descriptors, now_us))?
            .map_err(|error| errors::request(&error))
    }

    /// Hands them over as the engine takes them, with what was said of the cost.
    pub fn ask<T>(&self, verb: Verb, ask: impl FnOnce(&[Descriptor<'_>]) -> T) -> PyResult<T> {
        let kinds: PyResult<SmallVec<[(Bytes<'_>, u64); 2]>> =
            self.costs.iter().map(|(kind, cost)| Ok((text(kind)?, cost.0))).collect();
        let kinds = kinds?;
        let mut costs: Costs<'_> =
            kinds.iter().map(|(kind, cost)| (kind.as_slice(), *cost)).collect();
        if costs.is_empty() {
            costs.push((REQUESTS, self.cost.0));
        }
        self.ask_costs(&costs, verb, ask)
    }

    /// Plans a look at every kind of cost: what a reset must reach.
    pub fn plan_all<'r>(&self, domain: &'r Domain, now_us: u64) -> PyResult<Plan<'r>> {
        let mut costs = Costs::new();
        for rule in &domain.rules {
            if costs.iter().all(|(kind, _)| **kind != *rule.counts) {
                costs.push((&rule.counts, 1));
            }
        }
        self.ask_costs(&costs, Verb::Peek, |descriptors| Plan::new(domain, descriptors, now_us))?
            .map_err(|error| errors::request(&error))
    }

    fn ask_costs<T>(
        &self,
        costs: &[(&[u8], u64)],
        verb: Verb,
        ask: impl FnOnce(&[Descriptor<'_>]) -> T,
    ) -> PyResult<T> {
        let entries: PyResult<SmallVec<[Entries<'_>; 2]>> = self.each.iter().map(texts).collect();
        let entries = entries?;
        let slices: SmallVec<[Slices<'_>; 2]> = entries.iter().map(slices).collect();
        let descriptors: SmallVec<[Descriptor<'_>; 2]> =
            slices.iter().map(|entries| Descriptor { entries, costs, verb, rate: None }).collect();
        Ok(ask(&descriptors))
    }
}

/// A copy that the caller cannot change: dicts inside a list or tuple are copied too.
pub fn copy_of(asked: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if let Ok(dict) = asked.cast::<PyDict>() {
        return Ok(dict.copy()?.into_any().unbind());
    }
    if asked.is_instance_of::<PyList>() || asked.is_instance_of::<PyTuple>() {
        let copies: PyResult<Vec<Py<PyAny>>> =
            asked.try_iter()?.map(|descriptor| copy_of(&descriptor?)).collect();
        return Ok(PyTuple::new(asked.py(), copies?)?.into_any().unbind());
    }
    match asked.cast::<PyMapping>() {
        Ok(mapping) => {
            let copy = PyDict::new(asked.py());
            copy.update(mapping)?;
            Ok(copy.into_any().unbind())
        }
        Err(_) => Ok(asked.clone().unbind()),
    }
}

fn pairs<'py>(descriptor: &Bound<'py, PyAny>) -> PyResult<Objects<'py>> {
    if let Ok(dict) = descriptor.cast::<PyDict>() {
        return Ok(dict.iter().collect());
    }
    let Ok(mapping) = descriptor.cast::<PyMapping>() else {
        let kind = descriptor.get_type();
        return Err(PyTypeError::new_err(format!(
            "a descriptor must be a mapping of keys to values, not {}",
            kind.name()?
        )));
    };
    mapping.items()?.iter().map(|pair| pair.extract()).collect()
}

fn texts<'a>(pairs: &'a Objects<'_>) -> PyResult<Entries<'a>> {
    pairs.iter().map(|(key, value)| Ok((text(key)?, value_of(key, value)?))).collect()
}

fn text<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<Bytes<'a>> {
    parts::bytes(key.as_borrowed())
}

fn value_of<'a>(key: &Bound<'_, PyAny>, value: &'a Bound<'_, PyAny>) -> PyResult<Bytes<'a>> {
    if value.is_none() {
        return Err(PyTypeError::new_err(format!(
            "descriptor {:?} is None; leave the key out where there is no value",
            key.str()?.to_string()
        )));
    }
    text(value)
}

fn slices<'a>(entries: &'a Entries<'_>) -> Slices<'a> {
    entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect()
}
