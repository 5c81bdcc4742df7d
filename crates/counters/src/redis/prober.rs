//! Asking on after replicas that are behind, on a connection that nobody waits for.
//!
//! It is the one on which a charge was not confirmed: the server says there when replicas have that
//! charge, even after a restart of theirs.

use std::rc::Weak;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection::Stream;
use super::options::RedisOptions;
use super::replicas::append_question;
use super::resp::Reply;
use super::socket::Socket;
use super::wire::Wire;
use crate::clock::Deadline;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Before the first answer is taken where replicas come and go: the first time, and at most.
const REST: Duration = Duration::from_millis(25);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// A server that says nothing for so long is of no use: the next charge finds out.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a question may take. The server takes longer where it likes.
const MOST: Duration = Duration::from_millis(1);

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// So many are to be up to date.
    pub(super) replicas: u32,
    /// Questions without an answer so far.
    pub(super) asked: usize,
    /// How often they were behind lately.
    pub(super) shortages: u32,
}

impl Question {
    fn rest(self) -> Duration {
        let doubled = self.shortages.saturating_sub(1).min(10);
        if self.shortages == 0 { Duration::ZERO } else { (REST * (1 << doubled)).min(LONGEST_REST) }
    }

    fn is_enough(self, reply: &Reply<'_>) -> bool {
        matches!(reply, Reply::Integer(count) if *count >= i64::from(self.replicas))
    }
}

/// Asks until replicas are up to date or the connection is over, and tells the line.
pub(super) async fn probe(wire: Weak<Wire>, mut stream: Stream, mut question: Question) {
    sleep(question.rest()).await;
    loop {
        let mut words = Vec::new();
        if question.asked == 0 {
            append_question(&mut words, question.replicas, MOST);
            question.asked = 1;
        }
        let take = |reply: &Reply<'_>| {
            question.asked -= 1;
            Ok((question.asked == 0).then(|| question.is_enough(reply)))
        };
        let told = timeout(PATIENCE, stream.ask(&words, take)).await;
        let Some(wire) = wire.upgrade() else { return };
        if !matches!(told, Ok(Ok(false))) {
            return wire.line.borrow_mut().replicas_are_back();
        }
        drop(wire);
        sleep(PAUSE).await;
    }
}

/// The same for callers that block: it goes on with each call of theirs.
#[derive(Debug)]
pub(super) struct Probe {
    socket: Socket,
    question: Question,
    /// When to ask, or until when an answer is of use.
    next: Deadline,
}

impl Probe {
    /// Asks on at a socket, `is_asked` if a question has no answer yet.
    pub(super) fn new(socket: Socket, options: &RedisOptions, is_asked: bool) -> Self {
        let (replicas, asked) = (options.wait_replicas, usize::from(is_asked));
        let next = Deadline::after(if is_asked { PATIENCE } else { PAUSE });
        Self { socket, question: Question { replicas, asked, shortages: 0 }, next }
    }

    /// True once replicas are up to date, or nobody says so any more. Does not wait.
    pub(super) fn is_over(&mut self) -> bool {
        if self.question.asked == 0 {
            if !self.next.is_over() {
                return false;
            }
            let mut words = Vec::new();
            append_question(&mut words, self.question.replicas, MOST);
            (self.question.asked, self.next) = (1, Deadline::after(PATIENCE));
            return self.socket.write(&words, Deadline::after(MOST)).is_err();
        }
        let question = self.question;
        match self.socket.said(|reply| question.is_enough(reply)) {
            Ok(None) => self.next.is_over(),
            Ok(Some(false)) => {
                (self.question.asked, self.next) = (0, Deadline::after(PAUSE));
                false
            }
            Ok(Some(true)) | Err(_) => true,
        }
    }
}
