//! What is decided where the store has answered for no limit of a request, or only for some.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use serde_json::{Value, json};
use support::{limit, rules, snapshot};
use tidegate_core::matching::Verb;
use tidegate_core::{Descriptor, OnStoreFailure, Outcome, Plan, Reason, RuleSet, conclude};

const NOW: u64 = 1_700_000_000_000_000;
const ROOM: Outcome = Outcome { fits: true, remaining: 5, wait_us: Some(0), ..Outcome::SHUT };
const FULL: Outcome = Outcome { wait_us: Some(7), reset_us: 9, ..Outcome::SHUT };
const OPEN: Outcome = Outcome::unasked(OnStoreFailure::Open);
const CLOSED: Outcome = Outcome::unasked(OnStoreFailure::Closed);

/// Two limits that every request with a `key` meets; changes to the second.
fn two(changes: Value) -> RuleSet {
    rules(&snapshot(&[limit("first", json!({})), limit("second", changes)]))
}

fn plan(rules: &RuleSet) -> Plan<'_> {
    let entries: [(&[u8], &[u8]); 1] = [(b"key", b"x")];
    let descriptor =
        Descriptor { entries: &entries, costs: &[(b"requests", 1)], verb: Verb::Hit, rate: None };
    Plan::new(rules.domain(b"d").unwrap(), &[descriptor], NOW).unwrap()
}

#[test]
fn a_denial_that_was_answered_stands_beside_a_limit_that_was_not_asked() {
    let rules = two(json!({}));
    let plan = plan(&rules);
    for unasked in [OPEN, CLOSED] {
        for outcomes in [[FULL, unasked], [unasked, FULL]] {
            let decision = conclude(&plan, Some(&outcomes));
            assert!(!decision.allowed && decision.is_degraded);
            assert_eq!((decision.reason, decision.retry_after_us), (Reason::OverLimit, Some(7)));
        }
    }
}

#[test]
fn a_limit_that_was_not_asked_speaks_for_itself_alone() {
    let rules = two(json!({}));
    let plan = plan(&rules);
    let open = conclude(&plan, Some(&[OPEN, ROOM]));
    assert!(open.allowed && open.is_degraded);
    assert_eq!((open.reason, open.binding), (Reason::Ok, Some(1)), "whose numbers are known");
    assert!(open.limits[0].is_unasked && !open.limits[1].is_unasked);
    let closed = conclude(&plan, Some(&[ROOM, CLOSED]));
    assert!(!closed.allowed && closed.is_degraded);
    assert_eq!((closed.reason, closed.binding), (Reason::StoreFailure, Some(1)));
    assert_eq!(closed.retry_after_us, None, "nobody knows");
    let whole = conclude(&plan, Some(&[ROOM, ROOM]));
    assert!(whole.allowed && !whole.is_degraded);
}

#[test]
fn without_any_answer_each_limit_says_what_it_does_then() {
    for (second, reason) in [("open", Reason::Ok), ("closed", Reason::StoreFailure)] {
        let rules = two(json!({"on_store_failure": second}));
        let decision = conclude(&plan(&rules), None);
        assert!(decision.is_degraded);
        assert_eq!((decision.allowed, decision.reason), (second == "open", reason));
        assert!(decision.limits.iter().all(|report| report.is_unasked));
    }
    let shadow = two(json!({"on_store_failure": "closed", "on_exceed": "shadow"}));
    assert!(conclude(&plan(&shadow), None).allowed, "a limit in shadow denies nothing");
    let blocked = two(json!({"numbers": {"n": 0, "period_us": 1_000_000, "burst": 0}}));
    let decision = conclude(&plan(&blocked), None);
    assert_eq!((decision.reason, decision.is_degraded), (Reason::Blocked, true));
}
