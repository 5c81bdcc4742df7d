//! Two masters of a Cluster for a test, and requests that meet both.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidegate_core::{Plan, RuleSet, Verb};
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisHandle, RedisOptions, RedisStore, StoreError};
use tidegate_counters::{Clock, Outcomes};

use super::ports::free_port;
use super::{Plain, Server, plan};

/// Of its decisions.
pub const DEADLINE: Duration = Duration::from_millis(400);

/// Two masters with half of the slots each; a port is the one that the second announces.
pub struct Cluster {
    pub masters: [Server; 2],
    /// Tells the way to the second, if it is announced, to pass on one more call, and no other.
    pub is_closing: Arc<AtomicBool>,
}

impl Cluster {
    pub fn start(has_proxy: bool) -> Option<Self> {
        let is_closing = Arc::new(AtomicBool::new(false));
        let (first, second, announced) = (free_port(), free_port(), free_port());
        let options = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"];
        let bus = |port: u16| ["--cluster-port".to_owned(), port.to_string()];
        let words = |more: &[String]| -> Vec<String> {
            options.iter().map(|word| (*word).to_owned()).chain(more.iter().cloned()).collect()
        };
        let begin = |words: Vec<String>| {
            Server::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let one = begin(words(&bus(first)))?;
        let mut more = bus(second).to_vec();
        if has_proxy {
            more.extend(["--cluster-announce-port".to_owned(), announced.to_string()]);
        }
        let two = begin(words(&more))?;
        if has_proxy {
            pass_on(announced, two.port, Arc::clone(&is_closing));
        }
        one.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
        two.run(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
        one.run(&["CLUSTER", "MEET", "127.0.0.1", &two.port.to_string(), &second.to_string()]);
        let deadline = Deadline::after(Duration::from_secs(20));
        let knows = |server: &Server| {
            let said = server.run(&["CLUSTER", "INFO"]);
            said.contains("cluster_state:ok") && said.contains("cluster_slots_assigned:16384")
        };
        while !(knows(&one) && knows(&two)) {
            assert!(!deadline.is_over(), "no Cluster came of them");
            thread::sleep(Duration::from_millis(10));
        }
        Some(Self { masters: [one, two], is_closing })
    }

    pub fn store(&self) -> RedisStore {
        let url = format!("redis+cluster://127.0.0.1:{}", self.masters[0].port);
        let mut options = RedisOptions::parse(&url).unwrap();
        options.deadline = DEADLINE;
        RedisStore::new(options, Arc::new(Clock::default())).unwrap()
    }

    /// A tenant of the second master, and a domain's limit for everybody of the first.
    pub fn names(&self) -> (String, String) {
        let slot = |tag: String| -> u16 {
            Plain::connect(self.masters[0].port).run(&["CLUSTER", "KEYSLOT", &tag]).parse().unwrap()
        };
        let name = |head: &str, is_second: bool| {
            let names = (0..100).map(|at| format!("{head}{at}"));
            let mut here = names.filter(|name| (slot(format!("shop|{name}")) > 8191) == is_second);
            here.next().unwrap()
        };
        (name("tenant", true), name("all", false))
    }
}

/// Passes everything on until told that the next thing said by a client is the last.
fn pass_on(port: u16, server: u16, is_closing: Arc<AtomicBool>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let forward = |mut from: TcpStream, mut to: TcpStream, is_closing: Option<Arc<AtomicBool>>| {
        thread::spawn(move || {
            let (mut buffer, mut is_closed) = (vec![0; 65536], false);
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let is_last = is_closing.as_ref().is_some_and(|one| one.load(Ordering::SeqCst));
                if !is_closed && to.write_all(&buffer[..count]).is_err() {
                    break;
                }
                is_closed |= is_last;
            }
        });
    };
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            let (back, there) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
            forward(client, upstream, Some(Arc::clone(&is_closing)));
            forward(back, there, None);
        }
    });
}

/// A limit with another value of one field.
pub fn with(mut limit: Value, name: &str, value: Value) -> Value {
    limit[name] = value;
    limit
}

/// Decides; false: a part of the store did not answer.
pub async fn ask(handle: &RedisHandle, plan: &Plan<'_>) -> (Outcomes, bool) {
    match handle.decide(plan).await {
        Ok(outcomes) => (outcomes, true),
        Err(StoreError::Partial { outcomes, .. }) => (*outcomes, false),
        Err(error) => panic!("{error}"),
    }
}

/// What a request of a tenant asks.
pub fn of<'r>(rules: &'r RuleSet, verb: Verb, cost: u64, tenant: &str) -> Plan<'r> {
    plan(rules, verb, cost, &[(b"tenant", tenant.as_bytes())])
}
