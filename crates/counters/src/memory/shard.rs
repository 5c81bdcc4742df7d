//! One shard: records in chunks, found through a table of their numbers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use smallvec::SmallVec;
use tidegate_core::Algorithm;
use tidegate_core::algorithms::State;
use tidegate_core::algorithms::sliding_log::Log;

use super::record::{Key, Packed, Record};

/// Records are kept in chunks, so that growth copies none of them.
const CHUNK: usize = 128;
/// Records that an insert at the cap looks at.
const LOOKS: usize = 16;
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

    fn hash_of(&self, record: &Record) -> u64 {
        match &record.key {
            Key::Folded(number) => self.seeds.hash_one((record.limit, *number, "folded")),
            key => self.hash(record.limit, key.bytes().unwrap_or_default()),
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

/// A record's number within its shard.
pub type Place = u32;

#[derive(Debug, Default)]
pub struct Shard {
    index: HashTable<Place>,
    chunks: Vec<Vec<Record>>,
    free: Vec<Place>,
    hand: usize,
    logs: Vec<Option<Box<Log>>>,
    free_logs: Vec<u32>,
    /// Counters held by each limit.
    by_limit: HashMap<u32, usize>,
}

impl Shard {
    #[inline]
    fn record(&self, place: Place) -> &Record {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    #[inline]
    fn record_mut(&mut self, place: Place) -> &mut Record {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    /// The record of a key.
    #[inline]
    pub fn find(&self, hash: u64, limit: u32, key: &[u8]) -> Option<Place> {
        let is_it = |place: &Place| {
            let record = self.record(*place);
            record.limit == limit && record.key.bytes() == Some(key)
        };
        self.index.find(hash, is_it).copied()
    }

    /// The state of a record; a log is moved out until [`Shard::write`] brings it back.
    #[inline]
    pub fn read(&mut self, place: Place) -> State {
        match self.record(place).unpack() {
            Packed::Whole(state) => state,
            Packed::LogAt(at) => self.logs[at as usize].take().map_or(State::Absent, State::Log),
        }
    }

    /// Puts a state into a record.
    #[inline]
    pub fn write(&mut self, place: Place, algorithm: Algorithm, period_us: u64, state: State) {
        match state {
            State::Log(log) => self.write_log(place, period_us, log),
            state => self.record_mut(place).pack(algorithm, period_us, &state),
        }
    }

    fn write_log(&mut self, place: Place, period_us: u64, log: Box<Log>) {
        let at = match self.record(place).unpack() {
            Packed::LogAt(at) => at,
            Packed::Whole(_) => self.free_logs.pop().unwrap_or(self.logs.len() as u32),
        };
        if at as usize == self.logs.len() {
            self.logs.push(None);
        }
        self.logs[at as usize] = Some(log);
        self.record_mut(place).pack_log(period_us, at);
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
        chunk.push(Record::new(0, Key::Folded(0)));
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

    fn is_unused(&self, record: &Record, now: u64) -> bool {
        match record.unpack() {
            Packed::Whole(_) => record.is_unused(now),
            Packed::LogAt(at) => self.logs[at as usize]
                .as_ref()
                .is_some_and(|log| log.reset(record.period_us(), now) == 0),
        }
    }

    /// Gives a reserved place to a key.
    pub fn settle(&mut self, shared: &Shared, place: Place, hash: u64, limit: u32, key: &[u8]) {
        *self.record_mut(place) = Record::new(limit, Key::new(key));
        self.enter(shared, place, hash);
        *self.by_limit.entry(limit).or_default() += 1;
    }

    /// Returns a reserved place that was not used after all.
    pub fn give_back(&mut self, shared: &Shared, place: Place) {
        shared.leave_place();
        self.clear(place);
    }

    fn clear(&mut self, place: Place) {
        *self.record_mut(place) = Record::new(0, Key::Folded(0));
        self.free.push(place);
    }

    fn enter(&mut self, shared: &Shared, place: Place, hash: u64) {
        let chunks = &self.chunks;
        let rehash = |place: &Place| {
            shared.hash_of(&chunks[*place as usize / CHUNK][*place as usize % CHUNK])
        };
        self.index.insert_unique(hash, place, rehash);
    }

    /// Forgets a counter and frees its place.
    pub fn remove(&mut self, shared: &Shared, place: Place) {
        let hash = shared.hash_of(self.record(place));
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == place) {
            entry.remove();
        }
        let (limit, is_own) = (self.record(place).limit, self.record(place).key.bytes().is_some());
        if let Packed::LogAt(at) = self.record(place).unpack() {
            self.logs[at as usize] = None;
            self.free_logs.push(at);
        }
        if is_own {
            if let Some(held) = self.by_limit.get_mut(&limit) {
                *held = held.saturating_sub(1);
            }
            shared.leave_place();
        }
        self.clear(place);
    }

    /// The shared counter that stands in for a key.
    pub fn folded(&mut self, shared: &Shared, hash: u64, limit: u32) -> Place {
        let number = (hash as usize % (FOLDS / shared.shards)) as u16;
        let hash = shared.seeds.hash_one((limit, number, "folded"));
        let is_it = |place: &Place| {
            let record = self.record(*place);
            record.limit == limit && matches!(record.key, Key::Folded(other) if other == number)
        };
        if let Some(place) = self.index.find(hash, is_it) {
            return *place;
        }
        let place = self.grow();
        *self.record_mut(place) = Record::new(limit, Key::Folded(number));
        self.enter(shared, place, hash);
        place
    }
}

/// Records that one request stands on.
pub type Pinned = SmallVec<[Place; 4]>;
