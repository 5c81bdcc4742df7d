//! The heaviest keys of a stream that never ends, in a fixed number of places (Space-Saving), with
//! counts that fade: an arrival weighs half as much after each half-life. Pure: told the time.

use std::collections::HashMap;

/// Half-lives after which all counts are written anew, so that no weight outgrows a double.
const RENEWED_AFTER: f64 = 64.0;

/// Keys in places. A newcomer takes the place of the key with the smallest count and inherits that
/// count as its error, so a count is never too low, and too high by its error at most. Whatever has
/// more than the whole stream divided by the places has one.
#[derive(Debug)]
pub struct SpaceSaving<T> {
    capacity: usize,
    half_life_us: f64,
    // Weights are in units of an arrival at this time, so that fading leaves all of them alone.
    landmark_us: u64,
    by_key: HashMap<u64, usize>,
    places: Vec<Place<T>>,
    // Counts, the smallest first: each before those at 2n + 1 and 2n + 2. They stand beside one
    // another, for each arrival compares some of them.
    heap: Vec<Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    count: f64,
    place: usize,
}

#[derive(Debug)]
struct Place<T> {
    key: u64,
    // Where its count stands.
    at: usize,
    error: f64,
    marked: f64,
    told: T,
}

/// What is known of one key, as of one time.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a, T> {
    /// What arrived, at most.
    pub count: f64,
    /// By how much that may be too high.
    pub error: f64,
    /// What was marked of what arrived since it has this place.
    pub marked: f64,
    /// What its owner keeps of it.
    pub told: &'a T,
}

impl<T: Default> SpaceSaving<T> {
    /// Without any key; at least one place.
    pub fn new(capacity: usize, half_life_us: u64) -> Self {
        let capacity = capacity.max(1);
        Self {
            capacity,
            half_life_us: half_life_us.max(1) as f64,
            landmark_us: 0,
            by_key: HashMap::new(),
            places: Vec::new(),
            heap: Vec::new(),
        }
    }

    /// Counts an arrival. Gives what its owner keeps of the key, and whether the key is new: then
    /// that is what was kept of the one that had the place before, to be overwritten.
    pub fn add(&mut self, key: u64, weight: f64, is_marked: bool, now_us: u64) -> (&mut T, bool) {
        let weight = weight * self.weight_at(now_us);
        let known = self.by_key.get(&key).copied();
        let place = known.unwrap_or_else(|| self.place_for(key));
        let taken = &mut self.places[place];
        if is_marked {
            taken.marked += weight;
        }
        let at = taken.at;
        self.heap[at].count += weight;
        self.sink(at);
        (&mut self.places[place].told, known.is_none())
    }

    /// What its owner keeps of a key that has a place.
    pub fn told_mut(&mut self, key: u64) -> Option<&mut T> {
        self.by_key.get(&key).map(|place| &mut self.places[*place].told)
    }

    /// Every key that has a place, in no order.
    pub fn seen(&self, now_us: u64) -> impl Iterator<Item = Seen<'_, T>> {
        let faded = (-self.half_lives(now_us)).exp2();
        self.places.iter().map(move |place| Seen {
            count: self.heap[place.at].count * faded,
            error: place.error * faded,
            marked: place.marked * faded,
            told: &place.told,
        })
    }

    /// What an arrival at this time weighs beside one at the landmark.
    fn weight_at(&mut self, now_us: u64) -> f64 {
        let half_lives = self.half_lives(now_us);
        if half_lives <= RENEWED_AFTER {
            return half_lives.exp2();
        }
        let faded = (-half_lives).exp2();
        for one in &mut self.heap {
            one.count *= faded;
        }
        for place in &mut self.places {
            place.error *= faded;
            place.marked *= faded;
        }
        self.landmark_us = now_us;
        1.0
    }

    /// Since the landmark. Threads read the clock at slightly different times: never negative.
    fn half_lives(&self, now_us: u64) -> f64 {
        now_us.saturating_sub(self.landmark_us) as f64 / self.half_life_us
    }

    /// A free place, else the one of the smallest count.
    fn place_for(&mut self, key: u64) -> usize {
        let place = self.places.len();
        if place < self.capacity {
            let told = T::default();
            self.places.push(Place { key, at: place, error: 0.0, marked: 0.0, told });
            self.heap.push(Count { count: 0.0, place });
            self.by_key.insert(key, place);
            self.rise(place);
            return place;
        }
        let Count { count, place } = self.heap[0];
        let taken = &mut self.places[place];
        self.by_key.remove(&taken.key);
        taken.key = key;
        taken.error = count;
        taken.marked = 0.0;
        self.by_key.insert(key, place);
        place
    }

    /// Restores the order after the count at this spot has grown.
    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    /// Restores the order after the smallest count came in at this spot.
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn is_before(&self, left: usize, right: usize) -> bool {
        self.heap[left].count < self.heap[right].count
    }

    fn swap(&mut self, left: usize, right: usize) {
        self.heap.swap(left, right);
        self.places[self.heap[left].place].at = left;
        self.places[self.heap[right].place].at = right;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HALF_LIFE_US: u64 = 1_000_000;

    fn table(places: usize) -> SpaceSaving<u64> {
        SpaceSaving::new(places, HALF_LIFE_US)
    }

    fn add(table: &mut SpaceSaving<u64>, key: u64, is_marked: bool, now_us: u64) {
        let (told, is_new) = table.add(key, 1.0, is_marked, now_us);
        if is_new {
            *told = key;
        }
        assert_eq!(*told, key);
    }

    proptest! {
        #[test]
        fn counts_are_bounded_and_whoever_has_more_than_its_share_has_a_place(
            places in 1usize..12,
            // Gaps of up to 100 half-lives: counts are written anew on the way.
            stream in prop::collection::vec(
                (0u64..30, any::<bool>(), prop_oneof![9 => 0u64..300_000, 1 => 0u64..100_000_000]),
                1..400,
            ),
        ) {
            let mut table = table(places);
            let mut exact: HashMap<u64, (f64, f64)> = HashMap::new();
            let mut now_us = 1_764_554_400_000_000;
            for (key, is_marked, gap_us) in stream {
                let faded = (-(gap_us as f64) / HALF_LIFE_US as f64).exp2();
                for (all, marked) in exact.values_mut() {
                    *all *= faded;
                    *marked *= faded;
                }
                now_us += gap_us;
                add(&mut table, key, is_marked, now_us);
                let (all, marked) = exact.entry(key).or_default();
                *all += 1.0;
                *marked += f64::from(u8::from(is_marked));
            }
            let whole: f64 = exact.values().map(|(all, _)| all).sum();
            let seen: HashMap<u64, Seen<'_, u64>> =
                table.seen(now_us).map(|seen| (*seen.told, seen)).collect();
            prop_assert!(seen.len() <= places);
            let near = 1e-6;
            for (key, seen) in &seen {
                let (all, marked) = exact[key];
                prop_assert!(seen.count >= all - near, "{key}: {seen:?} of {all}");
                prop_assert!(seen.count - seen.error <= all + near, "{key}: {seen:?} of {all}");
                prop_assert!(seen.marked <= marked + near);
                prop_assert!(seen.error <= whole / places as f64 + near);
            }
            for (key, (all, _)) in exact {
                let has_place = seen.contains_key(&key);
                prop_assert!(has_place || all <= whole / places as f64 + near, "{key} has {all}");
            }
        }
    }

    #[test]
    fn a_count_halves_in_each_half_life() {
        let mut table = table(4);
        for _ in 0..8 {
            add(&mut table, 7, true, 5_000_000);
        }
        for (after_us, left) in [(0, 8.0), (1_000_000, 4.0), (3_000_000, 1.0)] {
            let seen = table.seen(5_000_000 + after_us).next().unwrap();
            assert!((seen.count - left).abs() < 1e-9 && (seen.marked - left).abs() < 1e-9);
        }
    }

    #[test]
    fn what_was_hot_makes_room_for_what_is() {
        let mut table = table(2);
        for _ in 0..1000 {
            add(&mut table, 1, false, 1_000_000);
            add(&mut table, 2, false, 1_000_000);
        }
        for _ in 0..3 {
            add(&mut table, 3, false, 21_000_000);
        }
        let newest = table.seen(21_000_000).find(|seen| *seen.told == 3).unwrap();
        assert!(newest.count - newest.error > 2.9 && newest.error < 0.01, "{newest:?}");
    }
}
