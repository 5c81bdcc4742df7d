//! The rules that a handle asks: one domain of one snapshot.

use std::sync::Arc;

use pyo3::PyResult;
use tidegate_core::{Domain, Identities, RuleSet};

use crate::errors;

/// One domain, with the revision that it was compiled from. Decisions hold on to it, so that they
/// can name their limits after a reload.
pub struct Rules {
    pub revision: Arc<str>,
    pub domain: Domain,
}

impl Rules {
    /// Reads a snapshot and keeps one of its domains.
    pub fn load(snapshot: &[u8], domain: &str, identities: &mut Identities) -> PyResult<Self> {
        let rules =
            RuleSet::load(snapshot, identities).map_err(|error| errors::snapshot(&error))?;
        let revision = Arc::clone(&rules.revision);
        let domain = rules
            .into_domain(domain.as_bytes())
            .ok_or_else(|| errors::config(format!("the policy has no domain {domain:?}")))?;
        Ok(Self { revision, domain })
    }
}
