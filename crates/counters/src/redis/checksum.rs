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
    let (eights, rest) = bytes.as_chunks::<AT_ONCE>();
    let step = |crc: u16, byte: &u8| crc << 8 ^ CRC[0][usize::from((crc >> 8) as u8 ^ byte)];
    rest.iter().fold(eights.iter().copied().fold(crc, crc_of_eight), step)
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

    #[test]
    fn a_checksum_is_the_same_however_its_bytes_are_cut() {
        let bytes: Vec<u8> = (0..200_u32).map(|at| (at * 37 % 251) as u8).collect();
        let one_by_one = bytes.chunks(1).fold(0, crc_on);
        for cut in 0..bytes.len() {
            assert_eq!(crc_on(crc_on(0, &bytes[..cut]), &bytes[cut..]), one_by_one);
        }
    }

    #[test]
    fn it_has_the_check_value_of_the_specification() {
        assert_eq!(crc_on(0, b"123456789"), 0x31c3);
    }
}
