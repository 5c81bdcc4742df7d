//! The doors on the hot path: what listens, what answers, and the threads that carry it.

pub mod drain;
pub mod grpc;
pub mod workers;
