//! What would apply to a request, in words: the JSON of `POST /v1/explain`.

use std::cmp::Reverse;

use tidegate_core::algorithms::calendar::Around;
use tidegate_core::matching::{Explained, Fate, Source, Tested, explain};
use tidegate_core::snapshot::Missing;
use tidegate_core::{Descriptor, Domain, Numbers};

use super::safe::safe;
use super::time::Rfc3339;
use crate::json::{put_bool, put_number, put_text};

/// Limits that do not apply and are told all the same.
const MOST_NEAREST: usize = 5;
/// Limits that apply and are told.
const MOST_APPLYING: usize = 256;

/// Writes what each limit of a domain makes of a request; `None` is a domain that the policy does
/// not have.
pub fn put_explanation(
    out: &mut Vec<u8>,
    revision: &str,
    name: &[u8],
    domain: Option<&Domain>,
    descriptors: &[Descriptor<'_>],
    now_us: u64,
) {
    put_member(out, "{\"domain\":", &safe(name));
    out.extend_from_slice(b",\"is_known\":");
    put_bool(out, domain.is_some());
    put_member(out, ",\"revision\":", revision);
    put_member(out, ",\"time\":", &Rfc3339(now_us).to_string());
    out.extend_from_slice(b",\"descriptors\":");
    put_list(out, descriptors, |out, descriptor| {
        let entries = descriptor.entries;
        let rules = domain.map(|domain| explain(domain, entries, descriptor.costs, now_us));
        put_descriptor(out, descriptor, &rules.unwrap_or_default());
    });
    out.push(b'}');
}

fn put_descriptor(out: &mut Vec<u8>, descriptor: &Descriptor<'_>, rules: &[Explained<'_>]) {
    out.extend_from_slice(b"{\"entries\":");
    put_list(out, descriptor.entries, |out, (key, value)| {
        put_member(out, "{\"key\":", &safe(key));
        put_member(out, ",\"value\":", &safe(value));
        out.push(b'}');
    });
    let (mut applying, mut others): (Vec<_>, Vec<_>) =
        rules.iter().partition(|one| one.fate != Fate::Differs);
    // Of those equally far away, the one that has more in common is nearer.
    others.sort_by_key(|one| (one.distance(), Reverse(one.conditions.len() + one.per.len())));
    let unsaid = others.len().saturating_sub(MOST_NEAREST);
    let unsaid = unsaid + applying.len().saturating_sub(MOST_APPLYING);
    applying.truncate(MOST_APPLYING);
    others.truncate(MOST_NEAREST);
    out.extend_from_slice(b",\"applies\":");
    put_list(out, &applying, |out, one| put_rule(out, one));
    out.extend_from_slice(b",\"nearest\":");
    put_list(out, &others, |out, one| put_rule(out, one));
    out.extend_from_slice(b",\"others\":");
    put_number(out, unsaid as u64);
    out.push(b'}');
}

fn put_rule(out: &mut Vec<u8>, one: &Explained<'_>) {
    put_member(out, "{\"id\":", &one.rule.id);
    out.extend_from_slice(b",\"shadow\":");
    put_bool(out, one.rule.is_shadow);
    put_member(out, ",\"algorithm\":", one.rule.algorithm.as_str());
    put_member(out, ",\"counts\":", &safe(&one.rule.counts));
    put_numbers(out, one);
    put_calendar(out, one);
    put_source(out, &one.source);
    out.extend_from_slice(b",\"when\":");
    put_list(out, &one.conditions, put_condition);
    out.extend_from_slice(b",\"per\":");
    put_list(out, &one.per, |out, (key, value)| {
        put_member(out, "{\"key\":", &safe(key));
        out.extend_from_slice(b",\"value\":");
        put_value(out, value.as_deref());
        out.push(b'}');
    });
    let missing = match one.rule.missing {
        Missing::Skip => "skip",
        Missing::Shared => "shared",
        Missing::Deny => "deny",
    };
    put_member(out, ",\"missing\":", missing);
    out.extend_from_slice(b",\"problems\":");
    put_list(out, &problems(one), |out, problem| put_text(out, problem));
    out.push(b'}');
}

fn put_numbers(out: &mut Vec<u8>, one: &Explained<'_>) {
    let Some(numbers @ Numbers { n, period_us, .. }) = one.numbers else {
        return out.extend_from_slice(b",\"rate\":null,\"limit\":null,\"window_ms\":null");
    };
    let algorithm = one.rule.algorithm;
    out.extend_from_slice(b",\"rate\":{\"n\":");
    put_number(out, n);
    out.extend_from_slice(b",\"period_ms\":");
    put_number(out, period_us / 1000);
    out.extend_from_slice(b"},\"limit\":");
    put_number(out, numbers.capacity(algorithm));
    out.extend_from_slice(b",\"window_ms\":");
    put_number(out, numbers.window_us(algorithm).div_ceil(1000));
}

/// Of a quota: which periods of which zone; `period_ms` is the length of the current one.
fn put_calendar(out: &mut Vec<u8>, one: &Explained<'_>) {
    let (Some(calendar), Some(numbers)) = (&one.rule.calendar, &one.numbers) else {
        return out.extend_from_slice(b",\"calendar\":null");
    };
    put_member(out, ",\"calendar\":{\"unit\":", Around::of(numbers).unit.as_str());
    put_member(out, ",\"time_zone\":", &calendar.zone);
    out.push(b'}');
}

fn put_source(out: &mut Vec<u8>, source: &Source<'_>) {
    match source {
        Source::Limit => out.extend_from_slice(b",\"source\":{\"kind\":\"limit\"}"),
        Source::Plan(name) => {
            put_member(out, ",\"source\":{\"kind\":\"plan\",\"plan\":", name);
            out.push(b'}');
        }
        Source::Override { from_us, until_us } => {
            out.extend_from_slice(b",\"source\":{\"kind\":\"override\",\"from\":");
            put_date(out, *from_us);
            out.extend_from_slice(b",\"until\":");
            put_date(out, *until_us);
            out.push(b'}');
        }
    }
}

fn put_condition(out: &mut Vec<u8>, row: &Tested<'_>) {
    put_member(out, "{\"key\":", &safe(row.key));
    out.extend_from_slice(b",\"value\":");
    put_value(out, row.value.as_deref());
    out.extend_from_slice(b",\"holds\":");
    put_bool(out, row.holds);
    put_member(out, ",\"wants\":", &safe(row.wants.as_bytes()));
    out.extend_from_slice(b",\"matched\":");
    put_value(out, row.matched.as_deref().map(str::as_bytes));
    out.push(b'}');
}

/// What would have to be otherwise for the rule to match.
fn problems(one: &Explained<'_>) -> Vec<String> {
    let failed = one.conditions.iter().filter(|row| !row.holds);
    let mut problems: Vec<_> = failed
        .map(|row| {
            let (key, wants) = (safe(row.key), safe(row.wants.as_bytes()));
            match &row.value {
                None => format!("the request has no {key}; it wants {wants}"),
                Some(value) => format!("{key} is {}; it wants {wants}", safe(value)),
            }
        })
        .collect();
    let missing = one.missing().map(safe);
    problems.extend(missing.map(|key| format!("the request has no {key}, which it counts by")));
    if !one.has_cost {
        problems.push(format!("the request brings no {}, which it counts", safe(&one.rule.counts)));
    }
    problems
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, item);
    }
    out.push(b']');
}

fn put_member(out: &mut Vec<u8>, name: &str, text: &str) {
    out.extend_from_slice(name.as_bytes());
    put_text(out, text);
}

fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => put_text(out, &safe(value)),
        None => out.extend_from_slice(b"null"),
    }
}

fn put_date(out: &mut Vec<u8>, us: Option<i64>) {
    match us {
        Some(us) => put_text(out, &Rfc3339(us.max(0) as u64).to_string()),
        None => out.extend_from_slice(b"null"),
    }
}
