//! TLS for connections from the network: what is served with, who may come, files that change.

mod certificates;
mod clients;
mod config;
mod follow;

pub use certificates::Certificates;
pub use clients::UriPattern;
pub use config::{TlsError, TlsFiles};
pub use follow::Follower;
