//! The doors on the hot path: what listens, what answers, and the threads that carry it.

pub mod access;
mod decision_id;
pub mod drain;
pub mod explain;
pub mod forward_auth;
#[cfg(test)]
mod fuzz;
pub mod grpc;
pub mod headers;
pub mod hot;
pub mod http;
pub mod journal;
pub mod json;
pub mod listen;
pub mod metrics;
pub mod node;
pub mod pipeline;
pub mod places;
pub mod problem;
pub mod server;
pub mod store;
pub mod tls;
mod together;
pub mod traces;
mod trips;
pub mod workers;

pub use decision_id::DecisionId;
pub use forward_auth::{ForwardAuth, ForwardAuthError};
pub use headers::HeaderProfile;
pub use node::{Node, Readiness, Reloads};
pub use pipeline::{Answer, Ask, Refused, WorkerNode};
pub use server::{Server, ServerOptions, StartError};
pub use store::Store;
pub use together::TOGETHER;
