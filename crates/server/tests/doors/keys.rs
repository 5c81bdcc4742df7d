//! Different clients never share a counter, and leaving a key out never switches a limit off
//! unless the policy says so.

use serde_json::json;

use crate::grpc_client::{Client, shop};
use crate::node::{limit, start, with};

#[tokio::test]
async fn b59_values_are_bytes_and_compared_whole() {
    let pair = with(limit("pair", 1), json!({"per": ["a", "b"]}));
    let running = start(&[pair]);
    let client = Client::connect(running.grpc()).await;
    let pairs: [(&[u8], &[u8]); 12] = [
        (b"a", b"b_c"),
        (b"a_b", b"c"),
        (b"a:b", b"c"),
        (b"a", b"b:c"),
        (b"aa", b"b"),
        (b"a", b"ab"),
        (b"a", b""),
        (b"", b"a"),
        (b"\xff\xfe", b"x"),
        (b"\xff", b"\xfex"),
        (b"{x}", b"\0"),
        ("größe".as_bytes(), b"x"),
    ];
    for (a, b) in pairs {
        let ask = shop(&[("a", a), ("b", b)]);
        assert_eq!(client.told(&ask).await.code, 1, "{a:?} {b:?} has its own counter");
    }
    for (a, b) in pairs {
        let ask = shop(&[("a", a), ("b", b)]);
        assert_eq!(client.told(&ask).await.code, 2, "{a:?} {b:?} is counted");
    }
}

#[tokio::test]
async fn long_values_have_their_own_counters_too() {
    let running = start(&[limit("long", 1)]);
    let client = Client::connect(running.grpc()).await;
    let mut value = vec![b'x'; 5000];
    for last in [b'a', b'b'] {
        value[4999] = last;
        let ask = shop(&[("tenant", &value)]);
        assert_eq!(client.told(&ask).await.code, 1);
        assert_eq!(client.told(&ask).await.code, 2);
    }
}

/// One missing header switched a limit off unnoticed.
#[tokio::test]
async fn b61_missing_key_is_what_the_limit_says() {
    for (missing, expected) in [("skip", [1, 1, 1]), ("shared", [1, 1, 2]), ("deny", [2, 2, 2])] {
        let changes = json!({"per": ["path", "key"], "missing": missing});
        let running = start(&[with(limit("keyed", 2), changes)]);
        let client = Client::connect(running.grpc()).await;
        let lacking = shop(&[("path", b"/x")]);
        let mut codes = [0; 3];
        for code in &mut codes {
            *code = client.told(&lacking).await.code;
        }
        assert_eq!(codes, expected, "{missing}");
        let empty = shop(&[("path", b"/x"), ("key", b"")]);
        assert_eq!(client.told(&empty).await.statuses[0].remaining, 1, "empty is a value");
        let told = client.told(&shop(&[])).await;
        if missing == "deny" {
            assert_eq!(told.metadata("reason"), Some("missing_key"));
            assert_eq!(told.header("retry-after"), None);
        }
    }
}

#[tokio::test]
async fn b53_remaining_counts_down_to_zero_and_stays() {
    for algorithm in ["fixed_window", "sliding_window", "sliding_log", "token_bucket"] {
        let running = start(&[with(limit("steps", 20), json!({"algorithm": algorithm}))]);
        let client = Client::connect(running.grpc()).await;
        let ask = shop(&[("tenant", b"acme")]);
        for left in (0..20).rev().chain([0; 10]) {
            let told = client.told(&ask).await;
            assert_eq!(told.statuses[0].remaining, left, "{algorithm}");
        }
        let lowered = with(
            limit("steps", 10),
            json!({"algorithm": algorithm, "numbers": crate::node::numbers(10, 60, 10)}),
        );
        running.node.load(&crate::node::snapshot(&[lowered])).unwrap();
        let told = client.told(&ask).await;
        assert_eq!((told.code, told.statuses[0].remaining), (2, 0), "{algorithm}");
        assert_eq!(told.header("x-ratelimit-used"), Some("10"), "never above the limit");
    }
}
