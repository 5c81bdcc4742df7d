//! `ietf`: `ratelimit-policy` and `ratelimit` in the form of draft-ietf-httpapi-ratelimit-headers
//! -08 to -11, whose items also carry the parameters that replace `r` and `t` in the text after
//! -11: `a` (available) and `w` (effective window). Readers of either pass over the others'.
//!
//! - `q` in `w`: the true rate, also of a bucket whose burst is not its N.
//! - `r` in `t`: never a faster rate than that, since clients that spread `r` over `t` would come
//!   faster than the limit lets them: at a window's end `t` is longer than what is left of it.

use tidegate_core::algorithms::calendar::Around;
use tidegate_core::{Algorithm, LimitReport};

use super::fields::{is_shown, seconds_until_more};
use super::text::{put_parameter, put_quoted};
use crate::pipeline::Answer;

const SECOND_US: u64 = 1_000_000;
/// The unit that is meant where none is named.
const REQUESTS: &[u8] = b"requests";
/// Bytes of limits that one header lists.
const MOST_BYTES: usize = 2048;

/// Calls `put` for each header. The binding limit stands first.
pub fn each(answer: &Answer<'_, '_>, put: &mut impl FnMut(&'static str, &[u8])) {
    let limits = &answer.decision.limits;
    let binding = answer.decision.binding.unwrap_or_default();
    let others = (0..limits.len()).filter(|at| *at != binding);
    let (mut policies, mut states) = (Vec::with_capacity(64), Vec::with_capacity(64));
    for at in limits.get(binding).map(|_| binding).into_iter().chain(others) {
        let report = &limits[at];
        if !is_shown(report) {
            continue;
        }
        if states.len() > MOST_BYTES {
            break;
        }
        // A limit of several rates has a report for each, and a name stands for one policy.
        let is_one_of_several = limits.iter().any(|other| is_other_rate(other, report));
        put_name(&mut policies, report, is_one_of_several);
        put_parameter(&mut policies, "q", report.limit());
        put_unit(&mut policies, report);
        put_parameter(&mut policies, "w", window_s(report));
        put_name(&mut states, report, is_one_of_several);
        put_parameter(&mut states, "r", report.remaining);
        let effective_s = effective_window_s(report);
        if let Some(seconds) = effective_s {
            put_parameter(&mut states, "t", seconds);
        }
        put_parameter(&mut states, "a", report.remaining);
        if let Some(seconds) = effective_s {
            put_parameter(&mut states, "w", seconds);
        }
    }
    if !states.is_empty() {
        put("ratelimit-policy", &policies);
        put("ratelimit", &states);
    }
}

fn is_other_rate(a: &LimitReport<'_>, b: &LimitReport<'_>) -> bool {
    a.rule.id == b.rule.id && a.named_period_us() != b.named_period_us()
}

fn put_name(out: &mut Vec<u8>, report: &LimitReport<'_>, is_one_of_several: bool) {
    if !out.is_empty() {
        out.extend_from_slice(b", ");
    }
    if is_one_of_several {
        let id = &report.rule.id;
        let name = if report.rule.algorithm == Algorithm::Quota {
            format!("{id}/{}", Around::of(&report.numbers).unit.as_str())
        } else {
            format!("{id}/{}s", report.numbers.period_us / SECOND_US)
        };
        put_quoted(out, &name);
    } else {
        put_quoted(out, &report.rule.id);
    }
}

/// The unit of the quota, where it is not the usual one.
fn put_unit(out: &mut Vec<u8>, report: &LimitReport<'_>) {
    if *report.rule.counts != *REQUESTS {
        out.extend_from_slice(b";qu=");
        put_quoted(out, &String::from_utf8_lossy(&report.rule.counts));
    }
}

/// The window of the policy: whole seconds, at least 1.
fn window_s(report: &LimitReport<'_>) -> u64 {
    report.window_us().div_ceil(SECOND_US).max(1)
}

/// In how many seconds what remains may be used, and until more comes where nothing does; none
/// where no wait helps.
fn effective_window_s(report: &LimitReport<'_>) -> Option<u64> {
    if report.denies() {
        return report.wait_us.map(|_| seconds_until_more(report));
    }
    if report.rule.algorithm == Algorithm::SlidingLog {
        return Some(window_s(report));
    }
    let limit = u128::from(report.limit().max(1));
    let at_rate = (u128::from(report.remaining) * u128::from(report.window_us()))
        .div_ceil(limit * u128::from(SECOND_US));
    Some(seconds_until_more(report).max(u64::try_from(at_rate).unwrap_or(u64::MAX)).max(1))
}
