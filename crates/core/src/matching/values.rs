//! A counter's values as bytes: length-delimited, so that no two combinations meet in one key.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// Room for the keys of one request.
pub type KeyBuffer = SmallVec<[u8; 256]>;

/// Values longer than this are replaced by a hash.
const LONGEST: usize = 256;
const PLAIN: u8 = 0;
const HASHED: u8 = 1;
const HASH_BYTES: usize = 16;

/// Appends the values' key: a tag, the period in seconds (0 where it is no part of the key), then
/// each value with its length, or the mark of a missing one. The tag keeps a hash apart from
/// every plain key.
#[inline]
pub fn append<'v>(
    buffer: &mut KeyBuffer,
    period_s: u64,
    values: impl Iterator<Item = Option<&'v [u8]>>,
) {
    let start = buffer.len();
    buffer.push(PLAIN);
    varint(buffer, period_s);
    let values_start = buffer.len();
    for value in values {
        match value {
            // Lengths are stored plus one, so that 0 is the mark of a missing value.
            Some(value) => {
                varint(buffer, value.len() as u64 + 1);
                buffer.extend_from_slice(value);
            }
            None => buffer.push(0),
        }
    }
    if buffer.len() - values_start > LONGEST {
        let digest = Sha256::digest(&buffer[values_start..]);
        buffer.truncate(values_start);
        buffer.extend_from_slice(&digest[..HASH_BYTES]);
        buffer[start] = HASHED;
    }
}

#[inline]
fn varint(buffer: &mut KeyBuffer, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}
