//! The headers of an answer, in the form that a profile names.

use tidegate_core::{LimitReport, Reason};

use super::profile::HeaderProfile;
use super::text::visible;
use super::{draft03, ietf};
use crate::pipeline::Answer;

const SECOND_US: u64 = 1_000_000;

/// Calls `put` for each header of an answer. Names are lower-case, values visible ASCII: Envoy
/// checks nothing that it is told to add, and a line break there would split the client's answer.
#[inline]
pub fn each(
    profile: HeaderProfile,
    answer: &Answer<'_, '_>,
    mut put: impl FnMut(&'static str, &[u8]),
) {
    match profile {
        HeaderProfile::Github => github(answer, &mut put),
        HeaderProfile::Draft03 => draft03::each(answer, &mut put),
        HeaderProfile::Ietf => ietf::each(answer, &mut put),
        HeaderProfile::Off => {}
    }
    if let Some(seconds) = retry_after_s(answer) {
        put("retry-after", itoa::Buffer::new().format(seconds).as_bytes());
    }
    if !answer.decision.allowed && profile != HeaderProfile::Off {
        put("x-tidegate-decision-id", answer.id().as_bytes());
    }
}

#[inline]
fn github(answer: &Answer<'_, '_>, put: &mut impl FnMut(&'static str, &[u8])) {
    let Some(report) = shown(answer) else { return };
    let mut digits = itoa::Buffer::new();
    let limit = report.limit();
    let reset_s = answer.now_us.saturating_add(report.reset_us).div_ceil(SECOND_US);
    put("x-ratelimit-limit", digits.format(limit).as_bytes());
    put("x-ratelimit-remaining", digits.format(report.remaining).as_bytes());
    put("x-ratelimit-reset", digits.format(reset_s).as_bytes());
    let used = limit.saturating_sub(report.remaining);
    put("x-ratelimit-used", digits.format(used).as_bytes());
    put("x-ratelimit-resource", &visible(&report.rule.id));
}

/// The limit that headers show: the binding one, unless it is not to be shown.
#[inline]
fn shown<'a, 'r>(answer: &'a Answer<'_, 'r>) -> Option<&'a LimitReport<'r>> {
    let report = &answer.decision.limits[answer.decision.binding?];
    is_shown(report).then_some(report)
}

/// Whether clients are told of a limit: not if its numbers are unknown because the store was not
/// asked, nor if it is in shadow and must not be felt.
#[inline]
pub(super) const fn is_shown(report: &LimitReport<'_>) -> bool {
    !report.is_unasked && !report.rule.is_shadow
}

/// Whole seconds until more passes a limit: until the denied cost passes, else until the window
/// ends or the counter is as good as unused. Rounded up, and at least 1 after a denial.
pub fn seconds_until_more(report: &LimitReport<'_>) -> u64 {
    match report.wait_us.filter(|_| report.denies()) {
        Some(wait_us) => wait_us.div_ceil(SECOND_US).max(1),
        None => report.reset_us.div_ceil(SECOND_US),
    }
}

/// Whole seconds after which a denied request may come again: rounded up, at least 1; none where
/// no wait helps.
#[inline]
pub fn retry_after_s(answer: &Answer<'_, '_>) -> Option<u64> {
    let decision = &answer.decision;
    match decision.retry_after_us {
        Some(wait_us) => Some(wait_us.div_ceil(SECOND_US).max(1)),
        // Nobody knows when the store is back, and "never" would be wrong.
        None if decision.reason == Reason::StoreFailure => Some(1),
        None => None,
    }
}
