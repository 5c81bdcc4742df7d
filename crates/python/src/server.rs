//! The service: the native server, started and stopped from Python. No Python runs on its
//! threads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_counters::{Clock, MemoryOptions, MemoryStore};
use tidegate_server::listen::{Address, NoAddress};
use tidegate_server::tls::Certificates;
use tidegate_server::{ForwardAuth, HeaderProfile, Node, Server as Doors, ServerOptions, Store};

use crate::errors::{self, guarded};
use crate::options::ServiceOptions;
use crate::state::{self, StateTaken};
use crate::store::redis;

/// A running service.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Server {
    node: Arc<Node>,
    http: Address,
    grpc: Address,
    certificates: Option<Arc<Certificates>>,
    // Guards what is told once.
    taken: Mutex<Option<StateTaken>>,
    // Guards the doors, which are drained once.
    doors: Mutex<Option<Doors>>,
}

#[pymethods]
impl Server {
    /// Opens the doors with a policy in force.
    #[staticmethod]
    #[pyo3(signature = (snapshot, options, *, admin_token, door_token=None, forward_auth=None,
        state_file=None))]
    fn start(
        py: Python<'_>,
        snapshot: &[u8],
        options: &ServiceOptions,
        admin_token: Option<String>,
        door_token: Option<String>,
        forward_auth: Option<&[u8]>,
        state_file: Option<&str>,
    ) -> PyResult<Self> {
        guarded(|| {
            let clock = Arc::new(Clock::default());
            let mut node = Node::new(store(options, &clock)?, clock);
            if let Some(places) = options.denials_kept {
                node = node.keeping_denials(places);
            }
            if options.metrics == Some(false) {
                node = node.without_metrics();
            }
            if options.traces == Some(true) {
                node = node.with_traces();
            }
            let node = Arc::new(node);
            node.load(snapshot).map_err(|error| errors::snapshot(&error))?;
            // Before the doors open, so that nobody is answered by less.
            let taken = state_file.and_then(|path| py.detach(|| state::take(&node, path)));
            let usual = ServerOptions::default();
            let options = ServerOptions {
                http: address(&options.http)?,
                grpc: address(&options.grpc)?,
                tls: options.tls()?,
                workers: options.workers,
                max_connections: options.max_connections.unwrap_or(usual.max_connections),
                max_of_a_peer: options.max_connections_per_peer,
                header_profile: profile(&options.headers)?,
                admin_token,
                door_token,
                forward_auth: doors_for_proxies(forward_auth)?,
                drain_notice: options
                    .drain_notice_us
                    .map_or(usual.drain_notice, Duration::from_micros),
                ..usual
            };
            let doors = py
                .detach(|| Doors::start(Arc::clone(&node), &options))
                .map_err(|error| errors::start(&error))?;
            Ok(Self {
                node,
                http: doors.http_address().clone(),
                grpc: doors.grpc_address().clone(),
                certificates: doors.certificates().cloned(),
                taken: Mutex::new(taken),
                doors: Mutex::new(Some(doors)),
            })
        })
    }

    /// Where HTTP is served: address and port, or `unix:` and a path.
    #[getter]
    fn http_address(&self) -> String {
        self.http.to_string()
    }

    /// Where gRPC is served: address and port, or `unix:` and a path.
    #[getter]
    fn grpc_address(&self) -> String {
        self.grpc.to_string()
    }

    /// The revision of the policy in force.
    #[getter]
    fn revision(&self) -> Option<String> {
        self.node.revision().map(|revision| revision.to_string())
    }

    /// Why the shared store gives no answers now; None if it does.
    #[getter]
    fn store_error(&self) -> Option<String> {
        self.node.store().error()
    }

    /// What an operator should change at the shared store.
    #[getter]
    fn store_warnings(&self) -> Vec<String> {
        self.node.store().warnings()
    }

    /// Why the certificate files as they are cannot be used; None if they are in force, or none
    /// are named.
    #[getter]
    fn tls_error(&self) -> Option<String> {
        self.certificates.as_ref().and_then(|certificates| certificates.error())
    }

    /// How often certificate files were taken into force, the start included.
    #[getter]
    fn tls_loads(&self) -> u64 {
        self.certificates.as_ref().map_or(0, |certificates| certificates.loaded())
    }

    /// What was taken up from the state file at the start; None if there was none. Told once.
    fn state_taken(&self) -> Option<StateTaken> {
        self.taken.lock().take()
    }

    /// Puts what counters in memory hold into a file, for the next start: how many counters, and
    /// how many shared ones had to be left out. None if the store is shared. To be called after
    /// `drain`.
    fn save_state(&self, py: Python<'_>, path: &str) -> PyResult<Option<(u64, u64)>> {
        guarded(|| {
            let saved = py.detach(|| self.node.save_state(Path::new(path)));
            let saved = saved.map_err(|error| errors::config(error.to_string()))?;
            Ok(saved.map(|saved| (saved.counters, saved.left_out)))
        })
    }

    /// Puts another snapshot in force; what was counted stays.
    fn load(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<String> {
        guarded(|| {
            let loaded = py.detach(|| self.node.load(snapshot));
            loaded.map(|revision| revision.to_string()).map_err(|error| errors::snapshot(&error))
        })
    }

    /// Notes why a policy file cannot be used, for `/readyz` and the metrics.
    fn note_reload_failure(&self, why: &str) {
        self.node.note_reload_failure(why);
    }

    /// Notes that the policy file is again the one in force.
    fn clear_reload_failure(&self) {
        self.node.clear_reload_failure();
    }

    /// Takes the oldest spans that wait to be sent, at most so many; each as OTLP has it in JSON.
    fn take_spans(&self, py: Python<'_>, most: usize) -> Vec<String> {
        py.detach(|| self.node.spans().map_or_else(Vec::new, |spans| spans.take(most)))
    }

    /// Notes that so many spans were taken and did not reach the collector, for the metrics.
    fn note_spans_dropped(&self, count: u64) {
        if let Some(spans) = self.node.spans() {
            spans.note_dropped(count);
        }
    }

    /// Ends the service: no new requests, those in flight answered, at most 10 s. Further calls
    /// return at once.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            py.detach(|| {
                let doors = self.doors.lock().take();
                if let Some(doors) = doors {
                    doors.drain();
                }
            });
            Ok(())
        })
    }

    /// Holds the service's clock at that unix time in microseconds; 0 lets it run. Only in builds
    /// for tests.
    #[cfg_attr(feature = "fake-clock", expect(clippy::unnecessary_wraps, reason = "releases fail"))]
    #[cfg_attr(not(feature = "fake-clock"), expect(unused_variables, clippy::unused_self))]
    fn set_clock_us(&self, now_us: u64) -> PyResult<()> {
        #[cfg(feature = "fake-clock")]
        {
            self.node.clock().set_us(now_us);
            Ok(())
        }
        #[cfg(not(feature = "fake-clock"))]
        Err(errors::no_fake_clock())
    }
}

fn store(options: &ServiceOptions, clock: &Arc<Clock>) -> PyResult<Store> {
    let Some(url) = &options.store else {
        let memory = MemoryOptions { max_counters: options.max_counters };
        return Ok(Store::Memory(MemoryStore::new(memory)));
    };
    let redis = redis(url, clock, |redis| {
        redis.deadline = Duration::from_micros(options.deadline_us);
        if let Some(prefix) = &options.prefix {
            redis.prefix.clone_from(prefix);
        }
        redis.wait_replicas = options.wait_replicas.unwrap_or(redis.wait_replicas);
        redis.batch = options.store_batch.unwrap_or(redis.batch);
    })?;
    Ok(Store::Redis(redis))
}

fn doors_for_proxies(document: Option<&[u8]>) -> PyResult<Arc<ForwardAuth>> {
    document.map_or_else(
        || Ok(Arc::default()),
        |document| ForwardAuth::load(document).map_err(|error| errors::config(error.to_string())),
    )
}

fn address(text: &str) -> PyResult<Address> {
    text.parse().map_err(|error: NoAddress| errors::config(error.to_string()))
}

/// The profile of that name.
pub fn profile(name: &str) -> PyResult<HeaderProfile> {
    HeaderProfile::named(name).ok_or_else(|| {
        let names = HeaderProfile::NAMES.map(|(name, _)| name).join(", ");
        errors::config(format!("unknown header profile {name:?}: use one of {names}"))
    })
}
