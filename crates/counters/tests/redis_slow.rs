//! What the Redis store does while the server is too slow, or stands still.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redis_support::{
    Server, comes_to_leave, decide, handle, hit, left, limit, on_worker, peek, policy, recovers,
    store_within, timed,
};
use tidegate_core::RuleSet;
use tidegate_counters::redis::StoreError;
use tokio::time::sleep;

/// Far below the two seconds that a store of these tests may take, and enough for a busy machine.
const AT_ONCE: Duration = Duration::from_millis(50);
/// The same for a deadline of 20 ms.
const IN_TIME: Duration = Duration::from_millis(120);

fn rules() -> RuleSet {
    policy(&[limit("id", "fixed_window", 1000, 86400, &["tenant"])])
}

#[test]
fn a_server_that_stands_still_costs_the_deadline_and_then_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = rules();
        let store = store_within(&server.url(), Duration::from_millis(20));
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        server.pause();
        let (answer, took) = timed(decide(&handle, &hit(&rules, "acme"))).await;
        assert_eq!(answer, Err(StoreError::Timeout { was_sent: true }));
        assert!(took < IN_TIME, "{took:?}");
        for _ in 0..10 {
            let (answer, took) = timed(decide(&handle, &peek(&rules, "acme"))).await;
            assert!(answer.is_err() && took < IN_TIME, "{answer:?} {took:?}");
        }
        let (answer, _) = timed(decide(&handle, &peek(&rules, "acme"))).await;
        assert_eq!(answer, Err(StoreError::Silent));
        sleep(Duration::from_secs(1)).await;
        let (answer, took) = timed(decide(&handle, &peek(&rules, "acme"))).await;
        assert!(matches!(answer, Err(StoreError::Disconnected { .. })), "{answer:?}");
        assert!(took < AT_ONCE, "{took:?}");
        server.resume();
        let took = recovers(&handle, &rules).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
        // What had left was done once, late.
        assert_eq!(left(&handle, &rules).await, 999);
    });
}

/// Passes everything on, answers so many milliseconds late.
fn slow_proxy(server: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let delay_ms = Arc::new(AtomicU64::new(0));
    let delay = Arc::clone(&delay_ms);
    let forward = |mut from: TcpStream, mut to: TcpStream, delay: Option<Arc<AtomicU64>>| {
        thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if let Some(delay) = &delay {
                    thread::sleep(Duration::from_millis(delay.load(Ordering::Relaxed)));
                }
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
        });
    };
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (back, there) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
            forward(client, upstream, None);
            forward(back, there, Some(Arc::clone(&delay)));
        }
    });
    (port, delay_ms)
}

#[test]
fn a_store_that_answers_too_late_is_waited_for_a_moment_and_then_probed() {
    let Some(server) = Server::start(&[]) else { return };
    let (port, delay_ms) = slow_proxy(server.port);
    on_worker(async {
        let rules = rules();
        let store = store_within(&format!("redis://127.0.0.1:{port}"), Duration::from_millis(20));
        let handle = handle(&store).await;
        recovers(&handle, &rules).await;
        let connected = store.health().made;
        delay_ms.store(150, Ordering::Relaxed);
        let (mut waited, mut spared) = (0, 0);
        while spared < 100 {
            match decide(&handle, &hit(&rules, "acme")).await {
                Err(StoreError::Timeout { .. }) => waited += 1,
                Err(StoreError::Silent) => {
                    spared += 1;
                    sleep(Duration::from_millis(5)).await;
                }
                other => panic!("{other:?}"),
            }
            assert!(waited < 20, "everybody waits for a store that is too slow");
        }
        assert!(store.health().last_error.is_some_and(|why| why.contains("in time")));
        delay_ms.store(0, Ordering::Relaxed);
        let took = recovers(&handle, &rules).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(store.health().last_error.is_none());
        assert_eq!(store.health().made, connected, "no new connection was needed");
        // Each call that left was done once, and each that never left is charged once.
        let charged = 1000 - waited - spared;
        comes_to_leave(&handle, &rules, charged).await;
        sleep(Duration::from_millis(200)).await;
        assert_eq!(left(&handle, &rules).await, charged);
    });
}

#[test]
fn a_blocking_caller_keeps_its_deadline_too() {
    let Some(server) = Server::start(&[]) else { return };
    let rules = rules();
    let store = store_within(&server.url(), Duration::from_millis(20));
    let request = hit(&rules, "acme");
    while store.decide_blocking(&request).is_err() {}
    server.pause();
    on_worker(async {
        let (answer, took) = timed(async { store.decide_blocking(&request) }).await;
        assert_eq!(answer, Err(StoreError::Timeout { was_sent: true }));
        assert!(took < IN_TIME, "{took:?}");
        for _ in 0..5 {
            let (answer, took) = timed(async { store.decide_blocking(&request) }).await;
            assert!(!answer.unwrap_err().may_have_written());
            assert!(took < IN_TIME, "{took:?}");
        }
    });
    server.resume();
}
