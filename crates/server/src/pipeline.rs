//! The way of one request: match -> plan -> count -> conclude -> record. Read this file first.
//!
//! A door turns what arrived into an [`Ask`] and gives a closure that turns the [`Answer`] into
//! what leaves. On the memory store nothing is allocated in between, because everything borrows:
//! the plan from the policy, the answer from both.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::matching::Known;
use tidegate_core::{Decision, Descriptor, Domain, Plan, RequestError, RuleSet, Verb, conclude};
use tidegate_counters::Outcomes;
use tidegate_counters::join::join;

use crate::decision_id::DecisionId;
use crate::explain::{pack, put_explanation};
use crate::journal::journal;
use crate::metrics::Timed;
use crate::node::Node;
use crate::store::{Store, StoreFailure, Way};

/// Descriptors that one request may bring.
pub const MOST_DESCRIPTORS: usize = 1000;
/// Entries that one request may bring: to match more would keep others waiting.
pub const MOST_ENTRIES: usize = 1 << 17;

/// May a request that is described so pass?
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The domain's name.
    pub domain: &'a [u8],
    /// What describes the request, what it costs, and what is to be done.
    pub descriptors: &'a [Descriptor<'a>],
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
    id: Cell<Option<DecisionId>>,
}

impl<'p, 'r> Answer<'p, 'r> {
    /// What was decided, and by what.
    #[inline]
    pub const fn new(
        decision: Decision<'r>,
        plan: &'p Plan<'r>,
        revision: &'r str,
        now_us: u64,
    ) -> Self {
        Self { decision, plan, revision, now_us, id: Cell::new(None) }
    }

    /// The same, under an id that was told before.
    #[must_use]
    pub fn with_id(self, id: DecisionId) -> Self {
        self.id.set(Some(id));
        self
    }

    /// The id of this decision, everywhere the same. Made where it is first told, so that an
    /// answer that does not tell it does not pay for it.
    pub fn id(&self) -> DecisionId {
        let id = self.id.get().unwrap_or_else(|| DecisionId::new(self.now_us));
        self.id.set(Some(id));
        id
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
    /// The store cannot answer without waiting: ask through a [`WorkerNode`].
    #[error("this store answers only after waiting")]
    MustWait,
    /// A reset did not reach the store.
    #[error("the store did not answer ({0}); nothing is known to be reset")]
    Store(&'static str),
}

/// A request that is matched and waits to be counted.
pub(crate) struct Planned<'r> {
    pub(crate) rules: &'r RuleSet,
    pub(crate) domain: Option<&'r Domain>,
    pub(crate) plan: Plan<'r>,
    pub(crate) now_us: u64,
}

impl<'r> Planned<'r> {
    /// A plan that is still empty, for the domain that the request names.
    #[inline]
    pub(crate) fn empty(rules: &'r RuleSet, ask: &Ask<'_>, now_us: u64) -> Self {
        Self { rules, domain: rules.domain(ask.domain), plan: Plan::default(), now_us }
    }

    /// Matches. A domain that no policy names has no limits: everything passes, as in the
    /// protocol's reference.
    #[inline]
    pub(crate) fn fill<'a>(
        &mut self,
        ask: &Ask<'a>,
        known: Option<Known<'r, 'a>>,
    ) -> Result<(), RequestError> {
        match self.domain {
            Some(domain) => self.plan.fill(domain, ask.descriptors, known, self.now_us),
            None => Ok(()),
        }
    }

    /// The tenant that the request names, looked up ahead.
    #[inline]
    pub(crate) fn known<'a>(&self, ask: &Ask<'a>) -> Option<Known<'r, 'a>> {
        self.domain.and_then(|domain| Known::ahead(domain, ask.descriptors))
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
        let Store::Memory(memory) = &self.store else { return Err(Refused::MustWait) };
        let policy = self.policy.load();
        let mut planned = Planned::empty(in_force(&policy)?, ask, self.clock.now_us());
        planned.fill(ask, None)?;
        let outcomes = memory.decide(&planned.plan, planned.now_us);
        Ok(self.conclude(ask, &planned, Ok(&outcomes), say))
    }

    /// What would apply to a request and why, as a JSON document; none without a policy. Takes
    /// nothing and asks no store.
    pub fn explain(&self, ask: &Ask<'_>) -> Option<Vec<u8>> {
        let policy = self.policy.load();
        let rules = policy.as_deref()?;
        let (domain, now_us) = (rules.domain(ask.domain), self.clock.now_us());
        let mut out = Vec::with_capacity(1024);
        let (revision, descriptors) = (&rules.revision, ask.descriptors);
        put_explanation(&mut out, revision, ask.domain, domain, descriptors, now_us);
        Some(out)
    }

    /// Matches.
    fn plan<'r>(&self, rules: &'r RuleSet, ask: &Ask<'_>) -> Result<Planned<'r>, RequestError> {
        let mut planned = Planned::empty(rules, ask, self.clock.now_us());
        planned.fill(ask, None)?;
        Ok(planned)
    }

    /// Words the answer, counts it, and keeps a denial for whoever asks why.
    #[inline]
    pub(crate) fn conclude<T>(
        &self,
        ask: &Ask<'_>,
        planned: &Planned<'_>,
        outcomes: Result<&Outcomes, StoreFailure>,
        say: impl FnOnce(&Answer<'_, '_>) -> T,
    ) -> T {
        let Planned { rules, domain, plan, now_us } = planned;
        let decision = conclude(plan, outcomes.ok().map(|outcomes| &outcomes[..]));
        self.metrics.record(*domain, &decision);
        self.hot.meet(&self.store, ask, planned, &decision);
        if let Err(failure) = outcomes {
            self.metrics.record_store_failure(failure);
        }
        let answer = Answer::new(decision, plan, &rules.revision, *now_us);
        if !answer.decision.allowed {
            self.denials.keep(|record| pack(record, ask, &answer));
            journal().denial(ask.domain, &answer);
        }
        say(&answer)
    }
}

/// A node as one worker's thread sees it: with a way of its own to the store. Stays there.
#[derive(Debug)]
pub struct WorkerNode {
    pub(crate) node: Arc<Node>,
    pub(crate) way: Way,
}

impl WorkerNode {
    /// For the calling thread, inside a runtime that has `spawn_local`.
    pub fn new(node: Arc<Node>) -> Self {
        let way = node.store.way();
        Self { node, way }
    }

    /// Tells the store what it does not know yet, before the thread ends; half a second at most.
    pub async fn leave(&self) {
        self.way.leave().await;
    }

    /// The node.
    #[inline]
    pub const fn node(&self) -> &Arc<Node> {
        &self.node
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
        let policy = Guard::from_inner(self.node.policy.load_full());
        let planned = self.node.plan(in_force(&policy)?, ask)?;
        let outcomes = self.count(&planned).await;
        let outcomes = outcomes.as_ref().map_err(|failure| *failure);
        Ok(self.node.conclude(ask, &planned, outcomes, say))
    }

    /// Decides many one after another, each for itself: later ones see what earlier ones took.
    /// They travel together. `say` gets each answer, or why there is none, in order.
    ///
    /// # Errors
    /// No policy yet.
    pub async fn decide_many(
        &self,
        asks: &[Ask<'_>],
        mut say: impl FnMut(Result<&Answer<'_, '_>, RequestError>),
    ) -> Result<(), Refused> {
        let policy = Guard::from_inner(self.node.policy.load_full());
        let rules = in_force(&policy)?;
        let planned: Vec<_> = asks.iter().map(|ask| self.node.plan(rules, ask)).collect();
        // Asked in order within one turn, and the store keeps the order of arrival.
        let counted = join(planned.iter().flatten().map(|planned| self.count(planned))).await;
        let mut counted = counted.into_iter();
        for (ask, planned) in asks.iter().zip(&planned) {
            match planned {
                Ok(planned) => {
                    let outcomes = counted.next().unwrap_or(Err(StoreFailure::new("lost")));
                    let outcomes = outcomes.as_ref().map_err(|failure| *failure);
                    self.node.conclude(ask, planned, outcomes, |answer| say(Ok(answer)));
                }
                Err(problem) => say(Err(problem.clone())),
            }
        }
        Ok(())
    }

    /// Forgets the counters that a request with these entries would meet, of every kind of cost;
    /// says of which limits.
    ///
    /// # Errors
    /// No policy yet, a request that cannot be planned, a store that did not answer.
    pub async fn reset(&self, ask: &Ask<'_>) -> Result<Vec<String>, Refused> {
        let policy = Guard::from_inner(self.node.policy.load_full());
        let rules = in_force(&policy)?;
        let kinds = kinds(rules.domain(ask.domain));
        let looks = ask.descriptors.iter().map(|one| Descriptor {
            entries: one.entries,
            costs: &kinds,
            verb: Verb::Peek,
            rate: None,
        });
        let descriptors: SmallVec<[Descriptor<'_>; 4]> = looks.collect();
        let ask = Ask { domain: ask.domain, descriptors: &descriptors };
        let plan = self.node.plan(rules, &ask)?.plan;
        let done = self.node.store.reset(&self.way, &plan).await;
        done.map_err(|failure| Refused::Store(failure.reason))?;
        Ok(limits_of(&plan))
    }

    #[inline]
    pub(crate) async fn count(&self, planned: &Planned<'_>) -> Result<Outcomes, StoreFailure> {
        let store = &self.node.store;
        let watch = if store.is_immediate() { None } else { self.node.metrics.watch(Timed::Store) };
        let failed = |failure| self.node.metrics.record_store_failure(failure);
        let outcomes = store.decide(&self.way, &planned.plan, planned.now_us, failed).await;
        self.node.metrics.took(Timed::Store, watch);
        outcomes
    }
}

#[inline]
pub(crate) fn in_force(policy: &Guard<Option<Arc<RuleSet>>>) -> Result<&RuleSet, Refused> {
    policy.as_deref().ok_or(Refused::NotReady)
}

/// Every kind of cost that a domain's limits take, once each.
fn kinds(domain: Option<&Domain>) -> SmallVec<[(&[u8], u64); 4]> {
    let mut kinds: SmallVec<[(&[u8], u64); 4]> = SmallVec::new();
    for rule in domain.iter().flat_map(|domain| &domain.rules) {
        if kinds.iter().all(|(kind, _)| **kind != *rule.counts) {
            kinds.push((&rule.counts, 1));
        }
    }
    kinds
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
