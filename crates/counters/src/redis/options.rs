//! What a Redis store is told: where the server is, who asks, how long to wait.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::call::MOST_REQUESTS;
use super::sentinel::Sentinels;
use super::tls::TlsOptions;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or address, resolved anew at each connect, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
    /// The master that these sentinels name, asked anew at each connect.
    Sentinels(Sentinels),
    /// Some nodes of a Cluster, by which the others are found: host names or addresses, and ports.
    Cluster(Vec<(String, u16)>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Sentinels(sentinels) => write!(f, "{sentinels}"),
            Self::Cluster(nodes) => {
                for (at, (host, port)) in nodes.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{}", Self::Tcp(host.clone(), *port))?;
                }
                Ok(())
            }
        }
    }
}

/// The settings of a Redis store.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// Where the server listens.
    pub address: Address,
    /// Set: the server is spoken to over TLS. Not for sockets of the file system.
    pub tls: Option<TlsOptions>,
    /// User of the server's access list; `None` is its default user.
    pub user: Option<String>,
    /// Never printed.
    pub password: Option<String>,
    /// Number of the database.
    pub database: u32,
    /// What `CLIENT LIST` shows.
    pub client_name: String,
    /// What every key begins with. No braces: they choose a Cluster slot.
    pub prefix: String,
    /// How long one decision may wait for its answer, from enqueue.
    pub deadline: Duration,
    /// How long one attempt to connect may take, greeting included.
    pub connect_timeout: Duration,
    /// Replicas that must have a charge before it is told, as far as they answer within half of the
    /// deadline; 0 waits for none.
    pub wait_replicas: u32,
    /// Requests that one call decides at most, from 1 to 64. Fewer hold the store for less time at
    /// once, and cost it and us more.
    pub batch: usize,
    /// Requests that may wait in each worker for room on the wire; further ones fail at once.
    pub max_queue: usize,
}

/// A store URL or setting that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("store: {problem}")]
pub struct OptionsError {
    problem: String,
}

impl OptionsError {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into() }
    }

    /// What is wrong, for who knows that it is about the store.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

const FORMS: &str = "use redis://[user:password@]host[:port][/database], rediss:// for TLS, \
                     redis+cluster://host[:port][,host[:port]...], \
                     redis+sentinel://host[:port][,host[:port]...]/service or \
                     redis+unix:///path/to.sock[?db=1]";

impl RedisOptions {
    /// The options that a URL names, the others at their defaults.
    ///
    /// `redis://` and `valkey://` name a host, `rediss://` and `valkeys://` one that speaks TLS,
    /// `redis+unix://`, `valkey+unix://` and `unix://` a socket, and each of the first four with
    /// `+cluster` some nodes of a Cluster, with `+sentinel` those who know where the server is. The
    /// query may set `db` and `client_name`, for TLS `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`
    /// and `ssl_check_hostname`, for sentinels `sentinel_username` and `sentinel_password`.
    pub fn parse(url: &str) -> Result<Self, OptionsError> {
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| OptionsError::new(format!("the URL has no scheme; {FORMS}")))?;
        // The login first: a `?` in a password would else be taken for the query's, and the rest of
        // the password for a port, which messages repeat.
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        let mut options = match scheme {
            "redis" | "valkey" => Self::tcp(place)?,
            "redis+cluster" | "valkey+cluster" => Self::cluster(place)?,
            "redis+unix" | "valkey+unix" | "unix" => Self::unix(place)?,
            "rediss" | "valkeys" => Self { tls: Some(TlsOptions::default()), ..Self::tcp(place)? },
            "rediss+cluster" | "valkeys+cluster" => {
                Self { tls: Some(TlsOptions::default()), ..Self::cluster(place)? }
            }
            "redis+sentinel" | "valkey+sentinel" => Self::sentinels(place)?,
            "rediss+sentinel" | "valkeys+sentinel" => {
                Self { tls: Some(TlsOptions::default()), ..Self::sentinels(place)? }
            }
            other => return Err(OptionsError::new(format!("unknown scheme {other:?}; {FORMS}"))),
        };
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            options.user = Some(decode(user)?).filter(|user| !user.is_empty());
            options.password = Some(decode(password)?).filter(|password| !password.is_empty());
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            options.set(pair)?;
        }
        Ok(options)
    }

    fn at(address: Address) -> Self {
        Self {
            address,
            tls: None,
            user: None,
            password: None,
            database: 0,
            client_name: "tidegate".into(),
            prefix: "tg:".into(),
            deadline: Duration::from_millis(5),
            connect_timeout: Duration::from_secs(1),
            wait_replicas: 0,
            batch: MOST_REQUESTS,
            max_queue: 4096,
        }
    }

    fn tcp(place: &str) -> Result<Self, OptionsError> {
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = host_and_port(authority, 6379)?;
        let mut options = Self::at(Address::Tcp(host, port));
        if !database.is_empty() {
            options.database = number(database)?;
        }
        Ok(options)
    }

    fn sentinels(place: &str) -> Result<Self, OptionsError> {
        let (nodes, service) = place.split_once('/').unwrap_or((place, ""));
        let (service, database) = service.split_once('/').unwrap_or((service, ""));
        let mut options = Self::at(Address::Sentinels(Sentinels::parse(nodes, service)?));
        if !database.is_empty() {
            options.database = number(database)?;
        }
        Ok(options)
    }

    fn cluster(place: &str) -> Result<Self, OptionsError> {
        let (nodes, database) = place.split_once('/').unwrap_or((place, ""));
        if !matches!(database, "" | "0") {
            return Err(OptionsError::new("a Cluster has database 0 alone"));
        }
        let nodes: Result<Vec<_>, _> =
            nodes.split(',').map(|node| host_and_port(node, 6379)).collect();
        Ok(Self::at(Address::Cluster(nodes?)))
    }

    fn unix(place: &str) -> Result<Self, OptionsError> {
        if !place.starts_with('/') {
            return Err(OptionsError::new(format!("{place:?} is no absolute path; {FORMS}")));
        }
        Ok(Self::at(Address::Unix(decode(place)?.into())))
    }

    fn set(&mut self, pair: &str) -> Result<(), OptionsError> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "db" => self.database = number(value)?,
            "client_name" => self.client_name = decode(value)?,
            name if name.starts_with("ssl_") => match &mut self.tls {
                Some(tls) => tls.set(name, value)?,
                None => return Err(OptionsError::new(format!("{name} is for rediss:// (TLS)"))),
            },
            name if name.starts_with("sentinel_") => match &mut self.address {
                Address::Sentinels(sentinels) => sentinels.set(name, value)?,
                _ => return Err(OptionsError::new(format!("{name} is for redis+sentinel://"))),
            },
            other => {
                return Err(OptionsError::new(format!(
                    "unknown parameter {other:?}; the URL takes db and client_name"
                )));
            }
        }
        Ok(())
    }

    /// How many connections an attempt may take to reach the server; one that shakes hands counts
    /// twice.
    pub(super) fn legs(&self) -> u32 {
        let connections = match &self.address {
            Address::Sentinels(sentinels) => sentinels.nodes.len() as u32 + 1,
            Address::Tcp(..) | Address::Unix(_) | Address::Cluster(_) => 1,
        };
        if self.tls.is_some() { 2 * connections } else { connections }
    }

    pub(super) fn check(&self) -> Result<(), OptionsError> {
        if self.prefix.contains(['{', '}']) {
            return Err(OptionsError::new(format!(
                "prefix {:?}: braces would choose a Cluster slot; leave them out",
                self.prefix
            )));
        }
        let is_plain = self.client_name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            return Err(OptionsError::new(format!(
                "client_name {:?}: only printable ASCII without spaces",
                self.client_name
            )));
        }
        if matches!(self.address, Address::Cluster(_)) && self.database != 0 {
            return Err(OptionsError::new("a Cluster has database 0 alone; leave db out"));
        }
        if self.user.is_some() && self.password.is_none() {
            return Err(OptionsError::new("a user without a password; use user:password@host"));
        }
        if self.deadline.is_zero() || self.connect_timeout.is_zero() || self.max_queue == 0 {
            return Err(OptionsError::new(
                "deadline, connect timeout and queue must be above zero",
            ));
        }
        if !(1..=MOST_REQUESTS).contains(&self.batch) {
            return Err(OptionsError::new(format!("a call decides 1 to {MOST_REQUESTS} requests")));
        }
        if let Address::Sentinels(sentinels) = &self.address {
            sentinels.check()?;
        }
        self.tls.as_ref().map_or(Ok(()), |tls| tls.check(&self.address))
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("address", &self.address)
            .field("tls", &self.tls)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("database", &self.database)
            .field("client_name", &self.client_name)
            .field("prefix", &self.prefix)
            .field("deadline", &self.deadline)
            .field("connect_timeout", &self.connect_timeout)
            .field("wait_replicas", &self.wait_replicas)
            .field("batch", &self.batch)
            .field("max_queue", &self.max_queue)
            .finish()
    }
}

/// The parts of `host[:port]`; an address of version 6 stands in brackets.
pub(super) fn host_and_port(text: &str, default: u16) -> Result<(String, u16), OptionsError> {
    let (host, port) = match text.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => default,
        port => port.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
            OptionsError::new(format!("port {port:?} is no number from 1 to 65535"))
        })?,
    };
    let host = if host.is_empty() { "127.0.0.1".into() } else { decode(host)? };
    Ok((host, port))
}

fn number(text: &str) -> Result<u32, OptionsError> {
    text.parse().map_err(|_| OptionsError::new(format!("database {text:?} is no number")))
}

/// Undoes `%XX`. Messages leave the text out: it may be a password.
pub(super) fn decode(text: &str) -> Result<String, OptionsError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let byte = byte.ok_or_else(|| {
            OptionsError::new("a % in the URL is not followed by two hex digits; write %25 for %")
        })?;
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| OptionsError::new("a part of the URL is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> RedisOptions {
        RedisOptions::parse(url).unwrap()
    }

    #[test]
    fn every_part_of_a_url_is_read() {
        let options = parse("redis://ann:p%40s%3As@db.example:7000/3?client_name=edge");
        assert_eq!(options.address, Address::Tcp("db.example".into(), 7000));
        assert_eq!(options.user.as_deref(), Some("ann"));
        assert_eq!(options.password.as_deref(), Some("p@s:s"));
        assert_eq!((options.database, options.client_name.as_str()), (3, "edge"));
        assert_eq!(parse("valkey://:pw@[::1]").address, Address::Tcp("::1".into(), 6379));
        assert_eq!(parse("redis://:a?b/c@x").password.as_deref(), Some("a?b/c"));
        assert_eq!(parse("redis://").address, Address::Tcp("127.0.0.1".into(), 6379));
        let unix = parse("redis+unix://:pw@/run/x.sock?db=2");
        assert_eq!((unix.address, unix.database), (Address::Unix("/run/x.sock".into()), 2));
        assert_eq!(parse("unix:///run/x.sock").address, Address::Unix("/run/x.sock".into()));
    }

    #[test]
    fn a_mistake_is_named_and_the_password_is_not() {
        for (url, said) in [
            ("localhost:6379", "no scheme"),
            ("http://x", "unknown scheme"),
            ("rediss://x?ssl_cert_reqs=none", "ssl_ca_certs"),
            ("rediss://x?ssl_check_hostname=never", "neither true nor false"),
            ("rediss://x?ssl_ca_certs=", "names no file"),
            ("rediss://x?ssl_version=3", "unknown parameter"),
            ("rediss+cluster://x,y/1", "database 0 alone"),
            ("redis+cluster://x?ssl_ca_certs=/ca.pem", "rediss://"),
            ("redis://x?ssl_ca_certs=/ca.pem", "rediss://"),
            ("redis+sentinel://a,b", "no service"),
            ("redis+sentinel://a,,b/main", "without a host"),
            ("redis+sentinel://a,b:x/main", "port"),
            ("redis+sentinel://a/main?sentinel_pass=1", "unknown parameter"),
            ("redis://a?sentinel_password=1", "redis+sentinel://"),
            ("redis://x:y", "port"),
            ("redis://x/a", "database"),
            ("redis://x?a=1", "unknown parameter"),
            ("unix://x.sock", "absolute"),
            ("redis://:secret%zz@x", "hex"),
        ] {
            let message = RedisOptions::parse(url).unwrap_err().to_string();
            assert!(message.contains(said), "{url}: {message}");
            assert!(!message.contains("secret"), "{message}");
        }
        assert!(!format!("{:?}", parse("redis://:secret@x")).contains("secret"));
        let braced = RedisOptions { prefix: "a{".into(), ..parse("redis://x") };
        assert!(braced.check().is_err());
        assert!(parse("redis://ann@x").check().is_err());
    }
}
