//! Calls as they are packed and as they go on the wire.

use super::*;
use serde_json::json;
use tidegate_core::{Descriptor, Identities, RuleSet, Verb};

fn rules() -> RuleSet {
    let limit = |id: &str, n: u64, on_exceed: &str| {
        json!({
            "id": id, "when": [], "per": ["k"], "missing": "skip", "counts": "requests",
            "algorithm": "fixed_window", "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": true,
            "numbers": {"n": n, "period_us": 60_000_000, "burst": n},
            "on_store_failure": "open", "on_exceed": on_exceed, "count_denied": false,
            "request_override": false,
        })
    };
    let limits = [limit("a", 5, "reject"), limit("b", 7, "shadow"), limit("c", 5, "reject")];
    let domain =
        json!({"name": "d", "tenant_key": null, "limits": limits, "plans": [], "tenants": {}});
    let document = json!({"format": 1, "revision": "0123456789ab", "domains": [domain],
                          "calendars": {}});
    RuleSet::load(document.to_string().as_bytes(), &mut Identities::default()).unwrap()
}

fn plan<'r>(rules: &'r RuleSet, verb: Verb, cost: u64, value: &[u8]) -> Plan<'r> {
    let entries: [(&[u8], &[u8]); 1] = [(b"k", value)];
    let descriptor =
        Descriptor { entries: &entries, costs: &[(b"requests", cost)], verb, rate: None };
    Plan::new(rules.domain(b"d").unwrap(), &[descriptor], 0).unwrap()
}

fn packed(key: u16, rule: u16, flags: u8, cost: f64) -> Vec<u8> {
    let head = [key.to_le_bytes(), rule.to_le_bytes()].concat();
    [head, vec![flags], cost.to_le_bytes().to_vec()].concat()
}

#[test]
fn keys_and_rules_stand_once_and_the_last_operation_ends_its_request() {
    let (rules, keys) = (rules(), Keys::new("tg:"));
    let mut call = Call::default();
    assert_eq!(call.push(&keys, &plan(&rules, Verb::Hit, 2, b"x"), whole), 0..3);
    assert_eq!(call.push(&keys, &plan(&rules, Verb::Refund, 1, b"x"), whole), 3..6);
    let expected = [
        packed(1, 1, 0, 2.0),
        packed(2, 2, SHADOW, 2.0),
        packed(3, 1, LAST, 2.0),
        packed(1, 1, 2, 1.0),
        packed(2, 2, 2 | SHADOW, 1.0),
        packed(3, 1, 2 | LAST, 1.0),
    ];
    assert_eq!(call.ops, expected.concat());
    assert_eq!((call.places.len(), call.rules.len()), (3, 2));
    assert_eq!(call.reply_length(), 6 * RECORD);
}

#[test]
fn a_request_that_was_taken_back_leaves_no_trace_among_the_operations() {
    let (rules, keys) = (rules(), Keys::new("tg:"));
    let mut call = Call::default();
    for value in [b"x", b"y", b"z"] {
        call.push(&keys, &plan(&rules, Verb::Hit, 1, value), whole);
    }
    call.keep([0..3, 6..9].into_iter());
    let mut other = Call::default();
    for value in [b"x", b"z"] {
        other.push(&keys, &plan(&rules, Verb::Hit, 1, value), whole);
    }
    assert_eq!(call.operations(), 6);
    assert_eq!(call.ops[..3 * OPERATION], other.ops[..3 * OPERATION]);
    assert_eq!(call.ops[3 * OPERATION..][..2], 7_u16.to_le_bytes(), "its keys keep their place");
}

#[test]
fn a_call_takes_no_more_requests_and_keys_than_it_may() {
    let (rules, keys) = (rules(), Keys::new("tg:"));
    let mut call = Call::default();
    for request in 0..MOST_REQUESTS {
        assert!(call.has_room(3, MOST_REQUESTS, None), "{request}");
        call.push(&keys, &plan(&rules, Verb::Hit, 1, b"x"), whole);
    }
    assert!(!call.has_room(3, MOST_REQUESTS, None));
    call.clear(Kind::Decide, None);
    assert!(call.has_room(MOST_KEYS, MOST_REQUESTS, None));
    assert!(!call.has_room(MOST_KEYS + 1, MOST_REQUESTS, None));
    assert!(!call.has_room(1, MOST_REQUESTS, Some(5)), "another time is another call");
}

#[test]
fn a_call_on_the_wire_is_one_command() {
    let (rules, keys) = (rules(), Keys::new("tg:"));
    let mut call = Call::default();
    call.push(&keys, &plan(&rules, Verb::Hit, 1, b"x"), whole);
    for (by, word) in [(By::Hash, "EVALSHA"), (By::Text, "EVAL")] {
        let mut wire = Vec::new();
        call.write(&mut wire, by);
        let (resp::Reply::Array(words), used) = resp::parse(&wire).unwrap().unwrap() else {
            panic!("no command")
        };
        assert_eq!((words.len(), used), (7, wire.len()));
        assert_eq!(words[0], resp::Reply::Bulk(Some(word.as_bytes())));
        assert_eq!(words[2], resp::Reply::Bulk(Some(b"3")));
    }
}
