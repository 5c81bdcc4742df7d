//! What the Redis store does while something is wrong with the server or the way to it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use redis_support::{
    Server, comes_to_leave, decide, handle, hit, left, limit, on_worker, peek, policy, recovers,
    store, timed,
};
use tidegate_core::{RuleSet, Verb};
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{ErrorClass, RedisHandle, RedisStore, StoreError};
use tokio::time::sleep;

/// Far below the two seconds that a store of these tests may take, and enough for a busy machine.
const AT_ONCE: Duration = Duration::from_millis(50);

fn rules() -> RuleSet {
    policy(&[limit("id", "fixed_window", 1000, 86400, &["tenant"])])
}

#[test]
fn b11_a_flushed_script_is_loaded_once_and_each_request_charged_once() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = Rc::new(rules());
        let store = store(&server.url());
        let handle = handle(&store).await;
        for round in 1..=3 {
            server.run(&["SCRIPT", "FLUSH"]);
            let loads = server.calls("eval");
            let mut tasks = Vec::new();
            // Several turns, so that several calls are on the wire when the first is refused.
            for _ in 0..5 {
                for _ in 0..10 {
                    let (handle, rules) = (handle.clone(), Rc::clone(&rules));
                    tasks.push(tokio::task::spawn_local(async move {
                        decide(&handle, &hit(&rules, "acme")).await.unwrap()[0].fits
                    }));
                }
                tokio::task::yield_now().await;
            }
            for task in tasks {
                assert!(task.await.unwrap());
            }
            assert_eq!(server.calls("eval") - loads, 1);
            assert_eq!(left(&handle, &rules).await, 1000 - 50 * round);
        }
        server.run(&["SCRIPT", "FLUSH"]);
        let plans: Vec<_> = (0..130).map(|_| hit(&rules, "acme")).collect();
        assert!(store.decide_many_blocking(&plans).iter().all(Result::is_ok));
        assert_eq!(left(&handle, &rules).await, 1000 - 150 - 130);
    });
}

#[test]
fn a_killed_server_fails_calls_at_once_and_is_back_within_two_seconds() {
    let Some(mut server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = rules();
        let store = store(&server.url());
        let handle = handle(&store).await;
        store.decide_blocking(&hit(&rules, "acme")).unwrap();
        assert!(store.health().is_up);
        server.kill();
        sleep(Duration::from_millis(300)).await;
        for _ in 0..100 {
            let (answer, took) = timed(decide(&handle, &hit(&rules, "acme"))).await;
            let error = answer.unwrap_err();
            assert!(matches!(error, StoreError::Disconnected { .. }), "{error:?}");
            assert!(!error.may_have_written());
            assert!(took < AT_ONCE, "{took:?}");
        }
        let health = store.health();
        assert!(!health.is_up && health.last_error.is_some(), "{health:?}");
        assert!(store.decide_blocking(&hit(&rules, "acme")).is_err());
        server.spawn();
        let took = recovers(&handle, &rules).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(store.health().is_up && store.health().last_error.is_none());
        let deadline = Deadline::after(Duration::from_secs(2));
        while store.decide_blocking(&hit(&rules, "acme")).is_err() {
            assert!(!deadline.is_over());
            sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn the_first_request_waits_for_the_first_connection() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = rules();
        let store = store(&server.url());
        assert_eq!(left(&store.handle(), &rules).await, 1000);
    });
}

#[test]
fn b81_a_store_that_is_away_at_the_start_is_found_when_it_comes() {
    let Some(mut server) = Server::stopped(&[]) else { return };
    on_worker(async {
        let rules = rules();
        let handle = store(&server.url()).handle();
        sleep(Duration::from_millis(500)).await;
        let error = decide(&handle, &hit(&rules, "acme")).await.unwrap_err();
        assert!(matches!(error, StoreError::Disconnected { .. }), "{error:?}");
        server.spawn();
        let took = recovers(&handle, &rules).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
        let unknown = store("redis://no-such-host.invalid");
        let handle = unknown.handle();
        sleep(Duration::from_millis(100)).await;
        assert!(decide(&handle, &hit(&rules, "acme")).await.is_err());
        assert!(unknown.decide_blocking(&hit(&rules, "acme")).is_err());
    });
}

/// Passes calls on to the server and swallows the answers once told to: closes instead.
fn swallowing_proxy(server: u16, answers: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut client: TcpStream = client;
            let mut upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let mut buffer = vec![0; 65536];
            // One exchange for the greeting, then so many calls.
            for exchange in 0..=answers {
                let Ok(count @ 1..) = client.read(&mut buffer) else { break };
                upstream.write_all(&buffer[..count]).unwrap();
                let count = upstream.read(&mut buffer).unwrap();
                if exchange < answers {
                    client.write_all(&buffer[..count]).unwrap();
                }
            }
        }
    });
    port
}

#[test]
fn a_call_whose_answer_is_lost_is_not_sent_again() {
    let Some(server) = Server::start(&[]) else { return };
    let direct = store(&server.url());
    let rules = rules();
    direct.decide_blocking(&hit(&rules, "acme")).unwrap();
    let port = swallowing_proxy(server.port, 1);
    let cut = store(&format!("redis://127.0.0.1:{port}"));
    on_worker(async {
        let handle = handle(&cut).await;
        let error = decide(&handle, &hit(&rules, "acme")).await.unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
        assert!(error.may_have_written());
        let error = cut.decide_blocking(&hit(&rules, "acme")).unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
        sleep(Duration::from_millis(200)).await;
    });
    let answer = direct.decide_blocking(&peek(&rules, "acme")).unwrap();
    assert_eq!(answer[0].remaining, 1000 - 1 - 2, "each lost call counted once");
}

/// The class of the error that a hit meets, on both sides.
async fn refused(store: &RedisStore, handle: &RedisHandle, rules: &RuleSet) -> ErrorClass {
    let StoreError::Refused { class, .. } = decide(handle, &hit(rules, "x")).await.unwrap_err()
    else {
        panic!("no refusal")
    };
    match store.decide_blocking(&hit(rules, "x")) {
        Err(StoreError::Refused { class: other, .. }) => assert_eq!(class, other),
        other => panic!("{other:?}"),
    }
    class
}

#[test]
fn b13_a_demoted_master_is_left_and_found_again() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = rules();
        let store = store(&server.url());
        let handle = handle(&store).await;
        decide(&handle, &hit(&rules, "acme")).await.unwrap();
        server.run(&["REPLICAOF", "127.0.0.1", "1"]);
        assert_eq!(refused(&store, &handle, &rules).await, ErrorClass::ReadOnly);
        sleep(Duration::from_millis(1)).await;
        let error = decide(&handle, &hit(&rules, "acme")).await.unwrap_err();
        assert!(matches!(error, StoreError::Disconnected { .. }), "{error:?}");
        server.run(&["REPLICAOF", "NO", "ONE"]);
        let took = recovers(&handle, &rules).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn a_server_without_memory_refuses_and_writes_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = rules();
        let store = store(&server.url());
        let handle = handle(&store).await;
        server.run(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(refused(&store, &handle, &rules).await, ErrorClass::OutOfMemory);
        assert_eq!(server.run(&["DBSIZE"]), "0");
        server.run(&["CONFIG", "SET", "maxmemory", "0"]);
        assert!(decide(&handle, &hit(&rules, "x")).await.is_ok(), "the connection stayed");
        assert!(store.decide_blocking(&hit(&rules, "x")).is_ok());
    });
}

#[test]
fn a_busy_server_refuses_and_what_it_refused_is_charged_once_it_is_not() {
    let Some(server) = Server::start(&["--busy-reply-threshold", "10"]) else { return };
    on_worker(async {
        let rules = rules();
        let store = store(&server.url());
        let handle = handle(&store).await;
        decide(&handle, &hit(&rules, "acme")).await.unwrap();
        let port = server.port;
        let endless = thread::spawn(move || {
            redis_support::Plain::connect(port).run(&["EVAL", "while true do end", "0"])
        });
        sleep(Duration::from_millis(200)).await;
        let error = decide(&handle, &hit(&rules, "acme")).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { class: ErrorClass::Busy, .. }), "{error}");
        assert!(!error.may_have_written());
        server.run(&["SCRIPT", "KILL"]);
        assert!(endless.join().unwrap().contains("kill"));
        comes_to_leave(&handle, &rules, 998).await;
    });
}

#[test]
fn a_wrong_password_is_said_without_the_password() {
    let Some(server) = Server::start(&["--requirepass", "right"]) else { return };
    on_worker(async {
        for login in [":hunter2@", ""] {
            let store = store(&format!("redis://{login}127.0.0.1:{}", server.port));
            let handle = store.handle();
            sleep(Duration::from_millis(300)).await;
            let error = decide(&handle, &hit(&rules(), "acme")).await.unwrap_err().to_string();
            assert!(error.contains("WRONGPASS") || error.contains("NOAUTH"), "{error}");
            let said = store.decide_blocking(&hit(&rules(), "acme")).unwrap_err().to_string();
            assert!(said.contains("WRONGPASS") || said.contains("NOAUTH"), "{said}");
            assert!(!format!("{error} {store:?} {:?}", store.health()).contains("hunter2"));
        }
    });
}

#[test]
fn a_store_that_evicts_is_warned_of_and_what_is_no_store_is_named() {
    let Some(server) = Server::start(&["--maxmemory-policy", "allkeys-lru"]) else { return };
    on_worker(async {
        let store = store(&server.url());
        let _handle = handle(&store).await;
        let warnings = store.health().warnings;
        assert!(warnings[0].contains("allkeys-lru"), "{warnings:?}");
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let other = store(&format!("redis://127.0.0.1:{port}"));
    let error = other.decide_blocking(&hit(&rules(), "acme")).unwrap_err();
    assert!(
        error.to_string().contains("no Redis") || error.to_string().contains("RESP"),
        "{error}"
    );
}

#[test]
fn the_last_handle_to_go_closes_its_connection() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let store = store(&server.url());
        let first = handle(&store).await;
        let second = first.clone();
        drop(first);
        let request = redis_support::plan(&RULES, Verb::Peek, 1, &[(b"tenant", b"a")]);
        assert!(decide(&second, &request).await.is_ok());
        drop(second);
        let deadline = Deadline::after(Duration::from_secs(5));
        while store.health().is_up || server.run(&["CLIENT", "LIST"]).contains("name=tidegate") {
            assert!(!deadline.is_over());
            sleep(Duration::from_millis(5)).await;
        }
    });
}

static RULES: std::sync::LazyLock<RuleSet> = std::sync::LazyLock::new(rules);
