//! Which limits a request meets, and under which keys.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{limit, rules, snapshot};
use tidegate_core::matching::{Known, Verb};
use tidegate_core::{Action, Descriptor, Part, Plan, RequestError, RuleSet, Verdict, share};

type Entries<'a> = &'a [(&'a [u8], &'a [u8])];

const NOW: u64 = 1_700_000_000_000_000;
const ONE: &[(&[u8], u64)] = &[(b"requests", 1)];

fn descriptor<'a>(entries: &'a [(&'a [u8], &'a [u8])]) -> Descriptor<'a> {
    Descriptor { entries, costs: ONE, verb: Verb::Hit, rate: None }
}

fn met(rules: &RuleSet, entries: &[(&[u8], &[u8])]) -> Vec<String> {
    let plan = Plan::new(rules.domain(b"d").unwrap(), &[descriptor(entries)], NOW).unwrap();
    plan.ops.iter().map(|op| op.rule.id.to_string()).collect()
}

fn keys(rules: &RuleSet, entries: &[(&[u8], &[u8])]) -> Vec<Vec<u8>> {
    let plan = Plan::new(rules.domain(b"d").unwrap(), &[descriptor(entries)], NOW).unwrap();
    plan.ops.iter().map(|op| plan.key(op).to_vec()).collect()
}

fn when(key: &str, any: &Value) -> Value {
    json!([{"key": key, "negate": false, "any": any}])
}

#[test]
fn every_form_of_when_selects_what_it_says() {
    let rules = rules(&snapshot(&[
        limit("all", json!({"per": []})),
        limit("exact", json!({"when": when("route", &json!([{"exact": "/a"}])), "per": []})),
        limit("prefix", json!({"when": when("route", &json!([{"prefix": "/a"}])), "per": []})),
        limit(
            "any",
            json!({"when": when("route", &json!([{"exact": "/b"}, {"prefix": "/ab"}])), "per": []}),
        ),
        limit("regex", json!({"when": when("route", &json!([{"regex": "^/[0-9]+$"}])), "per": []})),
        limit("cidr", json!({"when": when("ip", &json!([{"cidr": "10.0.0.0/8"}])), "per": []})),
        limit(
            "not",
            json!({"when": [{"key": "route", "negate": true, "any": [{"exact": "/a"}]}], "per": []}),
        ),
    ]));
    assert_eq!(met(&rules, &[]), ["all"]);
    assert_eq!(met(&rules, &[(b"route", b"/a")]), ["all", "exact", "prefix"]);
    assert_eq!(met(&rules, &[(b"route", b"/ab")]), ["all", "prefix", "any", "not"]);
    assert_eq!(met(&rules, &[(b"route", b"/b")]), ["all", "any", "not"]);
    assert_eq!(met(&rules, &[(b"route", b"/17")]), ["all", "regex", "not"]);
    assert_eq!(met(&rules, &[(b"ip", b"10.1.2.3")]), ["all", "cidr"]);
    assert_eq!(met(&rules, &[(b"ip", b"::ffff:10.1.2.3")]), ["all", "cidr"]);
    assert_eq!(met(&rules, &[(b"ip", b"\xff\xfe")]), ["all"]);
}

#[test]
fn the_first_entry_of_a_repeated_key_counts_and_order_does_not_matter() {
    let rules = rules(&snapshot(&[limit("l", json!({"per": ["a", "b"]}))]));
    let one = keys(&rules, &[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]);
    assert_eq!(one, keys(&rules, &[(b"b", b"2"), (b"a", b"1")]));
}

#[test]
fn b59_different_values_never_share_a_key() {
    let rules = rules(&snapshot(&[limit("l", json!({"per": ["a", "b"], "missing": "shared"}))]));
    let pairs: [[Entries<'_>; 2]; 5] = [
        [&[(b"a", b"a"), (b"b", b"b_c")], &[(b"a", b"a_b"), (b"b", b"c")]],
        [&[(b"a", b"aa"), (b"b", b"b")], &[(b"a", b"a"), (b"b", b"ab")]],
        [&[(b"a", b"a"), (b"b", b"")], &[(b"a", b""), (b"b", b"a")]],
        [&[(b"a", b"")], &[(b"b", b"")]],
        [&[(b"a", b"a"), (b"b", b"")], &[(b"a", b"a")]],
    ];
    for [left, right] in pairs {
        assert_ne!(keys(&rules, left), keys(&rules, right));
    }
}

#[test]
fn b61_a_missing_key_does_what_the_limit_says() {
    let rules = rules(&snapshot(&[
        limit("skip", json!({})),
        limit("shared", json!({"missing": "shared"})),
        limit("deny", json!({"missing": "deny"})),
    ]));
    assert_eq!(met(&rules, &[]), ["shared", "deny"]);
    assert_eq!(met(&rules, &[(b"key", b"")]), ["skip", "shared", "deny"]);
    let plan = Plan::new(rules.domain(b"d").unwrap(), &[descriptor(&[])], NOW).unwrap();
    assert_eq!(plan.ops[1].verdict, Verdict::MissingKey);
    assert_eq!(plan.ops[0].action, Action::Peek(1), "a denied request charges nobody");
}

#[test]
fn one_counter_met_twice_is_charged_once_with_the_largest_cost() {
    let rules = rules(&snapshot(&[limit("l", json!({}))]));
    let domain = rules.domain(b"d").unwrap();
    let entries: &[(&[u8], &[u8])] = &[(b"key", b"x")];
    let two = [
        Descriptor { entries, costs: &[(b"requests", 3)], verb: Verb::Hit, rate: None },
        Descriptor { entries, costs: &[(b"requests", 5)], verb: Verb::Hit, rate: None },
    ];
    let plan = Plan::new(domain, &two, NOW).unwrap();
    assert_eq!((plan.ops.len(), plan.ops[0].action), (1, Action::Charge(5)));
    assert_eq!(plan.met.as_slice(), [(0, 0), (1, 0)]);
    let both = [two[0], Descriptor { verb: Verb::Refund, ..two[1] }];
    let error = Plan::new(domain, &both, NOW).unwrap_err();
    assert_eq!(error, RequestError::ChargeAndRefund { limit: "l".into() });
}

#[test]
fn a_limit_takes_only_its_own_kind_of_cost() {
    let rules = rules(&snapshot(&[
        limit("requests", json!({})),
        limit("tokens", json!({"counts": "tokens"})),
    ]));
    assert_eq!(met(&rules, &[(b"key", b"x")]), ["requests"]);
    let costs: &[(&[u8], u64)] = &[(b"requests", 1), (b"tokens", 900)];
    let request = [Descriptor { entries: &[(b"key", b"x")], costs, verb: Verb::Hit, rate: None }];
    let plan = Plan::new(rules.domain(b"d").unwrap(), &request, NOW).unwrap();
    assert_eq!(plan.ops[1].action, Action::Charge(900));
}

#[test]
fn the_latest_override_in_force_wins_then_the_plan_then_the_limit() {
    let numbers = |n: u64| json!({"n": n, "period_us": 60_000_000, "burst": n});
    let mut doc = snapshot(&[limit("l", json!({"per": ["tenant"]}))]);
    doc["domains"][0]["plans"] = json!([{"name": "pro", "numbers": [[0, numbers(100)]]}]);
    doc["domains"][0]["tenants"] = json!({
        "acme": {"plan": 0, "overrides": [
            {"limit": 0, "from_us": NOW, "until_us": NOW + 10, "numbers": numbers(300)},
            {"limit": 0, "from_us": null, "until_us": NOW + 20, "numbers": null}]},
        "pro": {"plan": 0, "overrides": []}});
    let rules = rules(&doc);
    let n = |tenant: &[u8], now: u64| {
        let entries: &[(&[u8], &[u8])] = &[(b"tenant", tenant)];
        let plan = Plan::new(rules.domain(b"d").unwrap(), &[descriptor(entries)], now).unwrap();
        plan.ops.first().map(|op| op.numbers.n)
    };
    assert_eq!(n(b"other", NOW), Some(10));
    assert_eq!(n(b"pro", NOW), Some(100));
    assert_eq!(n(b"acme", NOW), Some(300));
    assert_eq!(n(b"acme", NOW + 10), None, "unlimited is no counter at all");
    assert_eq!(n(b"acme", NOW + 20), Some(100));
}

#[test]
fn a_tenant_looked_up_ahead_stands_for_itself_alone() {
    let mut doc = snapshot(&[limit("l", json!({"per": ["key"]}))]);
    let numbers = |n: u64| json!({"n": n, "period_us": 60_000_000, "burst": n});
    let row =
        |n: u64| json!({"limit": 0, "from_us": null, "until_us": null, "numbers": numbers(n)});
    doc["domains"][0]["tenant_key"] = json!("key");
    doc["domains"][0]["tenants"] = json!({
        "a": {"plan": null, "overrides": [row(1)]},
        "b": {"plan": null, "overrides": [row(2)]},
    });
    let rules = rules(&doc);
    let domain = rules.domain(b"d").unwrap();
    let tenants: [&[(&[u8], &[u8])]; 4] =
        [&[(b"key", b"a")], &[(b"key", b"b")], &[(b"key", b"stranger")], &[]];
    for first in tenants {
        for second in tenants {
            let request = [descriptor(first), descriptor(second), descriptor(first)];
            let plain = Plan::new(domain, &request, NOW).unwrap();
            for known in tenants.map(|one| Known::ahead(domain, &[descriptor(one)])) {
                let mut plan = Plan::default();
                plan.fill(domain, &request, known, NOW).unwrap();
                assert_eq!(format!("{:?}", plan.ops), format!("{:?}", plain.ops));
            }
        }
    }
}

#[test]
fn long_values_become_a_hash_that_no_plain_key_equals() {
    let rules = rules(&snapshot(&[limit("l", json!({}))]));
    let (long, other) = (vec![b'a'; 5000], vec![b'b'; 5000]);
    let key = |value: &[u8]| keys(&rules, &[(b"key", value)]).remove(0);
    assert!(key(&long).len() < 32);
    assert_ne!(key(&long), key(&other));
    assert_ne!(key(&long)[0], key(b"short")[0]);
}

#[test]
fn the_anchor_is_the_tenant_else_the_first_value_whole_or_empty_however_long_the_key() {
    let mut doc = snapshot(&[
        limit("tenant", json!({"per": ["route", "tenant"], "missing": "shared"})),
        limit("first", json!({"per": ["route", "key"], "missing": "shared"})),
        limit("none", json!({"per": []})),
    ]);
    doc["domains"][0]["tenant_key"] = json!("tenant");
    let rules = rules(&doc);
    let anchors = |entries: &[(&[u8], &[u8])]| {
        let request = [descriptor(entries)];
        let plan = Plan::new(rules.domain(b"d").unwrap(), &request, NOW).unwrap();
        plan.ops.iter().map(|op| plan.anchor(op).map(<[u8]>::to_vec)).collect::<Vec<_>>()
    };
    let (long, longer) = (vec![b'r'; 300], vec![b't'; 5000]);
    let both = |route: &[u8], tenant: &[u8]| {
        let found = anchors(&[(b"route", route), (b"tenant", tenant)]);
        assert_eq!(found, [Some(tenant.to_vec()), Some(route.to_vec()), None]);
    };
    both(b"/a", b"acme");
    both(b"", b"");
    both(b"/a", &longer);
    both(&long, b"acme");
    both(&long, &longer);
    assert_eq!(anchors(&[(b"key", b"k")]), [Some(Vec::new()), Some(Vec::new()), None]);
    assert_eq!(anchors(&[(b"key", &long)]), [Some(Vec::new()), Some(Vec::new()), None]);
}

proptest! {
    #[test]
    fn the_index_finds_exactly_what_trying_each_limit_finds(
        patterns in prop::collection::vec((0..3usize, "[ab]{0,4}", any::<bool>()), 1..40),
        entries in prop::collection::vec((0..3usize, "[ab]{0,5}"), 0..4),
    ) {
        let names = ["x", "y", "z"];
        let limits: Vec<Value> = patterns.iter().enumerate().map(|(at, (key, text, is_prefix))| {
            let pattern = if *is_prefix { json!({"prefix": text}) } else { json!({"exact": text}) };
            limit(&at.to_string(), json!({"when": when(names[*key], &json!([pattern])), "per": []}))
        }).collect();
        let rules = rules(&snapshot(&limits));
        let bytes: Vec<(&[u8], &[u8])> =
            entries.iter().map(|(key, value)| (names[*key].as_bytes(), value.as_bytes())).collect();
        let expected: Vec<String> = patterns.iter().enumerate().filter(|(_, (key, text, is_prefix))| {
            let value = entries.iter().find(|(other, _)| other == key).map(|(_, value)| value);
            value.is_some_and(|value| if *is_prefix { value.starts_with(text.as_str()) } else { value == text })
        }).map(|(at, _)| at.to_string()).collect();
        prop_assert_eq!(met(&rules, &bytes), expected);
    }

    #[test]
    fn keys_are_injective(a in prop::collection::vec(prop::option::of("[a-c]{0,3}"), 3),
                          b in prop::collection::vec(prop::option::of("[a-c]{0,3}"), 3)) {
        let rules = rules(&snapshot(&[limit("l", json!({"per": ["x", "y", "z"], "missing": "shared"}))]));
        let key = |values: &[Option<String>]| {
            let entries: Vec<(&[u8], &[u8])> = [&b"x"[..], b"y", b"z"].into_iter().zip(values)
                .filter_map(|(key, value)| Some((key, value.as_ref()?.as_bytes()))).collect();
            keys(&rules, &entries)
        };
        prop_assert_eq!(key(&a) == key(&b), a == b);
    }
}

#[test]
fn parts_of_a_counter_have_keys_and_anchors_of_their_own_and_add_up() {
    let rules = rules(&snapshot(&[limit(
        "l",
        json!({"per": ["a"], "algorithm": "fixed_window", "keyed_by_period": true,
               "consistency": {"sharded": 7}}),
    )]));
    let plan = Plan::new(rules.domain(b"d").unwrap(), &[descriptor(&[(b"a", b"x")])], NOW).unwrap();
    let op = &plan.ops[0];
    let mut derived = Plan::default();
    for of in [2, 7] {
        for at in 0..of {
            let anchor = [b'x', b'0' + at];
            let part = Part { at, of, anchor: &anchor };
            derived.push_part(&plan, op, &part, share(100, at, of), Action::Charge(1));
        }
    }
    derived.push_like(&plan, op, Action::Peek(3));
    let keys: HashSet<_> = derived.ops.iter().map(|op| derived.key(op)).collect();
    assert_eq!(keys.len(), 2 + 7 + 1);
    assert_eq!(derived.key(&derived.ops[9]), plan.key(op));
    assert_eq!(derived.anchor(&derived.ops[9]), plan.anchor(op));
    assert_eq!(derived.anchor(&derived.ops[3]), Some(&b"x1"[..]));
    let shares: Vec<_> = derived.ops[2..9].iter().map(|op| op.numbers.n).collect();
    assert_eq!(shares, [15, 15, 14, 14, 14, 14, 14]);
}

proptest! {
    #[test]
    fn shares_of_a_limit_add_up_and_differ_by_one(n in 0..=tidegate_core::units::MAX, of in 2..=64u8) {
        let shares: Vec<_> = (0..of).map(|at| share(n, at, of)).collect();
        prop_assert_eq!(shares.iter().sum::<u64>(), n);
        prop_assert!(shares[0] - shares[usize::from(of) - 1] <= 1);
        prop_assert!(shares.is_sorted_by(|a, b| a >= b));
    }
}
