//! What a service is started with.

use std::path::PathBuf;

use pyo3::prelude::*;
use tidegate_server::tls::{TlsFiles, UriPattern};

use crate::errors;

/// What a service is started with; Python fills in every default.
#[pyclass(frozen, get_all, module = "tidegate._native")]
#[derive(Clone)]
pub struct ServiceOptions {
    /// Address and port of the HTTP door.
    pub(crate) http: String,
    /// Address and port of the gRPC door.
    pub(crate) grpc: String,
    /// Threads that serve.
    pub(crate) workers: usize,
    /// Bound of the memory store.
    pub(crate) max_counters: usize,
    /// A shared store's URL; None counts in memory.
    pub(crate) store: Option<String>,
    /// What the keys of a shared store begin with.
    pub(crate) prefix: Option<String>,
    /// Microseconds after which a shared store counts as away.
    pub(crate) deadline_us: u64,
    /// Replicas that must have a charge before it is told; None: none.
    pub(crate) wait_replicas: Option<u32>,
    /// Requests that one call to a shared store decides at most; None: as many as it thinks right.
    pub(crate) store_batch: Option<usize>,
    /// Header profile: "github", "draft03", "ietf" or "off".
    pub(crate) headers: String,
    /// Connections open at once, both doors together; None: as many as the doors think right.
    pub(crate) max_connections: Option<usize>,
    /// Of these, by one peer at most; None: as many as the doors think right.
    pub(crate) max_connections_per_peer: Option<usize>,
    /// Microseconds for which "not ready" is told before connections are asked to leave; None:
    /// as long as the doors think right.
    pub(crate) drain_notice_us: Option<u64>,
    /// Denials that are kept to be explained; None: as many as the node thinks right.
    pub(crate) denials_kept: Option<usize>,
    /// Whether decisions are counted and timed; None: they are.
    pub(crate) metrics: Option<bool>,
    /// Whether requests that come with a sampled trace get a span; None: they do not.
    pub(crate) traces: Option<bool>,
    /// Certificate file of both doors; None: no TLS.
    pub(crate) tls_cert: Option<String>,
    /// Its key.
    pub(crate) tls_key: Option<String>,
    /// Certificates of the authorities of clients; None: clients need no certificate.
    pub(crate) tls_client_ca: Option<String>,
    /// URIs of the clients that may come; None: all that an authority signed.
    pub(crate) tls_client_uris: Option<Vec<String>>,
}

#[pymethods]
impl ServiceOptions {
    #[new]
    #[pyo3(signature = (*, http, grpc, workers, max_counters, store, prefix, deadline_us, headers,
        max_connections=None, max_connections_per_peer=None, drain_notice_us=None, denials_kept=None,
        metrics=None, traces=None, tls_cert=None, tls_key=None, tls_client_ca=None,
        tls_client_uris=None, wait_replicas=None, store_batch=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    const fn new(
        http: String,
        grpc: String,
        workers: usize,
        max_counters: usize,
        store: Option<String>,
        prefix: Option<String>,
        deadline_us: u64,
        headers: String,
        max_connections: Option<usize>,
        max_connections_per_peer: Option<usize>,
        drain_notice_us: Option<u64>,
        denials_kept: Option<usize>,
        metrics: Option<bool>,
        traces: Option<bool>,
        tls_cert: Option<String>,
        tls_key: Option<String>,
        tls_client_ca: Option<String>,
        tls_client_uris: Option<Vec<String>>,
        wait_replicas: Option<u32>,
        store_batch: Option<usize>,
    ) -> Self {
        Self {
            http,
            grpc,
            workers,
            max_counters,
            store,
            prefix,
            deadline_us,
            wait_replicas,
            store_batch,
            headers,
            max_connections,
            max_connections_per_peer,
            drain_notice_us,
            denials_kept,
            metrics,
            traces,
            tls_cert,
            tls_key,
            tls_client_ca,
            tls_client_uris,
        }
    }
}

impl ServiceOptions {
    /// The certificate files; none: no TLS.
    pub(crate) fn tls(&self) -> PyResult<Option<TlsFiles>> {
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) => return Ok(None),
            _ => return Err(errors::config("TLS takes a certificate and its key".to_owned())),
        };
        let uris = self.tls_client_uris.as_deref().unwrap_or_default();
        tls_files(certificate, key, self.tls_client_ca.as_deref(), uris).map(Some)
    }
}

/// Certificate files of these names.
pub fn tls_files(
    certificate: &str,
    key: &str,
    client_authorities: Option<&str>,
    client_uris: &[String],
) -> PyResult<TlsFiles> {
    let pattern = |text: &String| {
        UriPattern::new(text).ok_or_else(|| {
            errors::config(format!("{text:?} is no URI of a client, such as spiffe://mesh/web"))
        })
    };
    Ok(TlsFiles {
        certificate: PathBuf::from(certificate),
        key: PathBuf::from(key),
        client_authorities: client_authorities.map(PathBuf::from),
        client_uris: client_uris.iter().map(pattern).collect::<PyResult<_>>()?,
    })
}
