//! Counters in Redis or Valkey: one script decides batches of requests, each key has one place
//! that builds it, and what left is never sent twice.
//!
//! The client is our own and small. A batch is packed at enqueue straight into the bytes of its
//! call and leaves from the task that opened it; general clients build a command for each call,
//! hand it through a channel to a task of theirs and back, and do not say whether a call had left
//! when it failed, which is what decides whether it may have been charged.

mod away;
mod backoff;
mod batch;
mod blocking;
mod blocking_cluster;
mod breaker;
mod call;
mod changes;
mod checksum;
mod cluster;
mod connection;
mod denials;
mod driver;
mod error;
mod far;
mod handle;
mod handshake;
mod health;
mod keys;
mod lateness;
mod line;
mod local;
mod news;
mod options;
mod outcome;
mod prober;
mod replicas;
mod replies;
mod resp;
mod said;
mod scripts;
mod sentinel;
mod sharded;
mod slots;
mod socket;
mod spread;
mod store;
mod stretches;
mod tls;
mod wire;

pub use error::{ErrorClass, StoreError};
pub use handle::{Begun, Departure, RedisHandle};
pub use health::Health;
pub use news::News;
pub use options::{Address, OptionsError, RedisOptions};
pub use sentinel::Sentinels;
pub use store::RedisStore;
pub use tls::TlsOptions;
pub use wire::Aboard;
