//! The `grpc-timeout` header: 1 to 8 digits and a unit.

use std::time::Duration;

/// The time that the header grants; none where it breaks the grammar.
pub(super) fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let mut amount = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        amount = amount * 10 + u64::from(digit - b'0');
    }
    Some(match unit {
        b'H' => Duration::from_secs(amount * 3600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse(b"1H"), Some(Duration::from_secs(3600)));
        assert_eq!(parse(b"2M"), Some(Duration::from_secs(120)));
        assert_eq!(parse(b"3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse(b"20m"), Some(Duration::from_millis(20)));
        assert_eq!(parse(b"5u"), Some(Duration::from_micros(5)));
        assert_eq!(parse(b"0n"), Some(Duration::ZERO));
    }

    #[test]
    fn takes_eight_digits_and_no_more() {
        assert_eq!(parse(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse(b"123456789S"), None);
    }

    #[test]
    fn refuses_what_breaks_the_grammar() {
        for bad in [&b""[..], b"S", b"5x", b"5", b"-1S", b"+1S", b"1.5S", b" 1S", b"1s", b"1 S"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
