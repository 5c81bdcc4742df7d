//! The one task behind a wire: connects, reads, times out, connects again.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::connection::Stream;
use super::line::Line;
use super::options::Address;
use super::prober::{self, Question};
use super::wire::Wire;

/// Runs until nobody needs the wire.
pub(super) async fn drive(wire: Rc<Wire>) {
    let mut closing = pin!(wire.closing.notified());
    tokio::select! {
        biased;
        () = &mut closing => {}
        () = keep_connected(&wire) => {}
    }
    let shared = Arc::clone(&wire.line.borrow().shared);
    if wire.line.borrow().is_up() {
        shared.health.disconnected();
    }
    wire.line.borrow_mut().down(Arc::from("closed"));
}

/// How the service of one connection ended.
enum Ended {
    /// The connection is over.
    Over(Arc<str>),
    /// It waits for replicas in vain, and another one takes its place.
    Short(Stream, Question),
}

async fn keep_connected(wire: &Rc<Wire>) {
    let shared = Arc::clone(&wire.line.borrow().shared);
    let mut backoff = Backoff::new();
    loop {
        let address = wire.line.borrow().address();
        let why = match open(wire, &address).await {
            Ok((stream, warnings)) => {
                shared.health.connected(warnings);
                wire.line.borrow_mut().up(stream);
                wire.tried.notify_waiters();
                let ended = serve(wire).await;
                shared.health.disconnected();
                // A connection on which nothing was ever answered must not make the next
                // attempt come sooner.
                if wire.line.borrow().is_proven {
                    backoff.reset();
                }
                match ended {
                    Ended::Over(why) => why,
                    Ended::Short(stream, question) => {
                        let asking = prober::probe(Rc::downgrade(wire), stream, question);
                        tokio::task::spawn_local(asking);
                        continue;
                    }
                }
            }
            Err(why) => why,
        };
        shared.health.failed(&why);
        if let Some((_, events)) = &wire.line.borrow().node {
            events.doubt();
        }
        wire.line.borrow_mut().down(why);
        wire.tried.notify_waiters();
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Connects. What waits for a connection in place of another waits no longer than for an answer, and
/// who waits there no longer than until its deadline.
async fn open(wire: &Wire, address: &Address) -> Result<(Stream, Vec<String>), Arc<str>> {
    let shared = Arc::clone(&wire.line.borrow().shared);
    let mut opening = pin!(Stream::open(&shared.options, address));
    if wire.line.borrow().held.is_renewing() {
        wire.line.borrow_mut().looks_at = None;
        let mut timer = pin!(sleep_until(Instant::now()));
        let opened = poll_fn(|cx| {
            let opened = opening.as_mut().poll(cx);
            if opened.is_pending() {
                // With nothing on the wire, no connection is stuck.
                let _ = poll_deadlines(&mut wire.line.borrow_mut(), timer.as_mut(), cx);
            }
            opened
        });
        if let Ok(opened) = timeout(shared.patience, opened).await {
            return opened;
        }
        wire.line.borrow_mut().down(Arc::from("the next attempt to connect is under way"));
    }
    opening.await
}

/// Serves one connection until it is over.
async fn serve(wire: &Wire) -> Ended {
    let mut timer = pin!(sleep_until(Instant::now()));
    wire.line.borrow_mut().looks_at = None;
    poll_fn(|cx| {
        let line = &mut *wire.line.borrow_mut();
        if !line.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            line.driver = Some(cx.waker().clone());
        }
        if let Poll::Ready(why) = line.poll(cx) {
            return Poll::Ready(Ended::Over(why));
        }
        if let Err(why) = poll_deadlines(line, timer.as_mut(), cx) {
            return Poll::Ready(Ended::Over(why));
        }
        match line.waits_in_vain().then(|| line.part()).flatten() {
            Some((stream, question)) => Poll::Ready(Ended::Short(stream, question)),
            None => Poll::Pending,
        }
    })
    .await
}

/// One timer for all: while requests flow it goes off once in a deadline's span, not per request.
fn poll_deadlines(
    line: &mut Line,
    mut timer: Pin<&mut Sleep>,
    cx: &mut Context<'_>,
) -> Result<(), Arc<str>> {
    if line.looks_at.is_some() && timer.as_mut().poll(cx).is_pending() {
        return Ok(());
    }
    loop {
        line.looks_at = line.expire()?;
        let Some(next) = line.looks_at else { return Ok(()) };
        timer.as_mut().reset(Instant::from_std(next.instant()));
        if timer.as_mut().poll(cx).is_pending() {
            return Ok(());
        }
    }
}
