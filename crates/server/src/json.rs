//! JSON as it leaves: written straight into the answer's buffer.

use bytes::BufMut;
use tidegate_core::LimitReport;

use crate::decision_id::DecisionId;
use crate::pipeline::Answer;

/// Writes a text with its quotes.
pub fn put_text(out: &mut impl BufMut, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.put_u8(b'"');
    let mut plain = 0;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, 0..0x20 | b'"' | b'\\') {
            continue;
        }
        out.put_slice(&bytes[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            _ => {
                out.put_slice(b"\\u00");
                out.put_u8(HEX[usize::from(byte >> 4)]);
                out.put_u8(HEX[usize::from(byte & 15)]);
            }
        }
    }
    out.put_slice(&bytes[plain..]);
    out.put_u8(b'"');
}

/// Writes a whole number.
pub fn put_number(out: &mut impl BufMut, number: u64) {
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes `true` or `false`.
pub fn put_bool(out: &mut impl BufMut, value: bool) {
    out.put_slice(if value { b"true" } else { b"false" });
}

/// Writes a decision with the names that every door uses.
pub fn put_decision(out: &mut impl BufMut, answer: &Answer<'_, '_>, id: &DecisionId) {
    let decision = &answer.decision;
    out.put_slice(b"{\"allowed\":");
    put_bool(out, decision.allowed);
    out.put_slice(b",\"reason\":");
    put_text(out, decision.reason.as_str());
    out.put_slice(b",\"retry_after_ms\":");
    put_optional(out, decision.retry_after_us.map(millis));
    out.put_slice(b",\"decision_id\":");
    put_text(out, id.as_str());
    out.put_slice(b",\"revision\":");
    put_text(out, answer.revision);
    out.put_slice(b",\"degraded\":");
    put_bool(out, decision.is_degraded);
    out.put_slice(b",\"binding\":");
    put_optional(out, decision.binding.map(|at| at as u64));
    out.put_slice(b",\"limits\":[");
    for (at, report) in decision.limits.iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        put_limit(out, report);
    }
    out.put_slice(b"]}");
}

fn put_limit(out: &mut impl BufMut, report: &LimitReport<'_>) {
    out.put_slice(b"{\"id\":");
    put_text(out, &report.rule.id);
    out.put_slice(b",\"allowed\":");
    put_bool(out, report.allowed);
    out.put_slice(b",\"limit\":");
    put_number(out, report.limit());
    out.put_slice(b",\"remaining\":");
    put_number(out, report.remaining);
    out.put_slice(b",\"reset_ms\":");
    put_number(out, millis(report.reset_us));
    out.put_slice(b",\"window_ms\":");
    put_number(out, millis(report.window_us()));
    out.put_slice(b",\"shadow\":");
    put_bool(out, report.rule.is_shadow);
    if report.is_folded {
        out.put_slice(b",\"folded\":true");
    }
    out.put_u8(b'}');
}

fn put_optional(out: &mut impl BufMut, number: Option<u64>) {
    match number {
        Some(number) => put_number(out, number),
        None => out.put_slice(b"null"),
    }
}

/// Rounded up: what is waited for is there when the time said is over.
const fn millis(us: u64) -> u64 {
    us.div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_read_back(text in any::<String>()) {
            let mut out = Vec::new();
            put_text(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn controls_and_quotes_are_escaped() {
        let mut out = Vec::new();
        put_text(&mut out, "a\"b\\c\n\r\t\u{1}ü");
        assert_eq!(String::from_utf8(out).unwrap(), r#""a\"b\\c\n\r\t\u0001ü""#);
    }
}
