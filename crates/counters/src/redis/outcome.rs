//! The script's reply, read back into outcomes.

use tidegate_core::Outcome;

use super::StoreError;
use crate::Outcomes;

/// Bytes of one operation in the reply: status, then remaining, wait and reset as doubles.
pub(super) const RECORD: usize = 25;

const FITS: u8 = 1;
const FAILED: u8 = 2;

/// The outcomes of one request, from its part of the reply.
#[inline]
pub(super) fn outcomes(reply: &[u8]) -> Result<Outcomes, StoreError> {
    let mut outcomes = Outcomes::new();
    for record in reply.chunks_exact(RECORD) {
        let status = record[0];
        if status >= FAILED {
            return Err(StoreError::ForeignValue);
        }
        let fits = status == FITS;
        let wait = double(record, 9);
        outcomes.push(Outcome {
            fits,
            remaining: double(record, 1) as u64,
            wait_us: if wait < 0.0 { None } else { Some(wait as u64) },
            reset_us: double(record, 17) as u64,
            is_folded: false,
            is_unasked: false,
        });
    }
    Ok(outcomes)
}

/// A whole number below 2^53; the script computes in doubles.
#[inline]
fn double(record: &[u8], at: usize) -> f64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[at..at + 8]);
    f64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: u8, numbers: [f64; 3]) -> Vec<u8> {
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        std::iter::once(status).chain(numbers).collect()
    }

    #[test]
    fn statuses_and_numbers_are_read_exactly() {
        let most = 9_007_199_254_740_991.0;
        let reply = [record(1, [most, 0.0, 5.0]), record(0, [0.0, -1.0, most])].concat();
        let read = outcomes(&reply).unwrap();
        assert_eq!((read[0].fits, read[0].remaining), (true, tidegate_core::units::MAX));
        assert_eq!((read[0].wait_us, read[0].reset_us), (Some(0), 5));
        assert_eq!((read[1].fits, read[1].wait_us), (false, None));
        assert_eq!(read[1].reset_us, tidegate_core::units::MAX);
    }

    #[test]
    fn a_failed_operation_fails_its_request() {
        for status in 2..=4 {
            let reply = [record(1, [1.0; 3]), record(status, [0.0; 3])].concat();
            assert_eq!(outcomes(&reply), Err(StoreError::ForeignValue));
        }
    }
}
