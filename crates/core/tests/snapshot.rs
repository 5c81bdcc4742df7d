//! Snapshots that must be refused, each with a message that says why.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use serde_json::{Value, json};
use support::{limit, snapshot};
use tidegate_core::{Algorithm, Identities, RuleSet};

fn refusal(doc: &Value) -> String {
    RuleSet::load(doc.to_string().as_bytes(), &mut Identities::default()).unwrap_err().to_string()
}

#[test]
fn a_missing_or_unknown_field_is_refused() {
    for field in ["when", "numbers", "on_exceed", "keyed_by_period"] {
        let mut row = limit("l", json!({}));
        row.as_object_mut().unwrap().remove(field);
        assert!(refusal(&snapshot(&[row])).contains(field), "{field}");
    }
    assert!(refusal(&snapshot(&[limit("l", json!({"burts": 1}))])).contains("burts"));
}

#[test]
fn numbers_out_of_range_are_refused_and_named() {
    let numbers = |n: u64, period_us: u64, burst: u64| {
        limit("l", json!({"numbers": {"n": n, "period_us": period_us, "burst": burst}}))
    };
    for (row, says) in [
        (numbers(1 << 53, 1_000_000, 1), "2^53"),
        (numbers(1, 1_000_000, 1 << 53), "2^53"),
        (numbers(1, 1_500_000, 1), "whole seconds"),
        (numbers(1, 367 * 86_400_000_000, 1), "366 days"),
        (numbers(1, 1_000_000, 0), "burst 0"),
        (
            limit(
                "l",
                json!({"algorithm": "sliding_log",
            "numbers": {"n": 100_001, "period_us": 1_000_000, "burst": 1}}),
            ),
            "100000",
        ),
    ] {
        let message = refusal(&snapshot(&[row]));
        assert!(message.contains(says) && message.contains("\"l\""), "{message}");
    }
}

fn quota(changes: Value) -> Value {
    let base = json!({"algorithm": "quota", "time_zone": "UTC", "keyed_by_period": true,
        "numbers": {"n": 5, "period_us": 86_400_000_000_u64, "burst": 5}});
    let mut row = limit("l", base);
    if let (Value::Object(row), Value::Object(changes)) = (&mut row, changes) {
        row.extend(changes);
    }
    row
}

fn with_calendar(limits: &[Value], calendars: Value) -> Value {
    let mut doc = snapshot(limits);
    doc["calendars"] = calendars;
    doc
}

#[test]
fn calendars_whose_periods_do_not_meet_are_refused_and_named() {
    for (runs, says) in [
        (json!([]), "no periods"),
        (json!([[0, 0]]), "out of bounds"),
        (json!([[0, 367 * 86_400 + 1]]), "out of bounds"),
        (json!([[1_u64 << 34, 60]]), "out of bounds"),
        (json!([[0, 86_400], [100_000, 86_400]]), "do not meet 100000"),
        (json!([[86_400, 86_400], [86_400, 60]]), "do not meet 86400"),
        (json!([[86_400, 86_400], [0, 60]]), "do not meet 0"),
    ] {
        let message = refusal(&with_calendar(&[], json!({"UTC": {"day": runs}})));
        assert!(message.contains(says) && message.contains("\"UTC\", day"), "{message}");
    }
    let message = refusal(&with_calendar(&[], json!({"UTC": {"fortnight": [[0, 1]]}})));
    assert!(message.contains("fortnight: no calendar period"), "{message}");
}

#[test]
fn a_quota_without_what_it_needs_is_refused() {
    let days = json!({"UTC": {"day": [[0, 86_400]]}});
    let load = |doc: &Value| RuleSet::load(doc.to_string().as_bytes(), &mut Identities::default());
    assert!(load(&with_calendar(&[quota(json!({}))], days.clone())).is_ok());
    let month = json!({"n": 5, "period_us": 30 * 86_400_000_000_u64, "burst": 5});
    let odd = json!({"n": 5, "period_us": 86_401_000_000_u64, "burst": 5});
    for (changes, says) in [
        (json!({"time_zone": null}), "without a time zone"),
        (json!({"time_zone": "Europe/Berlin"}), "no calendar of \"Europe/Berlin\""),
        (json!({"algorithm": "fixed_window"}), "a time zone without a quota"),
        (json!({"numbers": month}), "no month in the calendar of \"UTC\""),
        (json!({"numbers": odd}), "no calendar period"),
        (json!({"request_override": true}), "request_override"),
        (json!({"keyed_by_period": false}), "keyed by its period"),
    ] {
        let message = refusal(&with_calendar(&[quota(changes)], days.clone()));
        assert!(message.contains(says) && message.contains("\"l\""), "{message}");
    }
    let mut doc = with_calendar(&[quota(json!({"per": ["tenant"]}))], days);
    doc["domains"][0]["plans"] = json!([{"name": "pro", "numbers": [[0, month]]}]);
    assert!(refusal(&doc).contains("no month in the calendar"));
}

#[test]
fn slots_that_do_not_go_together_are_refused_and_named() {
    let sliding = |slots: u64, conservative: bool, algorithm: &str, keyed: bool| {
        limit(
            "l",
            json!({"algorithm": algorithm, "slots": slots, "conservative": conservative,
            "keyed_by_period": keyed}),
        )
    };
    for row in [
        sliding(0, false, "sliding_slots", true),
        sliding(61, false, "sliding_slots", true),
        sliding(1, false, "sliding_slots", true),
        sliding(6, false, "sliding_slots", false),
        sliding(6, false, "sliding_window", true),
        sliding(1, true, "token_bucket", true),
    ] {
        let message = refusal(&snapshot(&[row]));
        assert!(message.contains("slots") && message.contains("\"l\""), "{message}");
    }
    for (slots, conservative) in [(1, true), (2, false), (60, true)] {
        let row = sliding(slots, conservative, "sliding_slots", true);
        let doc = snapshot(&[row]).to_string();
        assert!(RuleSet::load(doc.as_bytes(), &mut Identities::default()).is_ok());
    }
}

#[test]
fn a_bad_pattern_names_its_limit() {
    let row = limit("l", json!({"when": [{"key": "k", "negate": false, "any": [{"regex": "("}]}]}));
    assert!(refusal(&snapshot(&[row])).contains("\"l\""));
    assert!(RuleSet::check_regex("(").is_err());
    assert!(RuleSet::check_regex("^/v[0-9]+/").is_ok());
}

#[test]
fn another_format_is_refused() {
    let mut doc = snapshot(&[]);
    doc["format"] = json!(2);
    assert!(refusal(&doc).contains("format 2"));
}

#[test]
fn a_limit_keeps_its_number_through_reloads_unless_its_algorithm_changes() {
    let mut identities = Identities::default();
    let first = identities.uid("d", "l", Algorithm::TokenBucket);
    assert_ne!(first, identities.uid("d", "l", Algorithm::FixedWindow));
    assert_ne!(first, identities.uid("e", "l", Algorithm::TokenBucket));
    assert_eq!(first, identities.uid("d", "l", Algorithm::TokenBucket));
}

#[test]
fn a_counter_is_split_only_where_its_parts_add_up() {
    let load = |doc: &Value| RuleSet::load(doc.to_string().as_bytes(), &mut Identities::default());
    let sharded = |parts: u64, changes: Value| {
        let mut row = limit(
            "l",
            json!({"algorithm": "fixed_window", "keyed_by_period": true, "per": ["tenant"],
                   "consistency": {"sharded": parts}}),
        );
        if let (Value::Object(row), Value::Object(changes)) = (&mut row, changes) {
            row.extend(changes);
        }
        row
    };
    assert!(load(&snapshot(&[sharded(10, json!({}))])).is_ok());
    assert!(load(&snapshot(&[sharded(2, json!({"algorithm": "sliding_log"}))])).is_ok());
    for (row, says) in [
        (sharded(1, json!({})), "2 to 64"),
        (sharded(65, json!({})), "2 to 64"),
        (sharded(11, json!({})), "too small"),
        (sharded(8, json!({"algorithm": "sliding_window"})), "sliding_window"),
        (sharded(8, json!({"algorithm": "token_bucket"})), "token_bucket"),
        (sharded(8, json!({"count_denied": true})), "count_denied"),
        (sharded(8, json!({"request_override": true})), "request_override"),
        (sharded(8, json!({"on_exceed": "shadow"})), "shadow"),
    ] {
        let message = refusal(&snapshot(&[row]));
        assert!(message.contains(says) && message.contains("\"l\""), "{message}");
    }
    let numbers = |n: u64| json!([[0, {"n": n, "period_us": 10_000_000, "burst": n.max(1)}]]);
    let mut doc = snapshot(&[sharded(8, json!({}))]);
    doc["domains"][0]["plans"] = json!([{"name": "small", "numbers": numbers(7)}]);
    assert!(refusal(&doc).contains("too small"));
    doc["domains"][0]["plans"] = json!([{"name": "none", "numbers": numbers(0)}]);
    assert!(load(&doc).is_ok(), "0 blocks");
}
