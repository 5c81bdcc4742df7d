//! Where parts lie, which of them is asked, and what they say together.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use serde_json::{Value, json};
use tidegate_core::{
    Action, Algorithm, Descriptor, Identities, Outcome, Plan, RuleSet, Verb, share,
};

use super::known::{Known, LONGEST_STAY, Pick, STAY, Way};
use super::look::{Looked, questions};
use super::place::{self, Share};
use crate::redis::keys::Keys;
use crate::redis::slots::SLOTS;

const NOW: u64 = 1_700_000_000_000_000;
const WELL: fn(u16) -> Way = |_| Way::Free;

fn rules(algorithm: &str, n: u64, parts: u8, per: &[&str]) -> RuleSet {
    let limit = json!({
        "id": "id", "when": [], "per": per, "missing": "skip", "counts": "requests",
        "algorithm": algorithm, "time_zone": null, "slots": 1, "conservative": false,
        "keyed_by_period": true, "numbers": {"n": n, "period_us": 60_000_000, "burst": n},
        "on_store_failure": "open", "on_exceed": "reject", "count_denied": false,
        "request_override": false, "consistency": {"sharded": parts},
    });
    let document: Value = json!({
        "format": 1, "revision": "0123456789ab", "calendars": {},
        "domains": [{"name": "shop", "tenant_key": "tenant", "limits": [limit], "plans": [],
                     "tenants": {}}],
    });
    RuleSet::load(document.to_string().as_bytes(), &mut Identities::default()).unwrap()
}

fn plan<'r>(rules: &'r RuleSet, tenant: &str) -> Plan<'r> {
    let entries: &[(&[u8], &[u8])] = &[(b"tenant", tenant.as_bytes())];
    let descriptor =
        Descriptor { entries, costs: &[(b"requests", 1)], verb: Verb::Hit, rate: None };
    Plan::new(rules.domain(b"shop").unwrap(), &[descriptor], NOW).unwrap()
}

fn known(rules: &RuleSet) -> Known {
    let plan = plan(rules, "acme");
    Known::new(&Keys::new("tg:"), &plan, &plan.ops[0])
}

fn told(remaining: u64) -> Outcome {
    let fits = remaining > 0;
    let wait_us = if fits { Some(0) } else { Some(5_000_000) };
    Outcome { fits, remaining, wait_us, reset_us: 30_000_000, ..Outcome::SHUT }
}

/// What is read from parts of which so much is used.
fn looked(rules: &RuleSet, known: &mut Known, used: &[Option<u64>]) -> Looked {
    let plan = plan(rules, "acme");
    let op = &plan.ops[0];
    let n = op.numbers.n;
    let mut answers = Vec::new();
    for (at, used) in (0..known.of()).zip(used) {
        for asked in questions(op, at, known.of()) {
            answers.push(match used {
                Some(used) => told(asked.saturating_sub(*used)),
                None => Outcome::unasked(op.rule.on_store_failure),
            });
        }
    }
    assert_eq!(n, rules.domain(b"shop").unwrap().rules[0].numbers.unwrap().n);
    Looked::read(op, known, &mut answers.iter(), NOW)
}

fn units(shares: &[Share]) -> Vec<(u8, u64)> {
    shares.iter().map(|share| (share.at, share.units)).collect()
}

#[test]
fn each_part_lies_in_a_stretch_of_its_own_of_all_slots() {
    let long = "a".repeat(300);
    for tenant in ["acme", "", "{x}|%", &long] {
        for of in [2, 3, 8, 64] {
            for per in [&["tenant"][..], &[]] {
                let rules = rules("fixed_window", 1000, of, per);
                let plan = plan(&rules, tenant);
                let (op, keys) = (&plan.ops[0], Keys::new("tg:"));
                let known = Known::new(&keys, &plan, op);
                let mut derived = Plan::default();
                for at in 0..of {
                    let n = share(1000, at, of);
                    known.push(&mut derived, (&plan, op), (at, n), Action::Charge(1));
                }
                let mut stored = HashSet::new();
                for (at, part) in derived.ops.iter().enumerate() {
                    let slot = keys.slot(&derived, part);
                    assert_eq!(usize::from(slot) * usize::from(of) / SLOTS, at, "{tenant}, {of}");
                    assert_eq!(slot, known.parts[at].slot);
                    let mut key = Vec::new();
                    keys.append(&mut key, &derived, part);
                    assert!(stored.insert(key));
                }
                assert_eq!(derived.ops.iter().map(|part| part.numbers.n).sum::<u64>(), 1000);
            }
        }
    }
}

#[test]
fn requests_stay_longer_at_a_part_to_which_others_are_under_way() {
    let rules = rules("fixed_window", 1_000_000, 8, &["tenant"]);
    let mut known = known(&rules);
    let mut pick = |draw: u16, way| known.pick(1, NOW, draw.into(), |_| way);
    let first = pick(3, Way::Busy);
    assert!((1..STAY + 7).all(|draw| pick(draw, Way::Busy) == first));
    assert_eq!(pick(5, Way::Free), Pick::Part(5), "once all of them are back");
    assert!((1..LONGEST_STAY).all(|draw| pick(draw, Way::Busy) == Pick::Part(5)));
    assert_eq!(pick(6, Way::Busy), Pick::Part(6), "at last in any case");
}

#[test]
fn requests_stay_at_a_part_for_a_while_and_leave_one_that_is_full() {
    let mut known = known(&rules("fixed_window", 800, 8, &["tenant"]));
    let first = known.pick(1, NOW, 3, WELL);
    assert_eq!(first, Pick::Part(3));
    let stays = (1..STAY).all(|draw| known.pick(1, NOW, draw.into(), WELL) == first);
    assert!(stays, "as long as some calls are");
    assert_eq!(known.pick(1, NOW, 5, WELL), Pick::Part(5));
    known.note(5, Algorithm::FixedWindow, 0, &told(0), NOW);
    assert_eq!(known.pick(1, NOW, 5, WELL), Pick::Part(6));
    known.note(6, Algorithm::FixedWindow, 2, &told(2), NOW);
    assert_eq!(known.pick(2, NOW, 5, WELL), Pick::Part(6));
    assert_eq!(known.pick(3, NOW, 5, WELL), Pick::Part(7), "two are too few");
    assert_eq!(known.pick(1, NOW + 30_000_000, 5, WELL), Pick::Part(7));
    known.note(7, Algorithm::FixedWindow, 0, &told(0), NOW);
    assert_eq!(known.pick(1, NOW + 30_000_000, 5, WELL), Pick::Part(7), "another window");
}

#[test]
fn parts_that_are_full_or_too_small_must_be_looked_at_and_lost_ones_are_left_out() {
    let mut known = known(&rules("fixed_window", 80, 8, &["tenant"]));
    assert_eq!(known.pick(11, NOW, 0, WELL), Pick::Look);
    let slot = known.parts[2].slot;
    assert_eq!(
        known.pick(1, NOW, 2, |it| if it == slot { Way::Shut } else { Way::Free }),
        Pick::Part(3)
    );
    assert_eq!(known.pick(1, NOW, 4, |_| Way::Shut), Pick::Part(4), "one says why none answers");
    for at in 0..8 {
        known.note(at, Algorithm::FixedWindow, 0, &told(0), NOW);
    }
    assert_eq!(known.pick(1, NOW, 0, WELL), Pick::Look);
    assert_eq!((known.room(NOW), known.room(NOW + 30_000_000)), (0, 80));
    known.renumber(88);
    assert_eq!((known.pick(1, NOW, 0, WELL), known.room(NOW)), (Pick::Part(3), 88));
}

#[test]
fn a_full_part_of_a_log_is_tried_again_when_its_next_entry_has_left() {
    let mut known = known(&rules("sliding_log", 8, 8, &["tenant"]));
    for at in 0..8 {
        known.note(at, Algorithm::SlidingLog, 0, &told(0), NOW);
    }
    assert_eq!(known.pick(1, NOW + 4_999_999, 0, WELL), Pick::Look);
    assert_eq!(known.pick(1, NOW + 5_000_000, 0, WELL), Pick::Part(0));
}

#[test]
fn what_is_taken_beyond_a_share_is_missing_elsewhere() {
    let rules = rules("fixed_window", 8, 4, &["tenant"]);
    let mut known = known(&rules);
    let it = looked(&rules, &mut known, &[Some(5), Some(1), Some(0), Some(0)]);
    assert_eq!((it.used(), it.room()), (6, 2));
    let over = looked(&rules, &mut known, &[Some(8), Some(1), Some(0), Some(0)]);
    assert_eq!(over.room(), 0);
    assert_eq!(over.report(1, Some(7)).wait_us, Some(7));
    assert_eq!(known.pick(1, NOW, 0, WELL), Pick::Look, "no part may go on alone");
    // Each takes at most what all have together.
    let one = looked(&rules, &mut known, &[Some(5), Some(2), Some(0), Some(0)]);
    assert_eq!(place::charge(&one, 1, 3)[..], [Share { at: 2, units: 1, n: 1 }]);
    assert_eq!(known.pick(1, NOW + 29_999_999, 0, WELL), Pick::Look);
    assert_eq!(known.pick(1, NOW + 30_000_000, 0, WELL), Pick::Part(0), "another window");
}

#[test]
fn after_a_lowering_all_parts_are_looked_at_once() {
    let few = rules("fixed_window", 8, 4, &["tenant"]);
    let mut known = known(&few);
    known.renumber(12);
    assert_eq!(known.pick(1, NOW, 0, WELL), Pick::Part(0));
    known.renumber(8);
    assert_eq!(known.pick(1, NOW, 0, WELL), Pick::Look);
    looked(&few, &mut known, &[Some(2), Some(2), Some(0), Some(0)]);
    assert_eq!(known.pick(1, NOW, 2, WELL), Pick::Part(2));
}

#[test]
fn a_silent_part_has_no_room_but_may_have_what_lacks() {
    let rules = rules("fixed_window", 8, 4, &["tenant"]);
    let it = looked(&rules, &mut known(&rules), &[Some(2), None, Some(1), Some(2)]);
    assert_eq!((it.room(), it.silent(9)), (1, Some(1)));
    assert!(it.may_have(3) && !it.may_have(4));
    let whole = looked(&rules, &mut known(&rules), &[Some(2), Some(2), Some(1), Some(2)]);
    assert!(!whole.may_have(2));
}

#[test]
fn a_charge_goes_to_one_part_that_holds_it_else_to_the_largest_rooms() {
    let rules = rules("fixed_window", 40, 4, &["tenant"]);
    let it = looked(&rules, &mut known(&rules), &[Some(9), Some(4), Some(7), Some(2)]);
    for draw in 0..20 {
        let [Share { at, units: 6, n: 10 }] = place::charge(&it, 6, draw)[..] else {
            panic!("one part of six")
        };
        assert!([1, 3].contains(&at));
    }
    assert_eq!(units(&place::charge(&it, 9, 0)), [(3, 8), (1, 1)]);
    assert_eq!(units(&place::charge(&it, 18, 0)), [(3, 8), (1, 6), (2, 3), (0, 1)]);
    let back = place::refund(&it, 12, Algorithm::FixedWindow);
    assert_eq!(units(&back), [(0, 9), (2, 3)]);
    let all = place::refund(&it, 1000, Algorithm::FixedWindow);
    assert_eq!(all.iter().map(|share| share.units).sum::<u64>(), 22);
}

#[test]
fn who_is_refused_waits_for_the_window_or_for_the_first_entry_to_leave_a_log() {
    let windows = rules("fixed_window", 8, 4, &["tenant"]);
    let it = looked(&windows, &mut known(&windows), &[Some(2), Some(2), Some(2), Some(1)]);
    assert_eq!(it.wait_us(2), Ok(Some(30_000_000)));
    assert_eq!(it.wait_us(9), Ok(None), "no wait helps");
    let logs = rules("sliding_log", 8, 4, &["tenant"]);
    let full = looked(&logs, &mut known(&logs), &[Some(2), Some(2), Some(2), Some(2)]);
    assert_eq!(full.wait_us(1), Ok(Some(5_000_000)));
    assert_eq!(full.wait_us(6), Err(2), "a part at least must lose two");
    let leaving: Vec<_> = full.leaving(2).collect();
    assert_eq!(leaving.len(), 4);
    assert_eq!(leaving[0], (0, 8, Action::Peek(8)), "refused until both are gone");
}
