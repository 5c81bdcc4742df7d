//! What a line does about calls that are late: it lets their requests go, asks whether the store is
//! there at all, and ends a connection that is stuck.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::call::{By, Kind};
use super::error::StoreError;
use super::line::Line;
use crate::clock::Deadline;

/// A call without an answer for so long after its deadline ends the connection, so that further
/// requests fail at once instead of after the deadline.
const STUCK_AFTER: Duration = Duration::from_millis(500);

impl Line {
    /// Lets those go whose deadline is over. The next time to look, if anything is outstanding;
    /// an error if the server has been silent for too long.
    pub(super) fn expire(&mut self) -> Result<Option<Deadline>, Arc<str>> {
        self.release();
        let mut next = self.held.next();
        for batch in self.in_flight.iter().chain(self.pending.iter().map(|(_, batch)| batch)) {
            let deadline = batch.expire();
            next = next.into_iter().chain(deadline).min();
        }
        if self.oldest().is_some_and(Deadline::is_over)
            && self.breaker.is_late(self.shared.options.deadline)
        {
            self.shared.health.failed(&StoreError::Silent.to_string().into());
        }
        if self.in_flight.is_empty() && self.breaker.wants_probe() {
            self.probe();
        }
        let stuck = self.oldest().map(|deadline| deadline.plus(STUCK_AFTER));
        if stuck.is_some_and(Deadline::is_over) {
            return Err(Arc::from("the server does not answer"));
        }
        // A request that comes later counts on a timer that goes off within its own patience.
        let tick = stuck.map(|stuck| stuck.min(Deadline::after(self.shared.patience)));
        // No probe is sent before what is on its way has ended.
        let probe = self.breaker.next_probe().filter(|_| self.in_flight.is_empty());
        Ok(next.into_iter().chain(tick).chain(probe).min())
    }

    /// The first deadline of what is on its way.
    fn oldest(&self) -> Option<Deadline> {
        self.in_flight.iter().filter_map(|batch| batch.body().first_deadline()).min()
    }

    fn probe(&mut self) {
        let call = self.spare.pop().unwrap_or_default();
        let batch = Rc::new(Batch::new(call, Kind::Probe, None, None));
        batch.body().seat(0..0, Deadline::after(self.shared.patience));
        self.send(batch, By::Hash);
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::redis::call::Call;
    use crate::redis::store::nowhere;

    const SHORT: Duration = Duration::from_millis(40);

    #[test]
    fn nothing_is_due_while_a_call_is_out_but_its_end_and_then_a_probe_is_sent() {
        let mut line = Line::new(nowhere(|options| options.deadline = SHORT), None);
        let batch = Rc::new(Batch::new(Call::default(), Kind::Decide, None, None));
        batch.body().seat(0..0, Deadline::after(Duration::ZERO));
        line.in_flight.push_back(batch);
        while !line.breaker.is_open() {
            assert!(line.expire().is_ok());
            sleep(SHORT / 4);
        }
        while line.breaker.next_probe().is_some_and(|probe| !probe.is_over()) {
            sleep(SHORT / 4);
        }
        let next = line.expire().unwrap().unwrap();
        assert!(!next.is_over(), "a worker would look again at once, and again");
        assert_eq!(line.in_flight.len(), 1, "no probe yet");
        // It was answered, too late.
        line.in_flight.clear();
        let next = line.expire().unwrap();
        assert!(next.is_some_and(|next| !next.is_over()), "a probe may stay unanswered too");
        let kind = line.in_flight.front().map(|batch| batch.body().call.kind());
        assert_eq!(kind, Some(Kind::Probe));
    }
}
