//! The doors on the hot path: what listens, what answers, and the threads that carry it.

mod decision_id;
pub mod drain;
pub mod grpc;
pub mod metrics;
pub mod node;
pub mod pipeline;
pub mod store;
pub mod workers;

pub use decision_id::DecisionId;
pub use node::{Node, Readiness, Reloads};
pub use pipeline::{Answer, Ask, Refused};
pub use store::Store;
