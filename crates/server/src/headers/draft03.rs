//! `draft03`: `x-ratelimit-*` in the form of draft-ietf-httpapi-ratelimit-headers-03, with the
//! numbers that Envoy's `enable_x_ratelimit_headers: DRAFT_VERSION_03` chooses.
//!
//! Two things differ from Envoy: it has one status for each descriptor, here every limit met is
//! listed; and a burst above N is not shown as more remaining than the limit.

use super::fields::{is_shown, seconds_until_more};
use super::text::{put_integer, put_parameter, put_quoted};
use crate::pipeline::Answer;

const SECOND_US: u64 = 1_000_000;
/// Bytes of limits that one header lists.
const MOST_BYTES: usize = 2048;

/// Calls `put` for each header.
pub fn each(answer: &Answer<'_, '_>, put: &mut impl FnMut(&'static str, &[u8])) {
    let reports = || answer.decision.limits.iter().filter(|report| is_shown(report));
    // The first of those with the least left.
    let Some(shown) = reports().min_by_key(|report| report.remaining) else { return };
    let mut value = Vec::with_capacity(64);
    put_integer(&mut value, shown.numbers.n);
    for report in reports() {
        if value.len() > MOST_BYTES {
            break;
        }
        value.extend_from_slice(b", ");
        put_integer(&mut value, report.numbers.n);
        put_parameter(&mut value, "w", report.numbers.period_us / SECOND_US);
        value.extend_from_slice(b";name=");
        put_quoted(&mut value, &report.rule.id);
    }
    put("x-ratelimit-limit", &value);
    let mut digits = itoa::Buffer::new();
    put("x-ratelimit-remaining", digits.format(shown.remaining.min(shown.numbers.n)).as_bytes());
    put("x-ratelimit-reset", digits.format(seconds_until_more(shown)).as_bytes());
}
