//! The gRPC door.

pub mod transport;
