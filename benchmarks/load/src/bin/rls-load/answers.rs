//! What an answer says, checked in full: header blocks by a cache of those seen, messages by a
//! walk over their fields.

use fluke_hpack::Decoder;

/// What a header block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub http: Option<u16>,
    pub grpc: Option<u16>,
}

/// Reads header blocks of one connection.
pub struct Blocks {
    decoder: Decoder<'static>,
    /// Blocks of indexes only, valid until the dynamic table changes.
    known: Vec<(Vec<u8>, Block)>,
}

impl Blocks {
    pub fn new() -> Self {
        Self { decoder: Decoder::new(), known: Vec::new() }
    }

    /// What the block says; none where it is not legal.
    pub fn read(&mut self, bytes: &[u8]) -> Option<Block> {
        if let Some((_, block)) = self.known.iter().find(|(known, _)| known == bytes) {
            return Some(*block);
        }
        let mut block = Block::default();
        for (name, value) in self.decoder.decode(bytes).ok()? {
            let field = match &name[..] {
                b":status" => &mut block.http,
                b"grpc-status" => &mut block.grpc,
                _ => continue,
            };
            *field = std::str::from_utf8(&value).ok()?.parse().ok();
        }
        if bytes.iter().all(|byte| (0x81..0xff).contains(byte)) {
            self.known.push((bytes.to_vec(), block));
        } else {
            self.known.clear();
        }
        Some(block)
    }
}

/// What a rate limit answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub overall_code: u64,
    pub is_degraded: bool,
}

pub const OK: u64 = 1;
pub const OVER_LIMIT: u64 = 2;

/// Reads one prefixed `RateLimitResponse`; none where it is not one whole legal message.
pub fn read(framed: &[u8]) -> Option<Verdict> {
    let (prefix, mut rest) = framed.split_first_chunk::<5>()?;
    let [flag, length @ ..] = *prefix;
    if flag != 0 || u32::from_be_bytes(length) as usize != rest.len() {
        return None;
    }
    let mut verdict = Verdict { overall_code: 0, is_degraded: false };
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        match tag & 7 {
            0 => {
                let value = varint(&mut rest)?;
                if tag >> 3 == 1 {
                    verdict.overall_code = value;
                }
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (field, after) = rest.split_at_checked(length)?;
                rest = after;
                if tag >> 3 == 6 {
                    verdict.is_degraded = says_degraded(field);
                }
            }
            _ => return None,
        }
    }
    Some(verdict)
}

/// Looks in a `google.protobuf.Struct` for the field `degraded` with the value true.
fn says_degraded(metadata: &[u8]) -> bool {
    const FIELD: &[u8] = b"degraded\x12\x02\x20\x01";
    metadata.windows(FIELD.len()).any(|window| window == FIELD)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_read() {
        let ok = b"\0\0\0\0\x02\x08\x01";
        assert_eq!(read(ok), Some(Verdict { overall_code: OK, is_degraded: false }));
        let over = b"\0\0\0\0\x06\x08\x02\x12\x02\x08\x02";
        assert_eq!(read(over).unwrap().overall_code, OVER_LIMIT);
    }

    #[test]
    fn degraded_answer_is_seen() {
        let mut framed = b"\0\0\0\0\x12\x08\x01\x32\x0e\x0a\x0c\x0a\x08degraded".to_vec();
        framed[4] = 0x14;
        framed[8] = 0x10;
        framed.extend_from_slice(b"\x12\x02\x20\x01");
        framed[4] = (framed.len() - 5) as u8;
        framed[8] = (framed.len() - 9) as u8;
        assert!(read(&framed).unwrap().is_degraded);
        let last = framed.len() - 1;
        framed[last] = 0;
        assert!(!read(&framed).unwrap().is_degraded);
    }

    #[test]
    fn broken_answers_are_none() {
        for broken in
            [&b""[..], b"\0\0\0\0\x02\x08", b"\x01\0\0\0\x02\x08\x01", b"\0\0\0\0\x01\x08"]
        {
            assert_eq!(read(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn blocks_are_read_again_after_the_table_changes() {
        let mut blocks = Blocks::new();
        let five = b"\x88\x40\x0bgrpc-status\x01\x35";
        assert_eq!(blocks.read(five), Some(Block { http: Some(200), grpc: Some(5) }));
        assert_eq!(blocks.read(b"\xbe").unwrap().grpc, Some(5));
        assert_eq!(blocks.read(b"\xbe").unwrap().grpc, Some(5));
        assert_eq!(blocks.read(b"\x40\x0bgrpc-status\x01\x30").unwrap().grpc, Some(0));
        assert_eq!(blocks.read(b"\xbe").unwrap().grpc, Some(0));
        assert_eq!(blocks.read(b"\xbf").unwrap().grpc, Some(5));
    }
}
