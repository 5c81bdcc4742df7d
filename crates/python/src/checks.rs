//! Settings that nothing but the engine can judge, looked at without starting anything.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate_counters::Clock;
use tidegate_counters::redis::{RedisOptions, RedisStore};
use tidegate_server::ForwardAuth;
use tidegate_server::tls::Certificates;

use crate::errors::guarded;
use crate::options::tls_files;

/// Says what is wrong with the URL of a shared store, a file that it names or what is set beside it;
/// None if nothing is.
/// Nothing is connected to.
#[pyfunction]
#[pyo3(signature = (url, *, prefix, deadline_us, wait_replicas, store_batch))]
pub fn check_store(
    py: Python<'_>,
    url: &str,
    prefix: &str,
    deadline_us: u64,
    wait_replicas: u32,
    store_batch: usize,
) -> PyResult<Option<String>> {
    guarded(|| {
        let made = py.detach(|| {
            let mut options = RedisOptions::parse(url)?;
            prefix.clone_into(&mut options.prefix);
            options.deadline = Duration::from_micros(deadline_us);
            options.wait_replicas = wait_replicas;
            options.batch = store_batch;
            RedisStore::new(options, Arc::new(Clock::default()))
        });
        Ok(made.err().map(|error| error.problem().to_owned()))
    })
}

/// Says which certificate file cannot be used, and why; None if all can.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "made from a list of Python")]
pub fn check_certificates(
    py: Python<'_>,
    certificate: &str,
    key: &str,
    client_authorities: Option<&str>,
    client_uris: Vec<String>,
) -> PyResult<Option<(String, String)>> {
    guarded(|| {
        let files = tls_files(certificate, key, client_authorities, &client_uris)?;
        let failed = py.detach(|| Certificates::load(files)).err();
        Ok(failed.map(|error| (error.path().display().to_string(), error.to_string())))
    })
}

/// Says what is wrong with the doors for proxies; None if nothing is.
#[pyfunction]
pub fn check_doors(document: &[u8]) -> Option<String> {
    ForwardAuth::load(document).err().map(|error| error.to_string())
}
