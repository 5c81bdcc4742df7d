//! TLS to the store: what a URL says of it, and a session over a socket that does not block.

mod any_name;
mod options;
mod session;
mod stream;
mod words;

pub use options::TlsOptions;
pub(super) use session::{Need, Session};
pub(super) use stream::TlsStream;
