//! Answers that are held until replicas have what the calls have charged.
//!
//! The server is asked once for all calls that leave together (`WAIT` speaks of everything that
//! its connection wrote before), and what comes meanwhile leaves when it has answered: a
//! connection that waits does nothing else.

use std::rc::Rc;

use super::batch::{Batch, Stage};
use super::call::Kind;
use super::health::Record;
use super::line::Line;
use super::options::RedisOptions;
use super::resp::{self, Reply};
use crate::clock::Deadline;

/// What of a line waits for replicas.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// True if calls are on their way that charge and after which nobody has asked yet.
    is_due: bool,
    /// Questions without an answer.
    questions: usize,
    /// Calls with their answers.
    answered: Vec<(Rc<Batch>, Vec<u8>)>,
}

impl Held {
    /// True if further calls stay back.
    #[inline]
    pub(super) const fn is_waiting(&self) -> bool {
        self.questions > 0
    }

    /// The calls that are answered and not yet told.
    pub(super) fn batches(&self) -> impl Iterator<Item = &Rc<Batch>> {
        self.answered.iter().map(|(batch, _)| batch)
    }

    /// The connection is over: nobody says what its replicas have.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Rc<Batch>> {
        std::mem::take(self).answered.into_iter().map(|(batch, _)| batch)
    }
}

impl Line {
    /// Sees that replicas are asked for after this call, if it charges.
    #[inline]
    pub(super) fn expect_replicas(&mut self, is_charging: bool) {
        self.held.is_due |= is_charging && self.shared.options.wait_replicas > 0;
    }

    /// Asks for the replicas of what has been put on the wire.
    #[inline]
    pub(super) fn ask_for_replicas(&mut self) {
        if !std::mem::take(&mut self.held.is_due) {
            return;
        }
        append_wait(&mut self.output, &self.shared.options);
        let call = self.spare.pop().unwrap_or_default();
        let batch = Rc::new(Batch::new(call, Kind::Replicas, None, None));
        batch.body().seat(0..0, Deadline::after(self.shared.patience));
        self.held.questions += 1;
        self.in_flight.push_back(batch);
    }

    /// Keeps an answer back, if it is of a call that charges.
    pub(super) fn hold(&mut self, batch: &Rc<Batch>, records: &[u8]) -> bool {
        let is_held = self.shared.options.wait_replicas > 0 && batch.body().call.is_charging();
        if is_held {
            self.held.answered.push((Rc::clone(batch), records.to_vec()));
        }
        is_held
    }

    /// Tells the answers that were held, for the server has said what its replicas have.
    pub(super) fn tell_held(&mut self, reply: &Reply<'_>) {
        self.held.questions -= 1;
        let answered = std::mem::take(&mut self.held.answered);
        let decisions = answered.iter().map(|(batch, _)| batch.body().aboard().count());
        note(reply, decisions.sum(), &self.shared.options, &self.shared.health);
        for (batch, records) in answered {
            batch.end(Stage::Answered(records));
            self.recycle(&batch);
        }
    }
}

/// Appends the question. It may take half of a decision's deadline: where replicas are behind,
/// the decision stands, and is not to come too late.
pub(super) fn append_wait(out: &mut Vec<u8>, options: &RedisOptions) {
    let replicas = options.wait_replicas.to_string();
    let most_ms = (options.deadline / 2).as_millis().max(1).to_string();
    resp::append_command(out, &[b"WAIT", replicas.as_bytes(), most_ms.as_bytes()]);
}

/// Keeps in mind what the server has said of so many decisions.
pub(super) fn note(reply: &Reply<'_>, decisions: usize, options: &RedisOptions, health: &Record) {
    let wanted = options.wait_replicas;
    let words = match reply {
        Reply::Integer(count) if *count >= i64::from(wanted) => return health.replicated(),
        Reply::Integer(count) => format!(
            "{count} replicas had the last charges in time, and {wanted} are waited for: a \
             fail-over may lose counts"
        ),
        Reply::Error(answer) => format!(
            "the store does not say what its replicas have, so a fail-over may lose counts: {}",
            String::from_utf8_lossy(answer)
        ),
        _ => "the store does not say what its replicas have".to_owned(),
    };
    health.unreplicated(decisions, words);
}
