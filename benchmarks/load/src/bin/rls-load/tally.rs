//! What rate limit answers say: good ones are counted, all others make the run void.

use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value, json};
use tidegate_load::arguments::to_hex;
use tidegate_load::count::Count;

use crate::answers::{Block, OK, OVER_LIMIT, Verdict};

/// Which overall codes are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Ok,
    Over,
    Either,
}

impl std::str::FromStr for Expect {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "ok" => Ok(Self::Ok),
            "over" => Ok(Self::Over),
            "either" => Ok(Self::Either),
            _ => Err(()),
        }
    }
}

/// The count of a run, and what its first good answer was.
#[derive(Debug)]
pub struct Tally {
    expect: Expect,
    count: Count,
    over: u64,
    first: Vec<u8>,
}

impl Deref for Tally {
    type Target = Count;

    fn deref(&self) -> &Count {
        &self.count
    }
}

impl DerefMut for Tally {
    fn deref_mut(&mut self) -> &mut Count {
        &mut self.count
    }
}

impl Tally {
    pub fn new(expect: Expect) -> Self {
        Self { expect, count: Count::default(), over: 0, first: Vec::new() }
    }

    /// Counts a finished answer: its header blocks, its message, the time it took.
    pub fn answer(&mut self, head: Block, trailer: Block, message: &[u8], micros: u64) {
        match (head.http, trailer.grpc) {
            (Some(200), Some(0)) => {}
            (Some(200), Some(code)) => return self.error(format!("grpc-status {code}")),
            (Some(200), None) => return self.error("no grpc-status"),
            (Some(code), _) => return self.error(format!("HTTP {code}")),
            (None, _) => return self.error("no HTTP status"),
        }
        let Some(Verdict { overall_code, is_degraded }) = crate::answers::read(message) else {
            return self.error("undecodable answer");
        };
        if is_degraded {
            return self.error("degraded");
        }
        let is_right = match self.expect {
            Expect::Ok => overall_code == OK,
            Expect::Over => overall_code == OVER_LIMIT,
            Expect::Either => overall_code == OK || overall_code == OVER_LIMIT,
        };
        if !is_right {
            return self.error(format!("overall_code {overall_code}"));
        }
        if self.first.is_empty() {
            self.first = message.to_vec();
        }
        if self.good(micros) {
            self.over += u64::from(overall_code == OVER_LIMIT);
        }
    }

    pub fn report(&self, seconds: f64, cpu: &[(String, f64)]) -> Map<String, Value> {
        let mut report = self.count.report(seconds, cpu);
        report.insert("over_limit".to_owned(), json!(self.over));
        report.insert("answer".to_owned(), json!(to_hex(self.first.get(5..).unwrap_or_default())));
        report
    }
}
