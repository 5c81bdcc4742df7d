//! Which counters most decisions meet, as this node sees it: a sample of its decisions in a table
//! of fixed size, whose counts fade. Labels of metrics must not hold tenants; this may, for it is
//! shown to those alone who may see explanations.

mod names;
mod sample;
mod space_saving;
mod told;

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tidegate_core::{Consistency, Decision, LimitReport, Plan, PlannedOp};

use crate::pipeline::{Ask, Planned};
use crate::store::Store;
use names::{Names, all_names};
pub use sample::ONE_IN;
use sample::{is_sampled, postpone};
use space_saving::SpaceSaving;
pub use told::put_hot;

/// Counters that have a place; each takes 1 KiB at most.
pub const PLACES: usize = 1024;
/// After this an arrival weighs half as much: short enough that what is shown is now, long enough
/// that a counter with a thousand decisions a second is known to an eighth.
pub const HALF_LIFE_US: u64 = 5_000_000;
/// A rate is taken over at least so long, for a node that has just begun.
const SHORTEST_US: u64 = 1_000_000;
/// What has faded below one decision is not told.
const LEAST: f64 = 1.0;

/// The counters that are hot on this node.
#[derive(Debug)]
pub struct Hot {
    is_on: bool,
    // Of its own for each node, so that nobody can make two counters look like one.
    seeds: RandomState,
    // Guards all that was seen. Decisions never wait for it.
    seen: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    counters: SpaceSaving<Told>,
    // All decisions, as the one key of a table of its own.
    all: SpaceSaving<()>,
    // When the first decision was looked at.
    since_us: Option<u64>,
}

/// What is kept of a counter.
#[derive(Clone, Debug, Default)]
struct Told {
    // None for a moment: they are found while nobody has to wait.
    names: Option<Names>,
    standing: Standing,
}

/// How a counter stood at the last decision that was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    // The numbers in force: requests per microseconds, and requests at once.
    n: u64,
    period_us: u64,
    limit: u64,
    consistency: Consistency,
    // Decided at this node, without asking a shared store.
    is_here: bool,
    // Decided in the store, and could be decided here.
    could_be_here: bool,
}

/// A counter that a decision has met.
struct Met {
    key: u64,
    is_denied: bool,
    standing: Standing,
}

/// What is told of a node, as of one time. Rates are decisions a second.
#[derive(Debug)]
pub struct Report {
    /// Of this node.
    per_second: f64,
    /// The hottest counters, the hottest first.
    rows: Vec<Row>,
}

/// What is told of one counter.
#[derive(Debug)]
struct Row {
    names: Names,
    standing: Standing,
    // The best guess.
    per_second: f64,
    // With the luck of the sample and what a newcomer may have inherited.
    at_least: f64,
    at_most: f64,
    // Of the decisions of this node, 0 to 1.
    share: f64,
    // Of the decisions that met this counter, those that its limit denied, 0 to 1.
    denied_share: f64,
}

impl Hot {
    /// Nothing was seen yet; off, nothing will be.
    pub(crate) fn new(is_on: bool) -> Self {
        let table = Table {
            counters: SpaceSaving::new(PLACES, HALF_LIFE_US),
            all: SpaceSaving::new(1, HALF_LIFE_US),
            since_us: None,
        };
        Self { is_on, seeds: RandomState::new(), seen: Mutex::new(table) }
    }

    /// True if decisions are looked at.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Looks at a decision, if it is one to be looked at.
    #[inline]
    pub(crate) fn meet(
        &self,
        store: &Store,
        ask: &Ask<'_>,
        planned: &Planned<'_>,
        decision: &Decision<'_>,
    ) {
        if self.is_on && is_sampled() {
            self.look(store, ask, planned, decision);
        }
    }

    #[inline(never)]
    fn look(&self, store: &Store, ask: &Ask<'_>, planned: &Planned<'_>, decision: &Decision<'_>) {
        let Planned { rules, domain, plan, now_us } = planned;
        let met: SmallVec<[Met; 8]> = plan
            .ops
            .iter()
            .zip(&decision.limits)
            .map(|(op, report)| self.met(store, plan, op, report))
            .collect();
        let mut unnamed: SmallVec<[usize; 8]> = SmallVec::new();
        {
            let Some(mut seen) = self.seen.try_lock() else { return postpone() };
            seen.count(*now_us);
            for (at, one) in met.iter().enumerate() {
                let weight = f64::from(ONE_IN);
                let (told, is_new) = seen.counters.add(one.key, weight, one.is_denied, *now_us);
                told.standing = one.standing;
                let is_named = told.names.as_ref().is_some_and(|names| names.is_of(rules));
                if is_new || !is_named {
                    told.names = None;
                    unnamed.push(at);
                }
            }
        }
        if let Some(domain) = domain
            && !unnamed.is_empty()
        {
            let named = all_names(rules, domain, ask, plan, &unnamed);
            self.keep(unnamed.iter().map(|at| met[*at].key).zip(named));
        }
    }

    /// Keeps names that were found; of counters that lost their places meanwhile there are none to
    /// keep, and where the table is in use, the next look finds them again.
    fn keep(&self, named: impl Iterator<Item = (u64, Names)>) {
        let named: SmallVec<[_; 8]> = named.collect();
        let Some(mut seen) = self.seen.try_lock() else { return };
        for (key, names) in named {
            if let Some(told) = seen.counters.told_mut(key) {
                told.names = Some(names);
            }
        }
    }

    fn met<'r>(
        &self,
        store: &Store,
        plan: &Plan<'r>,
        op: &PlannedOp<'r>,
        report: &LimitReport<'_>,
    ) -> Met {
        let is_here = store.decides_here(plan, op);
        let standing = Standing {
            n: report.numbers.n,
            period_us: report.named_period_us(),
            limit: report.limit(),
            consistency: op.rule.consistency,
            is_here,
            could_be_here: !is_here && store.could_decide_here(op),
        };
        let key = self.seeds.hash_one((op.rule.uid.0, plan.key(op)));
        Met { key, is_denied: report.denies(), standing }
    }

    /// The hottest counters, at most `top`, as of a time in unix microseconds.
    pub fn report(&self, top: usize, now_us: u64) -> Report {
        let seen = self.seen.lock();
        let age_us = seen.since_us.map_or(0, |since| now_us.saturating_sub(since));
        let spans = seconds(age_us.max(SHORTEST_US));
        let all: f64 = seen.all.seen(now_us).map(|all| all.count).sum();
        // What a newcomer inherited says nothing of it: in a flood of keys that come once each,
        // every place has the same count, and few have seen anything.
        let mut found: Vec<_> = seen
            .counters
            .seen(now_us)
            .filter(|one| one.count - one.error >= LEAST && one.told.names.is_some())
            .collect();
        found.sort_by(|a, b| (b.count - b.error).total_cmp(&(a.count - a.error)));
        found.truncate(top);
        let rows = found.into_iter().filter_map(|one| {
            let known = one.count - one.error;
            Some(Row {
                names: one.told.names.clone()?,
                standing: one.told.standing,
                per_second: known / spans,
                at_least: least(known) / spans,
                at_most: most(one.count) / spans,
                share: (known / all).min(1.0),
                denied_share: (one.marked / known).min(1.0),
            })
        });
        Report { per_second: all / spans, rows: rows.collect() }
    }
}

impl Table {
    /// Counts a decision for all of them.
    fn count(&mut self, now_us: u64) {
        self.since_us.get_or_insert(now_us);
        self.all.add(0, f64::from(ONE_IN), false, now_us);
    }
}

/// The seconds that a steady rate, counted for so long and fading, is the count of.
fn seconds(age_us: u64) -> f64 {
    let half_lives = age_us as f64 / HALF_LIFE_US as f64;
    let whole = HALF_LIFE_US as f64 / 1e6 / std::f64::consts::LN_2;
    whole * (1.0 - (-half_lives).exp2())
}

/// The decisions that there were at least, 19 times of 20, where the sample stands for so many: two
/// standard deviations of what comes by chance. Those that have faded vary less than is said here.
fn least(count: f64) -> f64 {
    let looks = count / f64::from(ONE_IN);
    f64::from(ONE_IN) * (looks - 2.0 * looks.sqrt()).max(0.0)
}

/// Those that there were at most; right for few looks too.
fn most(count: f64) -> f64 {
    let looks = count / f64::from(ONE_IN);
    f64::from(ONE_IN) * (looks + 2.0 * (looks + 1.0).sqrt() + 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_for_few_looks_and_for_many() {
        // What a Poisson distribution allows at 19 times of 20: 1 look is from 0.03 to 5.6 of
        // them, 10 are from 4.8 to 18.4, 100 from 81.4 to 121.6.
        for (looks, low, high) in [(1.0, 0.0, 5.5), (10.0, 4.8, 18.3), (100.0, 81.4, 121.6)] {
            let count = looks * f64::from(ONE_IN);
            assert!(least(count) <= (low + 0.03) * f64::from(ONE_IN), "{looks}");
            assert!(most(count) >= high * f64::from(ONE_IN), "{looks}");
        }
    }

    #[test]
    fn a_steady_rate_is_told_as_it_is_however_long_it_lasted() {
        for lasted_us in [SHORTEST_US, 3 * HALF_LIFE_US, 1000 * HALF_LIFE_US] {
            let mut table = SpaceSaving::<()>::new(1, HALF_LIFE_US);
            let begin_us = 1_764_554_400_000_000;
            for at_us in (0..lasted_us).step_by(10_000) {
                table.add(0, 1.0, false, begin_us + at_us);
            }
            let count: f64 = table.seen(begin_us + lasted_us).map(|seen| seen.count).sum();
            let per_second = count / seconds(lasted_us);
            assert!((per_second - 100.0).abs() < 1.0, "{per_second} after {lasted_us}");
        }
    }
}
