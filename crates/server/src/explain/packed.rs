//! A record's bytes: small numbers and cut texts, written in one go and read back in order.

/// Bytes that one record may take.
pub const LONGEST_RECORD: usize = 1024;

/// Appends a number in as few bytes as it needs.
#[inline]
pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes, cut at `most`; how many there were is kept.
#[inline]
pub fn put_text(out: &mut Vec<u8>, text: &[u8], most: usize) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(&text[..text.len().min(most)]);
}

/// A text that may have been cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    /// What was kept.
    pub text: &'a [u8],
    /// Bytes that there were.
    pub whole: u64,
}

/// A text, cut at `most`.
pub fn cut(text: &[u8], most: usize) -> Cut<'_> {
    Cut { text: &text[..text.len().min(most)], whole: text.len() as u64 }
}

impl Cut<'_> {
    /// True if something is missing.
    pub const fn is_cut(&self) -> bool {
        self.whole > self.text.len() as u64
    }
}

/// Reads a record. Past its end everything is 0 and empty: only our own bytes are read.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// The next bytes, so many.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next text, which was cut at `most`.
    pub fn text(&mut self, most: usize) -> Cut<'a> {
        let whole = self.number();
        let length = usize::try_from(whole).unwrap_or(usize::MAX).min(most);
        Cut { text: self.bytes(length), whole }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_read(numbers: Vec<u64>, text: Vec<u8>) {
            let mut out = Vec::new();
            for number in &numbers {
                put_number(&mut out, *number);
            }
            put_text(&mut out, &text, 5);
            let mut reader = Reader(&out);
            for number in &numbers {
                prop_assert_eq!(reader.number(), *number);
            }
            let read = reader.text(5);
            prop_assert_eq!(read.text, &text[..text.len().min(5)]);
            prop_assert_eq!(read.is_cut(), text.len() > 5);
            prop_assert_eq!(reader.number(), 0);
        }
    }
}
