//! Snapshots for tests, written as the compiler would.

#![allow(dead_code, reason = "each test file uses its part")]

use serde_json::{Value, json};
use tidegate_core::{Identities, RuleSet};

/// A limit row with defaults filled in; `changes` replace fields.
pub fn limit(id: &str, changes: Value) -> Value {
    let mut row = json!({
        "id": id, "when": [], "per": ["key"], "missing": "skip", "counts": "requests",
        "algorithm": "token_bucket", "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": false,
        "numbers": {"n": 10, "period_us": 10_000_000, "burst": 10},
        "on_store_failure": "open", "on_exceed": "reject", "count_denied": false,
        "request_override": false,
    });
    if let (Value::Object(row), Value::Object(changes)) = (&mut row, changes) {
        row.extend(changes);
    }
    row
}

/// A snapshot with one domain `d`.
pub fn snapshot(limits: &[Value]) -> Value {
    json!({"format": 1, "revision": "0123456789ab", "calendars": {}, "domains": [
        {"name": "d", "tenant_key": "tenant", "limits": limits, "plans": [], "tenants": {}}]})
}

/// Loads it.
pub fn rules(snapshot: &Value) -> RuleSet {
    RuleSet::load(snapshot.to_string().as_bytes(), &mut Identities::default()).unwrap()
}
