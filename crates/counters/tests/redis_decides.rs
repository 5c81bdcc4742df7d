//! What the Redis store answers while all is well.

#![allow(clippy::unwrap_used, reason = "tests")]

mod redis_support;

use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use redis_support::{Server, decide, handle, hit, limit, on_worker, peek, plan, policy, store};
use tidegate_core::{RuleSet, Verb};
use tidegate_counters::Clock;
use tidegate_counters::redis::{RedisHandle, RedisOptions, RedisStore, StoreError};

const ALGORITHMS: [&str; 4] = ["fixed_window", "sliding_window", "sliding_log", "token_bucket"];

fn one_limit(n: u64) -> RuleSet {
    policy(&[limit("id", "fixed_window", n, 3600, &["tenant"])])
}

/// How many of so many hits at once were let through.
async fn admitted(handle: &RedisHandle, rules: &Rc<RuleSet>, tenant: &str, count: usize) -> usize {
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (handle, rules, tenant) = (handle.clone(), Rc::clone(rules), tenant.to_owned());
            tokio::task::spawn_local(async move {
                decide(&handle, &hit(&rules, &tenant)).await.unwrap()[0].fits
            })
        })
        .collect();
    let mut fits = 0;
    for task in tasks {
        fits += usize::from(task.await.unwrap());
    }
    fits
}

#[test]
fn b48_exactly_n_pass_of_many_at_once_from_several_workers() {
    let Some(server) = Server::start(&[]) else { return };
    for algorithm in ALGORITHMS {
        let total: usize = thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        on_worker(async {
                            let per: &[&str] = &["tenant"];
                            let rules = Rc::new(policy(&[limit("id", algorithm, 100, 86400, per)]));
                            let handle = handle(&store(&server.url())).await;
                            admitted(&handle, &rules, algorithm, 50).await
                        })
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(total, 100, "{algorithm}");
    }
}

#[test]
fn a_check_is_one_command_and_what_is_ready_together_shares_it() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let per: &[&str] = &["tenant"];
        let limits: Vec<_> =
            ALGORITHMS.iter().map(|name| limit(name, name, 500, 60, per)).collect();
        let rules = Rc::new(policy(&limits));
        let handle = handle(&store(&server.url())).await;
        decide(&handle, &hit(&rules, "first")).await.unwrap();
        let before = server.calls("evalsha");
        for _ in 0..20 {
            assert_eq!(decide(&handle, &hit(&rules, "acme")).await.unwrap().len(), 4);
        }
        assert_eq!(server.calls("evalsha") - before, 20);
        assert_eq!(admitted(&handle, &rules, "acme", 320).await, 320);
        // 64 requests a call: five calls, and one more where a turn ended early.
        assert!(server.calls("evalsha") - before - 20 <= 6);
        assert_eq!(server.calls("eval"), 1, "the script went over the wire once");
    });
}

#[test]
fn b09_braces_in_values_are_values() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        for algorithm in ALGORITHMS {
            // Each policy here numbers its limits anew, as no node does: what is known of one must
            // not stand for another.
            let handle = handle(&store(&server.url())).await;
            let rules = policy(&[limit("{id}", algorithm, 1, 3600, &["tenant", "user"])]);
            for value in ["{", "}", "{}", "}{a", "{shop|a}", "", "\u{fc}", "a|b", "a\r\nb"] {
                let entries: [(&[u8], &[u8]); 2] =
                    [(b"tenant", value.as_bytes()), (b"user", value.as_bytes())];
                let request = plan(&rules, Verb::Hit, 1, &entries);
                assert!(decide(&handle, &request).await.unwrap()[0].fits, "{algorithm} {value:?}");
                let second = decide(&handle, &request).await.unwrap()[0];
                assert_eq!((second.fits, second.remaining), (false, 0), "{algorithm} {value:?}");
            }
        }
        let keys = server.run(&["KEYS", "*"]);
        assert!(keys.lines().all(|key| key.contains("tg:{shop|") || !key.starts_with("tg:")));
    });
}

#[test]
fn no_key_is_without_expiry_and_a_peek_makes_none() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let handle = handle(&store(&server.url())).await;
        let per: &[&str] = &["tenant"];
        let limits: Vec<_> = ALGORITHMS.iter().map(|name| limit(name, name, 5, 10, per)).collect();
        let rules = Rc::new(policy(&limits));
        decide(&handle, &peek(&rules, "acme")).await.unwrap();
        decide(&handle, &plan(&rules, Verb::Refund, 3, &[(b"tenant", b"acme")])).await.unwrap();
        assert_eq!(server.run(&["DBSIZE"]), "0");
        admitted(&handle, &rules, "acme", 20).await;
        let script = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do \
                      if redis.call('PTTL', k) < 1 then n = n + 1 end end return n";
        assert_eq!(server.run(&["DBSIZE"]), "4");
        assert_eq!(server.run(&["EVAL", script, "0"]), "0");
    });
}

#[test]
fn a_key_of_another_type_fails_its_own_request_alone() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = Rc::new(one_limit(1000));
        let handle = handle(&store(&server.url())).await;
        decide(&handle, &hit(&rules, "bad")).await.unwrap();
        let spoil = "local k = redis.call('KEYS', '*bad*')[1] \
                     redis.call('DEL', k) redis.call('HSET', k, 'a', 'b')";
        server.run(&["EVAL", spoil, "0"]);
        let other = Rc::clone(&rules);
        let beside = handle.clone();
        let good = tokio::task::spawn_local(async move {
            beside.decide(&hit(&other, "good")).await.unwrap()[0].remaining
        });
        let before = server.calls("evalsha");
        let bad = decide(&handle, &hit(&rules, "bad")).await;
        assert_eq!(bad, Err(StoreError::ForeignValue));
        assert_eq!(good.await.unwrap(), 999);
        assert_eq!(server.calls("evalsha") - before, 1, "both went in one call");
    });
}

#[test]
fn reset_forgets_the_counters_met() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = one_limit(5);
        let store = store(&server.url());
        let handle = handle(&store).await;
        let request = plan(&rules, Verb::Hit, 5, &[(b"tenant", b"acme")]);
        for _ in 0..2 {
            assert!(decide(&handle, &request).await.unwrap()[0].fits);
            assert!(!decide(&handle, &request).await.unwrap()[0].fits);
            handle.reset(&request).await.unwrap();
        }
        assert!(decide(&handle, &request).await.unwrap()[0].fits);
        store.reset_blocking(&request).unwrap();
        assert!(store.decide_blocking(&request).unwrap()[0].fits);
    });
}

#[test]
fn a_request_taken_back_before_it_left_is_not_charged() {
    let Some(server) = Server::start(&[]) else { return };
    // Together in one call, and each in its own.
    for batch in [64, 1] {
        on_worker(async {
            let rules = Rc::new(one_limit(100));
            let mut options = RedisOptions::parse(&server.url()).unwrap();
            (options.deadline, options.batch) = (Duration::from_secs(2), batch);
            let store = RedisStore::new(options, Arc::new(Clock::default())).unwrap();
            let handle = handle(&store).await;
            let tenant = format!("tenant-{batch}");
            let request = hit(&rules, &tenant);
            // From now on the timer of the deadlines wakes nobody early.
            decide(&handle, &peek(&rules, &tenant)).await.unwrap();
            // The first opens the first batch, so it is the one to send all that waits.
            let mut opening = Box::pin(decide(&handle, &request));
            let mut joining = Box::pin(decide(&handle, &request));
            let mut staying = Box::pin(decide(&handle, &request));
            std::future::poll_fn(|cx| {
                assert!(opening.as_mut().poll(cx).is_pending());
                assert!(joining.as_mut().poll(cx).is_pending());
                assert!(staying.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(joining);
            drop(opening);
            // Long before the deadline, at which the driver would look in any case.
            let staying = tokio::time::timeout(Duration::from_secs(1), staying).await;
            assert_eq!(staying.unwrap().unwrap()[0].remaining, 99);
            let left = decide(&handle, &peek(&rules, &tenant)).await.unwrap()[0].remaining;
            assert_eq!(left, 99);
        });
    }
}

#[test]
fn who_stays_gets_its_own_answer_when_others_in_the_call_leave() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = policy(&[
            limit("one", "fixed_window", 1000, 3600, &["tenant"]),
            limit("two", "token_bucket", 2000, 3600, &["user"]),
        ]);
        let handle = handle(&store(&server.url())).await;
        let name = |at: u64| format!("tenant-{at}");
        let mut draw = 1_u64;
        for _ in 0..50 {
            let names: Vec<_> = (0..60).map(name).collect();
            let plans: Vec<_> = (0..60)
                .map(|at| {
                    let name = names[at as usize].as_bytes();
                    let entries: [(&[u8], &[u8]); 2] = [(b"tenant", name), (b"user", name)];
                    // The cost tells whose answer it is; some meet one limit, some both.
                    plan(&rules, Verb::Peek, 1000 + at % 3, &entries[..=at as usize % 2])
                })
                .collect();
            let mut requests: Vec<_> =
                plans.iter().map(|plan| Some(Box::pin(decide(&handle, plan)))).collect();
            std::future::poll_fn(|cx| {
                for request in requests.iter_mut().flatten() {
                    assert!(request.as_mut().poll(cx).is_pending());
                }
                Poll::Ready(())
            })
            .await;
            for request in &mut requests {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if draw >> 62 == 0 {
                    *request = None;
                }
            }
            for (at, request) in requests.into_iter().enumerate() {
                let Some(request) = request else { continue };
                let outcomes = request.await.unwrap();
                assert_eq!(outcomes.len(), 1 + at % 2);
                assert_eq!((outcomes[0].fits, outcomes[0].remaining), (at % 3 == 0, 1000));
                assert!(outcomes.get(1).is_none_or(|two| two.fits && two.remaining == 2000));
            }
        }
    });
}

#[test]
fn login_database_and_unix_socket_are_used() {
    let Some(server) = Server::start(&["--requirepass", "pw"]) else { return };
    on_worker(async {
        let rules = one_limit(10);
        let socket = server.socket();
        for (at, url) in [
            format!("redis://:pw@127.0.0.1:{}/3?client_name=edge", server.port),
            format!("redis+unix://default:pw@{}?db=3", socket.display()),
        ]
        .iter()
        .enumerate()
        {
            let store = store(url);
            let handle = handle(&store).await;
            let left = decide(&handle, &hit(&rules, "acme")).await.unwrap()[0].remaining;
            assert_eq!(left, 9 - 2 * at as u64);
            let left = store.decide_blocking(&hit(&rules, "acme")).unwrap()[0].remaining;
            assert_eq!(left, 8 - 2 * at as u64);
        }
    });
}

#[test]
fn b17_a_user_with_the_documented_rights_alone_can_decide() {
    let Some(server) = Server::start(&[]) else { return };
    let rights = "+eval +evalsha +get +set +del +time +pttl +pexpire \
                  +lrange +lindex +llen +rpush +lset +ltrim";
    let mut rule = vec!["ACL", "SETUSER", "app", "on", ">pw", "~tg:*"];
    rule.extend(rights.split_whitespace());
    assert_eq!(server.run(&rule), "OK");
    on_worker(async {
        let store = store(&format!("redis://app:pw@127.0.0.1:{}", server.port));
        let handle = handle(&store).await;
        for algorithm in ALGORITHMS {
            let rules = policy(&[limit("id", algorithm, 5, 2, &["tenant"])]);
            for cost in [2, 3, 1] {
                let request = plan(&rules, Verb::Hit, cost, &[(b"tenant", b"acme")]);
                decide(&handle, &request).await.unwrap();
            }
            let request = plan(&rules, Verb::Refund, 4, &[(b"tenant", b"acme")]);
            decide(&handle, &request).await.unwrap();
            handle.reset(&request).await.unwrap();
        }
        assert_eq!(store.health().warnings, Vec::<String>::new());
    });
    assert_eq!(server.run(&["ACL", "SETUSER", "app", "-evalsha", "-eval"]), "OK");
    on_worker(async {
        let store = store(&format!("redis://app:pw@127.0.0.1:{}", server.port));
        let handle = handle(&store).await;
        let warnings = store.health().warnings;
        assert!(warnings[0].contains("evalsha"), "said before any request: {warnings:?}");
        let error = decide(&handle, &hit(&one_limit(5), "acme")).await.unwrap_err();
        assert!(error.to_string().contains("evalsha"), "{error}");
    });
    server.run(&["ACL", "SETUSER", "app", "+evalsha", "+eval", "resetkeys", "~other:*"]);
    on_worker(async {
        let store = store(&format!("redis://app:pw@127.0.0.1:{}", server.port));
        let _handle = handle(&store).await;
        let warnings = store.health().warnings;
        assert!(warnings[0].contains("key"), "{warnings:?}");
    });
}

#[test]
fn blocking_callers_share_the_counters_exactly_and_many_go_in_one_trip() {
    let Some(server) = Server::start(&[]) else { return };
    let store = store(&server.url());
    let total: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let rules = one_limit(100);
                    let request = hit(&rules, "acme");
                    let decide = || store.decide_blocking(&request).unwrap()[0].fits;
                    (0..25).filter(|_| decide()).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(total, 100);
    let rules = one_limit(90);
    let plans: Vec<_> = (0..100).map(|_| hit(&rules, "many")).collect();
    store.decide_blocking(&peek(&rules, "many")).unwrap();
    let before = server.calls("evalsha");
    let answers = store.decide_many_blocking(&plans);
    assert_eq!(server.calls("evalsha") - before, 2);
    let left: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()[0].remaining).collect();
    assert_eq!(left[..90], (0..90).rev().collect::<Vec<_>>());
    assert_eq!(left[90..], [0; 10]);
}

#[test]
fn more_requests_than_may_wait_fail_at_once() {
    let Some(server) = Server::start(&[]) else { return };
    on_worker(async {
        let rules = Rc::new(one_limit(100_000));
        let mut options = tidegate_counters::redis::RedisOptions::parse(&server.url()).unwrap();
        options.deadline = Duration::from_secs(5);
        options.max_queue = 128;
        let clock = std::sync::Arc::default();
        let store = tidegate_counters::redis::RedisStore::new(options, clock).unwrap();
        let handle = handle(&store).await;
        server.pause();
        let tasks: Vec<_> = (0..600)
            .map(|_| {
                let (handle, rules) = (handle.clone(), Rc::clone(&rules));
                tokio::task::spawn_local(async move { decide(&handle, &hit(&rules, "acme")).await })
            })
            .collect();
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        server.resume();
        let mut full = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => {}
                Err(StoreError::QueueFull { most: 128 }) => full += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!((200..=600 - 128).contains(&full), "{full}");
        let left = decide(&handle, &peek(&rules, "acme")).await.unwrap()[0].remaining;
        assert_eq!(left, 100_000 - (600 - full));
    });
}
