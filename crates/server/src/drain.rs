//! The signal that ends service: raised once, from any thread, seen by every door. And the time as
//! the connections of one thread see it, for they wait for both.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How late an alarm may come. The times of a connection are seconds.
const TICK: Duration = Duration::from_millis(100);

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
/// of a load. A wait of its own for every connection would be locked at each turn of it. The same
/// for alarms, for a timer of its own would be a tenth of a kilobyte of each silent connection.
#[derive(Debug)]
pub struct LocalDrain {
    /// None once it is followed.
    signal: RefCell<Option<Drain>>,
    is_started: Cell<bool>,
    places: RefCell<Vec<Option<Waiting>>>,
    free: RefCell<Vec<u32>>,
    /// From here ticks are counted.
    since: Instant,
    /// The last tick that came.
    tick: Cell<u32>,
    is_ticking: Cell<bool>,
}

#[derive(Debug)]
struct Waiting {
    waker: Waker,
    /// The tick of its alarm.
    alarm: u32,
}

/// Of one who set no alarm, or was woken by it.
const NEVER: u32 = u32::MAX;

impl LocalDrain {
    /// For the calling thread.
    pub fn new(signal: Drain) -> Rc<Self> {
        Rc::new(Self {
            signal: RefCell::new(Some(signal)),
            is_started: Cell::default(),
            places: RefCell::default(),
            free: RefCell::default(),
            since: Instant::now(),
            tick: Cell::default(),
            is_ticking: Cell::default(),
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
        for waiting in self.places.borrow().iter().flatten() {
            waiting.waker.wake_by_ref();
        }
    }

    /// Ticks as long as anyone holds a place.
    fn start_ticking(self: &Rc<Self>) {
        let local = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                sleep(TICK).await;
                if !local.ring() {
                    break;
                }
            }
            local.is_ticking.set(false);
        });
    }

    /// Wakes all whose alarm has come. False: nobody holds a place.
    fn ring(&self) -> bool {
        let tick = ticks(self.since.elapsed().as_nanos() / TICK.as_nanos());
        self.tick.set(tick);
        let mut places = self.places.borrow_mut();
        for waiting in places.iter_mut().flatten() {
            if waiting.alarm <= tick {
                waiting.alarm = NEVER;
                waiting.waker.wake_by_ref();
            }
        }
        places.len() > self.free.borrow().len()
    }

    /// Whether the signal was seen here.
    #[inline]
    pub const fn is_started(&self) -> bool {
        self.is_started.get()
    }

    /// Has the task of this waker woken by the signal, as long as the place is held; its alarm is
    /// due at once. Inside a runtime that has `spawn_local`.
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
            *place = Some(Waiting { waker, alarm: NEVER });
        }
        Place { drain: Rc::clone(self), at, alarm: 0 }
    }
}

/// A number of ticks; as many as can be counted are years.
fn ticks(count: u128) -> u32 {
    count.min(u128::from(NEVER - 1)) as u32
}

/// One who waits for the signal and for an alarm, until dropped.
#[derive(Debug)]
pub struct Place {
    drain: Rc<LocalDrain>,
    at: u32,
    alarm: u32,
}

impl Place {
    /// Whether the alarm has come. Asks no clock.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.alarm <= self.drain.tick.get()
    }

    /// Sets the alarm anew: never before this time, and at most a tick after it.
    pub fn wake_at(&mut self, when: Instant) {
        let after = when.saturating_duration_since(self.drain.since);
        self.alarm = ticks(after.as_nanos().div_ceil(TICK.as_nanos()));
        if let Some(Some(waiting)) = self.drain.places.borrow_mut().get_mut(self.at as usize) {
            waiting.alarm = self.alarm;
        }
        if !self.drain.is_ticking.replace(true) {
            self.drain.start_ticking();
        }
    }

    /// Has the alarm due at once.
    pub const fn make_due(&mut self) {
        self.alarm = 0;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.drain.places.borrow_mut();
        let Some(place) = places.get_mut(self.at as usize) else { return };
        let waiting = place.take();
        self.drain.free.borrow_mut().push(self.at);
        drop(places);
        // It may be the last to hold its task, whose end may come back here.
        drop(waiting);
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
    #[tokio::test(start_paused = true)]
    async fn alarm_comes_within_a_tick_of_its_time_and_ticking_ends_with_the_last_place() {
        let (_handle, signal) = drain();
        let local = LocalDrain::new(signal);
        let alarmed = async {
            let mut place = None;
            let (start, mut is_set) = (Instant::now(), false);
            let when = start + TICK * 3 / 2;
            poll_fn(|cx| {
                let place = place.get_or_insert_with(|| local.enter(cx.waker().clone()));
                if !place.is_due() {
                    return Poll::Pending;
                }
                if is_set {
                    return Poll::Ready(());
                }
                is_set = true;
                place.wake_at(when);
                Poll::Pending
            })
            .await;
            let late = when.elapsed();
            assert!(start.elapsed() >= TICK * 3 / 2 && late <= TICK, "{late:?}");
            drop(place);
            sleep(TICK * 2).await;
            assert!(!local.is_ticking.get());
        };
        LocalSet::new().run_until(alarmed).await;
    }
}
