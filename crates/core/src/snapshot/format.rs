//! The snapshot as bytes: JSON written by the policy compiler, every field present.

use std::collections::HashMap;

use serde::Deserialize;

use super::rules::Consistency;
use crate::algorithms::{Algorithm, Numbers};

/// The only form that this build reads.
pub const FORMAT: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotDoc {
    pub format: u32,
    pub revision: String,
    pub domains: Vec<DomainDoc>,
    /// By zone and unit: runs of periods, (begin, length) in seconds.
    pub calendars: HashMap<String, HashMap<String, Vec<(u64, u64)>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainDoc {
    pub name: String,
    #[serde(deserialize_with = "present")]
    pub tenant_key: Option<String>,
    pub limits: Vec<LimitDoc>,
    pub plans: Vec<PlanDoc>,
    pub tenants: HashMap<String, TenantDoc>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a word that a policy says or not")]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitDoc {
    pub id: String,
    pub when: Vec<WhenDoc>,
    pub per: Vec<String>,
    pub missing: MissingDoc,
    pub counts: String,
    pub algorithm: Algorithm,
    #[serde(deserialize_with = "present")]
    pub time_zone: Option<String>,
    pub slots: u64,
    pub conservative: bool,
    pub keyed_by_period: bool,
    #[serde(deserialize_with = "present")]
    pub numbers: Option<Numbers>,
    pub on_store_failure: OnStoreFailureDoc,
    pub on_exceed: OnExceedDoc,
    pub count_denied: bool,
    pub request_override: bool,
    #[serde(default)]
    pub consistency: Consistency,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhenDoc {
    pub key: String,
    pub negate: bool,
    pub any: Vec<PatternDoc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternDoc {
    Exact(String),
    Prefix(String),
    Regex(String),
    Cidr(String),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingDoc {
    Skip,
    Shared,
    Deny,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreFailureDoc {
    Open,
    Closed,
    Local,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExceedDoc {
    Reject,
    Shadow,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanDoc {
    pub name: String,
    pub numbers: Vec<(u32, Option<Numbers>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantDoc {
    #[serde(deserialize_with = "present")]
    pub plan: Option<u32>,
    pub overrides: Vec<OverrideDoc>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideDoc {
    pub limit: u32,
    #[serde(deserialize_with = "present")]
    pub from_us: Option<i64>,
    #[serde(deserialize_with = "present")]
    pub until_us: Option<i64>,
    #[serde(deserialize_with = "present")]
    pub numbers: Option<Numbers>,
}

/// Serde takes a missing `Option` field for `null`; a snapshot must say `null`.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}
