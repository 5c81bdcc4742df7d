//! A server on free ports for one test, with a policy written as Rust says JSON.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_counters::redis::{RedisOptions, RedisStore};
use tidegate_counters::{Clock, MemoryOptions, MemoryStore};
use tidegate_server::listen::Address;
use tidegate_server::{HeaderProfile, Node, Server, ServerOptions, Store};

/// When tests begin: 2025-12-01T02:00:00Z, the start of an hour.
pub const START_US: u64 = 1_764_554_400_000_000;
pub const SECOND_US: u64 = 1_000_000;
pub const TOKEN: &str = "s3cret";

/// A limit of `n` a minute for each tenant, to be changed by the test.
pub fn limit(id: &str, n: u64) -> Value {
    json!({
        "id": id, "when": [], "per": ["tenant"], "missing": "skip", "counts": "requests",
        "algorithm": "fixed_window", "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": true,
        "numbers": {"n": n, "period_us": 60 * SECOND_US, "burst": n},
        "on_store_failure": "open", "on_exceed": "reject", "count_denied": false,
        "request_override": false,
    })
}

/// A limit with some fields changed.
pub fn with(mut limit: Value, changes: Value) -> Value {
    let (Value::Object(limit_fields), Value::Object(changes)) = (&mut limit, changes) else {
        panic!("objects")
    };
    limit_fields.extend(changes);
    limit
}

/// The numbers of a limit.
pub fn numbers(n: u64, seconds: u64, burst: u64) -> Value {
    json!({"n": n, "period_us": seconds * SECOND_US, "burst": burst})
}

/// A snapshot of one domain, `shop`.
pub fn snapshot(limits: &[Value]) -> Vec<u8> {
    let domain = json!({
        "name": "shop", "tenant_key": "tenant", "limits": limits, "plans": [], "tenants": {},
    });
    // From December 2025 on: two months of 31 days, one of 28, then 31.
    let months = [(1_764_547_200, 31), (1_769_904_000, 28), (1_772_323_200, 31)];
    let months = months.map(|(begin, days)| json!([begin, days * 86_400]));
    let days = json!([[1_764_547_200, 86_400]]);
    let document = json!({
        "format": 1, "revision": "0123456789ab", "domains": [domain],
        "calendars": {"UTC": {"day": days, "month": months}},
    });
    document.to_string().into_bytes()
}

/// A server that is drained when dropped.
pub struct Running {
    pub server: Option<Server>,
    pub node: Arc<Node>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
        }
    }
}

/// Fast to stop, with an admin token.
pub fn options() -> ServerOptions {
    ServerOptions {
        http: "127.0.0.1:0".parse().unwrap(),
        grpc: "127.0.0.1:0".parse().unwrap(),
        workers: 2,
        admin_token: Some(TOKEN.to_owned()),
        drain_notice: Duration::ZERO,
        // A test that blocks its own runtime while it drains cannot read the farewell.
        drain_limit: Duration::from_millis(100),
        ..ServerOptions::default()
    }
}

/// A node on the memory store without a policy, its clock standing at the start.
pub fn empty_node() -> Arc<Node> {
    let clock = Arc::new(Clock::default());
    clock.set_us(START_US);
    let store = MemoryStore::new(MemoryOptions { max_counters: 10_000 });
    Arc::new(Node::new(Store::Memory(store), clock))
}

/// A node on a store that is not there.
pub fn node_without_store() -> Arc<Node> {
    let clock = Arc::new(Clock::default());
    let options = RedisOptions::parse("redis://127.0.0.1:1").unwrap();
    let store = RedisStore::new(options, Arc::clone(&clock)).unwrap();
    Arc::new(Node::new(Store::Redis(store), clock))
}

pub fn serve(node: Arc<Node>, options: &ServerOptions) -> Running {
    let server = Server::start(Arc::clone(&node), options).unwrap();
    Running { server: Some(server), node }
}

/// A server with these limits in domain `shop`.
pub fn start(limits: &[Value]) -> Running {
    start_with(limits, HeaderProfile::Github)
}

pub fn start_with(limits: &[Value], header_profile: HeaderProfile) -> Running {
    let node = empty_node();
    node.load(&snapshot(limits)).unwrap();
    serve(node, &ServerOptions { header_profile, ..options() })
}

fn tcp(address: &Address) -> std::net::SocketAddr {
    let Address::Tcp(address) = address else { panic!("{address} is none of the network") };
    *address
}

impl Running {
    pub fn http(&self) -> std::net::SocketAddr {
        tcp(self.server.as_ref().unwrap().http_address())
    }

    pub fn grpc(&self) -> std::net::SocketAddr {
        tcp(self.server.as_ref().unwrap().grpc_address())
    }

    /// Moves the clock to this many microseconds after the start.
    pub fn at(&self, after_us: u64) {
        self.node.clock().set_us(START_US + after_us);
    }
}
