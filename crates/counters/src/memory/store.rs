//! The memory store: locks the shards of a request, decides all or nothing, writes back.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::{SmallVec, smallvec};
use tidegate_core::algorithms::Met;
use tidegate_core::algorithms::State;
use tidegate_core::{Action, Algorithm, Numbers, Outcome, Plan, Rule, Verdict};

use super::index::Place;
use super::record::holds_nothing;
use super::saved::TakenUp;
use super::shard::{Pinned, Seeds, Shard, Shared};
use crate::Outcomes;

/// Shards of a large store: enough that workers rarely meet.
const MOST_SHARDS: usize = 64;
/// Counters that a shard should at least hold.
const LEAST_PER_SHARD: usize = 1024;

/// Counters that the shards can number, were they filled evenly by half.
const MOST_COUNTERS: usize = MOST_SHARDS << 23;

/// How large the store may grow.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// Counters kept at most, at least 1; beyond them newcomers share counters.
    pub max_counters: usize,
}

/// Counters in this process.
#[derive(Debug)]
pub struct MemoryStore {
    // Guards everything in its shard. A request locks its shards in ascending order.
    shards: Box<[Mutex<Shard>]>,
    shared: Shared,
}

/// One operation under way.
struct Step<'p> {
    rule: &'p Rule,
    numbers: Numbers,
    action: Action,
    key: &'p [u8],
    hash: u64,
    guard: usize,
}

/// Where an operation's counter stands.
#[derive(Clone, Copy)]
enum Spot {
    /// In this record.
    Own(Place),
    /// In this shared record.
    Folded(Place),
    /// Nowhere yet; this place is reserved.
    Reserved(Place),
    /// Nowhere, and it will not be made.
    Nowhere,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(options: MemoryOptions) -> Self {
        let cap = options.max_counters.clamp(1, MOST_COUNTERS);
        let count = (cap / LEAST_PER_SHARD).clamp(1, MOST_SHARDS);
        let count = if count.is_power_of_two() { count } else { count.next_power_of_two() / 2 };
        let shared = Shared {
            seeds: Seeds::default(),
            cap,
            shards: count,
            held: AtomicUsize::new(0),
            folded: AtomicUsize::new(0),
        };
        Self { shards: (0..count).map(|_| Mutex::default()).collect(), shared }
    }

    /// Counters held.
    pub fn counters(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Decisions taken on shared counters since the start.
    pub fn folded(&self) -> usize {
        self.shared.folded.load(Ordering::Relaxed)
    }

    /// Decides one planned request at `now`, microseconds.
    #[inline]
    pub fn decide(&self, plan: &Plan<'_>, now: u64) -> Outcomes {
        let mut asked = plan.asked();
        match (asked.next(), asked.next()) {
            (None, _) => Outcomes::new(),
            (Some(op), None) => {
                let key = plan.key(op);
                smallvec![self.decide_alone(op.rule, op.numbers, key, op.action, now)]
            }
            _ => self.decide_all(plan, now),
        }
    }

    /// Brings the counters that a plan meets into the cache, for a [`MemoryStore::decide`] that
    /// follows soon. Changes nothing and waits for nobody.
    #[inline]
    pub fn foresee(&self, plan: &Plan<'_>) {
        for op in plan.asked() {
            let hash = self.shared.hash(op.rule.uid.0, plan.key(op));
            if let Some(shard) = self.shards[self.shard_of(hash)].try_lock() {
                shard.foresee(hash);
            }
        }
    }

    /// Forgets the counters that a plan meets.
    pub fn reset(&self, plan: &Plan<'_>) {
        for op in plan.asked() {
            let (key, limit) = (plan.key(op), op.rule.uid.0);
            let hash = self.shared.hash(limit, key);
            let mut shard = self.shards[self.shard_of(hash)].lock();
            if let Some(place) = shard.find(hash, limit, key) {
                shard.remove(&self.shared, place);
            }
        }
    }

    /// The shards, each to be locked alone.
    pub(super) fn all_shards(&self) -> &[Mutex<Shard>] {
        &self.shards
    }

    /// Makes a counter that was saved: of this limit and key, with what it held.
    pub(super) fn take_up(
        &self,
        (limit, key): (u32, &[u8]),
        algorithm: Algorithm,
        period_us: u64,
        state: State,
        now: u64,
    ) -> TakenUp {
        let hash = self.shared.hash(limit, key);
        let mut shard = self.shards[self.shard_of(hash)].lock();
        let is_there = shard.find(hash, limit, key).is_some();
        if is_there || holds_nothing(&state, algorithm, period_us, now) {
            return TakenUp::Ended;
        }
        let form = (algorithm, period_us);
        if shard.restore(&self.shared, hash, (limit, key), form, state) {
            TakenUp::Held
        } else {
            TakenUp::NoRoom
        }
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        // The table takes its position from the low bits and its tag from the high ones.
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    /// Decides one operation that stands alone in its request.
    #[inline]
    pub fn decide_alone(
        &self,
        rule: &Rule,
        numbers: Numbers,
        key: &[u8],
        action: Action,
        now: u64,
    ) -> Outcome {
        let hash = self.shared.hash(rule.uid.0, key);
        let mut shard = self.shards[self.shard_of(hash)].lock();
        let step = Step { rule, numbers, action, key, hash, guard: 0 };
        let mut spot = find(&shard, &step);
        self.reserve(&mut shard, &step, &mut spot, now, &[]);
        let mut met = meet(&mut shard, &step, spot, now);
        let cost = action.cost();
        let fits = matches!(action, Action::Refund(_)) || met.fits(cost);
        if fits || rule.is_charged_anyway(action) {
            apply(&mut met, action);
        }
        let mut outcome = met.report(cost, fits);
        outcome.is_folded = matches!(spot, Spot::Folded(_));
        self.write_back(&mut shard, &step, spot, met);
        outcome
    }

    fn decide_all(&self, plan: &Plan<'_>, now: u64) -> Outcomes {
        let (mut guards, steps) = self.lock(plan);
        let mut spots: SmallVec<[Spot; 4]> =
            steps.iter().map(|step| find(&guards[step.guard], step)).collect();
        for at in 0..steps.len() {
            let step = &steps[at];
            let pinned = pinned(&steps, &spots, step.guard);
            self.reserve(&mut guards[step.guard], step, &mut spots[at], now, &pinned);
        }
        let mut all_met: SmallVec<[(Met, bool); 4]> = SmallVec::new();
        let mut is_denied = false;
        for (step, spot) in steps.iter().zip(&spots) {
            let met = meet(&mut guards[step.guard], step, *spot, now);
            let fits = matches!(step.action, Action::Refund(_)) || met.fits(step.action.cost());
            is_denied |= !fits && !step.rule.is_shadow;
            all_met.push((met, fits));
        }
        let mut outcomes = Outcomes::new();
        for ((step, spot), (mut met, fits)) in steps.iter().zip(&spots).zip(all_met) {
            let (cost, is_anyway) = (step.action.cost(), step.rule.is_charged_anyway(step.action));
            if is_anyway || (fits && !is_denied) {
                apply(&mut met, step.action);
            }
            let mut outcome = if is_anyway && is_denied {
                met.report_charged(cost, fits)
            } else {
                met.report(cost, fits)
            };
            outcome.is_folded = matches!(spot, Spot::Folded(_));
            outcomes.push(outcome);
            self.write_back(&mut guards[step.guard], step, *spot, met);
        }
        outcomes
    }

    /// Locks the shards of a request in ascending order, each once.
    fn lock<'s, 'p, 'r>(
        &'s self,
        plan: &'p Plan<'r>,
    ) -> (SmallVec<[MutexGuard<'s, Shard>; 4]>, SmallVec<[Step<'p>; 4]>) {
        let mut steps: SmallVec<[Step<'p>; 4]> = SmallVec::new();
        let mut shards: SmallVec<[usize; 4]> = SmallVec::new();
        for op in plan.ops.iter().filter(|op| op.verdict == Verdict::Ask) {
            let key = plan.key(op);
            let hash = self.shared.hash(op.rule.uid.0, key);
            steps.push(Step {
                rule: op.rule,
                numbers: op.numbers,
                action: op.action,
                key,
                hash,
                guard: 0,
            });
            shards.push(self.shard_of(hash));
        }
        shards.sort_unstable();
        shards.dedup();
        for step in &mut steps {
            let number = self.shard_of(step.hash);
            step.guard = shards.iter().position(|other| *other == number).unwrap_or_default();
        }
        (shards.iter().map(|number| self.shards[*number].lock()).collect(), steps)
    }

    /// Finds a place for a counter that does not exist yet; a full store folds it.
    #[inline]
    fn reserve(
        &self,
        shard: &mut Shard,
        step: &Step<'_>,
        spot: &mut Spot,
        now: u64,
        pinned: &[Place],
    ) {
        if matches!(spot, Spot::Nowhere) && !matches!(step.action, Action::Refund(_)) {
            let limit = step.rule.uid.0;
            *spot = if let Some(place) = shard.place_for(&self.shared, limit, now, pinned) {
                Spot::Reserved(place)
            } else {
                self.shared.folded.fetch_add(1, Ordering::Relaxed);
                Spot::Folded(shard.folded(&self.shared, step.hash, limit))
            };
        }
    }

    #[inline]
    fn write_back(&self, shard: &mut Shard, step: &Step<'_>, spot: Spot, met: Met) {
        let rule = step.rule;
        let (state, is_dirty) = met.into_state();
        let place = match spot {
            Spot::Own(place) | Spot::Folded(place) => place,
            Spot::Reserved(place) if is_dirty => {
                shard.settle(&self.shared, place, step.hash, rule.uid.0, step.key);
                place
            }
            Spot::Reserved(place) => return shard.give_back(&self.shared, place),
            Spot::Nowhere => return,
        };
        if is_dirty || matches!(state, State::Log(_) | State::Slots(_)) {
            shard.write(place, rule.algorithm, &step.numbers, state);
        }
    }
}

#[inline]
fn find(shard: &Shard, step: &Step<'_>) -> Spot {
    let found = shard.find(step.hash, step.rule.uid.0, step.key);
    found.map_or(Spot::Nowhere, Spot::Own)
}

#[inline]
fn meet(shard: &mut Shard, step: &Step<'_>, spot: Spot, now: u64) -> Met {
    let state = match spot {
        Spot::Own(place) | Spot::Folded(place) => shard.read(place),
        Spot::Reserved(_) | Spot::Nowhere => State::Absent,
    };
    Met::new(step.rule.algorithm, step.numbers, state, now)
}

#[inline]
fn apply(met: &mut Met, action: Action) {
    match action {
        Action::Charge(cost) => met.charge(cost),
        Action::Refund(cost) => met.refund(cost),
        Action::Peek(_) => {}
    }
}

fn pinned(steps: &[Step<'_>], spots: &[Spot], guard: usize) -> Pinned {
    let here = steps.iter().zip(spots).filter(|(step, _)| step.guard == guard);
    here.filter_map(|(_, spot)| match spot {
        Spot::Own(place) | Spot::Folded(place) => Some(*place),
        Spot::Reserved(_) | Spot::Nowhere => None,
    })
    .collect()
}
