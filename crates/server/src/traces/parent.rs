//! The trace that a request belongs to, as its `traceparent` says it (W3C Trace Context).

use http::{HeaderMap, HeaderName};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const VERSION_0: u64 = 0;
const INVALID_VERSION: u64 = 0xff;
const SAMPLED: u8 = 1;
/// Sampled, and that the trace's id is random; a span must not hand on others.
const KNOWN_FLAGS: u8 = 3;
/// `00-` trace `-` span `-` flags: 2, 32, 16 and 2 digits.
const LEN: usize = 55;

/// A span of whoever asks, which is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace's id; never 0.
    pub trace_id: u128,
    /// The span's id; never 0.
    pub span_id: u64,
    /// The trace's flags that are known, among them that it is sampled.
    pub flags: u8,
}

impl Parent {
    /// The parent of a request with these headers; none if it is not sampled, or not said as the
    /// standard has it.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::read(headers.get(&TRACEPARENT)?.as_bytes())
    }

    fn read(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(LEN)?;
        if [head[2], head[35], head[52]] != *b"---" {
            return None;
        }
        let version = number(&head[..2])?;
        // Later versions may say more behind another dash.
        let is_whole = rest.is_empty() || (version > VERSION_0 && rest[0] == b'-');
        let trace_id = u128::from(number(&head[3..19])?) << 64 | u128::from(number(&head[19..35])?);
        let (span_id, flags) = (number(&head[36..52])?, number(&head[53..])? as u8);
        let is_valid = version != INVALID_VERSION && is_whole && trace_id != 0 && span_id != 0;
        (is_valid && flags & SAMPLED != 0).then_some(Self {
            trace_id,
            span_id,
            flags: flags & KNOWN_FLAGS,
        })
    }
}

/// Reads at most 16 hexadecimal digits; the standard knows no capitals.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn read(text: &str) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", text.parse().unwrap());
        Parent::of(&headers)
    }

    #[test]
    fn a_sampled_parent_is_read_whole() {
        let parent = read(&format!("00-{TRACE}-b7ad6b7169203331-ff")).unwrap();
        assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((parent.span_id, parent.flags), (0xb7ad_6b71_6920_3331, 3));
        assert_eq!(read(&format!("cc-{TRACE}-b7ad6b7169203331-01-more")).unwrap().flags, 1);
    }

    #[test]
    fn what_is_not_sampled_or_not_valid_has_no_parent() {
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-b7ad6b7169203331-00"),
            format!("00-{TRACE}-b7ad6b7169203331-02"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("cc-{TRACE}-b7ad6b7169203331-01more"),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-b7ad6b716920333é-01"),
            format!("00-{TRACE}+b7ad6b7169203331-01"),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
        assert_eq!(Parent::of(&HeaderMap::new()), None);
    }
}
