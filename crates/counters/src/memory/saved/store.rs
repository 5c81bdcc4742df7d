//! The store to a file and back.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::Path;

use tidegate_core::units::FREEZE_US;
use tidegate_core::{Identities, LimitUid};

use super::error::{LoadError, SaveError};
use super::file;
use super::format::{Head, Named};
use super::read::{Coming, Reader};
use super::sum;
use super::write::{Leaving, Writer};
use crate::memory::MemoryStore;

/// Two clocks at one instant.
#[derive(Clone, Copy, Debug)]
pub struct SaveTimes {
    /// The clock that the counters live by, microseconds.
    pub clock_us: u64,
    /// The wall clock, microseconds.
    pub wall_us: u64,
}

/// What was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Counters that hold something.
    pub counters: u64,
    /// Shared counters that hold something, which are no one key's and therefore left out.
    pub left_out: u64,
}

/// What was taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Counters that still hold something.
    pub counters: u64,
    /// Those that hold nothing any more, or that there were already.
    pub ended: u64,
    /// Those that the store has no room for.
    pub no_room: u64,
    /// Microseconds since the file was written; negative where the clock was set back meanwhile.
    pub age_us: i64,
}

impl MemoryStore {
    /// Puts what counters hold into a file, in place of the one before. Requests that are decided
    /// meanwhile may be in it or not.
    ///
    /// # Errors
    /// The file cannot be written, or another one stands there; that stays as it is.
    pub fn save(
        &self,
        path: &Path,
        identities: &Identities,
        times: SaveTimes,
    ) -> Result<Saved, SaveError> {
        let (limits, places) = self.named(identities);
        let SaveTimes { clock_us, wall_us } = times;
        let head = Head { clock_us, wall_us, limits };
        file::replace(path, |out| {
            let mut writer = Writer::new(out, &head)?;
            let mut left_out = 0;
            for shard in self.all_shards() {
                left_out += shard.lock().visit(clock_us, |form, key, held| {
                    // None: its first counter came after the names were looked up.
                    let Some(&limit) = places.get(&form.limit) else { return Ok(()) };
                    let (n, period_us) = (form.n, form.period_us);
                    writer.counter(&Leaving { limit, key, n, period_us, held })
                })?;
            }
            Ok(Saved { counters: writer.end()?, left_out })
        })
    }

    /// The limits that have counters, and which of them each limit's number in this process is.
    fn named(&self, identities: &Identities) -> (Vec<Named>, HashMap<u32, u32>) {
        let mut counting = HashMap::new();
        for shard in self.all_shards() {
            counting.extend(shard.lock().limits().map(|limit| (limit, 0)));
        }
        let mut limits = Vec::with_capacity(counting.len());
        for (domain, id, algorithm, LimitUid(uid)) in identities.all() {
            if let Some(place) = counting.get_mut(&uid) {
                *place = limits.len() as u32;
                limits.push(Named { domain: domain.to_owned(), id: id.to_owned(), algorithm });
            }
        }
        (limits, counting)
    }

    /// Takes up what a file holds; none if there is no file. Counters that there are already stay
    /// as they are. Those of limits that nobody knows yet wait for a policy that does, and their
    /// places are taken by others once they hold nothing any more.
    ///
    /// Times are moved to this process's clock, which `now_us` reads. Time that passed meanwhile by
    /// the wall clock counts; where that was set back, none did.
    ///
    /// # Errors
    /// The file cannot be read, or is not what [`MemoryStore::save`] wrote; then nothing of it is
    /// taken up.
    pub fn load(
        &self,
        path: &Path,
        identities: &mut Identities,
        now_us: u64,
    ) -> Result<Option<Loaded>, LoadError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // To see that all of it can be used and is what was written, before any of it is used.
        let (reader, head) = Reader::new(buffered(&file))?;
        reader.counters(&head, |_| {})?;
        file.rewind()?;
        sum::check(&file)?;
        file.rewind()?;
        let (reader, head) = Reader::new(buffered(&file))?;
        let uids: Vec<u32> = head
            .limits
            .iter()
            .map(|limit| identities.uid(&limit.domain, &limit.id, limit.algorithm).0)
            .collect();
        let mut loaded =
            Loaded { age_us: now_us as i64 - head.wall_us as i64, ..Loaded::default() };
        let to = target(&head, now_us);
        reader.counters(&head, |coming| {
            let Coming { limit, key, period_us, state } = coming;
            let algorithm = head.limits[limit as usize].algorithm;
            let state = if to == head.clock_us {
                state
            } else {
                state.moved(algorithm, period_us, head.clock_us, to)
            };
            let counter = (uids[limit as usize], key);
            *match self.take_up(counter, algorithm, period_us, state, now_us) {
                TakenUp::Held => &mut loaded.counters,
                TakenUp::Ended => &mut loaded.ended,
                TakenUp::NoRoom => &mut loaded.no_room,
            } += 1;
        })?;
        Ok(Some(loaded))
    }
}

fn buffered(file: &File) -> BufReader<&File> {
    BufReader::with_capacity(1 << 16, file)
}

/// What became of a counter of a file.
pub enum TakenUp {
    /// It counts on.
    Held,
    /// It holds nothing any more, or there is one already.
    Ended,
    /// The store is full.
    NoRoom,
}

/// The instant of the saving on the clock of this process: that of the wall clock then, if it is not
/// in the future. Less than the rule of the clock lets pass is not corrected.
fn target(head: &Head, now_us: u64) -> u64 {
    let to = head.wall_us.min(now_us);
    if to.abs_diff(head.clock_us) <= FREEZE_US { head.clock_us } else { to }
}
