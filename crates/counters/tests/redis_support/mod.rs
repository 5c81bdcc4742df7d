//! A real server for a test, a policy for it, and a plain client to look at what was done.
//!
//! `TIDEGATE_VALKEY_SERVER` names the server's binary; without it the tests that need one say so
//! and pass.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

pub mod cluster;
pub mod ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::{Descriptor, Identities, Plan, RuleSet, Verb};
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisHandle, RedisOptions, RedisStore, StoreError};
use tidegate_counters::{Clock, Outcomes};
use tokio::time::sleep;

/// A `valkey-server` of this test alone, killed at the end.
pub struct Server {
    binary: PathBuf,
    directory: PathBuf,
    pub port: u16,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Starts one, or says that there is none to start.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let mut server = Self::stopped(arguments)?;
        server.spawn();
        Some(server)
    }

    /// One that is not running yet.
    pub fn stopped(arguments: &[&str]) -> Option<Self> {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let Some(binary) = std::env::var_os("TIDEGATE_VALKEY_SERVER") else {
            eprintln!("not run: TIDEGATE_VALKEY_SERVER does not name a valkey-server");
            return None;
        };
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("tg-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let port = ports::free_port();
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        Some(Self { binary: binary.into(), directory, port, arguments, child: None })
    }

    /// Starts the process and waits until it answers; anew where another still has one of its ports.
    pub fn spawn(&mut self) {
        let deadline = Deadline::after(Duration::from_secs(10));
        while !self.answers() {
            assert!(!deadline.is_over(), "the server did not start");
            let has_ended = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_some());
            if self.child.as_mut().is_none_or(has_ended) {
                self.child = Some(self.command().spawn().unwrap());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(&self.directory)
            .args(&self.arguments)
            .stdout(Stdio::null());
        command
    }

    /// True if a server says something. One that is not there yet can be connected to by chance: a
    /// connection to a free port may come from that port, and hears itself.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut first = [0];
        stream.write_all(b"*1\r\n$4\r\nPING\r\n").is_ok()
            && stream.read_exact(&mut first).is_ok()
            && matches!(&first, b"+" | b"-")
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub fn pause(&self) {
        self.signal("-STOP");
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("s.sock")
    }

    /// Runs one command and gives the answer as text, items on lines of their own.
    pub fn run(&self, words: &[&str]) -> String {
        Plain::connect(self.port).run(words)
    }

    /// How often a command ran since the start.
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.run(&["INFO", "commandstats"]);
        let head = format!("cmdstat_{command}:calls=");
        let row = stats.lines().find_map(|line| line.strip_prefix(&head));
        row.map_or(0, |row| row.split(',').next().unwrap().parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A client that knows nothing of the code under test.
pub struct Plain(BufReader<TcpStream>);

impl Plain {
    pub fn connect(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    pub fn run(&mut self, words: &[&str]) -> String {
        self.say(words);
        self.answer()
    }

    /// The same where the answer is bytes; none: it is nothing.
    pub fn bytes(&mut self, words: &[&str]) -> Vec<u8> {
        self.say(words);
        let mut head = String::new();
        self.0.read_line(&mut head).unwrap();
        let Ok(length) = head.trim()[1..].parse::<usize>() else { return Vec::new() };
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    fn say(&mut self, words: &[&str]) {
        let arguments = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let command = format!("*{}\r\n{}", words.len(), arguments.collect::<String>());
        self.0.get_mut().write_all(command.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "$" if rest == "-1" => String::new(),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            "*" => {
                let items: Vec<_> =
                    (0..rest.parse::<u32>().unwrap()).map(|_| self.answer()).collect();
                items.join("\n")
            }
            _ => rest.to_owned(),
        }
    }
}

/// A limit of a policy: one rate, counted by `per`.
pub fn limit(id: &str, algorithm: &str, n: u64, seconds: u64, per: &[&str]) -> Value {
    json!({
        "id": id, "when": [], "per": per, "missing": "skip", "counts": "requests",
        "algorithm": algorithm, "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": algorithm != "token_bucket",
        "numbers": {"n": n, "period_us": seconds * 1_000_000, "burst": n},
        "on_store_failure": "open", "on_exceed": "reject", "count_denied": false,
        "request_override": false,
    })
}

/// A policy of one domain, `shop`, whose tenant key is `tenant`.
pub fn policy(limits: &[Value]) -> RuleSet {
    policy_with(limits, &mut Identities::default())
}

/// The same, one of several whose limits are the same limits.
pub fn policy_with(limits: &[Value], identities: &mut Identities) -> RuleSet {
    let document = json!({
        "format": 1, "revision": "0123456789ab",
        "calendars": {"UTC": {"hour": [[1_699_999_000, 4], [1_700_000_000, 5], [1_700_000_020, 7]]}},
        "domains": [{"name": "shop", "tenant_key": "tenant", "limits": limits, "plans": [],
                     "tenants": {}}],
    });
    RuleSet::load(document.to_string().as_bytes(), identities).unwrap()
}

/// What a request of these entries asks.
pub fn plan<'r>(rules: &'r RuleSet, verb: Verb, cost: u64, entries: &[(&[u8], &[u8])]) -> Plan<'r> {
    plan_at(rules, verb, cost, entries, 0)
}

/// The same by a caller whose clock shows `now`, microseconds.
pub fn plan_at<'r>(
    rules: &'r RuleSet,
    verb: Verb,
    cost: u64,
    entries: &[(&[u8], &[u8])],
    now: u64,
) -> Plan<'r> {
    let descriptor = Descriptor { entries, costs: &[(b"requests", cost)], verb, rate: None };
    Plan::new(rules.domain(b"shop").unwrap(), &[descriptor], now).unwrap()
}

/// A hit of one by a tenant.
pub fn hit<'r>(rules: &'r RuleSet, tenant: &str) -> Plan<'r> {
    plan(rules, Verb::Hit, 1, &[(b"tenant", tenant.as_bytes())])
}

pub fn peek<'r>(rules: &'r RuleSet, tenant: &str) -> Plan<'r> {
    plan(rules, Verb::Peek, 1, &[(b"tenant", tenant.as_bytes())])
}

/// A store that waits long enough for a busy machine.
pub fn store(url: &str) -> RedisStore {
    store_within(url, Duration::from_secs(2))
}

pub fn store_within(url: &str, deadline: Duration) -> RedisStore {
    store_with(url, deadline, Arc::new(Clock::default()))
}

pub fn store_with(url: &str, deadline: Duration, clock: Arc<Clock>) -> RedisStore {
    let mut options = RedisOptions::parse(url).unwrap();
    options.deadline = deadline;
    RedisStore::new(options, clock).unwrap()
}

/// Runs as a worker thread does: one thread, its own handle.
pub fn on_worker<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

/// Runs a call and says how long it took.
pub async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let start = tokio::time::Instant::now();
    let answer = call.await;
    (answer, start.elapsed())
}

/// A connected handle.
pub async fn handle(store: &RedisStore) -> RedisHandle {
    let handle = store.handle();
    tokio::time::timeout(Duration::from_secs(10), handle.connected())
        .await
        .unwrap_or_else(|_| panic!("no connection: {:?}", store.health()));
    handle
}

/// Decides; what a limit says without the store is left out of an error.
pub async fn decide(handle: &RedisHandle, plan: &Plan<'_>) -> Result<Outcomes, StoreError> {
    handle.decide(plan).await.map_err(StoreError::cause)
}

/// What a request for one would leave, asked until the store says it in time.
pub async fn left(handle: &RedisHandle, rules: &RuleSet) -> u64 {
    let deadline = Deadline::after(Duration::from_secs(10));
    loop {
        match handle.decide(&peek(rules, "acme")).await {
            Ok(told) => return told[0].remaining,
            Err(why) => assert!(!deadline.is_over(), "{why:?}"),
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until so much is left: what was let pass by calls that were never sent is charged soon
/// after the store is back.
pub async fn comes_to_leave(handle: &RedisHandle, rules: &RuleSet, expected: u64) {
    let deadline = Deadline::after(Duration::from_secs(10));
    loop {
        let left = left(handle, rules).await;
        if left == expected {
            return;
        }
        assert!(left > expected && !deadline.is_over(), "{left} left instead of {expected}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Asks until the store answers again; how long that took.
pub async fn recovers(handle: &RedisHandle, rules: &RuleSet) -> Duration {
    let deadline = Deadline::after(Duration::from_secs(10));
    let asking = async {
        while handle.decide(&peek(rules, "acme")).await.is_err() {
            assert!(!deadline.is_over(), "the store is back, its service is not");
            sleep(Duration::from_millis(5)).await;
        }
    };
    timed(asking).await.1
}
