//! Counters to bytes.

use std::io::{self, BufWriter, Write};

use tidegate_core::algorithms::State;
use tidegate_core::algorithms::sliding_log::Log;
use tidegate_core::algorithms::slots::Slots;

use super::format::{END, FORM, Head, MAGIC, code};
use super::sum::Summing;

const BUFFER: usize = 1 << 16;

/// Writes a file front to back, and its checksum last.
pub struct Writer<W: Write> {
    out: BufWriter<Summing<W>>,
    counters: u64,
}

/// A counter on its way out.
pub struct Leaving<'a> {
    /// Its limit's place in [`Head::limits`].
    pub limit: u32,
    /// Its values.
    pub key: &'a [u8],
    /// Units that drain in a period; 0 except in buckets.
    pub n: u64,
    /// Microseconds.
    pub period_us: u64,
    /// What it holds.
    pub held: Held<'a>,
}

/// A state, or a large one where it stands.
#[derive(Clone, Copy)]
pub enum Held<'a> {
    /// Bucket, windows or quota.
    Whole(&'a State),
    /// A log.
    Log(&'a Log),
    /// A window in slots.
    Slots(&'a Slots),
}

impl<W: Write> Writer<W> {
    /// Begins with the head.
    pub fn new(out: W, head: &Head) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER, Summing::new(out));
        let mut writer = Self { out, counters: 0 };
        writer.put(&MAGIC)?;
        writer.put(&FORM.to_le_bytes())?;
        writer.numbers(&[head.clock_us, head.wall_us])?;
        writer.put(&(head.limits.len() as u32).to_le_bytes())?;
        for limit in &head.limits {
            writer.put(&[code(limit.algorithm)])?;
            writer.text(limit.domain.as_bytes())?;
            writer.text(limit.id.as_bytes())?;
        }
        Ok(writer)
    }

    /// Writes a counter.
    pub fn counter(&mut self, counter: &Leaving<'_>) -> io::Result<()> {
        self.put(&counter.limit.to_le_bytes())?;
        self.text(counter.key)?;
        self.numbers(&[counter.n, counter.period_us])?;
        match counter.held {
            Held::Whole(State::Bucket(bucket)) => {
                self.numbers(&[bucket.level, bucket.rem, bucket.last])?;
            }
            Held::Whole(State::Windows(windows)) => {
                self.numbers(&[windows.prev, windows.cur, windows.last])?;
            }
            Held::Whole(State::Spent(spent)) => {
                self.numbers(&[spent.count, spent.end, spent.last])?;
            }
            Held::Whole(State::Absent) => self.numbers(&[0; 3])?,
            Held::Whole(State::Log(log)) => self.log(log)?,
            Held::Whole(State::Slots(slots)) => self.slots(slots)?,
            Held::Log(log) => self.log(log)?,
            Held::Slots(slots) => self.slots(slots)?,
        }
        self.counters += 1;
        Ok(())
    }

    /// Ends the file; says how many counters it has.
    pub fn end(mut self) -> io::Result<u64> {
        self.put(&END.to_le_bytes())?;
        self.numbers(&[self.counters])?;
        let summing = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        summing.end()?;
        Ok(self.counters)
    }

    fn log(&mut self, log: &Log) -> io::Result<()> {
        self.put(&(log.len() as u32).to_le_bytes())?;
        log.entries().try_for_each(|(time, cost)| self.numbers(&[time, cost]))
    }

    fn slots(&mut self, slots: &Slots) -> io::Result<()> {
        self.put(&(slots.counts().len() as u32).to_le_bytes())?;
        self.numbers(slots.counts())?;
        self.numbers(&[slots.last])
    }

    fn text(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u16::try_from(bytes.len())
            .map_err(|_| io::Error::other("a name or key of more than 65,535 bytes"))?;
        self.put(&length.to_le_bytes())?;
        self.put(bytes)
    }

    fn numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.put(&number.to_le_bytes()))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }
}
