//! What a client is told beside the answer: `x-ratelimit-*` and `retry-after`.

use smallvec::SmallVec;
use tidegate_core::{LimitReport, Reason};

use crate::pipeline::Answer;

const SECOND_US: u64 = 1_000_000;
/// Bytes of a limit's id that are shown; the rest of a longer one is cut.
const LONGEST_NAME: usize = 256;

/// Which headers tell a client where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderProfile {
    /// `x-ratelimit-limit`, `-remaining`, `-reset` (epoch seconds), `-used`, `-resource`.
    #[default]
    Github,
    /// None; a denial still says `retry-after`.
    Off,
}

/// A header's value: visible ASCII by construction.
pub type HeaderText = SmallVec<[u8; 24]>;

/// Calls `put` for each header of an answer. Names are lower-case, values visible ASCII: Envoy
/// checks nothing that it is told to add, and a line break there would split the client's answer.
#[inline]
pub fn each(
    profile: HeaderProfile,
    answer: &Answer<'_, '_>,
    mut put: impl FnMut(&'static str, &[u8]),
) {
    if profile == HeaderProfile::Github
        && let Some(report) = shown(answer)
    {
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
    if let Some(seconds) = retry_after_s(answer) {
        put("retry-after", itoa::Buffer::new().format(seconds).as_bytes());
    }
}

/// The limit that headers show: the binding one, unless its numbers are unknown because the store
/// was not asked, or it is in shadow and must not be felt.
#[inline]
fn shown<'a, 'r>(answer: &'a Answer<'_, 'r>) -> Option<&'a LimitReport<'r>> {
    let report = &answer.decision.limits[answer.decision.binding?];
    (is_known(answer, report) && !report.rule.is_shadow).then_some(report)
}

/// Whether a limit's numbers are those of its counter: not where the store was not asked.
#[inline]
pub fn is_known(answer: &Answer<'_, '_>, report: &LimitReport<'_>) -> bool {
    !answer.decision.is_degraded || !(report.allowed || report.reason == Reason::StoreFailure)
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

/// A limit's id as a header may carry it: anything but visible ASCII becomes `_`.
#[inline]
pub fn visible(id: &str) -> HeaderText {
    let bytes = id.as_bytes();
    let mut text = HeaderText::from_slice(&bytes[..bytes.len().min(LONGEST_NAME)]);
    for byte in &mut text {
        if !byte.is_ascii_graphic() {
            *byte = b'_';
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_visible_ascii() {
        assert_eq!(&visible("per-key")[..], b"per-key");
        assert_eq!(&visible("a\r\nset-cookie: x")[..], b"a__set-cookie:_x");
        assert_eq!(&visible("größe")[..], b"gr____e");
        assert_eq!(visible(&"x".repeat(5000)).len(), 256);
    }
}
