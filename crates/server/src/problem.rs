//! `application/problem+json` (RFC 9457): what a client reads of a denial or of its own mistake.

use bytes::BufMut;
use tidegate_core::Reason;

use crate::decision_id::DecisionId;
use crate::headers::retry_after_s;
use crate::json::{put_number, put_text};
use crate::pipeline::Answer;

/// The media type.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Bytes of limit ids that a body names; a gateway may turn the body into one header.
const MOST_NAMES: usize = 2048;

/// Writes the body that goes with a denial. It has no `status`: the gateway chooses that.
pub fn put_denial(out: &mut impl BufMut, answer: &Answer<'_, '_>, id: &DecisionId) {
    let (kind, title) = words(answer.decision.reason);
    out.put_slice(b"{\"type\":");
    put_text(out, kind);
    out.put_slice(b",\"title\":");
    put_text(out, title);
    out.put_slice(b",\"reason\":");
    put_text(out, answer.decision.reason.as_str());
    out.put_slice(b",\"violated-policies\":[");
    let mut length = 0;
    let violated = answer.decision.limits.iter().filter(|report| report.denies());
    for (at, report) in violated.enumerate() {
        length += report.rule.id.len();
        if length > MOST_NAMES {
            break;
        }
        if at > 0 {
            out.put_u8(b',');
        }
        put_text(out, &report.rule.id);
    }
    out.put_u8(b']');
    if let Some(seconds) = retry_after_s(answer) {
        out.put_slice(b",\"retry_after\":");
        put_number(out, seconds);
    }
    out.put_slice(b",\"decision_id\":");
    put_text(out, id.as_str());
    out.put_u8(b'}');
}

/// The registered type (draft-ietf-httpapi-ratelimit-headers) and title of a reason.
const fn words(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::StoreFailure => (
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Request cannot be satisfied due to temporary server capacity constraints",
        ),
        Reason::MissingKey => ("about:blank", "Request lacks a key that a limit demands"),
        Reason::Ok | Reason::OverLimit | Reason::CostExceedsLimit | Reason::Blocked => (
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "Request cannot be satisfied as assigned quota has been exceeded",
        ),
    }
}

/// Writes the body of an error answer: what was wrong, and what to do.
pub fn put_error(out: &mut impl BufMut, status: u16, title: &str, detail: &str) {
    out.put_slice(b"{\"type\":\"about:blank\",\"title\":");
    put_text(out, title);
    out.put_slice(b",\"status\":");
    put_number(out, u64::from(status));
    out.put_slice(b",\"detail\":");
    put_text(out, detail);
    out.put_u8(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_json() {
        let mut out = Vec::new();
        put_error(&mut out, 400, "Bad Request", "cost: must be a \"number\"");
        let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read["status"], 400);
        assert_eq!(read["detail"], "cost: must be a \"number\"");
    }
}
