//! What a URL says of sentinels.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::redis::options::{Address, OptionsError, decode, host_and_port};

const PORT: u16 = 26379;

/// The sentinels of a service. Clones share who of them knew the master last.
#[derive(Clone)]
pub struct Sentinels {
    /// Where they listen: at least one.
    pub nodes: Vec<Address>,
    /// What they call the master and its replicas.
    pub service: String,
    /// User of the sentinels' own access list; `None` is their default user.
    pub user: Option<String>,
    /// The sentinels' own password. Never printed.
    pub password: Option<String>,
    // Relaxed: a hint whom to ask first, which orders nothing.
    first: Arc<AtomicUsize>,
}

impl Sentinels {
    /// Those of `host[:port][,host[:port]…]` that watch this service.
    pub(in crate::redis) fn parse(nodes: &str, service: &str) -> Result<Self, OptionsError> {
        let service = decode(service)?;
        if service.is_empty() {
            return Err(OptionsError::new(
                "sentinels of no service; write redis+sentinel://host:26379/service, the name \
                 that their `sentinel monitor` line gives it",
            ));
        }
        let node = |text: &str| match text {
            "" => Err(OptionsError::new("a sentinel without a host; write host:26379,host:26379")),
            text => host_and_port(text, PORT).map(|(host, port)| Address::Tcp(host, port)),
        };
        Ok(Self {
            nodes: nodes.split(',').map(node).collect::<Result<_, _>>()?,
            service,
            user: None,
            password: None,
            first: Arc::default(),
        })
    }

    /// Takes a parameter of the URL whose name begins with `sentinel_`.
    pub(in crate::redis) fn set(&mut self, name: &str, value: &str) -> Result<(), OptionsError> {
        match name {
            "sentinel_username" => self.user = Some(decode(value)?),
            "sentinel_password" => self.password = Some(decode(value)?),
            other => {
                return Err(OptionsError::new(format!(
                    "unknown parameter {other:?}; sentinels take sentinel_username and \
                     sentinel_password"
                )));
            }
        }
        Ok(())
    }

    pub(in crate::redis) fn check(&self) -> Result<(), OptionsError> {
        if self.nodes.is_empty() {
            return Err(OptionsError::new("no sentinel"));
        }
        if self.user.is_some() && self.password.is_none() {
            return Err(OptionsError::new("sentinel_username without sentinel_password"));
        }
        Ok(())
    }

    pub(super) fn first(&self) -> usize {
        self.first.load(Ordering::Relaxed)
    }

    pub(super) fn found_by(&self, node: usize) {
        self.first.store(node, Ordering::Relaxed);
    }
}

impl PartialEq for Sentinels {
    fn eq(&self, other: &Self) -> bool {
        let login = |it: &Self| (it.user.clone(), it.password.clone());
        self.nodes == other.nodes && self.service == other.service && login(self) == login(other)
    }
}

impl Eq for Sentinels {}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(ToString::to_string).collect();
        write!(f, "{} of the sentinels {}", self.service, nodes.join(","))
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("nodes", &self.nodes)
            .field("service", &self.service)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .finish_non_exhaustive()
    }
}
