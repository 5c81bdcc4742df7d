//! Values as headers carry them: visible ASCII, and never long.

use bytes::BufMut;
use smallvec::SmallVec;

/// Bytes of a limit's id that are shown; the rest of a longer one is cut.
const LONGEST_NAME: usize = 256;
/// The largest whole number of a structured field (RFC 9651, 3.3.1).
const LARGEST_INTEGER: u64 = 999_999_999_999_999;

/// A header's value: visible ASCII by construction.
pub type HeaderText = SmallVec<[u8; 24]>;

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

/// Writes a limit's id between quotes. Quotes, backslashes and controls are left out, as they are
/// of names that gateways are told; what is no ASCII becomes `_`.
pub fn put_quoted(out: &mut Vec<u8>, id: &str) {
    out.push(b'"');
    for byte in id.bytes().take(LONGEST_NAME) {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f => {}
            0x80.. => out.push(b'_'),
            plain => out.push(plain),
        }
    }
    out.push(b'"');
}

/// Writes `;key=number`.
pub fn put_parameter(out: &mut Vec<u8>, key: &str, number: u64) {
    out.push(b';');
    out.put_slice(key.as_bytes());
    out.push(b'=');
    put_integer(out, number);
}

/// Writes a whole number, no larger than the readers of structured fields take.
pub fn put_integer(out: &mut Vec<u8>, number: u64) {
    out.put_slice(itoa::Buffer::new().format(number.min(LARGEST_INTEGER)).as_bytes());
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

    #[test]
    fn quoted_ids_cannot_end_their_quotes() {
        let quoted = |id: &str| {
            let mut out = Vec::new();
            put_quoted(&mut out, id);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(quoted("a \"b\"; \\ größe\r\n"), "\"a b;  gr____e\"");
        assert_eq!(quoted(&"x".repeat(5000)).len(), 258);
    }
}
