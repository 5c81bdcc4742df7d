//! What comes back on a line: bytes to answers, answers to the batches that wait for them.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::batch::{Answer, Batch, Stage};
use super::call::{By, Kind};
use super::error::{Remedy, StoreError};
use super::line::Line;
use super::resp::{self, Reply};
use super::slots::Redirect;

impl Line {
    /// Reads what is there and ends the batches that it answers; an error says why the
    /// connection is over.
    pub(super) fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Arc<str>> {
        loop {
            let Some(stream) = &mut self.stream else { return Err(Arc::from("closed")) };
            if self.input_end == self.input.len() {
                self.input.resize(self.input_end * 2, 0);
            }
            let mut buffer = ReadBuf::new(&mut self.input[self.input_end..]);
            match stream.poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(error.to_string().into()),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    return Err(Arc::from("closed by the server"));
                }
                Poll::Ready(Ok(())) => self.input_end += buffer.filled().len(),
            }
            let input = std::mem::take(&mut self.input);
            let taken = self.take_replies(&input[..self.input_end]);
            self.input = input;
            let used = taken?;
            self.input.copy_within(used..self.input_end, 0);
            self.input_end -= used;
        }
    }

    fn take_replies(&mut self, input: &[u8]) -> Result<usize, Arc<str>> {
        let mut used = 0;
        loop {
            match resp::parse(&input[used..]) {
                Ok(None) => return Ok(used),
                Ok(Some((reply, length))) => {
                    used += length;
                    let Some(batch) = self.in_flight.pop_front() else {
                        return Err(Arc::from("an answer that nothing was asked for"));
                    };
                    self.answer(batch, &reply)?;
                }
                Err(resp::NotResp) => return Err(Arc::from("its answers are not RESP")),
            }
        }
    }

    /// Ends a batch by its answer, or sends it again where that is proven safe.
    fn answer(&mut self, batch: Rc<Batch>, reply: &Reply<'_>) -> Result<(), Arc<str>> {
        let (kind, length) = {
            let mut body = batch.body();
            if std::mem::take(&mut body.awaits_word) {
                drop(body);
                self.in_flight.push_front(batch);
                return Ok(());
            }
            (body.call.kind(), body.call.reply_length())
        };
        if let Some(slot) = batch.slot {
            self.busy.remove(slot);
        }
        // Calls that may take their time say nothing of whether decisions come in time.
        let is_prompt = matches!(kind, Kind::Decide | Kind::Probe | Kind::Delete);
        let due = batch.body().first_deadline();
        if is_prompt && self.breaker.is_answered(due) {
            self.shared.health.recovered();
        }
        let mut over = Ok(());
        match (kind, reply) {
            (Kind::Decide, Reply::Bulk(Some(records))) if records.len() == length => {
                self.is_proven = true;
                if self.hold(&batch, records) {
                    return Ok(());
                }
                batch.end(Stage::Answered(Answer::from_slice(records)));
            }
            (Kind::Settle, Reply::Bulk(Some(told))) if told.len() >= length => {
                batch.end(Stage::Answered(Answer::from_slice(told)));
            }
            (Kind::Words, Reply::Integer(number)) => {
                batch.end(Stage::Answered(Answer::from_slice(&number.to_le_bytes())));
            }
            (Kind::Replicas, reply) => self.tell_held(reply),
            (Kind::Probe, _) | (Kind::Delete, Reply::Integer(_)) => {
                batch.end(Stage::Answered(Answer::new()));
            }
            (_, reply) => {
                if let Some((node, events)) = &self.node
                    && let Reply::Error(words) = reply
                    && let Some(redirect) = Redirect::read(words, node)
                    && (redirect == Redirect::Again || batch.body().may_be_redirected())
                {
                    events.stray(node.clone(), batch, redirect);
                    return Ok(());
                }
                let error = match reply {
                    Reply::Error(words) => StoreError::refused(words),
                    _ => StoreError::Protocol,
                };
                let remedy = error.remedy();
                if remedy == Remedy::SendAgain && !batch.body().is_resent {
                    self.send_again(batch);
                    return Ok(());
                }
                let why: Arc<str> = error.to_string().into();
                self.shared.health.failed(&why);
                if let (Some((_, events)), StoreError::Refused { class, .. }) = (&self.node, &error)
                    && class.tells_of_a_change()
                {
                    events.doubt();
                }
                batch.end(Stage::Failed(error));
                if remedy == Remedy::Reconnect {
                    over = Err(why);
                }
            }
        }
        self.recycle(&batch);
        over
    }

    /// The server did not know the script, so the call did not run. One call carries the text;
    /// those that were on the wire with it find the script loaded.
    fn send_again(&mut self, batch: Rc<Batch>) {
        let sequence = {
            let mut body = batch.body();
            body.is_resent = true;
            body.sequence
        };
        let is_loaded = self.loaded_at.is_some_and(|loaded| loaded > sequence);
        self.send(batch, if is_loaded { By::Hash } else { By::Text });
    }
}
