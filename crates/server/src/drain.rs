//! The signal that ends service: raised once, from any thread, seen by every door.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use tokio::sync::watch;

/// Raises the signal; clones raise the same one.
#[derive(Clone, Debug)]
pub struct DrainHandle(watch::Sender<bool>);

/// Sees the signal; clones see the same one.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<bool>);

/// Makes a signal that is not yet raised.
pub fn drain() -> (DrainHandle, Drain) {
    let (raise, see) = watch::channel(false);
    (DrainHandle(raise), Drain(see))
}

impl DrainHandle {
    /// Asks every door to take nothing new and to finish what it has.
    pub fn start(&self) {
        self.0.send_replace(true);
    }

    /// Another observer of this signal.
    pub fn observer(&self) -> Drain {
        Drain(self.0.subscribe())
    }
}

impl Drain {
    /// Whether the signal was raised.
    pub fn is_started(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the signal is raised, and never if its handle went away unraised.
    pub async fn started(mut self) {
        if self.0.wait_for(|started| *started).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The signal as one thread's connections see it: each is woken by it once, and asks for the price
/// of a load. A wait of its own for every connection would be locked at each turn of it.
#[derive(Debug)]
pub struct LocalDrain {
    /// None once it is followed.
    signal: RefCell<Option<Drain>>,
    is_started: Cell<bool>,
    places: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<u32>>,
}

impl LocalDrain {
    /// For the calling thread.
    pub fn new(signal: Drain) -> Rc<Self> {
        Rc::new(Self {
            signal: RefCell::new(Some(signal)),
            is_started: Cell::default(),
            places: RefCell::default(),
            free: RefCell::default(),
        })
    }

    /// Waits for the signal for all who entered.
    fn follow(self: &Rc<Self>, signal: Drain) {
        let local = Rc::clone(self);
        tokio::task::spawn_local(async move {
            signal.started().await;
            local.start();
        });
    }

    fn start(&self) {
        self.is_started.set(true);
        for waker in self.places.take().into_iter().flatten() {
            waker.wake();
        }
    }

    /// Whether the signal was seen here.
    #[inline]
    pub const fn is_started(&self) -> bool {
        self.is_started.get()
    }

    /// Has the task of this waker woken by the signal, as long as the place is held. Inside a
    /// runtime that has `spawn_local`.
    pub fn enter(self: &Rc<Self>, waker: Waker) -> Place {
        let signal = self.signal.take();
        if let Some(signal) = signal {
            self.follow(signal);
        }
        let mut places = self.places.borrow_mut();
        let at = self.free.borrow_mut().pop().unwrap_or_else(|| {
            places.push(None);
            places.len() as u32 - 1
        });
        if let Some(place) = places.get_mut(at as usize) {
            *place = Some(waker);
        }
        Place { drain: Rc::clone(self), at }
    }
}

/// One who waits for the signal, until dropped.
#[derive(Debug)]
pub struct Place {
    drain: Rc<LocalDrain>,
    at: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        // None after the signal, which empties all places.
        let mut places = self.drain.places.borrow_mut();
        let Some(place) = places.get_mut(self.at as usize) else { return };
        let waker = place.take();
        self.drain.free.borrow_mut().push(self.at);
        drop(places);
        // It may be the last to hold its task, whose end may come back here.
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    /// Ends at the signal; counts how often it was woken.
    async fn wait(local: Rc<LocalDrain>, turns: Rc<Cell<u32>>) {
        let mut place = None;
        poll_fn(|cx| {
            turns.set(turns.get() + 1);
            place.get_or_insert_with(|| local.enter(cx.waker().clone()));
            if local.is_started() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[tokio::test]
    async fn all_who_hold_a_place_are_woken_once_by_the_signal() {
        let (handle, signal) = drain();
        let local = LocalDrain::new(signal);
        let turns = Rc::new(Cell::new(0));
        let waiting = async {
            let left = spawn_local(wait(Rc::clone(&local), Rc::default()));
            yield_now().await;
            left.abort();
            assert!(left.await.is_err());
            let all: Vec<_> =
                (0..3).map(|_| spawn_local(wait(Rc::clone(&local), Rc::clone(&turns)))).collect();
            yield_now().await;
            assert_eq!((turns.get(), local.places.borrow().len()), (3, 3), "a place is used again");
            handle.start();
            for one in all {
                one.await.unwrap();
            }
            assert_eq!(turns.get(), 6);
            wait(Rc::clone(&local), Rc::default()).await;
        };
        LocalSet::new().run_until(waiting).await;
    }
}
