//! What a counter counts for, by name.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use serde_json::json;
use support::{limit, rules, snapshot};
use tidegate_core::matching::Named;

#[test]
fn a_key_has_its_first_value_or_none_in_the_order_of_the_limit() {
    let rules = rules(&snapshot(&[
        limit("many", json!({"per": ["user", "ip", "tenant"], "missing": "shared"})),
        limit("all", json!({"per": []})),
    ]));
    let domain = rules.domain(b"d").unwrap();
    let entries: [(&[u8], &[u8]); 4] =
        [(b"strange", b"x"), (b"tenant", b"a"), (b"user", b""), (b"tenant", b"b")];
    let named = Named::new(domain, &entries);
    let told: Vec<_> = named.per(&domain.rules[0]).collect();
    let expected: [(&[u8], Option<&[u8]>); 3] =
        [(b"user", Some(b"")), (b"ip", None), (b"tenant", Some(b"a"))];
    assert_eq!(told, expected);
    assert_eq!(named.per(&domain.rules[1]).count(), 0);
    let nothing = Named::new(domain, &[]);
    assert!(nothing.per(&domain.rules[0]).all(|(_, value)| value.is_none()));
}
