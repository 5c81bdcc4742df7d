//! How many bytes the unfinished requests of one worker may hold together: a bound on each message
//! alone would still let one peer hold gigabytes with many streams.

use std::cell::Cell;
use std::rc::Rc;

/// The room that all share.
#[derive(Debug)]
pub(super) struct Room {
    held: Cell<usize>,
    most: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Rc<Self> {
        Rc::new(Self { held: Cell::new(0), most })
    }
}

/// What one request holds of it, given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: Rc<Room>,
    bytes: usize,
}

impl Share {
    pub(super) fn of(room: &Rc<Room>) -> Self {
        Self { room: Rc::clone(room), bytes: 0 }
    }

    /// Takes this many bytes more. False: there is no room for them.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let held = self.room.held.get() + more;
        if held > self.room.most {
            return false;
        }
        self.room.held.set(held);
        self.bytes += more;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.held.set(self.room.held.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_and_given_back() {
        let room = Room::new(10);
        let (mut one, mut other) = (Share::of(&room), Share::of(&room));
        assert!(one.grow(6));
        assert!(!other.grow(5));
        assert!(other.grow(4));
        drop(one);
        assert!(other.grow(6));
        drop(other);
        assert_eq!(room.held.get(), 0);
    }
}
