//! Spans for a collector of OpenTelemetry: of requests that come with a sampled trace, and of no
//! others. They wait in a bounded queue for whoever sends them, so that no request does.

mod otlp;
mod parent;
mod queue;
mod span;
mod state;

pub use parent::Parent;
pub use queue::Spans;
pub use span::{Asked, Ended, Span};
