//! From outcomes to an answer: allowed or not, why, which limit binds, when to come back.

use smallvec::SmallVec;

use crate::algorithms::Numbers;
use crate::matching::{FEW, Plan, PlannedOp, Verdict};
use crate::snapshot::{OnStoreFailure, Rule};

/// What a store says of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True if the cost passes this limit.
    pub fits: bool,
    /// The largest whole cost that would pass now, after what this request did.
    pub remaining: u64,
    /// Microseconds until the same cost passes: 0 if it fits, none if no wait helps.
    pub wait_us: Option<u64>,
    /// Microseconds until the window ends or the counter is as good as unused.
    pub reset_us: u64,
    /// True if this counter shares its place with others because the memory store is full.
    pub is_folded: bool,
    /// True if the counter could not be asked, and what stands here is what the limit says then.
    pub is_unasked: bool,
}

impl Outcome {
    /// A limit that lets nothing through, whatever was counted.
    pub const SHUT: Self = Self {
        fits: false,
        remaining: 0,
        wait_us: None,
        reset_us: 0,
        is_folded: false,
        is_unasked: false,
    };

    /// Of a limit whose counter could not be asked.
    pub const fn unasked(on_store_failure: OnStoreFailure) -> Self {
        match on_store_failure {
            // What a node decides by its share stands in the place of this.
            OnStoreFailure::Open | OnStoreFailure::Local => {
                Self { fits: true, wait_us: Some(0), is_unasked: true, ..Self::SHUT }
            }
            OnStoreFailure::Closed => Self { is_unasked: true, ..Self::SHUT },
        }
    }
}

/// Why the answer is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Every limit passes, or none applies.
    Ok,
    /// A limit is used up.
    OverLimit,
    /// The cost is above a limit's capacity: no wait helps.
    CostExceedsLimit,
    /// A limit has the rate 0.
    Blocked,
    /// A limit demands a descriptor key that the request lacks.
    MissingKey,
    /// The store did not answer for a limit that is closed in that case.
    StoreFailure,
}

impl Reason {
    /// The word used at every door.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OverLimit => "over_limit",
            Self::CostExceedsLimit => "cost_exceeds_limit",
            Self::Blocked => "blocked",
            Self::MissingKey => "missing_key",
            Self::StoreFailure => "store_failure",
        }
    }
}

/// What is said of one limit that the request met.
#[derive(Clone, Copy, Debug)]
pub struct LimitReport<'r> {
    /// The limit.
    pub rule: &'r Rule,
    /// The numbers in force for this tenant at this time.
    pub numbers: Numbers,
    /// True if this limit passes the request.
    pub allowed: bool,
    /// Requests; see [`Outcome::remaining`].
    pub remaining: u64,
    /// Microseconds, none if no wait helps; 0 if allowed, unless a denied request charged it.
    pub wait_us: Option<u64>,
    /// Microseconds.
    pub reset_us: u64,
    /// Why this limit refuses, or `Ok`.
    pub reason: Reason,
    /// True if the counter is a shared one of a full memory store.
    pub is_folded: bool,
    /// True if the counter could not be asked: `on_store_failure` decided, the numbers are unknown.
    pub is_unasked: bool,
}

impl<'r> LimitReport<'r> {
    /// What a limit says by its counter, or without it where that could not be asked.
    #[inline]
    pub const fn counted(rule: &'r Rule, numbers: Numbers, outcome: &Outcome) -> Self {
        let reason = match outcome {
            Outcome { fits: true, .. } => Reason::Ok,
            Outcome { wait_us: None, is_unasked: true, .. } => Reason::StoreFailure,
            Outcome { wait_us: None, .. } => Reason::CostExceedsLimit,
            Outcome { .. } => Reason::OverLimit,
        };
        Self::new(rule, numbers, outcome, reason)
    }

    #[inline]
    const fn new(rule: &'r Rule, numbers: Numbers, outcome: &Outcome, reason: Reason) -> Self {
        Self {
            rule,
            numbers,
            allowed: outcome.fits,
            remaining: outcome.remaining,
            wait_us: outcome.wait_us,
            reset_us: outcome.reset_us,
            reason,
            is_folded: outcome.is_folded,
            is_unasked: outcome.is_unasked,
        }
    }

    /// The most that can be taken at once, in requests.
    pub const fn limit(&self) -> u64 {
        self.numbers.capacity(self.rule.algorithm)
    }

    /// Microseconds in which a full counter comes back.
    pub const fn window_us(&self) -> u64 {
        self.numbers.window_us(self.rule.algorithm)
    }

    /// Microseconds by which the limit's period is named; see [`Numbers::named_period_us`].
    pub const fn named_period_us(&self) -> u64 {
        self.numbers.named_period_us(self.rule.algorithm)
    }

    /// True if this limit denies the request: it refuses and is enforced.
    pub const fn denies(&self) -> bool {
        !self.allowed && !self.rule.is_shadow
    }
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub struct Decision<'r> {
    /// True if the request may pass.
    pub allowed: bool,
    /// Why not, or `Ok`.
    pub reason: Reason,
    /// Microseconds until the same request passes if nobody else takes anything; none where it
    /// is allowed or no wait helps.
    pub retry_after_us: Option<u64>,
    /// True if the store did not answer for some limit, whose `on_store_failure` decided.
    pub is_degraded: bool,
    /// Index of the limit that headers show.
    pub binding: Option<usize>,
    /// The limits met, in the order of the policy file.
    pub limits: SmallVec<[LimitReport<'r>; FEW]>,
}

impl Decision<'_> {
    /// The limit that binds among some of those met, given by their places in
    /// [`Decision::limits`], by the same rule as [`Decision::binding`].
    pub fn binding_among(&self, places: impl IntoIterator<Item = usize>) -> Option<usize> {
        binding(&self.limits, places)
    }
}

/// Answers a planned request from its outcomes, which stand in the order of
/// [`Plan::asked`]; `None` where the store could not be asked.
#[inline]
pub fn conclude<'r>(plan: &Plan<'r>, outcomes: Option<&[Outcome]>) -> Decision<'r> {
    let mut limits = SmallVec::new();
    let mut asked = outcomes.unwrap_or_default().iter();
    let mut is_degraded = false;
    for op in &plan.ops {
        let report = report(op, &mut asked);
        is_degraded |= report.is_unasked;
        limits.push(report);
    }
    decide(limits, is_degraded)
}

#[inline]
fn report<'r>(op: &PlannedOp<'r>, asked: &mut std::slice::Iter<'_, Outcome>) -> LimitReport<'r> {
    let reason = match op.verdict {
        Verdict::Blocked => Reason::Blocked,
        Verdict::MissingKey => Reason::MissingKey,
        Verdict::Ask => {
            let unasked = || Outcome::unasked(op.rule.on_store_failure);
            let outcome = asked.next().copied().unwrap_or_else(unasked);
            return LimitReport::counted(op.rule, op.numbers, &outcome);
        }
    };
    LimitReport::new(op.rule, op.numbers, &Outcome::SHUT, reason)
}

#[inline]
fn decide(limits: SmallVec<[LimitReport<'_>; FEW]>, is_degraded: bool) -> Decision<'_> {
    let binding = binding(&limits, 0..limits.len());
    let denying = binding.map(|at| &limits[at]).filter(|report| report.denies());
    Decision {
        allowed: denying.is_none(),
        reason: denying.map_or(Reason::Ok, |report| report.reason),
        retry_after_us: denying.and_then(|report| report.wait_us).map(|wait| latest(&limits, wait)),
        is_degraded,
        binding,
        limits,
    }
}

/// The wait of a denied request: that of the limit which denies, or of one that had room and was
/// charged all the same.
#[inline]
fn latest(limits: &[LimitReport<'_>], wait_us: u64) -> u64 {
    let waits = limits.iter().filter(|report| !report.rule.is_shadow);
    waits.filter_map(|report| report.wait_us).fold(wait_us, u64::max)
}

/// The denying limit that frees last, else the one with the least remaining / limit.
fn binding(limits: &[LimitReport<'_>], places: impl IntoIterator<Item = usize>) -> Option<usize> {
    let mut best: Option<usize> = None;
    for at in places {
        if best.is_none_or(|other| binds_before(&limits[at], &limits[other])) {
            best = Some(at);
        }
    }
    best
}

#[inline]
fn binds_before(a: &LimitReport<'_>, b: &LimitReport<'_>) -> bool {
    match (a.denies(), b.denies()) {
        (true, false) => true,
        (false, true) => false,
        // What is known says more than what is not.
        _ if a.is_unasked != b.is_unasked => b.is_unasked,
        (true, true) => a.wait_us.unwrap_or(u64::MAX) > b.wait_us.unwrap_or(u64::MAX),
        (false, false) if a.rule.is_shadow != b.rule.is_shadow => b.rule.is_shadow,
        (false, false) => {
            // A limit of 0 in shadow is as full as one can be, not as full as any other.
            let left = u128::from(a.remaining) * u128::from(b.limit().max(1));
            let right = u128::from(b.remaining) * u128::from(a.limit().max(1));
            left < right || (left == right && a.window_us() > b.window_us())
        }
    }
}
