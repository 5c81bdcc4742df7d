//! What came back: good answers with their times, and everything that makes a run void.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

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

/// The count of a run.
#[derive(Debug)]
pub struct Tally {
    expect: Expect,
    /// Answers outside the measured time are checked like all others but not counted as rate.
    pub is_measuring: bool,
    answers: u64,
    over: u64,
    times: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    last: Vec<u8>,
}

impl Tally {
    pub fn new(expect: Expect) -> Self {
        // Up to a minute in steps of a microsecond, three digits exact.
        let times = Histogram::new_with_bounds(1, 60_000_000, 3)
            .unwrap_or_else(|_| unreachable!("the bounds are constant and legal"));
        Self {
            expect,
            is_measuring: false,
            answers: 0,
            over: 0,
            times,
            errors: BTreeMap::new(),
            last: Vec::new(),
        }
    }

    pub fn error(&mut self, what: impl Into<String>) {
        *self.errors.entry(what.into()).or_default() += 1;
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
        if self.answers == 0 {
            self.last = message.to_vec();
        }
        if self.is_measuring {
            self.answers += 1;
            self.over += u64::from(overall_code == OVER_LIMIT);
            self.times.saturating_record(micros.max(1));
        }
    }

    pub fn report(&self, seconds: f64, cpu: &[(String, f64)]) -> Value {
        let answers = self.answers;
        let per_answer: serde_json::Map<String, Value> = cpu
            .iter()
            .map(|(name, used)| (name.clone(), json!(round(used * 1e6 / answers.max(1) as f64))))
            .collect();
        let share: serde_json::Map<String, Value> =
            cpu.iter().map(|(name, used)| (name.clone(), json!(round(used / seconds)))).collect();
        json!({
            "rate": (answers as f64 / seconds).round(),
            "answers": answers,
            "over_limit": self.over,
            "seconds": round(seconds),
            "p50_us": self.times.value_at_quantile(0.5),
            "p99_us": self.times.value_at_quantile(0.99),
            "max_us": self.times.max(),
            "cpu_us": per_answer,
            "cpu_share": share,
            "errors": self.errors,
            "is_void": answers == 0 || !self.errors.is_empty(),
            "answer": tidegate_load::arguments::to_hex(self.last.get(5..).unwrap_or_default()),
        })
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
