//! Waiting for several answers at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// A future that is under way, or what came of it.
enum Slot<F: Future> {
    Waiting(Pin<Box<F>>),
    Done(F::Output),
}

/// Runs all to their end; each is first polled in order, in one turn.
pub async fn join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<Slot<F>> = futures.map(|future| Slot::Waiting(Box::pin(future))).collect();
    poll_fn(|cx| {
        let mut is_done = true;
        for slot in &mut slots {
            if let Slot::Waiting(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slot = Slot::Done(output),
                    Poll::Pending => is_done = false,
                }
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let done = |slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Waiting(_) => None,
    };
    slots.into_iter().filter_map(done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[tokio::test]
    async fn outputs_keep_their_order_and_first_polls_are_in_order() {
        let polled = RefCell::new(Vec::new());
        let step = |at: u32| {
            let polled = &polled;
            async move {
                polled.borrow_mut().push(at);
                for _ in at..5 {
                    tokio::task::yield_now().await;
                }
                at * 10
            }
        };
        assert_eq!(join((0..5).map(step)).await, [0, 10, 20, 30, 40]);
        assert_eq!(*polled.borrow(), [0, 1, 2, 3, 4]);
        assert!(join((0..0).map(step)).await.is_empty());
    }
}
