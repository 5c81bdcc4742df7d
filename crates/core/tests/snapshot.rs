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
