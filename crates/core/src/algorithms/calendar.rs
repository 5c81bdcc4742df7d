//! Quotas: what was taken in a period of a calendar, whose beginning and end a table says.
//!
//! No zone is known here. The policy compiler writes down where periods begin; this file looks them
//! up, and hands the store those around the caller's time, among which the store chooses by its own
//! clock. That choice is exact while the two clocks are less than the shorter of the neighbouring
//! periods apart; further apart, periods are taken to go on with the lengths of those neighbours.

use std::sync::Arc;

use super::Numbers;

const SECOND_US: u64 = 1_000_000;

/// A kind of calendar period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// As a clock in the zone shows it.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday.
    Week,
    /// From the first day.
    Month,
    /// From the first of January.
    Year,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The word for it in policy files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The seconds by which it is known in snapshots, keys and protocols: a month as 30 days, a year
    /// as 365.
    pub const fn nominal_s(self) -> u64 {
        match self {
            Self::Hour => 3600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 365 * 86_400,
        }
    }

    /// The unit of that nominal length.
    pub fn of_nominal(period_us: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.nominal_s() * SECOND_US == period_us)
    }
}

/// The periods of one unit in one zone: runs of equal ones, the first and the last without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// (begin, length of each period from there on) in seconds, in time order.
    runs: Box<[(u64, u64)]>,
}

impl Table {
    /// Checks that there are runs, in order, each a whole number of periods.
    pub fn new(runs: Vec<(u64, u64)>) -> Result<Self, String> {
        const LATEST_S: u64 = 1 << 33;
        const LONGEST_S: u64 = 367 * 86_400;
        if runs.is_empty() {
            return Err("no periods".into());
        }
        for (at, (begin, length)) in runs.iter().enumerate() {
            if *begin > LATEST_S || !(1..=LONGEST_S).contains(length) {
                return Err(format!("periods of {length} s from {begin} on: out of bounds"));
            }
            let Some((next, _)) = runs.get(at + 1) else { continue };
            if next <= begin || !(next - begin).is_multiple_of(*length) {
                return Err(format!("periods of {length} s from {begin} on do not meet {next}"));
            }
        }
        Ok(Self { runs: runs.into() })
    }

    /// (begin, length) of the period that holds a time, seconds.
    fn period_at(&self, time_s: u64) -> (u64, u64) {
        let after = self.runs.partition_point(|(begin, _)| *begin <= time_s);
        let (begin, length) = self.runs[after.saturating_sub(1)];
        match time_s.checked_sub(begin) {
            Some(since) => (begin + since / length * length, length),
            // Before the table its first periods go on backwards.
            None => (begin.saturating_sub((begin - time_s).div_ceil(length) * length), length),
        }
    }
}

/// The tables of one zone.
#[derive(Debug)]
pub struct Calendar {
    /// Its IANA name.
    pub zone: Arc<str>,
    tables: [Option<Table>; 5],
}

impl Calendar {
    /// A zone without tables.
    pub fn new(zone: Arc<str>) -> Self {
        Self { zone, tables: Default::default() }
    }

    /// Adds the table of a unit.
    pub fn set(&mut self, unit: Unit, table: Table) {
        self.tables[unit as usize] = Some(table);
    }

    /// True if it has the table of a unit.
    pub const fn has(&self, unit: Unit) -> bool {
        self.tables[unit as usize].is_some()
    }

    /// The periods around a time, microseconds; none without a table.
    #[inline]
    pub fn around(&self, unit: Unit, time_us: u64) -> Option<Around> {
        let table = self.tables[unit as usize].as_ref()?;
        let (begin, length) = table.period_at(time_us / SECOND_US);
        let (_, next) = table.period_at(begin + length);
        Some(Around { unit, begin, length, next })
    }
}

/// The period that holds the caller's time, and the one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// What kind of period.
    pub unit: Unit,
    /// Where it begins, seconds.
    pub begin: u64,
    /// How long it is, seconds.
    pub length: u64,
    /// How long the one after it is, seconds.
    pub next: u64,
}

/// Bits of a length in seconds: 366 days and some hours.
const LENGTH_BITS: u32 = 25;
const UNIT_BITS: u32 = 3;

impl Around {
    /// Numbers that carry it: `period_us` is the current period's length, `burst` has the rest.
    #[inline]
    #[must_use]
    pub const fn numbers(self, n: u64) -> Numbers {
        let place = (self.begin << LENGTH_BITS | self.next) << UNIT_BITS | self.unit as u64;
        Numbers { n, period_us: self.length * SECOND_US, burst: place }
    }

    /// What [`Around::numbers`] put there.
    #[inline]
    pub const fn of(numbers: &Numbers) -> Self {
        let unit = Unit::ALL[(numbers.burst & ((1 << UNIT_BITS) - 1)) as usize % Unit::ALL.len()];
        let place = numbers.burst >> UNIT_BITS;
        // A table holds no period of no length; this keeps a division from ever finding one.
        let next =
            place & ((1 << LENGTH_BITS) - 1) | (place & ((1 << LENGTH_BITS) - 1) == 0) as u64;
        Self { unit, begin: place >> LENGTH_BITS, length: numbers.period_us / SECOND_US, next }
    }

    /// The end of the period that holds `time`, microseconds both.
    pub const fn end_at(&self, time: u64) -> u64 {
        let (begin, length) = (self.begin * SECOND_US, self.length * SECOND_US);
        if time < begin {
            return begin - (begin - 1 - time) / length * length;
        }
        let end = begin + length;
        if time < end {
            return end;
        }
        let next = self.next * SECOND_US;
        end + ((time - end) / next + 1) * next
    }

    /// Its three ends as the store's script reads them: the current period's begin in microseconds,
    /// and both lengths in one number below 2^53.
    pub const fn packed(&self) -> (u64, u64) {
        (self.begin * SECOND_US, self.length << 26 | self.next)
    }
}

/// What was taken in a period. It keeps the end that it began with: another time zone or another
/// table holds from the next period on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Units taken.
    pub count: u64,
    /// Where the period ends, microseconds.
    pub end: u64,
    /// Time of the last write, microseconds; before `end`.
    pub last: u64,
}

impl Spent {
    /// Nothing, in the period that holds `now`.
    #[inline]
    pub const fn fresh(numbers: &Numbers, now: u64) -> Self {
        Self { count: 0, end: Around::of(numbers).end_at(now), last: now }
    }

    /// What of it is left at `now`: all until its period ends.
    #[inline]
    #[must_use]
    pub const fn rolled(self, numbers: &Numbers, now: u64) -> Self {
        if now < self.end && self.count > 0 {
            self
        } else {
            Self { last: self.last, ..Self::fresh(numbers, now) }
        }
    }

    /// Taken over by a clock that is far behind: it counts in the period of that clock.
    pub const fn rebase(&mut self, numbers: &Numbers, now: u64) {
        self.end = Around::of(numbers).end_at(now);
        self.last = now;
    }
}
