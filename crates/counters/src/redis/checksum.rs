//! The checksum of which a Cluster's slot is the remainder (Redis Cluster specification).

/// CRC-16/XMODEM of a byte that so many zero bytes follow: eight at a time do not wait for one
/// another.
const CRC: [[u16; 256]; AT_ONCE] = {
    let mut tables = [[0; 256]; AT_ONCE];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut zeros = 0;
        while zeros < AT_ONCE {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
                bit += 1;
            }
            tables[zeros][byte] = crc;
            zeros += 1;
        }
        byte += 1;
    }
    tables
};
const AT_ONCE: usize = 8;

/// The checksum of what has this one, and these bytes after it.
#[inline]
pub(super) fn crc_on(crc: u16, bytes: &[u8]) -> u16 {
    let (few, eights) = bytes.as_rchunks::<AT_ONCE>();
    eights.iter().copied().fold(crc_of_few(crc, few), crc_of_eight)
}

/// Fewer than eight, in one step too.
#[inline]
fn crc_of_few(crc: u16, bytes: &[u8]) -> u16 {
    let [high, low] = crc.to_be_bytes();
    let mut before = [high, low].into_iter().chain(std::iter::repeat(0));
    let own = match bytes {
        [] => crc,
        [_] => u16::from(low) << 8,
        _ => 0,
    };
    let tables = CRC[..bytes.len()].iter().rev();
    bytes.iter().zip(tables).fold(own, |sum, (byte, table)| {
        let byte = byte ^ before.next().unwrap_or(0);
        sum ^ table[usize::from(byte)]
    })
}

#[inline]
fn crc_of_eight(crc: u16, bytes: [u8; AT_ONCE]) -> u16 {
    let bytes = (u64::from_be_bytes(bytes) ^ u64::from(crc) << 48).to_be_bytes();
    let tables = CRC.iter().rev();
    bytes.iter().zip(tables).fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: bit by bit.
    fn plainly(bytes: &[u8]) -> u16 {
        let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        bits.fold(0, |crc: u16, bit| {
            let is_out = (crc >> 15) as u8 ^ bit == 1;
            crc << 1 ^ if is_out { 0x1021 } else { 0 }
        })
    }

    #[test]
    fn a_checksum_is_the_same_however_its_bytes_are_cut() {
        let bytes: Vec<u8> = (1..100_u32).map(|at| (at * 37 % 251) as u8).collect();
        for end in 0..bytes.len() {
            for cut in 0..=end {
                let crc = crc_on(crc_on(0, &bytes[..cut]), &bytes[cut..end]);
                assert_eq!(crc, plainly(&bytes[..end]), "{end} bytes, cut at {cut}");
            }
        }
    }

    #[test]
    fn it_has_the_check_value_of_the_specification() {
        assert_eq!(crc_on(0, b"123456789"), 0x31c3);
    }
}
