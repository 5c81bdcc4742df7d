//! One split counter as a worker knows it: where its parts lie, and what they said last.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tidegate_core::{Action, Algorithm, LimitUid, Outcome, Part, Plan, PlannedOp, share};

use crate::redis::keys::Keys;

/// Requests that follow one another to one part: as many as some calls take. What waits together
/// still leaves together then, where each for itself would make more calls of fewer requests.
pub(super) const STAY: u16 = 512;
/// The same while there is always something under way to that part: who leaves it then parts those
/// that come from those that return, and each of the two makes calls of its own from there on. Not
/// much longer, for a part that has just fallen silent has something under way, too.
pub(super) const LONGEST_STAY: u16 = 2 * STAY;
/// An anchor with what follows it stands in a key as it is up to 64 bytes.
const LONGEST_ANCHOR: usize = 56;
const HASH_BYTES: usize = 16;

/// A counter.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) limit: LimitUid,
    pub(super) values: Box<[u8]>,
    pub(super) parts: Box<[Seen]>,
    /// The anchor up to the number that each part has behind it.
    anchor: SmallVec<[u8; 64]>,
    /// The N that what is known belongs to.
    n: u64,
    /// Until when all parts are looked at for each charge, since after a lowering of N some may hold
    /// more than their share, which the others lack then; unix microseconds.
    uneven_until_us: u64,
    /// Where the last requests went, and how many of them.
    at: u8,
    stayed: u16,
}

/// A part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    number: u16,
    pub(super) slot: u16,
    /// The room that it had, and until when: some of what was taken is still taken then. Until when
    /// nobody who needs more need ask. Unix microseconds.
    room: u64,
    room_until_us: u64,
    refuses_until_us: u64,
}

/// How it stands with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Its server is not asked.
    Shut,
    /// Nothing is under way to it.
    Free,
    Busy,
}

/// Where a charge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// To this part.
    Part(u8),
    /// None is known to have room: all must be looked at.
    Look,
}

impl Known {
    pub(super) fn new<'r>(keys: &Keys, plan: &Plan<'r>, op: &PlannedOp<'r>) -> Self {
        let anchor = plan.anchor(op).unwrap_or(op.rule.id.as_bytes());
        let anchor = base(anchor);
        let of = op.rule.consistency.parts();
        let seen = |at| {
            let (number, slot) = keys.number_in_stretch(op.rule, &anchor, at, of);
            Seen { number, slot, room: 0, room_until_us: 0, refuses_until_us: 0 }
        };
        let parts = (0..of).map(seen).collect();
        let (limit, values) = (op.rule.uid, plan.key(op).into());
        Self { limit, values, parts, anchor, n: op.numbers.n, uneven_until_us: 0, at: 0, stayed: 0 }
    }

    /// How many parts there are.
    pub(super) fn of(&self) -> u8 {
        self.parts.len() as u8
    }

    /// What was known under another N says nothing of the room under this one.
    pub(super) fn renumber(&mut self, n: u64) {
        if self.n != n {
            if n < self.n {
                self.uneven_until_us = u64::MAX;
            }
            self.n = n;
            self.forget();
        }
    }

    /// Knows nothing of the room any more.
    pub(super) fn forget(&mut self) {
        for part in &mut self.parts {
            (part.room_until_us, part.refuses_until_us) = (0, 0);
        }
    }

    /// Appends what is to be done with a part that has `n` units.
    pub(super) fn push<'r>(
        &self,
        derived: &mut Plan<'r>,
        (plan, op): (&Plan<'r>, &PlannedOp<'r>),
        (at, n): (u8, u64),
        action: Action,
    ) {
        let mut digits = Vec::with_capacity(5);
        let number = self.parts.get(usize::from(at)).map_or(0, |part| part.number);
        crate::redis::resp::append_number(&mut digits, number.into());
        let mut anchor = self.anchor.clone();
        anchor.extend_from_slice(&digits);
        derived.push_part(plan, op, &Part { at, of: self.of(), anchor: &anchor }, n, action);
    }

    /// Chooses a part for a charge: the one of those before it, else one at random that is not
    /// known to be full and whose server is well. `draw` is any number.
    pub(super) fn pick(
        &mut self,
        cost: u64,
        now_us: u64,
        draw: u64,
        way: impl Fn(u16) -> Way,
    ) -> Pick {
        if now_us < self.uneven_until_us {
            return Pick::Look;
        }
        let of = self.of();
        let may = |known: &Self, at: u8| known.may_have_room(at, cost, now_us);
        let way = |known: &Self, at: u8| way(known.parts[usize::from(at)].slot);
        let stands = |known: &Self, at: u8| way(known, at) != Way::Shut;
        let stays = match way(self, self.at) {
            Way::Shut => false,
            Way::Free => (1..STAY).contains(&self.stayed),
            Way::Busy => (1..LONGEST_STAY).contains(&self.stayed),
        };
        if stays && may(self, self.at) {
            self.stayed += 1;
            return Pick::Part(self.at);
        }
        let first = (draw % u64::from(of)) as u8;
        let mut all =
            (0..of).map(|step| ((u16::from(first) + u16::from(step)) % u16::from(of)) as u8);
        if let Some(at) = all.find(|at| may(self, *at) && stands(self, *at)) {
            (self.at, self.stayed) = (at, 1);
            return Pick::Part(at);
        }
        // Where no server is well, one of them says so at once.
        let is_lost = !(0..of).any(|at| stands(self, at)) && cost <= share(self.n, first, of);
        if is_lost { Pick::Part(first) } else { Pick::Look }
    }

    fn may_have_room(&self, at: u8, cost: u64, now_us: u64) -> bool {
        let part = self.parts[usize::from(at)];
        cost <= share(self.n, at, self.of())
            && (now_us >= part.refuses_until_us || cost <= part.room)
    }

    /// Takes note of the room that a part has, by what it said of itself.
    pub(super) fn note(
        &mut self,
        at: u8,
        algorithm: Algorithm,
        room: u64,
        told: &Outcome,
        now_us: u64,
    ) {
        let Some(part) = self.parts.get_mut(usize::from(at)) else { return };
        if told.is_unasked {
            return;
        }
        // A window keeps what was taken until its end, a log frees some each time an entry leaves it.
        let refuses_us = match algorithm {
            Algorithm::SlidingLog => told.wait_us.filter(|_| !told.fits).unwrap_or(0),
            _ => told.reset_us,
        };
        part.room = room;
        part.room_until_us = now_us.saturating_add(told.reset_us);
        part.refuses_until_us = now_us.saturating_add(refuses_us);
    }

    /// Takes note of how long parts may hold more than their share; zero: none does.
    pub(super) fn note_uneven(&mut self, for_us: u64, now_us: u64) {
        self.uneven_until_us = if for_us == 0 { 0 } else { now_us.saturating_add(for_us) };
    }

    /// Units that all parts have together, as far as is known: what is not known counts whole.
    pub(super) fn room(&self, now_us: u64) -> u64 {
        let of = self.of();
        let room = |(at, part): (usize, &Seen)| {
            let whole = share(self.n, at as u8, of);
            if now_us < part.room_until_us { part.room.min(whole) } else { whole }
        };
        self.parts.iter().enumerate().map(room).sum()
    }
}

/// The anchor of a counter, short enough for a number behind it.
fn base(anchor: &[u8]) -> SmallVec<[u8; 64]> {
    let mut base = SmallVec::new();
    if anchor.len() <= LONGEST_ANCHOR {
        base.extend_from_slice(anchor);
    } else {
        base.extend_from_slice(&Sha256::digest(anchor)[..HASH_BYTES]);
    }
    base.push(b'~');
    base
}
