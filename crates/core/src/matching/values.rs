//! A counter's values as bytes: length-delimited, so that no two combinations meet in one key.

use std::ops::Range;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// Room for the keys of one request.
pub type KeyBuffer = SmallVec<[u8; 256]>;

/// Values longer than this are replaced by a hash.
const LONGEST: usize = 256;
const PLAIN: u8 = 0;
const HASHED: u8 = 1;
const HASH_BYTES: usize = 16;

/// Where a key stands in a buffer, and the value that places its counter.
pub type Placed = (Range<u32>, Option<Range<u32>>);

/// Appends the values' key: a tag, the period in seconds (0 where it is no part of the key), then
/// each value with its length, or the mark of a missing one. The tag keeps a hash apart from
/// every plain key. The value of the number `anchor_at`, empty if it is missing, stands within
/// the key, or behind one that is a hash.
#[inline]
pub fn append<'v>(
    buffer: &mut KeyBuffer,
    period_s: u64,
    mut values: impl Iterator<Item = Option<&'v [u8]>> + Clone,
    anchor_at: usize,
) -> Placed {
    let start = buffer.len();
    buffer.push(PLAIN);
    varint(buffer, period_s);
    let values_start = buffer.len();
    let mut anchor = None;
    for (at, value) in values.clone().enumerate() {
        // Lengths are stored plus one, so that 0 is the mark of a missing value.
        varint(buffer, value.map_or(0, |value| value.len() as u64 + 1));
        let value_start = buffer.len();
        buffer.extend_from_slice(value.unwrap_or_default());
        if at == anchor_at {
            anchor = Some(value_start as u32..buffer.len() as u32);
        }
    }
    let end = buffer.len();
    if end - values_start <= LONGEST {
        return (start as u32..end as u32, anchor);
    }
    let digest = Sha256::digest(&buffer[values_start..]);
    buffer.truncate(values_start);
    buffer.extend_from_slice(&digest[..HASH_BYTES]);
    buffer[start] = HASHED;
    let end = buffer.len() as u32;
    let anchor = values.nth(anchor_at).map(|value| {
        buffer.extend_from_slice(value.unwrap_or_default());
        end..buffer.len() as u32
    });
    (start as u32..end, anchor)
}

#[inline]
fn varint(buffer: &mut KeyBuffer, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}
