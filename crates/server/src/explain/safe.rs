//! Bytes of a request as text that any terminal and any reader of JSON can bear.

use std::fmt::Write;

/// UTF-8 as it is; control characters, backslashes and bytes that are no UTF-8 as `\x1b`.
pub fn safe(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            // Direction marks reorder what stands beside them, so they are shown, not obeyed.
            let is_mark = matches!(character, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}' | '\u{feff}');
            if character.is_control() || is_mark || character == '\\' {
                let mut buffer = [0; 4];
                escape(&mut text, character.encode_utf8(&mut buffer).as_bytes());
            } else {
                text.push(character);
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_commands_or_deceives_is_escaped() {
        assert_eq!(safe("größe /a?b=\"c\"".as_bytes()), "größe /a?b=\"c\"");
        assert_eq!(safe(b"\x1b[2J\r\n"), "\\x1b[2J\\x0d\\x0a");
        assert_eq!(safe(b"a\xff\\b"), "a\\xff\\x5cb");
        assert_eq!(safe("\u{202e}".as_bytes()), "\\xe2\\x80\\xae");
    }
}
