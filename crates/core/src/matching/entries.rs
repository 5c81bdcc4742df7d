//! What a descriptor says, as its domain understands it: entries and costs by number, the tenant.

use smallvec::SmallVec;

use super::plan::Descriptor;
use crate::snapshot::{Domain, KeyId, KindId, Rule, Tenant};

/// A tenant that a request names, looked up.
#[derive(Clone, Copy, Debug)]
pub struct Known<'r, 'd> {
    pub(super) name: &'d [u8],
    pub(super) tenant: Option<&'r Tenant>,
}

impl<'r, 'd> Known<'r, 'd> {
    #[inline]
    pub(super) fn new(domain: &'r Domain, name: &'d [u8]) -> Self {
        Self { name, tenant: domain.tenants.get(name) }
    }

    /// The first tenant that a request names, for a [`super::Plan::fill`] that follows: of
    /// requests that arrive together, all are looked up before the first is matched, so that the
    /// processor fetches their rows at once.
    #[inline]
    pub fn ahead(domain: &'r Domain, descriptors: &[Descriptor<'d>]) -> Option<Self> {
        let (_, key) = domain.tenant_key.as_ref().filter(|_| !domain.tenants.is_empty())?;
        let mut entries = descriptors.iter().flat_map(|descriptor| descriptor.entries);
        let known = Self::new(domain, entries.find(|(name, _)| **name == **key)?.1);
        // Read now, for the same reason.
        let first = known.tenant.and_then(|tenant| tenant.overrides.first());
        std::hint::black_box(first.map(|row| row.rule));
        Some(known)
    }
}

/// Entries by the number of their key, of a repeated key the first.
pub(super) type Entries<'a> = SmallVec<[(KeyId, &'a [u8]); 8]>;

/// Appends the entries whose keys any rule knows.
#[inline]
pub(super) fn note_known<'a>(
    known: &mut Entries<'a>,
    domain: &Domain,
    entries: &[(&'a [u8], &'a [u8])],
) {
    for (key, value) in entries {
        if let Some(id) = domain.keys.get(*key)
            && find(known, *id).is_none()
        {
            known.push((*id, value));
        }
    }
}

/// The value under a key.
#[inline]
pub(super) fn find<'a>(entries: &[(KeyId, &'a [u8])], key: KeyId) -> Option<&'a [u8]> {
    entries.iter().find(|(id, _)| *id == key).map(|(_, value)| *value)
}

/// What a request costs by kind, with the kind asked last: nearly all rules take the same.
pub(super) struct Costs<'a> {
    pub(super) of: &'a [(&'a [u8], u64)],
    pub(super) last: Option<(KindId, Option<u64>)>,
}

impl Costs<'_> {
    /// Of the kind that a rule takes, if the request has it.
    #[inline]
    pub(super) fn of(&mut self, rule: &Rule) -> Option<u64> {
        if let Some((kind, cost)) = self.last
            && kind == rule.kind
        {
            return cost;
        }
        let cost = self.of.iter().find(|(kind, _)| **kind == *rule.counts).map(|(_, cost)| *cost);
        self.last = Some((rule.kind, cost));
        cost
    }
}
