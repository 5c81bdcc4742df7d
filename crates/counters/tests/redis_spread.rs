//! Requests whose counters lie on several masters of a Cluster, one of which is away or denies.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis_support::{Plain, Server, handle, limit, on_worker, plan, policy, timed};
use serde_json::{Value, json};
use tidegate_core::{Descriptor, Plan, RuleSet, Verb};
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisHandle, RedisOptions, RedisStore, StoreError};
use tidegate_counters::{Clock, Outcomes};

type Entry<'e> = (&'e [u8], &'e [u8]);

const DEADLINE: Duration = Duration::from_millis(400);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Two masters with half of the slots each; a port is the one that the second announces.
struct Cluster {
    masters: [Server; 2],
    /// Tells the way to the second, if it is announced, to pass on one more call, and no other.
    is_closing: Arc<AtomicBool>,
}

impl Cluster {
    fn start(has_proxy: bool) -> Option<Self> {
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

    fn store(&self) -> RedisStore {
        let url = format!("redis+cluster://127.0.0.1:{}", self.masters[0].port);
        let mut options = RedisOptions::parse(&url).unwrap();
        options.deadline = DEADLINE;
        RedisStore::new(options, Arc::new(Clock::default())).unwrap()
    }

    /// A tenant of the second master, and a domain's limit for everybody of the first.
    fn names(&self) -> (String, String) {
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

fn with(mut limit: Value, name: &str, value: Value) -> Value {
    limit[name] = value;
    limit
}

async fn ask(handle: &RedisHandle, plan: &Plan<'_>) -> (Outcomes, bool) {
    match handle.decide(plan).await {
        Ok(outcomes) => (outcomes, true),
        Err(StoreError::Partial { outcomes, .. }) => (*outcomes, false),
        Err(error) => panic!("{error}"),
    }
}

fn of<'r>(rules: &'r RuleSet, verb: Verb, cost: u64, tenant: &str) -> Plan<'r> {
    plan(rules, verb, cost, &[(b"tenant", tenant.as_bytes())])
}

/// What the two limits have left, once both say so.
async fn comes_to(handle: &RedisHandle, rules: &RuleSet, tenant: &str, expected: [u64; 2]) {
    let deadline = Deadline::after(Duration::from_secs(20));
    loop {
        let (told, is_whole) = ask(handle, &of(rules, Verb::Peek, 1, tenant)).await;
        let left = [told[0].remaining, told[1].remaining];
        if is_whole && left == expected {
            return;
        }
        assert!(!deadline.is_over(), "{left:?} left instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn the_share_of_a_limit_holds_where_only_its_part_of_a_cluster_is_away() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let local =
        with(limit(&all, "fixed_window", 20, 86400, &[]), "on_store_failure", json!("local"));
    let rules = policy(&[local, limit("each", "fixed_window", 1000, 86400, &["tenant"])]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        for _ in 0..3 {
            assert!(ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
        }
        cluster.masters[0].pause();
        let mut passed = 0;
        for _ in 0..40 {
            let (told, is_whole) = ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await;
            assert!(!is_whole && told[0].is_unasked && !told[1].is_unasked);
            passed += u64::from(told[0].fits);
        }
        cluster.masters[0].resume();
        assert_eq!(passed, 17, "one node has all of it, less the three that were seen");
        // Each was charged, at once or when the master was back, and none that was denied.
        comes_to(&handle, &rules, &tenant, [0, 1000 - 20]).await;
    });
}

#[test]
fn what_passed_without_an_open_limit_is_owed_to_its_part_of_a_cluster() {
    let Some(mut cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let rules = policy(&[
        limit(&all, "fixed_window", 1000, 86400, &[]),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
    ]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        assert!(ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
        cluster.masters[0].pause();
        let mut passed = 1;
        for _ in 0..40 {
            passed += u64::from(!ask(&handle, &of(&rules, Verb::Hit, 1, &tenant)).await.1);
        }
        cluster.masters[0].resume();
        comes_to(&handle, &rules, &tenant, [1000 - passed, 1000 - passed]).await;
    });
    cluster.masters[0].kill();
}

#[test]
fn giving_back_after_a_denial_is_within_the_deadline_though_the_node_dies_just_then() {
    let Some(cluster) = Cluster::start(true) else { return };
    let (tenant, all) = cluster.names();
    let hard = limit("hard", "fixed_window", 19, 86400, &["tenant"]);
    let rules = policy(&[
        limit(&all, "fixed_window", 10, 86400, &[]),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
        with(hard, "count_denied", json!(true)),
    ]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        // All seen far from their limits, so that the next one takes without a look.
        assert!(ask(&handle, &of(&rules, Verb::Hit, 4, &tenant)).await.1);
        cluster.is_closing.store(true, Ordering::SeqCst);
        let hit = of(&rules, Verb::Hit, 8, &tenant);
        let ((told, _), took) = timed(ask(&handle, &hit)).await;
        assert!(!told[0].fits && told[1].fits && told[2].fits);
        assert!(took < DEADLINE * 3 / 2, "{took:?}");
    });
}

#[test]
fn what_a_request_gives_back_stays_taken_if_another_part_denies_it() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (tenant, all) = cluster.names();
    let rules = policy(&[
        limit("kind", "fixed_window", 10, 86400, &["kind"]),
        limit("each", "fixed_window", 1000, 86400, &["tenant"]),
    ]);
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        let kind: &[Entry<'_>] = &[(b"kind", all.as_bytes())];
        let who: &[Entry<'_>] = &[(b"tenant", tenant.as_bytes())];
        let both = |take: u64, verb: Verb, give: u64, other: Verb| {
            let one = [(&b"requests"[..], take)];
            let two = [(&b"requests"[..], give)];
            let descriptors = [
                Descriptor { entries: kind, costs: &one, verb, rate: None },
                Descriptor { entries: who, costs: &two, verb: other, rate: None },
            ];
            Plan::new(rules.domain(b"shop").unwrap(), &descriptors, 0).unwrap()
        };
        let left = async || {
            let (told, _) = ask(&handle, &both(1, Verb::Peek, 1, Verb::Peek)).await;
            [told[0].remaining, told[1].remaining]
        };
        assert!(ask(&handle, &both(4, Verb::Hit, 500, Verb::Hit)).await.1);
        let (told, _) = ask(&handle, &both(8, Verb::Hit, 100, Verb::Refund)).await;
        assert!(!told[0].fits && told[1].fits);
        assert_eq!(left().await, [6, 500], "denied: nothing moved");
        let (told, _) = ask(&handle, &both(2, Verb::Hit, 100, Verb::Refund)).await;
        assert!(told[0].fits && told[1].fits);
        assert_eq!(told[1].remaining, 600);
        assert_eq!(left().await, [4, 600]);
    });
}
