//! The store of an engine, asked from a Python thread.

use std::sync::Arc;

use pyo3::prelude::*;
use smallvec::smallvec;
use tidegate_core::Plan;
use tidegate_counters::redis::{RedisOptions, RedisStore, StoreError};
use tidegate_counters::{Clock, MemoryStore, Outcomes};

use crate::errors;

/// A shared store of that URL, with what else is set; nothing is sent yet.
pub fn redis(
    url: &str,
    clock: &Arc<Clock>,
    set: impl FnOnce(&mut RedisOptions),
) -> PyResult<RedisStore> {
    let mut options = RedisOptions::parse(url).map_err(|error| errors::options(&error))?;
    set(&mut options);
    RedisStore::new(options, Arc::clone(clock)).map_err(|error| errors::options(&error))
}

/// Where the counters live.
pub enum Store {
    /// In this process.
    Memory(MemoryStore),
    /// In a shared store; true if its failures are raised instead of decided by the limits.
    Redis(RedisStore, bool),
}

impl Store {
    /// Outcomes in the order of `plan.asked()`, or none where the store is away and the limits
    /// decide.
    ///
    /// Memory is asked without detaching: it waits on nothing but a shard's lock, and who holds
    /// that needs no interpreter to go on.
    #[inline]
    pub fn decide(
        &self,
        py: Python<'_>,
        plan: &Plan<'_>,
        now_us: u64,
    ) -> PyResult<Option<Outcomes>> {
        match self {
            Self::Memory(memory) => Ok(Some(memory.decide(plan, now_us))),
            Self::Redis(_, _) if plan.asked().next().is_none() => Ok(Some(smallvec![])),
            Self::Redis(redis, is_raising) => match py.detach(|| redis.decide_blocking(plan)) {
                Ok(outcomes) => Ok(Some(outcomes)),
                Err(error) => failed(py, error, *is_raising),
            },
        }
    }

    /// The same for many requests, decided one after another.
    pub fn decide_many(
        &self,
        py: Python<'_>,
        plans: &[Plan<'_>],
        now_us: u64,
    ) -> PyResult<Vec<Option<Outcomes>>> {
        match self {
            Self::Memory(memory) => {
                Ok(plans.iter().map(|plan| Some(memory.decide(plan, now_us))).collect())
            }
            Self::Redis(redis, is_raising) => {
                let answers = py.detach(|| redis.decide_many_blocking(plans));
                let read = |answer| match answer {
                    Ok(outcomes) => Ok(Some(outcomes)),
                    Err(error) => failed(py, error, *is_raising),
                };
                answers.into_iter().map(read).collect()
            }
        }
    }

    /// Forgets the counters that a plan meets; a store that is away is an error.
    pub fn reset(&self, py: Python<'_>, plan: &Plan<'_>) -> PyResult<()> {
        match self {
            Self::Memory(memory) => memory.reset(plan),
            Self::Redis(redis, _) => py
                .detach(|| redis.reset_blocking(plan))
                .map_err(|error| errors::store(py, &error))?,
        }
        Ok(())
    }
}

/// What is known of a decision that the store did not make, or not alone; an error where failures
/// are raised.
fn failed(py: Python<'_>, error: StoreError, is_raising: bool) -> PyResult<Option<Outcomes>> {
    match error {
        error if is_raising => Err(errors::store(py, &error)),
        StoreError::Partial { outcomes, .. } => Ok(Some(*outcomes)),
        _ => Ok(None),
    }
}
