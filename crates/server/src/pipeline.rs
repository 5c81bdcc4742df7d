//! The way of one request: match -> plan -> count -> conclude -> record. Read this file first.
//!
//! A door turns what arrived into an [`Ask`] and gives a closure that turns the [`Answer`] into
//! what leaves. Nothing is allocated in between on the memory store, because everything borrows:
//! the plan from the policy, the answer from both.

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Decision, Descriptor, Domain, Plan, RequestError, RuleSet, Verb, conclude};
use tidegate_counters::Outcomes;

use crate::decision_id::DecisionId;
use crate::node::Node;
use crate::store::{Store, StoreFailure};

/// What a caller asks.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// May a request that is described so pass? All limits that match are asked.
    Described {
        /// The domain's name.
        domain: &'a [u8],
        /// What describes the request.
        descriptors: &'a [Descriptor<'a>],
    },
    /// Every limit of a domain on these key parts, without matching: a limit made in code.
    Direct {
        /// The domain's name.
        domain: &'a [u8],
        /// What `per` values would be.
        parts: &'a [&'a [u8]],
        /// Units; 0 only looks.
        cost: u64,
        /// Charge, look or give back.
        verb: Verb,
    },
}

/// What a door tells: the decision, and what it needs to word it.
#[derive(Debug)]
pub struct Answer<'p, 'r> {
    /// Allowed or not, and what each limit says.
    pub decision: Decision<'r>,
    /// Which descriptor met which limit.
    pub plan: &'p Plan<'r>,
    /// The policy's revision.
    pub revision: &'r str,
    /// When it was decided, unix microseconds.
    pub now_us: u64,
}

impl Answer<'_, '_> {
    /// A new id for this decision. Made where it is told, so that an answer that does not tell
    /// it does not pay for it; tell the same one everywhere.
    pub fn id(&self) -> DecisionId {
        DecisionId::new(self.now_us)
    }
}

/// Why there is no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No policy was loaded yet.
    #[error("no policy is loaded yet; load one, then ask again")]
    NotReady,
    /// The request cannot be decided as it stands.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The store cannot answer without waiting: use another of the `decide` methods.
    #[error("this store answers only after waiting")]
    MustWait,
    /// A reset did not reach the store.
    #[error("the store did not answer ({0}); nothing is known to be reset")]
    Store(&'static str),
}

type Policy = Guard<Option<std::sync::Arc<RuleSet>>>;

impl Ask<'_> {
    #[inline]
    fn domain<'r>(&self, rules: &'r RuleSet) -> Option<&'r Domain> {
        let (Self::Described { domain, .. } | Self::Direct { domain, .. }) = self;
        rules.domain(domain)
    }

    /// Matches. A domain that no policy names has no limits: everything passes, as in the
    /// protocol's reference.
    #[inline]
    fn plan<'r>(&self, domain: Option<&'r Domain>, now_us: u64) -> Result<Plan<'r>, RequestError> {
        let Some(domain) = domain else { return Ok(Plan::default()) };
        match self {
            Self::Described { descriptors, .. } => Plan::new(domain, descriptors, now_us),
            Self::Direct { parts, cost, verb, .. } => Plan::direct(domain, parts, *cost, *verb),
        }
    }

    /// Matches for a reset: limits of every kind of cost, whatever the caller named.
    fn plan_reset<'r>(
        &self,
        domain: Option<&'r Domain>,
        now_us: u64,
    ) -> Result<Plan<'r>, RequestError> {
        let (Some(domain), Self::Described { descriptors, .. }) = (domain, self) else {
            return self.plan(domain, now_us);
        };
        let mut kinds: SmallVec<[(&[u8], u64); 4]> = SmallVec::new();
        for rule in &domain.rules {
            if kinds.iter().all(|(kind, _)| **kind != *rule.counts) {
                kinds.push((&rule.counts, 1));
            }
        }
        let descriptors: SmallVec<[Descriptor<'_>; 4]> = descriptors
            .iter()
            .map(|one| Descriptor { entries: one.entries, costs: &kinds, verb: Verb::Peek })
            .collect();
        Plan::new(domain, &descriptors, now_us)
    }
}

impl Node {
    /// True if [`Node::decide_now`] answers.
    #[inline]
    pub fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    /// Decides at once; memory store only.
    ///
    /// # Errors
    /// No policy yet, a request that cannot be decided, or a store that must be waited for.
    #[inline]
    pub fn decide_now<T>(
        &self,
        ask: &Ask<'_>,
        say: impl FnOnce(&Answer<'_, '_>) -> T,
    ) -> Result<T, Refused> {
        #[expect(irrefutable_let_patterns, reason = "a store that waits joins this one")]
        let Store::Memory(memory) = &self.store else { return Err(Refused::MustWait) };
        let policy = self.policy.load();
        let rules = in_force(&policy)?;
        let now_us = self.clock.now_us();
        let domain = ask.domain(rules);
        let plan = ask.plan(domain, now_us)?;
        let outcomes = memory.decide(&plan, now_us);
        Ok(self.finish(rules, domain, &plan, now_us, &Ok(outcomes), say))
    }

    /// Decides, waiting for the store no longer than its deadline.
    ///
    /// # Errors
    /// No policy yet, or a request that cannot be decided. A store that fails is no error: the
    /// limits' `on_store_failure` decides then.
    pub async fn decide<T>(
        &self,
        ask: &Ask<'_>,
        say: impl FnOnce(&Answer<'_, '_>) -> T,
    ) -> Result<T, Refused> {
        let policy = Guard::from_inner(self.policy.load_full());
        let rules = in_force(&policy)?;
        let now_us = self.clock.now_us();
        let domain = ask.domain(rules);
        let plan = ask.plan(domain, now_us)?;
        let outcomes = match plan.asked().next() {
            Some(_) => self.store.decide(&plan, now_us).await,
            None => Ok(Outcomes::new()),
        };
        Ok(self.finish(rules, domain, &plan, now_us, &outcomes, say))
    }

    /// The same for a thread without a runtime.
    ///
    /// # Errors
    /// As [`Node::decide`].
    pub fn decide_blocking<T>(
        &self,
        ask: &Ask<'_>,
        say: impl FnOnce(&Answer<'_, '_>) -> T,
    ) -> Result<T, Refused> {
        let policy = Guard::from_inner(self.policy.load_full());
        let rules = in_force(&policy)?;
        let now_us = self.clock.now_us();
        let domain = ask.domain(rules);
        let plan = ask.plan(domain, now_us)?;
        let outcomes = match plan.asked().next() {
            Some(_) => self.store.decide_blocking(&plan, now_us),
            None => Ok(Outcomes::new()),
        };
        Ok(self.finish(rules, domain, &plan, now_us, &outcomes, say))
    }

    /// Forgets the counters that this request would meet, of every kind of cost; says of which
    /// limits.
    ///
    /// # Errors
    /// As [`Node::decide`], and a store that did not answer.
    pub async fn reset(&self, ask: &Ask<'_>) -> Result<Vec<String>, Refused> {
        let policy = Guard::from_inner(self.policy.load_full());
        let rules = in_force(&policy)?;
        let plan = ask.plan_reset(ask.domain(rules), self.clock.now_us())?;
        self.store.reset(&plan).await.map_err(|failure| Refused::Store(failure.0))?;
        Ok(limits_of(&plan))
    }

    /// The same for a thread without a runtime.
    ///
    /// # Errors
    /// As [`Node::reset`].
    pub fn reset_blocking(&self, ask: &Ask<'_>) -> Result<Vec<String>, Refused> {
        let policy = Guard::from_inner(self.policy.load_full());
        let rules = in_force(&policy)?;
        let plan = ask.plan_reset(ask.domain(rules), self.clock.now_us())?;
        self.store.reset_blocking(&plan).map_err(|failure| Refused::Store(failure.0))?;
        Ok(limits_of(&plan))
    }

    #[inline]
    fn finish<'r, T>(
        &self,
        rules: &'r RuleSet,
        domain: Option<&Domain>,
        plan: &Plan<'r>,
        now_us: u64,
        outcomes: &Result<Outcomes, StoreFailure>,
        say: impl FnOnce(&Answer<'_, '_>) -> T,
    ) -> T {
        let decision = conclude(plan, outcomes.as_ref().ok().map(|all| &all[..]));
        self.metrics.record(domain, &decision);
        if let Err(failure) = outcomes {
            self.metrics.record_store_failure(*failure);
        }
        say(&Answer { decision, plan, revision: &rules.revision, now_us })
    }
}

#[inline]
fn in_force(policy: &Policy) -> Result<&RuleSet, Refused> {
    policy.as_deref().ok_or(Refused::NotReady)
}

/// The ids of the limits whose counters a plan meets, each once.
fn limits_of(plan: &Plan<'_>) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for op in plan.asked() {
        if ids.iter().all(|id| **id != *op.rule.id) {
            ids.push(op.rule.id.to_string());
        }
    }
    ids
}
