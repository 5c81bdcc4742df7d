//! One shard: records in chunks, found through a table of their numbers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;
use tidegate_core::algorithms::State;
use tidegate_core::algorithms::sliding_log::Log;
use tidegate_core::algorithms::slots::{Shape, Slots};
use tidegate_core::{Algorithm, Numbers};

use super::foresight::{Whereabouts, foresee};
use super::forms::{Form, Forms};
use super::index::{Index, Place};
use super::record::{Key, Packed, Record};
use super::saved::Held;

/// Records are kept in chunks, so that growth copies none of them.
const CHUNK: usize = 256;
/// Records that an insert at the cap looks at.
const LOOKS: usize = 16;
/// The form of a place that no counter stands in.
const NOBODY: Form = Form::empty(u32::MAX);
/// Shared counters of a limit, over all shards.
pub const FOLDS: usize = 4096;

pub type Seeds = foldhash::fast::RandomState;

/// What all shards of a store share.
#[derive(Debug)]
pub struct Shared {
    pub seeds: Seeds,
    pub cap: usize,
    pub shards: usize,
    /// Counters held or reserved, shared ones not counted. Relaxed: orders no other memory.
    pub held: AtomicUsize,
    /// Decisions taken on a shared counter. Relaxed: a metric.
    pub folded: AtomicUsize,
}

impl Shared {
    #[inline]
    pub fn hash(&self, limit: u32, key: &[u8]) -> u64 {
        let mut hasher = self.seeds.build_hasher();
        hasher.write_u32(limit);
        hasher.write(key);
        hasher.finish()
    }

    fn hash_of(&self, limit: u32, key: &Key) -> u64 {
        match key {
            Key::Folded(number) => self.seeds.hash_one((limit, *number, "folded")),
            key => self.hash(limit, key.bytes().unwrap_or_default()),
        }
    }

    /// Takes one of the places under the cap, if any is left.
    fn take_place(&self) -> bool {
        let is_taken = self.held.fetch_add(1, Ordering::Relaxed) < self.cap;
        if !is_taken {
            self.leave_place();
        }
        is_taken
    }

    fn leave_place(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Near the cap the last places are kept from a limit that holds over half of them.
    fn is_nearly_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.cap - self.cap / 16
    }
}

/// A state that does not fit into a record.
#[derive(Debug)]
enum Large {
    Log(Box<Log>),
    /// With how it is split.
    Slots(Box<Slots>, Shape),
}

#[derive(Debug, Default)]
pub struct Shard {
    index: Index,
    chunks: Vec<Vec<Record>>,
    forms: Forms,
    free: Vec<Place>,
    hand: usize,
    large: Vec<Option<Large>>,
    free_large: Vec<u32>,
    /// Counters held by each limit.
    by_limit: HashMap<u32, usize>,
}

#[inline]
fn record(chunks: &[Vec<Record>], place: Place) -> &Record {
    &chunks[place as usize / CHUNK][place as usize % CHUNK]
}

impl Shard {
    #[inline]
    fn record(&self, place: Place) -> &Record {
        record(&self.chunks, place)
    }

    #[inline]
    fn record_mut(&mut self, place: Place) -> &mut Record {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    #[inline]
    fn form(&self, place: Place) -> Form {
        self.forms.get(self.record(place).form())
    }

    /// The record of a key.
    #[inline]
    pub fn find(&self, hash: u64, limit: u32, key: &[u8]) -> Option<Place> {
        self.index.find(hash, |place| {
            let record = self.record(place);
            record.key.bytes() == Some(key) && self.forms.get(record.form()).limit == limit
        })
    }

    /// Brings what is probably the record of a key into the cache.
    #[inline]
    pub fn foresee(&self, hash: u64, whereabouts: &Whereabouts) {
        whereabouts.note(self.index.slots());
        if let Some(place) = self.index.find(hash, |_| true) {
            foresee(self.record(place));
        }
    }

    /// The state of a record; a large one is moved out until [`Shard::write`] brings it back.
    #[inline]
    pub fn read(&mut self, place: Place) -> State {
        match self.record(place).unpack(self.form(place)) {
            Packed::Whole(state) => state,
            Packed::At(at) => match self.large[at as usize].take() {
                Some(Large::Log(log)) => State::Log(log),
                Some(Large::Slots(slots, _)) => State::Slots(slots),
                None => State::Absent,
            },
        }
    }

    /// Puts a state into a record.
    #[inline]
    pub fn write(&mut self, place: Place, algorithm: Algorithm, numbers: &Numbers, state: State) {
        let period_us = numbers.period_us;
        let last = self.record(place).form();
        let limit = self.forms.get(last).limit;
        let (n, period_us) = match &state {
            State::Bucket(bucket) => (bucket.n, bucket.period_us),
            // It keeps its end itself, and the length of a month is no form.
            State::Spent(_) => (0, 1),
            State::Absent | State::Windows(_) | State::Log(_) | State::Slots(_) => (0, period_us),
        };
        let large = match state {
            State::Log(log) => Large::Log(log),
            State::Slots(slots) => Large::Slots(slots, Shape::of(numbers)),
            state => {
                let id = self.forms.id(Form { limit, algorithm, n, period_us }, last);
                return self.record_mut(place).pack(id, &state);
            }
        };
        let at = self.large_place(place);
        self.large[at as usize] = Some(large);
        let id = self.forms.id(Form { limit, algorithm, n, period_us }, last);
        self.record_mut(place).pack_at(id, at);
    }

    /// Where the large state of a record stands, or a new place for it.
    fn large_place(&mut self, place: Place) -> u32 {
        if let Packed::At(at) = self.record(place).unpack(self.form(place)) {
            return at;
        }
        self.free_large.pop().unwrap_or_else(|| {
            self.large.push(None);
            self.large.len() as u32 - 1
        })
    }

    /// A place for a new counter, or none where the store is full of live ones. `pinned` are the
    /// records that the request under way stands on.
    pub fn place_for(
        &mut self,
        shared: &Shared,
        limit: u32,
        now: u64,
        pinned: &[Place],
    ) -> Option<Place> {
        let is_greedy = shared.is_nearly_full()
            && self.by_limit.get(&limit).is_some_and(|held| held * shared.shards > shared.cap / 2);
        if !is_greedy && shared.take_place() {
            return Some(self.grow());
        }
        let place = self.unused_place(now, pinned)?;
        self.remove(shared, place);
        shared.held.fetch_add(1, Ordering::Relaxed);
        self.free.pop()
    }

    fn grow(&mut self) -> Place {
        if let Some(place) = self.free.pop() {
            return place;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let at = self.chunks.len() - 1;
        let chunk = &mut self.chunks[at];
        let nobody = self.forms.id(NOBODY, 0);
        chunk.push(Record::new(nobody, Key::Folded(0)));
        (at * CHUNK + chunk.len() - 1) as Place
    }

    /// Looks at the next few records under the hand for one that holds nothing.
    fn unused_place(&mut self, now: u64, pinned: &[Place]) -> Option<Place> {
        let records = self.chunks.iter().map(Vec::len).sum::<usize>();
        for _ in 0..LOOKS.min(records) {
            let place = (self.hand % records) as Place;
            self.hand = (self.hand + 1) % records;
            let record = self.record(place);
            if record.key.bytes().is_some()
                && !pinned.contains(&place)
                && self.is_unused(record, now)
            {
                return Some(place);
            }
        }
        None
    }

    /// The limits that have counters here.
    pub fn limits(&self) -> impl Iterator<Item = u32> {
        self.by_limit.iter().filter(|(_, held)| **held > 0).map(|(limit, _)| *limit)
    }

    /// Shows each counter that holds something at `now`; says how many shared ones do, which are
    /// not shown. The first error ends it.
    pub fn visit<E>(
        &self,
        now: u64,
        mut show: impl FnMut(Form, &[u8], Held<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut shared = 0;
        for record in self.chunks.iter().flatten() {
            let form = self.forms.get(record.form());
            if form == NOBODY || form.period_us == 0 || self.is_unused(record, now) {
                continue;
            }
            let Some(key) = record.key.bytes() else {
                shared += 1;
                continue;
            };
            match record.unpack(form) {
                Packed::Whole(state) => show(form, key, Held::Whole(&state))?,
                Packed::At(at) => match &self.large[at as usize] {
                    Some(Large::Log(log)) => show(form, key, Held::Log(log))?,
                    Some(Large::Slots(slots, _)) => show(form, key, Held::Slots(slots))?,
                    None => {}
                },
            }
        }
        Ok(shared)
    }

    /// Makes a counter with what it held before; false if the store is full.
    pub fn restore(
        &mut self,
        shared: &Shared,
        hash: u64,
        (limit, key): (u32, &[u8]),
        (algorithm, period_us): (Algorithm, u64),
        state: State,
    ) -> bool {
        let has_room = shared.take_place();
        if has_room {
            let place = self.grow();
            self.settle(shared, place, hash, limit, key);
            let numbers = match &state {
                State::Slots(slots) => slots.split(period_us),
                _ => Numbers { n: 0, period_us, burst: 0 },
            };
            self.write(place, algorithm, &numbers, state);
        }
        has_room
    }

    fn is_unused(&self, record: &Record, now: u64) -> bool {
        let form = self.forms.get(record.form());
        match record.unpack(form) {
            Packed::Whole(_) => record.is_unused(form, now),
            Packed::At(at) => match &self.large[at as usize] {
                Some(Large::Log(log)) => log.reset(form.period_us, now) == 0,
                Some(Large::Slots(slots, shape)) => {
                    let period_us = form.period_us;
                    let numbers = Numbers { n: 0, period_us, burst: shape.packed() };
                    now >= slots.last && slots.is_unused(&numbers, now)
                }
                None => false,
            },
        }
    }

    /// Gives a reserved place to a key.
    pub fn settle(&mut self, shared: &Shared, place: Place, hash: u64, limit: u32, key: &[u8]) {
        let form = self.forms.id(Form::empty(limit), 0);
        *self.record_mut(place) = Record::new(form, Key::new(key));
        self.enter(shared, place, hash);
        *self.by_limit.entry(limit).or_default() += 1;
    }

    /// Returns a reserved place that was not used after all.
    pub fn give_back(&mut self, shared: &Shared, place: Place) {
        shared.leave_place();
        self.clear(place);
    }

    fn clear(&mut self, place: Place) {
        let nobody = self.forms.id(NOBODY, 0);
        *self.record_mut(place) = Record::new(nobody, Key::Folded(0));
        self.free.push(place);
    }

    fn enter(&mut self, shared: &Shared, place: Place, hash: u64) {
        let (chunks, forms) = (&self.chunks, &self.forms);
        self.index.insert(hash, place, |place| {
            let record = record(chunks, place);
            shared.hash_of(forms.get(record.form()).limit, &record.key)
        });
    }

    /// Forgets a counter and frees its place.
    pub fn remove(&mut self, shared: &Shared, place: Place) {
        let (chunks, forms) = (&self.chunks, &self.forms);
        let hash_of = |place| {
            let record = record(chunks, place);
            shared.hash_of(forms.get(record.form()).limit, &record.key)
        };
        self.index.remove(hash_of(place), place, hash_of);
        let form = self.form(place);
        if let Packed::At(at) = self.record(place).unpack(form) {
            self.large[at as usize] = None;
            self.free_large.push(at);
        }
        if self.record(place).key.bytes().is_some() {
            if let Some(held) = self.by_limit.get_mut(&form.limit) {
                *held = held.saturating_sub(1);
            }
            shared.leave_place();
        }
        self.clear(place);
    }

    /// The shared counter that stands in for a key.
    pub fn folded(&mut self, shared: &Shared, hash: u64, limit: u32) -> Place {
        let number = (hash as usize % (FOLDS / shared.shards)) as u16;
        let key = Key::Folded(number);
        let hash = shared.hash_of(limit, &key);
        let found = self.index.find(hash, |place| {
            let record = self.record(place);
            matches!(record.key, Key::Folded(other) if other == number)
                && self.forms.get(record.form()).limit == limit
        });
        found.unwrap_or_else(|| {
            let place = self.grow();
            let form = self.forms.id(Form::empty(limit), 0);
            *self.record_mut(place) = Record::new(form, key);
            self.enter(shared, place, hash);
            place
        })
    }
}

/// Records that one request stands on.
pub type Pinned = SmallVec<[Place; 4]>;
