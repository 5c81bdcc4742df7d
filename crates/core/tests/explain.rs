//! Why a limit applies or does not; and that what is explained is what is done.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{limit, rules, snapshot};
use tidegate_core::matching::{Explained, Fate, Source, Verb, explain};
use tidegate_core::{Descriptor, Plan, RuleSet};

type Entries<'a> = &'a [(&'a [u8], &'a [u8])];

const NOW: u64 = 1_700_000_000_000_000;
const ONE: &[(&[u8], u64)] = &[(b"requests", 1)];

fn when(key: &str, any: &Value) -> Value {
    json!([{"key": key, "negate": false, "any": any}])
}

fn explained<'r>(rules: &'r RuleSet, entries: Entries<'_>) -> Vec<Explained<'r>> {
    explain(rules.domain(b"d").unwrap(), entries, ONE, NOW)
}

#[test]
fn a_limit_says_which_condition_fails_and_which_key_is_missing() {
    let rules = rules(&snapshot(&[
        limit(
            "search",
            json!({"per": ["tenant", "ip"], "when": when("route", &json!([
                {"exact": "/search"}, {"prefix": "/find/"}, {"regex": "^/q"}]))}),
        ),
        limit(
            "inside",
            json!({"per": [], "when": [
                {"key": "ip", "negate": true, "any": [{"cidr": "10.0.0.0/8"}]}]}),
        ),
        limit("tokens", json!({"per": [], "counts": "tokens"})),
        limit("shared", json!({"per": ["who"], "missing": "shared"})),
    ]));
    let all = explained(&rules, &[(b"route", b"/x"), (b"ip", b"10.1.1.1")]);
    let [search, inside, tokens, shared] = &all[..] else { panic!("four limits") };
    assert_eq!((search.fate, search.distance()), (Fate::Differs, 2));
    assert_eq!(search.conditions[0].wants, "/search or /find/* or regex ^/q");
    assert_eq!(search.conditions[0].value.as_deref(), Some(&b"/x"[..]));
    assert_eq!(search.missing().collect::<Vec<_>>(), [b"tenant"]);
    assert!(!inside.conditions[0].holds);
    assert_eq!(inside.conditions[0].wants, "not 10.0.0.0/8");
    assert_eq!((tokens.has_cost, tokens.fate), (false, Fate::Differs));
    assert_eq!((shared.fate, shared.missing().count()), (Fate::Applies, 0));

    let all = explained(&rules, &[(b"route", b"/find/a"), (b"ip", b"::1"), (b"tenant", b"a")]);
    assert_eq!(all[0].conditions[0].matched.as_deref(), Some("/find/*"));
    assert_eq!((all[0].fate, all[1].fate), (Fate::Applies, Fate::Applies));
}

#[test]
fn numbers_come_with_where_they_come_from() {
    let numbers = |n: u64| json!({"n": n, "period_us": 60_000_000, "burst": n});
    let (from, until) = (NOW as i64 - 5, NOW as i64 + 5);
    let mut doc = snapshot(&[
        limit("a", json!({"per": ["tenant"]})),
        limit("b", json!({"per": ["tenant"]})),
        limit("c", json!({"per": []})),
    ]);
    doc["domains"][0]["plans"] = json!([
        {"name": "free", "numbers": [[1, numbers(5)]]},
        {"name": "pro", "numbers": [[0, numbers(100)], [1, null]]}]);
    doc["domains"][0]["tenants"] = json!({
        "acme": {"plan": 1, "overrides": [
            {"limit": 0, "from_us": from, "until_us": until, "numbers": numbers(300)},
            {"limit": 0, "from_us": null, "until_us": null, "numbers": numbers(200)}]},
        "pro": {"plan": 1, "overrides": [
            {"limit": 0, "from_us": until, "until_us": null, "numbers": numbers(900)}]}});
    let rules = rules(&doc);
    let of = |tenant: &[u8]| {
        let all = explained(&rules, &[(b"tenant", tenant)]);
        all.iter().map(|one| (one.numbers.map(|it| it.n), one.source, one.fate)).collect::<Vec<_>>()
    };
    let dated = Source::Override { from_us: Some(from), until_us: Some(until) };
    let own = (Some(10), Source::Limit, Fate::Applies);
    let unlimited = (None, Source::Plan("pro"), Fate::Unlimited);
    assert_eq!(of(b"acme"), [(Some(300), dated, Fate::Applies), unlimited, own]);
    assert_eq!(of(b"pro"), [(Some(100), Source::Plan("pro"), Fate::Applies), unlimited, own]);
    assert_eq!(of(b"who"), [own, own, own]);
}

proptest! {
    #[test]
    fn what_is_explained_is_what_is_planned(
        limits in prop::collection::vec(
            (0..4usize, "[ab]{0,2}", 0..4usize, any::<bool>(), 0..4usize, 0..3usize), 1..20),
        entries in prop::collection::vec((0..4usize, "[ab]{0,3}"), 0..5),
        kind in 0..2usize,
    ) {
        let (keys, kinds) = (["w", "x", "y", "tenant"], ["requests", "tokens"]);
        let rows: Vec<Value> = limits.iter().enumerate()
            .map(|(at, (key, text, form, negate, per, missing))| {
                let pattern = match form {
                    0 => json!([{"exact": text}]),
                    1 => json!([{"prefix": text}, {"exact": "b"}]),
                    2 => json!([{"regex": format!("^{text}$")}]),
                    _ => json!([]),
                };
                let rows = if *form == 3 { json!([]) } else {
                    json!([{"key": keys[*key], "negate": negate, "any": pattern}])
                };
                let (per, counts) = (&keys[*per..], kinds[at % 2]);
                let missing = ["skip", "shared", "deny"][*missing];
                let changes =
                    json!({"when": rows, "per": per, "counts": counts, "missing": missing});
                limit(&at.to_string(), changes)
            }).collect();
        let mut doc = snapshot(&rows);
        doc["domains"][0]["tenants"] = json!({"a": {"plan": null, "overrides": [
            {"limit": 0, "from_us": null, "until_us": null, "numbers": null}]}});
        let rules = rules(&doc);
        let domain = rules.domain(b"d").unwrap();
        let entries: Vec<(&[u8], &[u8])> =
            entries.iter().map(|(key, value)| (keys[*key].as_bytes(), value.as_bytes())).collect();
        let costs: &[(&[u8], u64)] = &[(kinds[kind].as_bytes(), 1)];
        let descriptor = Descriptor { entries: &entries, costs, verb: Verb::Hit, rate: None };
        let plan = Plan::new(domain, &[descriptor], NOW).unwrap();
        let planned: Vec<_> = plan.ops.iter().map(|op| (op.rule.row, Some(op.numbers))).collect();
        let told: Vec<_> = explain(domain, &entries, costs, NOW).iter()
            .filter(|one| one.fate == Fate::Applies)
            .map(|one| (one.rule.row, one.numbers)).collect();
        prop_assert_eq!(planned, told);
    }
}
