//! Calls that arrive together are answered as if each had come alone, in their order.

use std::future::Ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_server::drain::drain;
use tidegate_server::grpc::transport::{Call, Message, Reply, Server, Service, Settings, Status};
use tokio::task::{JoinHandle, LocalSet};

use crate::grpc_client::{Client, Ended, Told, shop};
use crate::node::{limit, start};

const INVALID_ARGUMENT: u16 = 3;
const INTERNAL: u16 = 13;

/// Begins all calls before the first of them is sent.
async fn burst<T: Send + 'static>(calls: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let begun: Vec<JoinHandle<T>> = calls.into_iter().map(tokio::spawn).collect();
    let mut ended = Vec::new();
    for call in begun {
        ended.push(call.await.unwrap());
    }
    ended
}

#[tokio::test]
async fn later_ones_see_what_earlier_ones_took() {
    let running = start(&[limit("search", 30)]);
    let client = Arc::new(Client::connect(running.grpc()).await);
    let calls = (0..40).map(|_| {
        let client = Arc::clone(&client);
        async move { client.told(&shop(&[("tenant", b"acme")])).await }
    });
    let told = burst(calls.collect()).await;
    let left: Vec<u64> = told.iter().map(|told: &Told| told.statuses[0].remaining).collect();
    let expected: Vec<u64> = (0..30).rev().chain([0; 10]).collect();
    assert_eq!(left, expected);
    assert!(told[..30].iter().all(|told| told.code == 1));
    assert!(told[30..].iter().all(|told| told.code == 2));
}

#[tokio::test]
async fn a_fault_of_one_is_told_to_that_one_alone() {
    let running = start(&[limit("search", 30)]);
    let client = Arc::new(Client::connect(running.grpc()).await);
    let calls = (0..24).map(|at| {
        let client = Arc::clone(&client);
        let mut ask = shop(&[("tenant", b"acme")]);
        if at % 5 == 3 {
            ask.domain = "";
        }
        async move { client.ask(&ask).await }
    });
    let ended: Vec<Ended> = burst(calls.collect()).await;
    let mut left = 30;
    for (at, ended) in ended.iter().enumerate() {
        if at % 5 == 3 {
            assert_eq!(ended.status, INVALID_ARGUMENT);
        } else {
            left -= 1;
            assert_eq!(ended.status, 0);
            assert_eq!(Told::decode(&ended.message).statuses[0].remaining, left);
        }
    }
}

/// Echoes; breaks down at one message, wherever it meets it.
struct Fragile;

impl Fragile {
    fn echo(call: &Call) -> Message {
        assert_ne!(call.message, "break");
        Message::new(&call.message)
    }
}

impl Service for Fragile {
    type Method = ();
    type Later = Ready<Result<Message, Status>>;
    type Several = Ready<()>;

    fn method(&self, _path: &str) -> Option<()> {
        Some(())
    }

    fn call(&self, (): (), call: Call) -> Reply<Self::Later> {
        Reply::Ready(Ok(Self::echo(&call)))
    }

    fn call_together(&self, calls: &[((), Call)], mut answer: impl FnMut(Result<Message, Status>)) {
        // The last one is left.
        for ((), call) in &calls[..calls.len() - 1] {
            answer(Ok(Self::echo(call)));
        }
    }
}

#[tokio::test]
async fn a_panic_in_one_is_one_internal_answer() {
    let (stats, (_drain, signal)) = (Arc::default(), drain());
    let server = Server::new(Fragile, Settings::default(), Arc::clone(&stats), signal);
    let (near, far) = tokio::io::duplex(1 << 16);
    let local = LocalSet::new();
    local.spawn_local(server.serve(far));
    let (client, connection) = h2::client::handshake(near).await.unwrap();
    local.spawn_local(connection);
    let client = Arc::new(Client::over(client));
    let ended = local
        .run_until(async {
            let calls = (0..20).map(|at| {
                let client = Arc::clone(&client);
                let message = if at == 5 { b"break".to_vec() } else { vec![at] };
                async move { client.call("/any", &message, None).await }
            });
            burst(calls.collect()).await
        })
        .await;
    for (at, ended) in ended.iter().enumerate() {
        assert_eq!(ended.status, if at == 5 { INTERNAL } else { 0 });
        assert!(at == 5 || ended.message == [at as u8][..]);
    }
    assert_eq!(stats.panics.load(Ordering::Relaxed), 1);
}
