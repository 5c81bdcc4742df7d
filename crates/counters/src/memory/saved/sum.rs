//! The checksum of a file, over large pieces: that of a counter at a time would take longer than all
//! the rest.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

use super::error::LoadError;
use super::format::SUM_BYTES;

const PIECE: usize = 1 << 16;

/// Sums up what passes.
pub struct Summing<W> {
    out: W,
    sum: Sha256,
}

impl<W: Write> Summing<W> {
    /// Passes on to `out`.
    pub fn new(out: W) -> Self {
        Self { out, sum: Sha256::new() }
    }

    /// Ends it with the checksum.
    pub fn end(mut self) -> io::Result<()> {
        self.out.write_all(&self.sum.finalize())
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Holds the last bytes against the sum of those before them.
pub fn check(mut from: impl Read) -> Result<(), LoadError> {
    let (mut sum, mut piece, mut kept) = (Sha256::new(), vec![0; PIECE], 0);
    loop {
        let read = match from.read(&mut piece[kept..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        kept += read;
        // What may be the checksum waits for what follows it, if anything does.
        let summed = kept.saturating_sub(SUM_BYTES);
        sum.update(&piece[..summed]);
        piece.copy_within(summed..kept, 0);
        kept -= summed;
    }
    if sum.finalize()[..] == piece[..kept] {
        Ok(())
    } else {
        Err(LoadError::Damaged("its checksum is another"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_summed_is_checked_whatever_its_length() {
        for length in [0, 1, SUM_BYTES, PIECE - 1, PIECE, 3 * PIECE + 7] {
            let mut out = Vec::new();
            let mut summing = Summing::new(&mut out);
            summing.write_all(&vec![7; length]).unwrap();
            summing.end().unwrap();
            assert!(check(&out[..]).is_ok(), "{length}");
            for at in [0, out.len() / 2, out.len() - 1] {
                let mut other = out.clone();
                other[at] ^= 1;
                assert!(check(&other[..]).is_err(), "{length} {at}");
            }
            assert!(check(&out[1..]).is_err() && check(&out[..out.len() - 1]).is_err());
        }
    }
}
