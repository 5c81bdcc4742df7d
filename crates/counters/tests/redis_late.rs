//! One deadline for a decision, whatever stands in its way: a master that sends it on, a connection
//! that is still to be made.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redis_support::cluster::{Cluster, DEADLINE, ask, of};
use redis_support::ports::free_port;
use redis_support::{
    Server, decide, handle, hit, limit, on_worker, peek, plan, policy, recovers, store,
    store_within, timed,
};
use tidegate_core::{RuleSet, Verb};
use tidegate_counters::Clock;
use tidegate_counters::clock::Deadline;
use tidegate_counters::redis::{RedisOptions, RedisStore, StoreError};
use tokio::time::sleep;

/// What a busy machine may add.
const IN_TIME: Duration = DEADLINE.checked_mul(3).unwrap().checked_div(2).unwrap();

fn rules() -> RuleSet {
    policy(&[limit("each", "fixed_window", 1000, 86400, &["tenant"])])
}

/// Tells a master that another one has the slot of a tenant now.
fn moved(cluster: &Cluster, tenant: &str, to: &Server) {
    let slot = cluster.masters[0].run(&["CLUSTER", "KEYSLOT", &format!("shop|{tenant}")]);
    let words = ["CLUSTER", "SETSLOT", &slot, "NODE", &to.run(&["CLUSTER", "MYID"])];
    assert_eq!(to.run(&words), "OK");
    assert_eq!(cluster.masters[0].run(&words), "OK");
}

#[test]
fn a_request_that_is_sent_on_to_a_master_that_stands_still_keeps_its_deadline() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (there, here) = cluster.names();
    let rules = rules();
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        assert!(ask(&handle, &of(&rules, Verb::Peek, 1, &there)).await.1);
        assert!(ask(&handle, &of(&rules, Verb::Peek, 1, &here)).await.1);
        moved(&cluster, &here, &cluster.masters[1]);
        cluster.masters.iter().for_each(Server::pause);
        let (first, second) = (of(&rules, Verb::Hit, 1, &here), of(&rules, Verb::Hit, 1, &there));
        let later = async {
            sleep(DEADLINE * 3 / 4).await;
            ask(&handle, &second).await
        };
        let resumes = async {
            sleep(DEADLINE * 7 / 8).await;
            cluster.masters[0].resume();
        };
        let (((_, is_whole), took), ..) = tokio::join!(timed(ask(&handle, &first)), later, resumes);
        assert!(!is_whole && took < IN_TIME, "{took:?}");
        cluster.masters[1].resume();
    });
}

#[test]
fn a_request_that_is_sent_on_to_a_master_that_is_still_to_be_connected_keeps_its_deadline() {
    let Some(cluster) = Cluster::start(false) else { return };
    let bus = free_port().to_string();
    let Some(third) = Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]) else {
        return;
    };
    cluster.masters[0].run(&["CLUSTER", "MEET", "127.0.0.1", &third.port.to_string(), &bus]);
    let (_, here) = cluster.names();
    let rules = rules();
    on_worker(async {
        let store = cluster.store();
        let handle = handle(&store).await;
        assert!(ask(&handle, &of(&rules, Verb::Peek, 1, &here)).await.1);
        let name = third.run(&["CLUSTER", "MYID"]);
        let deadline = Deadline::after(Duration::from_secs(20));
        while !cluster.masters[0].run(&["CLUSTER", "NODES"]).contains(&name) {
            assert!(!deadline.is_over());
            sleep(Duration::from_millis(10)).await;
        }
        moved(&cluster, &here, &third);
        third.pause();
        cluster.masters[0].pause();
        let first = of(&rules, Verb::Hit, 1, &here);
        let resumes = async {
            sleep(DEADLINE * 3 / 4).await;
            cluster.masters[0].resume();
        };
        let (((_, is_whole), took), ()) = tokio::join!(timed(ask(&handle, &first)), resumes);
        assert!(!is_whole && took < IN_TIME, "{took:?}");
        third.resume();
    });
}

#[test]
fn the_first_request_waits_for_the_map_and_the_connection_within_one_deadline() {
    let Some(cluster) = Cluster::start(false) else { return };
    let (there, _) = cluster.names();
    let rules = rules();
    on_worker(async {
        cluster.masters.iter().for_each(Server::pause);
        let store = cluster.store();
        let handle = store.handle();
        let resumes = async {
            sleep(DEADLINE * 3 / 4).await;
            cluster.masters[0].resume();
        };
        let first = of(&rules, Verb::Hit, 1, &there);
        let (((_, is_whole), took), ()) = tokio::join!(timed(ask(&handle, &first)), resumes);
        assert!(!is_whole && took < IN_TIME, "{took:?}");
        cluster.masters[1].resume();
    });
}

/// Passes on what so many connections say, each answer late; of further ones, nothing.
fn slow_proxy(server: u16, connections: usize, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let forward = |mut from: TcpStream, mut to: TcpStream, delay: Duration| {
        thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                thread::sleep(delay);
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
        });
    };
    thread::spawn(move || {
        let mut silent = Vec::new();
        for (at, client) in listener.incoming().flatten().enumerate() {
            if at >= connections {
                silent.push(client);
                continue;
            }
            let upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (back, there) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
            forward(client, upstream, Duration::ZERO);
            forward(back, there, delay);
        }
    });
    port
}

#[test]
fn the_first_request_waits_for_the_greeting_and_its_answer_within_one_deadline() {
    let Some(server) = Server::start(&[]) else { return };
    let port = slow_proxy(server.port, 1, DEADLINE * 3 / 4);
    let rules = rules();
    on_worker(async {
        // It has the script.
        let direct = store(&server.url());
        recovers(&handle(&direct).await, &rules).await;
        let store = store_within(&format!("redis://127.0.0.1:{port}"), DEADLINE);
        let told = decide(&store.handle(), &peek(&rules, "acme")).await;
        assert_eq!(told, Err(StoreError::Timeout { was_sent: true }));
    });
}

#[test]
fn who_waits_for_a_connection_in_place_of_another_waits_no_longer_than_its_deadline() {
    let Some(server) = Server::start(&[]) else { return };
    let port = slow_proxy(server.port, 1, Duration::ZERO);
    let rules = rules();
    on_worker(async {
        let mut options = RedisOptions::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
        (options.wait_replicas, options.deadline) = (1, DEADLINE);
        let store = RedisStore::new(options, Arc::new(Clock::default())).unwrap();
        let handle = handle(&store).await;
        let look = plan(&rules, Verb::Peek, 1, &[(b"tenant", b"acme")]);
        assert!(decide(&handle, &look).await.is_ok());
        let request = hit(&rules, "acme");
        let later = async {
            // Behind the question after replicas, of which there are none.
            sleep(DEADLINE / 20).await;
            decide(&handle, &request).await
        };
        let (told, late) = tokio::join!(decide(&handle, &request), later);
        assert!(told.is_ok());
        assert_eq!(late, Err(StoreError::Timeout { was_sent: false }));
    });
}
