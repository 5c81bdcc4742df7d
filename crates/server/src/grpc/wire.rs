//! The protobuf wire format: fields taken apart without copying, fields written with their length.

use bytes::{BufMut, BytesMut};

/// Bytes that are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A field's value as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Fixed-width numbers and groups: no message that is read here has any.
    Other,
}

/// The fields of a message, number and value, in the order in which they came. Ends after the
/// first error.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

/// Groups inside groups that an unknown field may bring.
const MOST_GROUPS: u32 = 32;

impl<'a> Fields<'a> {
    /// The fields of an encoded message.
    pub const fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let (number, kind) = self.tag()?;
        let value = match kind {
            0 => Value::Varint(self.varint()?),
            2 => Value::Bytes(self.length_delimited()?),
            _ => {
                self.skip(number, kind, 0)?;
                Value::Other
            }
        };
        Ok((number, value))
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u8), Malformed> {
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        if tag >> 3 == 0 { Err(Malformed) } else { Ok((tag >> 3, tag as u8 & 7)) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Nearly every tag and length is one byte.
        match self.0.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            // The tenth byte has room for one more bit.
            if at == 9 && *byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn length_delimited(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        self.take(length)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn skip(&mut self, number: u32, kind: u8, depth: u32) -> Result<(), Malformed> {
        match kind {
            0 => self.varint().map(|_| ()),
            1 => self.take(8).map(|_| ()),
            2 => self.length_delimited().map(|_| ()),
            3 if depth < MOST_GROUPS => loop {
                match self.tag()? {
                    (end, 4) if end == number => return Ok(()),
                    (inner, kind) => self.skip(inner, kind, depth + 1)?,
                }
            },
            5 => self.take(4).map(|_| ()),
            _ => Err(Malformed),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// The value of a wrapper message (`google.protobuf.UInt64Value` and its like); `before` is what
/// an earlier occurrence of the field said, as occurrences merge.
pub fn wrapped(message: &[u8], before: u64) -> Result<u64, Malformed> {
    let mut value = before;
    for field in Fields::new(message) {
        if let (1, Value::Varint(number)) = field? {
            value = number;
        }
    }
    Ok(value)
}

/// Writes a varint.
#[inline]
pub fn put_varint(buffer: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        buffer.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

/// Writes a number field, 0 being the absent one. `field` is at most 15.
#[inline]
pub fn put_number(buffer: &mut BytesMut, field: u8, value: u64) {
    if value != 0 {
        buffer.put_u8(field << 3);
        put_varint(buffer, value);
    }
}

/// Writes a string or bytes field. `field` is at most 15.
#[inline]
pub fn put_bytes(buffer: &mut BytesMut, field: u8, value: &[u8]) {
    buffer.put_u8(field << 3 | 2);
    put_varint(buffer, value.len() as u64);
    buffer.put_slice(value);
}

/// Writes a message field, whose fields `write` appends. `field` is at most 15.
#[inline]
pub fn put_message(buffer: &mut BytesMut, field: u8, write: impl FnOnce(&mut BytesMut)) {
    buffer.put_u8(field << 3 | 2);
    // One byte holds the length of nearly every message here; a longer one moves up.
    buffer.put_u8(0);
    let start = buffer.len();
    write(buffer);
    let length = buffer.len() - start;
    if length < 0x80 {
        buffer[start - 1] = length as u8;
        return;
    }
    let extra = (length.ilog2() / 7) as usize;
    buffer.put_bytes(0, extra);
    buffer.copy_within(start..start + length, start + extra);
    let mut rest = length;
    for at in 0..=extra {
        let more = if at < extra { 0x80 } else { 0 };
        buffer[start - 1 + at] = (rest & 0x7f) as u8 | more;
        rest >>= 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        Fields::new(message).collect()
    }

    #[test]
    fn unknown_fields_of_every_kind_are_passed_over() {
        // fixed64 9, group 10 {varint 1, group 2 {}}, fixed32 11, then varint 1 = 150.
        let bytes = b"\x49\0\0\0\0\0\0\0\0\x53\x08\x05\x13\x14\x54\x5d\0\0\0\0\x08\x96\x01";
        let expected = vec![
            (9, Value::Other),
            (10, Value::Other),
            (11, Value::Other),
            (1, Value::Varint(150)),
        ];
        assert_eq!(all(bytes), Ok(expected));
    }

    #[test]
    fn broken_messages_are_refused() {
        let endless = [0x80; 10];
        let too_large = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
        let nested = [0x0b; 100];
        let bad: [&[u8]; 9] = [
            b"\x0a\x05abc",
            b"\x08",
            b"\x00\x01",
            b"\x0b\x08\x01",
            b"\x0c",
            b"\x0f",
            &endless,
            too_large,
            &nested,
        ];
        for bytes in bad {
            assert_eq!(all(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn wrapper_without_a_value_is_zero_and_occurrences_merge() {
        assert_eq!(wrapped(b"", 0), Ok(0));
        assert_eq!(wrapped(b"\x08\x03", 7), Ok(3));
        assert_eq!(wrapped(b"", 7), Ok(7));
    }

    #[test]
    fn lengths_of_every_size_read_back() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let mut buffer = BytesMut::from(&b"before"[..]);
            put_message(&mut buffer, 3, |inner| inner.put_bytes(7, length));
            let body = vec![7; length];
            assert_eq!(all(&buffer[6..]), Ok(vec![(3, Value::Bytes(&body))]), "{length}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&bytes);
        }

        #[test]
        fn numbers_read_back(value in 1u64..) {
            let mut buffer = BytesMut::new();
            put_number(&mut buffer, 5, value);
            prop_assert_eq!(all(&buffer), Ok(vec![(5, Value::Varint(value))]));
        }
    }
}
