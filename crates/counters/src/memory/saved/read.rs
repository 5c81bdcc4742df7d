//! Bytes to counters. Whatever the bytes are, an error is the worst that comes of them.

use std::io::{self, Read};

use tidegate_core::Algorithm;
use tidegate_core::algorithms::State;
use tidegate_core::algorithms::calendar::Spent;
use tidegate_core::algorithms::sliding_log::Log;
use tidegate_core::algorithms::slots::{MOST_SLOTS, Slots};
use tidegate_core::algorithms::token_bucket::Bucket;
use tidegate_core::algorithms::windows::Windows;
use tidegate_core::units::MAX;

use super::error::LoadError;
use super::format::{END, FORM, Head, MAGIC, Named, SUM_BYTES, algorithm};

/// Bytes of a limit's or domain's name, or of a key.
const LONGEST_TEXT: usize = u16::MAX as usize;

/// A counter on its way in.
#[derive(Debug, PartialEq, Eq)]
pub struct Coming<'a> {
    /// Its limit's place in [`Head::limits`].
    pub limit: u32,
    /// Its values.
    pub key: &'a [u8],
    /// Microseconds.
    pub period_us: u64,
    /// What it holds.
    pub state: State,
}

/// Reads a file front to back.
pub struct Reader<R> {
    from: R,
    text: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the head.
    pub fn new(from: R) -> Result<(Self, Head), LoadError> {
        let mut reader = Self { from, text: vec![0; LONGEST_TEXT] };
        let mut magic = [0; MAGIC.len()];
        match reader.take(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Err(error @ LoadError::Unreadable(_)) => return Err(error),
            _ => return Err(LoadError::Foreign),
        }
        let found = reader.short()?;
        if found > FORM {
            return Err(LoadError::TooNew { found, newest: FORM });
        }
        if found != FORM {
            return Err(LoadError::Damaged("there is no such form"));
        }
        let [clock_us, wall_us] = reader.numbers()?;
        if clock_us > MAX || wall_us > MAX {
            return Err(LoadError::Damaged("a time that cannot be"));
        }
        let mut limits = Vec::new();
        for _ in 0..reader.short()? {
            limits.push(reader.limit()?);
        }
        Ok((reader, Head { clock_us, wall_us, limits }))
    }

    /// Hands over each counter. What was handed over before an error is not to be trusted.
    pub fn counters(
        mut self,
        head: &Head,
        mut each: impl FnMut(Coming<'_>),
    ) -> Result<(), LoadError> {
        let mut count = 0;
        loop {
            let limit = self.short()?;
            if limit == END {
                break;
            }
            let named = head.limits.get(limit as usize);
            let algorithm = named.ok_or(LoadError::Damaged("a limit without a name"))?.algorithm;
            let length = self.text()?;
            let [n, period_us] = self.numbers()?;
            if !(1..=MAX).contains(&period_us) || n > MAX {
                return Err(LoadError::Damaged("a rate that cannot be"));
            }
            let state = self.state(algorithm, n, period_us)?;
            each(Coming { limit, key: &self.text[..length], period_us, state });
            count += 1;
        }
        let [counted] = self.numbers()?;
        if counted != count {
            return Err(LoadError::Damaged("counters are missing"));
        }
        self.take(&mut [0; SUM_BYTES])?;
        match self.from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(LoadError::Damaged("something follows its end")),
        }
    }

    fn state(&mut self, algorithm: Algorithm, n: u64, period_us: u64) -> Result<State, LoadError> {
        match algorithm {
            Algorithm::SlidingLog => return self.log(),
            Algorithm::SlidingSlots => return self.slots(),
            _ => {}
        }
        let [first, second, last] = self.numbers()?;
        let fits = first <= MAX && second <= MAX && last <= MAX;
        match algorithm {
            Algorithm::TokenBucket if fits && n > 0 && second < period_us => {
                Ok(State::Bucket(Bucket { level: first, rem: second, n, period_us, last }))
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindow if fits => {
                Ok(State::Windows(Windows { prev: first, cur: second, last }))
            }
            Algorithm::Quota if fits => Ok(State::Spent(Spent { count: first, end: second, last })),
            _ => Err(LoadError::Damaged("a count that cannot be")),
        }
    }

    fn log(&mut self) -> Result<State, LoadError> {
        let mut log = Log::default();
        for _ in 0..self.short()? {
            let [time, cost] = self.numbers()?;
            if time > MAX || cost > MAX || !log.append(time, cost) {
                return Err(LoadError::Damaged("a log out of order"));
            }
        }
        Ok(State::Log(Box::new(log)))
    }

    fn slots(&mut self) -> Result<State, LoadError> {
        const WRONG: LoadError = LoadError::Damaged("slots that cannot be");
        let length = self.short()?;
        // Before anything is kept for them: a file may name any number.
        if u64::from(length) > MOST_SLOTS + 1 {
            return Err(WRONG);
        }
        let mut counts = Vec::with_capacity(length as usize);
        for _ in 0..length {
            let [count] = self.numbers()?;
            counts.push(count);
        }
        let [last] = self.numbers()?;
        if last > MAX || counts.iter().any(|count| *count > MAX) {
            return Err(WRONG);
        }
        Slots::of(counts, last).map(|slots| State::Slots(Box::new(slots))).ok_or(WRONG)
    }

    fn limit(&mut self) -> Result<Named, LoadError> {
        let mut code = [0];
        self.take(&mut code)?;
        let algorithm =
            algorithm(code[0]).ok_or(LoadError::Damaged("there is no such algorithm"))?;
        Ok(Named { domain: self.name()?, id: self.name()?, algorithm })
    }

    fn name(&mut self) -> Result<String, LoadError> {
        let length = self.text()?;
        let name = std::str::from_utf8(&self.text[..length]);
        name.map(str::to_owned).map_err(|_| LoadError::Damaged("a name that is no text"))
    }

    /// Reads into `self.text`; says how many bytes.
    fn text(&mut self) -> Result<usize, LoadError> {
        let mut length = [0; 2];
        self.take(&mut length)?;
        let length = usize::from(u16::from_le_bytes(length));
        let mut text = std::mem::take(&mut self.text);
        let taken = self.take(&mut text[..length]);
        self.text = text;
        taken.map(|()| length)
    }

    fn short(&mut self) -> Result<u32, LoadError> {
        let mut bytes = [0; 4];
        self.take(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], LoadError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            let mut bytes = [0; 8];
            self.take(&mut bytes)?;
            *number = u64::from_le_bytes(bytes);
        }
        Ok(numbers)
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), LoadError> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => LoadError::Damaged("it ends too early"),
            _ => LoadError::Unreadable(error),
        })
    }
}
