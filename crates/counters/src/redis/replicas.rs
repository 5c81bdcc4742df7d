//! Answers that are held until replicas have what the calls have charged.
//!
//! The server is asked once for all calls that leave together (`WAIT` speaks of everything that
//! its connection wrote before), and what comes meanwhile leaves when it has answered: a
//! connection that waits does nothing else.
//!
//! Its answer is not waited for without end. The time that `WAIT` itself is given the server looks
//! at only now and then, a tenth of a second late where it has nothing else to do. So the answers
//! are told after half of a deadline, and the connection is left to who asks on there
//! ([`super::prober`]); on the next one nothing is held until replicas are up to date again.

use std::rc::Rc;
use std::time::Duration;

use super::batch::{Batch, Stage};
use super::call::Kind;
use super::connection::Stream;
use super::health::Record;
use super::line::Line;
use super::options::RedisOptions;
use super::prober::Question;
use super::resp::{self, Reply};
use crate::clock::Deadline;

/// Replicas that fall behind again so soon after they had caught up are asked after later.
const CALM: Duration = Duration::from_secs(10);

/// What of a line waits for replicas.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// True if calls are on their way that charge and after which nobody has asked yet.
    is_due: bool,
    /// Questions without an answer.
    questions: usize,
    /// Calls with their answers, and when they are told in any case.
    answered: Vec<(Rc<Batch>, Vec<u8>)>,
    until: Option<Deadline>,
    /// From then on nobody waits on this connection.
    gives_up: Option<Deadline>,
    /// True if replicas are known to be behind, so that nothing is held.
    is_short: bool,
    /// True while the next connection is made in place of one that waits.
    is_renewing: bool,
    /// Set once replicas had caught up: a shortage before is one of so many.
    calm: Option<Deadline>,
    shortages: u32,
}

impl Held {
    /// True if further calls stay back.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.questions > 0 || self.gives_up.is_some()
    }

    /// When something must be done without a word of the server.
    pub(super) fn next(&self) -> Option<Deadline> {
        let gives_up = self.gives_up.filter(|gives_up| !gives_up.is_over());
        self.until.into_iter().chain(gives_up).min()
    }

    /// True while calls may wait for the next connection.
    #[inline]
    pub(super) const fn is_renewing(&self) -> bool {
        self.is_renewing
    }

    /// A connection stands again.
    pub(super) const fn renewed(&mut self) {
        self.is_renewing = false;
    }

    /// The connection is over: nobody says what its replicas have.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Rc<Batch>> {
        let Self { is_short, calm, shortages, .. } = *self;
        let left = Self { is_short, calm, shortages, ..Self::default() };
        let held = std::mem::replace(self, left);
        held.answered.into_iter().map(|(batch, _)| batch)
    }
}

impl Line {
    /// Sees that replicas are asked for after this call, if it charges.
    #[inline]
    pub(super) fn expect_replicas(&mut self, is_charging: bool) {
        let is_asking = self.shared.options.wait_replicas > 0 && !self.held.is_short;
        self.held.is_due |= is_charging && is_asking;
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
        self.held.gives_up.get_or_insert(Deadline::after(self.shared.patience * 2));
        self.in_flight.push_back(batch);
    }

    /// Keeps an answer back, if it is of a call that charges.
    pub(super) fn hold(&mut self, batch: &Rc<Batch>, records: &[u8]) -> bool {
        if self.shared.options.wait_replicas == 0 || !batch.body().call.is_charging() {
            return false;
        }
        // One that was sent while replicas were behind has no question after it, though they are back.
        if self.held.is_short || self.held.questions == 0 {
            let decisions = batch.body().aboard().count();
            self.shared.health.unreplicated(decisions, late(&self.shared.options));
            return false;
        }
        self.held.answered.push((Rc::clone(batch), records.to_vec()));
        let gives_up = Deadline::after(self.shared.patience / 2);
        let gives_up = self.held.gives_up.map_or(gives_up, |sooner| sooner.min(gives_up));
        self.held.gives_up = Some(gives_up);
        // The first of the batch is to have its answer in time.
        let until = batch.body().first_deadline().map_or(gives_up, |due| due.min(gives_up));
        self.held.until = self.held.until.into_iter().chain([until]).min();
        self.looks_at = None;
        true
    }

    /// Tells the answers that were held, for the server has said what its replicas have.
    pub(super) fn tell_held(&mut self, reply: &Reply<'_>) {
        self.held.questions -= 1;
        let decisions = self.told();
        let options = &self.shared.options;
        note(reply, decisions, options, &self.shared.health);
        let further = (self.held.questions > 0).then_some(self.shared.patience * 2);
        let most = if is_short(reply, options) { Some(Duration::ZERO) } else { further };
        self.held.gives_up = most.map(Deadline::after);
    }

    /// Tells what was held long enough: it stands, and is not to come too late.
    pub(super) fn release(&mut self) {
        if self.held.until.is_some_and(Deadline::is_over) {
            let decisions = self.told();
            self.shared.health.unreplicated(decisions, late(&self.shared.options));
        }
    }

    /// Ends what was held with its answers; says how many decisions these are.
    fn told(&mut self) -> usize {
        self.held.until = None;
        let mut decisions = 0;
        for (batch, records) in std::mem::take(&mut self.held.answered) {
            decisions += batch.body().aboard().count();
            batch.end(Stage::Answered(records.into()));
            self.recycle(&batch);
        }
        decisions
    }

    /// True if the connection waits for nothing but replicas, and has for long enough.
    pub(super) fn waits_in_vain(&self) -> bool {
        self.held.gives_up.is_some_and(Deadline::is_over)
            && self.output.is_empty()
            && self.in_flight.len() == self.held.questions
            && self.held.answered.is_empty()
    }

    /// Leaves the connection to who asks on there. What waits here goes on the next one.
    pub(super) fn part(&mut self) -> Option<(Stream, Question)> {
        let stream = self.stream.take()?;
        self.in_flight.clear();
        self.input_end = 0;
        let is_again = self.held.calm.is_some_and(|calm| !calm.is_over());
        self.held.shortages = if is_again { self.held.shortages.saturating_add(1) } else { 0 };
        let question = Question {
            replicas: self.shared.options.wait_replicas,
            asked: std::mem::take(&mut self.held.questions),
            shortages: self.held.shortages,
        };
        self.held.gives_up = None;
        (self.held.is_short, self.held.is_renewing) = (true, true);
        Some((stream, question))
    }

    /// Replicas have caught up, or nobody asks any more.
    pub(super) fn replicas_are_back(&mut self) {
        (self.held.is_short, self.held.calm) = (false, Some(Deadline::after(CALM)));
        self.shared.health.replicated();
    }
}

/// Appends the question. It may take half of a decision's deadline, as far as the server looks.
pub(super) fn append_wait(out: &mut Vec<u8>, options: &RedisOptions) {
    append_question(out, options.wait_replicas, options.deadline / 2);
}

/// Appends a question after so many replicas.
pub(super) fn append_question(out: &mut Vec<u8>, replicas: u32, most: Duration) {
    let most_ms = most.as_millis().max(1).to_string();
    resp::append_command(out, &[b"WAIT", replicas.to_string().as_bytes(), most_ms.as_bytes()]);
}

/// True if the server says that fewer replicas are up to date than are waited for.
pub(super) fn is_short(reply: &Reply<'_>, options: &RedisOptions) -> bool {
    matches!(reply, Reply::Integer(count) if *count < i64::from(options.wait_replicas))
}

/// What is said where nobody has told how many replicas have the last charges.
pub(super) fn late(options: &RedisOptions) -> String {
    let wanted = options.wait_replicas;
    format!(
        "replicas did not have the last charges in time, and {wanted} are waited for: a fail-over \
         may lose counts"
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::call::{By, Call};
    use crate::redis::store::nowhere;

    fn line() -> Line {
        Line::new(nowhere(|options| options.wait_replicas = 1), None)
    }

    /// Puts a call that charges on the wire.
    fn send(line: &mut Line) -> Rc<Batch> {
        let batch = Rc::new(Batch::new(Call::default(), Kind::Decide, None, None));
        batch.body().call.charges_something();
        batch.body().seat(0..0, Deadline::after(Duration::from_secs(5)));
        line.send(Rc::clone(&batch), By::Hash);
        line.ask_for_replicas();
        batch
    }

    #[test]
    fn a_charge_is_held_for_a_question_that_was_asked_and_for_no_other() {
        let mut line = line();
        line.held.is_short = true;
        let unasked = send(&mut line);
        line.replicas_are_back();
        assert!(!line.hold(&unasked, &[]), "nobody asks for its replicas");
        assert!(!line.held.is_waiting() && line.held.next().is_none());
        assert_eq!(line.shared.health.read().unreplicated, 1);
        let asked = send(&mut line);
        assert!(line.hold(&asked, &[]));
        assert!(line.held.is_waiting() && line.held.next().is_some());
    }
}
