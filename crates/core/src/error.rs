//! What can be wrong with a snapshot or with a request.

use thiserror::Error;

/// A snapshot that cannot be used. The compiler makes snapshots, so each of these is a bug there
/// or a file of another version.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Not JSON of the expected shape.
    #[error("the snapshot does not have the expected form: {0}")]
    Form(#[from] serde_json::Error),
    /// Made by another version.
    #[error("the snapshot has format {found}; this build reads format {expected}")]
    Format {
        /// What the snapshot says.
        found: u32,
        /// What this build reads.
        expected: u32,
    },
    /// A number outside its range, a bad pattern, an index that names nothing.
    #[error("domain {domain:?}, limit {limit:?}: {problem}")]
    Limit {
        /// Name of the domain.
        domain: String,
        /// Id of the limit.
        limit: String,
        /// What is wrong.
        problem: String,
    },
    /// A calendar whose periods do not follow one another.
    #[error("calendar of {zone:?}, {problem}")]
    Calendar {
        /// IANA name of the time zone.
        zone: String,
        /// What is wrong.
        problem: String,
    },
    /// Two domains or two limits with one name, a tenant with an unknown plan.
    #[error("domain {domain:?}: {problem}")]
    Domain {
        /// Name of the domain.
        domain: String,
        /// What is wrong.
        problem: String,
    },
}

/// A request that cannot be answered with a decision.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// One request both charges and refunds one counter.
    #[error("limit {limit:?}: one request may not both charge and refund the same counter")]
    ChargeAndRefund {
        /// Id of the limit.
        limit: String,
    },
    /// More limits matched than one request may bring.
    #[error("the request meets more than {most} counters; send fewer descriptors")]
    TooManyCounters {
        /// The most that is served.
        most: usize,
    },
}
