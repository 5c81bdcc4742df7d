//! A period in the protocol's words: a unit and how many of it.

use tidegate_core::units::LONGEST_PERIOD_US;

/// `RateLimitResponse.RateLimit.Unit` by length in seconds, longest first; Envoy reckons a month
/// as 30 days and a year as 365.
const UNITS: [(u64, u64); 7] =
    [(31_536_000, 6), (2_592_000, 5), (604_800, 7), (86_400, 4), (3600, 3), (60, 2), (1, 1)];

/// The largest number of a unit that a caller may send: WEEK.
pub const LARGEST_UNIT: u64 = 7;

/// The longest period, in seconds: 366 days.
pub const LONGEST_PERIOD_S: u64 = LONGEST_PERIOD_US / 1_000_000;

/// The seconds of so many units; none for a number that is no unit.
pub fn seconds_of(unit: u64, multiplier: u32) -> Option<u64> {
    let (length, _) = UNITS.into_iter().find(|(_, number)| *number == unit)?;
    Some(length * u64::from(multiplier.max(1)))
}

/// (unit, multiplier) of a period of whole seconds: the longest unit that divides it.
#[inline]
pub fn unit_of(period_us: u64) -> (u64, u64) {
    let seconds = period_us / 1_000_000;
    let (length, unit) =
        UNITS.into_iter().find(|(length, _)| seconds.is_multiple_of(*length)).unwrap_or((1, 1));
    (unit, seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_lengths() {
        let cases =
            [(1, 0, 1), (2, 15, 900), (5, 1, 2_592_000), (6, 1, 31_536_000), (7, 2, 1_209_600)];
        for (unit, multiplier, seconds) in cases {
            assert_eq!(seconds_of(unit, multiplier), Some(seconds));
        }
        assert_eq!(
            (seconds_of(0, 1), seconds_of(8, 1), seconds_of(u64::MAX, 1)),
            (None, None, None)
        );
        assert_eq!(seconds_of(6, u32::MAX), Some(31_536_000 * u64::from(u32::MAX)));
    }

    #[test]
    fn periods_map_to_the_longest_unit_that_divides() {
        let cases = [
            (1, (1, 1)),
            (10, (1, 10)),
            (60, (2, 1)),
            (900, (2, 15)),
            (90, (1, 90)),
            (3600, (3, 1)),
            (86_400, (4, 1)),
            (172_800, (4, 2)),
            (604_800, (7, 1)),
            (1_209_600, (7, 2)),
            (2_592_000, (5, 1)),
            (31_536_000, (6, 1)),
            (366 * 86_400, (4, 366)),
        ];
        for (seconds, expected) in cases {
            assert_eq!(unit_of(seconds * 1_000_000), expected, "{seconds} s");
        }
    }
}
