//! The gRPC door.

pub mod health;
pub mod reflection;
pub mod rls;
pub mod services;
pub mod transport;
pub mod wire;
