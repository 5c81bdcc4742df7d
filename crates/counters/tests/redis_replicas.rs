//! What is told where replicas are to have it first, and have not.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use redis_support::{Server, decide, handle, hit, limit, on_worker, peek, policy, recovers};
use tidegate_core::RuleSet;
use tidegate_counters::Clock;
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisHandle, RedisOptions, RedisStore};
use tokio::time::sleep;

/// Of these so many may come too late: those that came while the first was held, and those that a
/// busy machine kept for longer than they had.
const ASKED: u64 = 100;
const FEW: u64 = 60;
/// A master that has nothing else to do takes its time.
const BETWEEN: Duration = Duration::from_millis(10);

fn rules() -> RuleSet {
    policy(&[limit("id", "fixed_window", 100_000, 86400, &["tenant"])])
}

/// A store with the usual deadline that waits for one replica.
fn store(server: &Server) -> RedisStore {
    let mut options = RedisOptions::parse(&server.url()).unwrap();
    options.wait_replicas = 1;
    RedisStore::new(options, std::sync::Arc::new(Clock::default())).unwrap()
}

/// A master that does nothing else, and its replica.
fn pair() -> Option<(Server, Server)> {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"])?;
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", master.port)])?;
    let deadline = Deadline::after(Duration::from_secs(20));
    while !replica.run(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(!deadline.is_over(), "the replica does not follow");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some((master, replica))
}

/// Asks one after another; how many of them the store did not decide.
async fn undecided(handle: &RedisHandle, rules: &RuleSet) -> u64 {
    let mut undecided = 0;
    for _ in 0..ASKED {
        undecided += u64::from(decide(handle, &hit(rules, "acme")).await.is_err());
        sleep(BETWEEN).await;
    }
    undecided
}

async fn is_confirmed(store: &RedisStore, handle: &RedisHandle, rules: &RuleSet) {
    let deadline = Deadline::after(Duration::from_secs(20));
    loop {
        let before = store.health().unreplicated;
        let is_decided = decide(handle, &hit(rules, "acme")).await.is_ok();
        if is_decided && store.health().unreplicated == before {
            return;
        }
        assert!(!deadline.is_over(), "replicas are back, and nobody waits for them");
        sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_good_replica_has_each_charge_and_nobody_waits_in_vain() {
    let Some((master, replica)) = pair() else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&master));
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        is_confirmed(&store, &handle, &rules).await;
        let (waits, before) = (master.calls("wait"), store.health().unreplicated);
        let undecided = undecided(&handle, &rules).await;
        let unreplicated = store.health().unreplicated - before;
        // A busy machine may keep a replica from its processor for longer than it has.
        assert!(undecided + unreplicated <= ASKED / 2, "{undecided} {unreplicated}");
        let asked = master.calls("wait") - waits;
        assert!(asked >= ASKED / 2, "{asked}");
        assert_eq!(master.run(&["DBSIZE"]), replica.run(&["DBSIZE"]));
    });
}

#[test]
fn a_master_without_replicas_decides_in_time_and_says_so() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&server));
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        let undecided = undecided(&handle, &rules).await;
        assert!(undecided <= FEW, "{undecided}");
        let health = store.health();
        assert!(health.unreplicated >= ASKED - undecided, "{health:?}");
        assert!(health.warnings.iter().any(|words| words.contains("fail-over may lose counts")));
    });
}

#[test]
fn a_replica_that_stands_still_is_waited_for_once_and_again_when_it_is_back() {
    let Some((master, replica)) = pair() else { return };
    on_worker(async {
        let (rules, store) = (rules(), store(&master));
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        is_confirmed(&store, &handle, &rules).await;
        let before = store.health().unreplicated;
        replica.pause();
        let undecided = undecided(&handle, &rules).await;
        replica.resume();
        assert!(undecided <= FEW, "{undecided}");
        assert!(store.health().unreplicated >= before + ASKED - undecided);
        is_confirmed(&store, &handle, &rules).await;
        assert!(store.health().warnings.is_empty());
        assert_eq!(master.run(&["DBSIZE"]), replica.run(&["DBSIZE"]));
    });
}

#[test]
fn callers_that_come_together_while_one_waits_in_vain_are_decided() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let (rules, store) = (std::rc::Rc::new(rules()), store(&server));
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        let mut tasks = Vec::new();
        for at in 0..ASKED {
            let (handle, rules) = (handle.clone(), std::rc::Rc::clone(&rules));
            tasks.push(tokio::task::spawn_local(async move {
                decide(&handle, &hit(&rules, "acme")).await.is_err()
            }));
            sleep(if at % 5 == 0 { BETWEEN } else { Duration::from_millis(1) }).await;
        }
        let mut undecided = 0;
        for task in tasks {
            undecided += u64::from(task.await.unwrap());
        }
        assert!(undecided <= FEW, "{undecided}");
    });
}

#[test]
fn a_blocking_caller_is_answered_in_time_whatever_replicas_do() {
    let Some((master, replica)) = pair() else { return };
    let (rules, store) = (rules(), store(&master));
    let request = hit(&rules, "acme");
    let confirmed = || {
        let deadline = Deadline::after(Duration::from_secs(20));
        loop {
            let before = store.health().unreplicated;
            if store.decide_blocking(&request).is_ok() && store.health().unreplicated == before {
                return;
            }
            assert!(!deadline.is_over(), "nobody waits for replicas that are back");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    confirmed();
    let before = store.health().unreplicated;
    replica.pause();
    let is_undecided = |_: &u64| {
        std::thread::sleep(BETWEEN);
        store.decide_blocking(&request).is_err()
    };
    let undecided = (0..ASKED).filter(is_undecided).count() as u64;
    replica.resume();
    assert!(undecided <= FEW, "{undecided}");
    assert!(store.health().unreplicated >= before + ASKED - undecided);
    confirmed();
    assert!(store.decide_blocking(&peek(&rules, "acme")).is_ok());
}

/// Passes the greeting on to a server; then plays one that has lost the script between two calls,
/// confirms what the first has charged, and dies in the second round.
fn forgetful(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
        let mut buffer = vec![0; 65536];
        let count = client.read(&mut buffer).unwrap();
        upstream.write_all(&buffer[..count]).unwrap();
        let count = upstream.read(&mut buffer).unwrap();
        client.write_all(&buffer[..count]).unwrap();
        let mut said = Vec::new();
        while !said.windows(4).any(|word| word == b"WAIT") || !said.ends_with(b"\r\n") {
            let count = client.read(&mut buffer).unwrap();
            said.extend_from_slice(&buffer[..count]);
        }
        let record = [&[1][..], &[0; 24]].concat();
        let first = [b"$1600\r\n", &record.repeat(64)[..], b"\r\n"].concat();
        client.write_all(&[&first[..], b"-NOSCRIPT none\r\n:1\r\n"].concat()).unwrap();
        let _ = client.read(&mut buffer).unwrap();
    });
    port
}

#[test]
fn what_replicas_have_confirmed_stands_though_a_later_round_is_lost() {
    let Some(server) = Server::start(&[]) else { return };
    let port = forgetful(server.port);
    let mut options = RedisOptions::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    (options.wait_replicas, options.deadline) = (1, Duration::from_secs(2));
    let store = RedisStore::new(options, std::sync::Arc::new(Clock::default())).unwrap();
    let rules = rules();
    let plans: Vec<_> = (0..70).map(|_| hit(&rules, "acme")).collect();
    let decided = store.decide_many_blocking(&plans);
    assert!(decided[..64].iter().all(Result::is_ok));
    assert!(decided[64..].iter().all(Result::is_err));
}
