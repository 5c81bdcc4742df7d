//! The memory store: locks the shards of a request, decides all or nothing, writes back.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::{SmallVec, smallvec};
use tidegate_core::algorithms::{Met, State};
use tidegate_core::matching::FEW;
use tidegate_core::{Action, Algorithm, Numbers, Outcome, Plan, Rule};

use super::foresight::{Foreseen, Whereabouts};
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
    /// One for each shard.
    whereabouts: Box<[Whereabouts]>,
    shared: Shared,
}

/// One for each operation of a request.
type Few<T> = SmallVec<[T; FEW]>;

/// One operation under way.
struct Step<'p> {
    rule: &'p Rule,
    numbers: &'p Numbers,
    action: Action,
    key: &'p [u8],
    hash: u64,
    guard: usize,
    spot: Spot,
    fits: bool,
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
        let whereabouts = (0..count).map(|_| Whereabouts::default()).collect();
        Self { shards: (0..count).map(|_| Mutex::default()).collect(), whereabouts, shared }
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
        self.decide_foreseen(plan, &self.foreseen(plan), now)
    }

    /// [`MemoryStore::decide`], of counters whose hashes are known.
    #[inline]
    pub fn decide_foreseen(&self, plan: &Plan<'_>, foreseen: &Foreseen, now: u64) -> Outcomes {
        if let [hash] = foreseen.0[..]
            && let Some(op) = plan.asked().next()
        {
            let place = (hash, plan.key(op));
            return smallvec![self.decide_one(op.rule, op.numbers, place, op.action, now)];
        }
        self.decide_all(plan, foreseen, now)
    }

    /// Begins to bring the counters that a plan meets into the cache, for a
    /// [`MemoryStore::foresee`] that follows when others were begun. Changes nothing and waits
    /// for nobody.
    #[inline]
    pub fn foreseen(&self, plan: &Plan<'_>) -> Foreseen {
        let mut foreseen = Foreseen::default();
        for op in plan.asked() {
            let hash = self.shared.hash(op.rule.uid.0, plan.key(op));
            self.whereabouts[self.shard_of(hash)].foresee(hash);
            foreseen.0.push(hash);
        }
        foreseen
    }

    /// Brings counters into the cache for a [`MemoryStore::decide_foreseen`] that follows soon.
    /// Changes nothing and waits for nobody.
    #[inline]
    pub fn foresee(&self, foreseen: &Foreseen) {
        for hash in &foreseen.0 {
            let at = self.shard_of(*hash);
            if let Some(shard) = self.shards[at].try_lock() {
                shard.foresee(*hash, &self.whereabouts[at]);
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
        self.decide_one(rule, numbers, (hash, key), action, now)
    }

    #[inline]
    fn decide_one(
        &self,
        rule: &Rule,
        numbers: Numbers,
        (hash, key): (u64, &[u8]),
        action: Action,
        now: u64,
    ) -> Outcome {
        let mut shard = self.shards[self.shard_of(hash)].lock();
        let numbers = &numbers;
        let mut step =
            Step { rule, numbers, action, key, hash, guard: 0, spot: Spot::Nowhere, fits: true };
        step.spot = find(&shard, &step);
        if step.wants_place() {
            step.spot = self.reserve(&mut shard, &step, now, &[]);
        }
        let mut met = Met::nobody();
        step.fits = meet(&mut met, &mut shard, &step, now);
        self.settle(&mut met, &mut shard, &step, false)
    }

    fn decide_all(&self, plan: &Plan<'_>, foreseen: &Foreseen, now: u64) -> Outcomes {
        let mut steps = steps(plan, foreseen);
        let mut guards = self.lock(&mut steps);
        for step in &mut steps {
            step.spot = find(&guards[step.guard], step);
        }
        for at in 0..steps.len() {
            let step = &steps[at];
            if step.wants_place() {
                let pinned = pinned(&steps, step.guard);
                steps[at].spot = self.reserve(&mut guards[step.guard], step, now, &pinned);
            }
        }
        let mut all_met: Few<Met> = Few::new();
        all_met.resize_with(steps.len(), Met::nobody);
        let mut is_denied = false;
        for (step, met) in steps.iter_mut().zip(&mut all_met) {
            step.fits = meet(met, &mut guards[step.guard], step, now);
            is_denied |= !step.fits && !step.rule.is_shadow;
        }
        let mut outcomes = Outcomes::new();
        for (step, met) in steps.iter().zip(&mut all_met) {
            outcomes.push(self.settle(met, &mut guards[step.guard], step, is_denied));
        }
        outcomes
    }

    /// Locks the shards of a request in ascending order, each once.
    #[inline]
    fn lock(&self, steps: &mut [Step<'_>]) -> Few<MutexGuard<'_, Shard>> {
        let mut shards: Few<usize> = steps.iter().map(|step| self.shard_of(step.hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        for step in steps {
            let number = self.shard_of(step.hash);
            step.guard = shards.iter().position(|other| *other == number).unwrap_or_default();
        }
        shards.iter().map(|number| self.shards[*number].lock()).collect()
    }

    /// Finds a place for a counter that does not exist yet; a full store folds it.
    fn reserve(&self, shard: &mut Shard, step: &Step<'_>, now: u64, pinned: &[Place]) -> Spot {
        let limit = step.rule.uid.0;
        if let Some(place) = shard.place_for(&self.shared, limit, now, pinned) {
            return Spot::Reserved(place);
        }
        self.shared.folded.fetch_add(1, Ordering::Relaxed);
        Spot::Folded(shard.folded(&self.shared, step.hash, limit))
    }

    /// Does what was asked where it may be done, writes it back, and says how it stands then.
    #[inline]
    fn settle(
        &self,
        met: &mut Met,
        shard: &mut Shard,
        step: &Step<'_>,
        is_denied: bool,
    ) -> Outcome {
        let (cost, fits) = (step.action.cost(), step.fits);
        let is_anyway = step.rule.is_charged_anyway(step.action);
        if is_anyway || (fits && !is_denied) {
            apply(met, step.action);
        }
        let mut outcome = if is_anyway && is_denied {
            met.report_charged(cost, fits)
        } else {
            met.report(cost, fits)
        };
        outcome.is_folded = matches!(step.spot, Spot::Folded(_));
        self.write_back(shard, step, met);
        outcome
    }

    #[inline]
    fn write_back(&self, shard: &mut Shard, step: &Step<'_>, met: &mut Met) {
        let rule = step.rule;
        let (state, is_dirty) = met.take_state();
        let place = match step.spot {
            Spot::Own(place) | Spot::Folded(place) => place,
            Spot::Reserved(place) if is_dirty => {
                shard.settle(&self.shared, place, step.hash, rule.uid.0, step.key);
                place
            }
            Spot::Reserved(place) => return shard.give_back(&self.shared, place),
            Spot::Nowhere => return,
        };
        if is_dirty || matches!(state, State::Log(_) | State::Slots(_)) {
            shard.write(place, rule.algorithm, step.numbers, state);
        }
    }
}

impl Step<'_> {
    /// True if it makes a counter where there is none.
    #[inline]
    const fn wants_place(&self) -> bool {
        matches!(self.spot, Spot::Nowhere) && !matches!(self.action, Action::Refund(_))
    }
}

/// The operations of a request that this store answers.
#[inline]
fn steps<'p>(plan: &'p Plan<'_>, foreseen: &Foreseen) -> Few<Step<'p>> {
    let mut steps = Few::new();
    for (op, hash) in plan.asked().zip(&foreseen.0) {
        steps.push(Step {
            rule: op.rule,
            numbers: &op.numbers,
            action: op.action,
            key: plan.key(op),
            hash: *hash,
            guard: 0,
            spot: Spot::Nowhere,
            fits: true,
        });
    }
    steps
}

#[inline]
fn find(shard: &Shard, step: &Step<'_>) -> Spot {
    let found = shard.find(step.hash, step.rule.uid.0, step.key);
    found.map_or(Spot::Nowhere, Spot::Own)
}

/// Meets an operation's counter; true if it fits.
#[inline]
fn meet(met: &mut Met, shard: &mut Shard, step: &Step<'_>, now: u64) -> bool {
    let state = match step.spot {
        Spot::Own(place) | Spot::Folded(place) => shard.read(place),
        Spot::Reserved(_) | Spot::Nowhere => State::Absent,
    };
    met.meet(step.rule.algorithm, *step.numbers, state, now);
    matches!(step.action, Action::Refund(_)) || met.fits(step.action.cost())
}

#[inline]
fn apply(met: &mut Met, action: Action) {
    match action {
        Action::Charge(cost) => met.charge(cost),
        Action::Refund(cost) => met.refund(cost),
        Action::Peek(_) => {}
    }
}

/// The records in a shard that a request stands on.
fn pinned(steps: &[Step<'_>], guard: usize) -> Pinned {
    let here = steps.iter().filter(|step| step.guard == guard);
    here.filter_map(|step| match step.spot {
        Spot::Own(place) | Spot::Folded(place) => Some(place),
        Spot::Reserved(_) | Spot::Nowhere => None,
    })
    .collect()
}
