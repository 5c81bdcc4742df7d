//! Which of several requests of one task have heard: the task is woken once for all that hear in one
//! turn of the event loop, and looks at no others.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

/// Requests of one task, by place, of which there is something to hear. Stays on its thread.
#[derive(Clone, Debug, Default)]
pub struct News {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Places, as bits.
    heard: Cell<u16>,
    task: RefCell<Option<Waker>>,
}

/// Where one of them says that there is.
#[derive(Debug)]
pub(super) struct Sign {
    news: News,
    bit: u16,
}

impl News {
    /// Places that it tells apart.
    pub const PLACES: usize = u16::BITS as usize;

    /// Those who have heard since this was last asked, as bits. This task is woken for the next.
    #[inline]
    pub fn take(&self, task: &Waker) -> u16 {
        let mut known = self.inner.task.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
        self.inner.heard.take()
    }

    #[inline]
    pub(super) fn sign(&self, at: usize) -> Sign {
        debug_assert!(at < Self::PLACES);
        Sign { news: self.clone(), bit: 1 << at }
    }
}

impl Sign {
    #[inline]
    pub(super) fn set(&self) {
        let Inner { heard, task } = &*self.news.inner;
        let before = heard.replace(heard.get() | self.bit);
        // Who has heard already has woken it.
        if before == 0
            && let Some(task) = &*task.borrow()
        {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wakes {
        fn so_far(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_for_all_that_hear_before_it_asks() {
        let (news, wakes) = (News::default(), Arc::<Wakes>::default());
        let task = Waker::from(Arc::clone(&wakes));
        let signs: Vec<Sign> = (0..News::PLACES).map(|at| news.sign(at)).collect();
        assert_eq!(news.take(&task), 0);
        signs[3].set();
        signs[15].set();
        signs[3].set();
        assert_eq!(wakes.so_far(), 1);
        assert_eq!(news.take(&task), 1 << 3 | 1 << 15);
        assert_eq!(news.take(&task), 0, "told once");
        signs[0].set();
        assert_eq!(wakes.so_far(), 2);
        assert_eq!(news.take(&task), 1);
    }

    #[test]
    fn what_is_heard_before_a_task_is_there_is_told_to_the_first() {
        let (news, wakes) = (News::default(), Arc::<Wakes>::default());
        news.sign(1).set();
        assert_eq!(news.take(Waker::noop()), 2);
        // Who only looked is not who is woken.
        let task = Waker::from(Arc::clone(&wakes));
        news.sign(2).set();
        assert_eq!(news.take(&task), 4);
        assert_eq!(wakes.so_far(), 0);
        news.sign(4).set();
        assert_eq!(wakes.so_far(), 1);
    }
}
