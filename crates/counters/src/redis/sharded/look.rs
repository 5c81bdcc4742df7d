//! What all parts of a counter say together.

use smallvec::SmallVec;
use tidegate_core::{Action, Algorithm, Numbers, Outcome, PlannedOp, share};

use super::known::Known;
use super::place::Share;

/// A part that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// What it has of N.
    pub(super) share: u64,
    /// Units taken, above its share too where N was lowered. Of one that is silent all of it.
    pub(super) used: u64,
    /// Microseconds until its window ends, or it holds nothing.
    pub(super) reset_us: u64,
    /// Of a log that is full: microseconds until the next entry leaves it.
    next_us: Option<u64>,
    pub(super) is_silent: bool,
}

/// A counter that was looked at.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) parts: SmallVec<[Part; 8]>,
    numbers: Numbers,
    algorithm: Algorithm,
}

/// What is asked of each part: first how much of the whole limit it leaves, which says what is
/// taken even beyond its share; of a log also when the next unit fits it.
pub(super) fn questions(op: &PlannedOp<'_>, at: u8, of: u8) -> impl Iterator<Item = u64> {
    let next = (op.rule.algorithm == Algorithm::SlidingLog).then(|| share(op.numbers.n, at, of));
    std::iter::once(op.numbers.n).chain(next)
}

impl Looked {
    /// Reads the answers to the [`questions`] of all parts, and keeps in mind what they say.
    pub(super) fn read<'o>(
        op: &PlannedOp<'_>,
        known: &mut Known,
        told: &mut impl Iterator<Item = &'o Outcome>,
        now_us: u64,
    ) -> Self {
        let (numbers, algorithm, of) = (op.numbers, op.rule.algorithm, known.of());
        let mut parts = SmallVec::new();
        for at in 0..of {
            let share = share(numbers.n, at, of);
            let answers: SmallVec<[&Outcome; 2]> =
                questions(op, at, of).zip(&mut *told).map(|(_, told)| told).collect();
            let (Some(whole), Some(own)) = (answers.first(), answers.last()) else { break };
            let is_silent = whole.is_unasked || own.is_unasked;
            parts.push(Part {
                share,
                used: if is_silent { share } else { numbers.n.saturating_sub(whole.remaining) },
                reset_us: whole.reset_us,
                next_us: own.wait_us.filter(|_| answers.len() > 1 && !own.fits),
                is_silent,
            });
        }
        let looked = Self { parts, numbers, algorithm };
        let room = looked.room();
        for (at, part) in (0..of).zip(&looked.parts).filter(|(_, part)| !part.is_silent) {
            let told = Outcome {
                fits: part.next_us.is_none(),
                wait_us: part.next_us,
                reset_us: part.reset_us,
                ..Outcome::SHUT
            };
            known.note(at, algorithm, part.room().min(room), &told, now_us);
        }
        if looked.is_uneven() {
            known.note_uneven(looked.reset_us(), now_us);
        } else if looked.parts.iter().all(|part| !part.is_silent) {
            known.note_uneven(0, now_us);
        }
        looked
    }

    /// Units that all parts have together; none where more is taken than there is.
    pub(super) fn room(&self) -> u64 {
        self.numbers.n.saturating_sub(self.used())
    }

    pub(super) fn used(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.used))
    }

    /// True if some part holds more than its share, as after a lowering of N.
    pub(super) fn is_uneven(&self) -> bool {
        self.parts.iter().any(|part| part.used > part.share)
    }

    /// One of the parts that do not answer, if there are any: `draw` is any number.
    pub(super) fn silent(&self, draw: u64) -> Option<u8> {
        let silent = (0..).zip(&self.parts).filter(|(_, part)| part.is_silent);
        let silent: SmallVec<[u8; 8]> = silent.map(|(at, _)| at).collect();
        silent.get(draw as usize % silent.len().max(1)).copied()
    }

    /// True if a silent part may hold what the others lack.
    pub(super) fn may_have(&self, cost: u64) -> bool {
        let silent = self.parts.iter().filter(|part| part.is_silent);
        let most = silent.fold(self.room(), |sum, part| sum.saturating_add(part.share));
        self.parts.iter().any(|part| part.is_silent) && cost <= most
    }

    /// Microseconds until the last window ends, or nothing is held.
    pub(super) fn reset_us(&self) -> u64 {
        self.parts.iter().map(|part| part.reset_us).max().unwrap_or(0)
    }

    /// The same of the parts that these leave out.
    pub(super) fn reset_beside(&self, shares: &[Share]) -> u64 {
        let others = (0..).zip(&self.parts).filter(|(at, _)| shares.iter().all(|it| it.at != *at));
        others.map(|(_, part)| part.reset_us).max().unwrap_or(0)
    }

    /// Units that all parts have after this was done.
    pub(super) fn room_after(&self, done: Action) -> u64 {
        let n = self.numbers.n;
        match done {
            Action::Peek(_) => self.room(),
            Action::Charge(cost) => n.saturating_sub(self.used().saturating_add(cost)),
            Action::Refund(cost) => n.saturating_sub(self.used().saturating_sub(cost)),
        }
    }

    /// What is said of it to a request of this cost that takes nothing.
    pub(super) fn report(&self, cost: u64, wait_us: Option<u64>) -> Outcome {
        let (remaining, reset_us) = (self.room(), self.reset_us());
        let fits = cost <= remaining;
        let wait_us = if fits { Some(0) } else { wait_us };
        Outcome { fits, remaining, wait_us, reset_us, ..Outcome::SHUT }
    }

    /// How long a request of this cost, which is refused, waits; [`Err`] where that takes one more
    /// question: after how long so many units have left a part, whichever is first.
    pub(super) fn wait_us(&self, cost: u64) -> Result<Option<u64>, u64> {
        if cost > self.numbers.n {
            return Ok(None);
        }
        if self.algorithm != Algorithm::SlidingLog {
            return Ok(Some(self.reset_us()));
        }
        let lacking = cost.saturating_add(self.used()).saturating_sub(self.numbers.n);
        let is_full = |part: &Part| part.is_silent || part.used == part.share;
        if lacking == 1 && self.parts.iter().all(is_full) {
            return Ok(self.parts.iter().filter_map(|part| part.next_us).min());
        }
        Err(lacking.div_ceil(self.parts.len().max(1) as u64))
    }

    /// The question of [`Looked::wait_us`] to each part that holds so many: the cost that the whole
    /// limit refuses in that part until they have left.
    pub(super) fn leaving(&self, units: u64) -> impl Iterator<Item = (u8, u64, Action)> {
        let n = self.numbers.n;
        let holding =
            (0..).zip(&self.parts).filter(move |(_, it)| !it.is_silent && it.used >= units);
        holding.map(move |(at, part)| (at, n, Action::Peek(n - part.used.min(n) + units)))
    }
}

impl Part {
    /// Units that it has left.
    pub(super) fn room(&self) -> u64 {
        self.share.saturating_sub(self.used)
    }
}
