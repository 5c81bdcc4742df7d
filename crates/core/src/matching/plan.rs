//! The plan of a request: each counter that it meets once, with what to do there.

use std::ops::Range;

use smallvec::SmallVec;

use super::action::{Action, Verb, merge};
use super::entries::{Costs, Entries, Known, find, note_known};
use super::values::{self, KeyBuffer, Placed};
use crate::algorithms::calendar::Around;
use crate::algorithms::slots::Shape;
use crate::algorithms::{Algorithm, Numbers};
use crate::error::RequestError;
use crate::snapshot::{Domain, KeyId, Missing, Rule, Tenant};
use crate::units::MAX;

/// Counters that one request may meet.
pub const MOST_COUNTERS: usize = 256;

/// Counters for which a request takes no memory from the heap: more than most meet.
pub const FEW: usize = 6;

/// One set of entries that describes the request, with what it costs by kind.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// (key, value), bytes as they came; of a repeated key the first counts.
    pub entries: &'a [(&'a [u8], &'a [u8])],
    /// (kind, units); a limit whose kind is not here does not apply.
    pub costs: &'a [(&'a [u8], u64)],
    /// Charge, look or give back.
    pub verb: Verb,
    /// A rate that the caller brings, for the limits that take it.
    pub rate: Option<RequestRate>,
}

/// A rate that a request brings instead of the policy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests per period; 0 blocks.
    pub n: u64,
    /// Microseconds, whole seconds, at most 366 days.
    pub period_us: u64,
}

impl RequestRate {
    /// The numbers of a limit under this rate. A limit that the policy has shut stays shut; a
    /// burst other than N grows and shrinks along, as in a plan.
    fn in_place_of(self, policy: Option<Numbers>) -> Numbers {
        let Self { n, period_us } = self;
        let burst = match policy {
            Some(numbers) if numbers.n == 0 => return numbers,
            Some(own) if own.burst != own.n && n > 0 => {
                let seconds = |us: u64| u128::from(us / 1_000_000);
                let grown = u128::from(own.burst) * u128::from(n) * seconds(own.period_us);
                let burst = grown.div_ceil(seconds(period_us) * u128::from(own.n));
                u64::try_from(burst).map_or(MAX, |burst| burst.clamp(1, MAX))
            }
            _ => n,
        };
        Numbers { n, period_us, burst }
    }
}

/// How an operation is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By the store.
    Ask,
    /// Denied: the rate is 0.
    Blocked,
    /// Denied: a key is missing and the limit demands it.
    MissingKey,
}

/// One counter that a request meets.
#[derive(Clone, Debug)]
pub struct PlannedOp<'r> {
    /// The limit.
    pub rule: &'r Rule,
    /// The numbers in force.
    pub numbers: Numbers,
    /// What to do.
    pub action: Action,
    /// Who answers.
    pub verdict: Verdict,
    /// True if the request brought the numbers.
    pub(super) has_request_rate: bool,
    pub(super) key: Range<u32>,
    pub(super) anchor: Option<Range<u32>>,
}

impl PlannedOp<'_> {
    /// True if it is charged whoever denies the request.
    #[inline]
    pub const fn is_charged_anyway(&self) -> bool {
        self.rule.is_charged_anyway(self.action)
    }

    /// True if what was charged at `then` still counts, in the same place, at `now`: a refund of
    /// it touches no other window. Microseconds.
    pub fn is_same_window(&self, then: u64, now: u64) -> bool {
        let period = self.numbers.period_us;
        match self.rule.algorithm {
            Algorithm::Quota => {
                let around = Around::of(&self.numbers);
                around.end_at(then) == around.end_at(now)
            }
            Algorithm::TokenBucket => true,
            Algorithm::FixedWindow | Algorithm::SlidingWindow => then / period == now / period,
            Algorithm::SlidingLog => now < then + period,
            Algorithm::SlidingSlots => Shape::of(&self.numbers).is_same_slot(period, then, now),
        }
    }
}

/// Everything that one request asks of the store.
#[derive(Debug, Default)]
pub struct Plan<'r> {
    /// The counters met, each once, in the order in which they were first met.
    pub ops: SmallVec<[PlannedOp<'r>; FEW]>,
    /// For each descriptor, in order, which operations it met: (descriptor, operation).
    pub met: SmallVec<[(u16, u16); 8]>,
    pub(super) buffer: KeyBuffer,
}

impl<'r> Plan<'r> {
    /// Matches a request. `now` is the time by which dated overrides are chosen, microseconds.
    #[inline]
    pub fn new(
        domain: &'r Domain,
        descriptors: &[Descriptor<'_>],
        now: u64,
    ) -> Result<Self, RequestError> {
        let mut plan = Self::default();
        plan.fill(domain, descriptors, None, now)?;
        Ok(plan)
    }

    /// [`Plan::new`] into an empty plan that stands already where it will be read: a plan is
    /// large, and to move it costs as much as to match. `known` is a tenant that is looked up.
    #[inline]
    pub fn fill<'d>(
        &mut self,
        domain: &'r Domain,
        descriptors: &[Descriptor<'d>],
        known: Option<Known<'r, 'd>>,
        now: u64,
    ) -> Result<(), RequestError> {
        let mut last = known;
        for (at, descriptor) in descriptors.iter().enumerate() {
            self.meet(domain, at as u16, descriptor, &mut last, now)?;
        }
        self.settle_denied();
        Ok(())
    }

    /// Plans every rule of a domain on the same key parts, without matching: what a limit made in
    /// code asks. The parts stand where `per` values would.
    #[inline]
    pub fn direct(domain: &'r Domain, parts: &[&[u8]], cost: u64, verb: Verb) -> Self {
        let mut plan = Self::default();
        for rule in &domain.rules {
            let Some(numbers) = rule.numbers else { continue };
            let verdict = if numbers.n == 0 { Verdict::Blocked } else { Verdict::Ask };
            let (key, anchor) =
                plan.append_key(rule, &numbers, parts.iter().map(|part| Some(*part)));
            plan.ops.push(PlannedOp {
                rule,
                numbers,
                action: verb.action(cost),
                verdict,
                has_request_rate: false,
                key,
                anchor,
            });
        }
        plan.settle_denied();
        plan
    }

    /// The operations that the store answers, in order.
    #[inline]
    pub fn asked(&self) -> impl Iterator<Item = &PlannedOp<'r>> {
        self.ops.iter().filter(|op| op.verdict == Verdict::Ask)
    }

    /// The values' part of an operation's key.
    #[inline]
    pub fn key(&self, op: &PlannedOp<'r>) -> &[u8] {
        &self.buffer[op.key.start as usize..op.key.end as usize]
    }

    /// The value that places the counter in a cluster: the tenant's, else the first of `per`;
    /// none where the limit's id does.
    #[inline]
    pub fn anchor(&self, op: &PlannedOp<'r>) -> Option<&[u8]> {
        let anchor = op.anchor.as_ref()?;
        Some(&self.buffer[anchor.start as usize..anchor.end as usize])
    }

    /// Where a limit denies without the store, the others report and are not charged, but for
    /// those that count denials.
    #[inline]
    fn settle_denied(&mut self) {
        let is_denied = |op: &PlannedOp<'_>| op.verdict != Verdict::Ask && !op.rule.is_shadow;
        if self.ops.iter().any(is_denied) {
            for op in self.ops.iter_mut().filter(|op| !op.is_charged_anyway()) {
                op.action = Action::Peek(op.action.cost());
            }
        }
    }

    /// Appends a counter's key and its anchor; says where they stand.
    #[inline]
    fn append_key<'v>(
        &mut self,
        rule: &Rule,
        numbers: &Numbers,
        values: impl Iterator<Item = Option<&'v [u8]>> + Clone,
    ) -> Placed {
        let anchor_at = rule.tenant_at.unwrap_or(0);
        values::append(&mut self.buffer, period_of_key(rule, numbers), values, anchor_at)
    }

    /// `last` is the tenant of the descriptor before, which is mostly this one's too.
    #[inline]
    fn meet<'d>(
        &mut self,
        domain: &'r Domain,
        at: u16,
        descriptor: &Descriptor<'d>,
        last: &mut Option<Known<'r, 'd>>,
        now: u64,
    ) -> Result<(), RequestError> {
        let mut entries = Entries::new();
        note_known(&mut entries, domain, descriptor.entries);
        let named = domain.tenant_key.as_ref().and_then(|(key, _)| find(&entries, *key));
        let tenant = named.and_then(|name| {
            let known = last.filter(|last| last.name == name);
            let known = known.unwrap_or_else(|| Known::new(domain, name));
            *last = Some(known);
            known.tenant
        });
        let mut costs = Costs { of: descriptor.costs, last: None };
        for row in domain.index.candidates(&entries) {
            let rule = &domain.rules[row as usize];
            let Some(cost) = costs.of(rule) else { continue };
            let holds = rule.when.iter().all(|condition| {
                find(&entries, condition.key).is_some_and(|value| condition.holds(value))
            });
            if holds && let Some(op) = self.op(domain, rule, &entries, tenant, descriptor.rate, now)
            {
                self.add(at, PlannedOp { action: descriptor.verb.action(cost), ..op })?;
            }
        }
        Ok(())
    }

    /// The operation on this rule's counter, or none where the rule does not apply.
    #[inline]
    fn op(
        &mut self,
        domain: &Domain,
        rule: &'r Rule,
        entries: &[(KeyId, &[u8])],
        tenant: Option<&Tenant>,
        rate: Option<RequestRate>,
        now: u64,
    ) -> Option<PlannedOp<'r>> {
        let is_missing = rule.per.iter().any(|key| find(entries, *key).is_none());
        if is_missing && rule.missing == Missing::Skip {
            return None;
        }
        let policy = domain.numbers(rule, tenant, now);
        let rate = rate.filter(|_| rule.takes_request_rate);
        let numbers = match rate {
            Some(rate) if rule.algorithm == Algorithm::SlidingSlots => {
                Numbers { burst: rule.shape.packed(), ..rate.in_place_of(policy) }
            }
            Some(rate) => rate.in_place_of(policy),
            None => policy?,
        };
        let verdict = if is_missing && rule.missing == Missing::Deny {
            Verdict::MissingKey
        } else if numbers.n == 0 {
            Verdict::Blocked
        } else {
            Verdict::Ask
        };
        let values = rule.per.iter().map(|key| find(entries, *key));
        let (key, anchor) = self.append_key(rule, &numbers, values);
        let (action, has_request_rate) = (Action::Peek(1), rate.is_some());
        Some(PlannedOp { rule, numbers, action, verdict, has_request_rate, key, anchor })
    }

    /// One counter is charged once a request, with the largest cost, under the first rate that a
    /// descriptor brings for it.
    #[inline]
    fn add(&mut self, at: u16, op: PlannedOp<'r>) -> Result<(), RequestError> {
        let key = self.key(&op);
        let twin = self
            .ops
            .iter()
            .position(|other| std::ptr::eq(other.rule, op.rule) && self.key(other) == key);
        let place = match twin {
            Some(place) => {
                let limit = &op.rule.id;
                let merged = merge(self.ops[place].action, op.action)
                    .ok_or_else(|| RequestError::ChargeAndRefund { limit: limit.to_string() })?;
                let met = &mut self.ops[place];
                met.action = merged;
                if op.has_request_rate && !met.has_request_rate {
                    (met.numbers, met.verdict, met.has_request_rate) =
                        (op.numbers, op.verdict, true);
                }
                place
            }
            None if self.ops.len() == MOST_COUNTERS => {
                return Err(RequestError::TooManyCounters { most: MOST_COUNTERS });
            }
            None => {
                self.ops.push(op);
                self.ops.len() - 1
            }
        };
        self.met.push((at, place as u16));
        Ok(())
    }
}

/// The key of a rule's counter for these key parts, the same as in [`Plan::direct`]: for a caller
/// that asks one rule alone.
#[inline]
pub fn key_alone(rule: &Rule, numbers: &Numbers, parts: &[&[u8]]) -> KeyBuffer {
    let mut buffer = KeyBuffer::new();
    let values = parts.iter().map(|part| Some(*part));
    // Whoever asks one rule alone needs no anchor.
    values::append(&mut buffer, period_of_key(rule, numbers), values, usize::MAX);
    buffer
}

#[inline]
const fn period_of_key(rule: &Rule, numbers: &Numbers) -> u64 {
    if matches!(rule.algorithm, Algorithm::Quota) {
        // The zone is no part of it: after a change of zone the period under way is finished first.
        return Around::of(numbers).unit.nominal_s();
    }
    if matches!(rule.algorithm, Algorithm::SlidingSlots) {
        // Another split is another window, and so is one whose oldest slot counts otherwise.
        return (numbers.period_us / 1_000_000) << 7 | numbers.burst;
    }
    if rule.is_keyed_by_period { numbers.period_us / 1_000_000 } else { 0 }
}
