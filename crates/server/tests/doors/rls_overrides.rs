//! Limits that a request brings, at the ends of what their fields hold.

use serde_json::{Value, json};

use crate::grpc_client::{Ask, Client, Told, described, shop};
use crate::node::{Running, limit, numbers, start, with};

const INVALID_ARGUMENT: u16 = 3;
const MOST: u64 = u32::MAX as u64;
const SECOND: u64 = 1;
const MINUTE: u64 = 2;
const DAY: u64 = 4;
const YEAR: u64 = 6;
const WEEK: u64 = 7;

/// A server with one limit that takes what requests bring.
fn free(changes: Value) -> Running {
    let is_free = json!({"request_override": true});
    start(&[with(with(limit("free", 10), is_free), changes)])
}

/// One tenant's request with this limit: requests a unit, unit, how many units.
fn brings(brought: (u64, u64, u64)) -> Ask {
    let mut ask = shop(&[("tenant", b"acme")]);
    ask.descriptors[0].limit = Some(brought);
    ask
}

/// Code, what is left, and the limit that is told, of the only descriptor.
fn status(told: &Told) -> (u64, u64, (u64, u64, u64)) {
    let status = &told.statuses[0];
    let (requests, unit, _, multiplier) = status.limit.clone().unwrap();
    (status.code, status.remaining, (requests, unit, multiplier))
}

#[tokio::test]
async fn most_requests_that_the_field_holds_are_counted_to_the_last() {
    let running = free(json!({}));
    let client = Client::connect(running.grpc()).await;
    let ask = brings((MOST, WEEK, 1));
    let told = client.told(&ask.clone().hits(MOST - 1)).await;
    assert_eq!(status(&told), (1, 1, (MOST, WEEK, 0)));
    let told = client.told(&ask.clone().hits(2)).await;
    assert_eq!(status(&told), (2, 1, (MOST, WEEK, 0)), "one too many takes nothing");
    assert_eq!(status(&client.told(&ask).await).0, 1);
    assert_eq!(status(&client.told(&ask).await), (2, 0, (MOST, WEEK, 0)));
}

#[tokio::test]
async fn most_requests_fit_a_bucket_whose_burst_grows_along() {
    let bucket = json!({
        "algorithm": "token_bucket", "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": false, "numbers": numbers(10, 60, 20),
    });
    let running = free(bucket);
    let client = Client::connect(running.grpc()).await;
    let ask = brings((MOST, MINUTE, 1));
    let told = client.told(&ask.clone().hits(2 * MOST)).await;
    assert_eq!((told.code, told.statuses[0].remaining), (1, 0));
    assert_eq!(client.told(&ask).await.code, 2);
}

#[tokio::test]
async fn no_requests_block_whatever_the_unit_is_and_take_nothing() {
    let running = free(json!({}));
    let client = Client::connect(running.grpc()).await;
    for (unit, multiplier) in [(SECOND, 1), (DAY, 366), (WEEK, 52)] {
        let told = client.told(&brings((0, unit, multiplier))).await;
        assert_eq!((told.code, told.statuses[0].remaining), (2, 0), "{unit} {multiplier}");
        let look = client.told(&brings((0, unit, multiplier)).hits(0)).await;
        assert_eq!(look.code, 2, "a look at nothing: {unit} {multiplier}");
    }
    let told = client.told(&shop(&[("tenant", b"acme")]).hits(0)).await;
    assert_eq!(told.statuses[0].remaining, 10);
}

#[tokio::test]
async fn longest_period_is_366_days_in_every_unit() {
    let running = free(json!({}));
    let client = Client::connect(running.grpc()).await;
    let told = [
        ((5, SECOND, 31_622_400), (5, DAY, 366)),
        ((5, DAY, 366), (5, DAY, 366)),
        ((5, WEEK, 52), (5, WEEK, 52)),
        ((5, YEAR, 1), (5, YEAR, 0)),
    ];
    for (brought, expected) in told {
        let told = status(&client.told(&brings(brought)).await);
        assert_eq!((told.0, told.2), (1, expected), "{brought:?}");
    }
    let refused = [
        (5, SECOND, 31_622_401),
        (5, SECOND, MOST),
        (5, DAY, 367),
        (5, WEEK, 53),
        (5, YEAR, 2),
        (0, YEAR, MOST),
        (MOST, WEEK, MOST),
    ];
    for brought in refused {
        let ended = client.ask(&brings(brought)).await;
        assert_eq!(ended.status, INVALID_ARGUMENT, "{brought:?}");
        assert!(ended.text.contains("at most 366 days"), "{}", ended.text);
    }
}

/// As the reference has it: no multiplier is a multiplier of 1.
#[tokio::test]
async fn multiplier_of_zero_is_unset() {
    let running = free(json!({}));
    let client = Client::connect(running.grpc()).await;
    let told = client.told(&brings((5, WEEK, 0))).await;
    assert_eq!(status(&told), (1, 4, (5, WEEK, 0)));
}

/// A bad limit is refused before anything is charged, wherever it stands in the request.
#[tokio::test]
async fn one_bad_limit_refuses_the_request_and_charges_none_of_it() {
    let running = free(json!({}));
    let client = Client::connect(running.grpc()).await;
    let mut ask = shop(&[("tenant", b"acme")]);
    ask.descriptors.push(described(&[("tenant", b"other")]));
    ask.descriptors[1].limit = Some((5, WEEK + 1, 1));
    let ended = client.ask(&ask).await;
    assert_eq!(ended.status, INVALID_ARGUMENT);
    assert!(ended.text.contains("limit.unit 8"), "{}", ended.text);
    let told = client.told(&shop(&[("tenant", b"acme")]).hits(0)).await;
    assert_eq!(told.statuses[0].remaining, 10);
}
