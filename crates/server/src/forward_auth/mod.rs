//! What a proxy's sub-request says of a client, and how much of it is believed: the address, the
//! path, the descriptors that the server's configuration makes of them.

mod address;
mod config;
mod door;
mod path;
mod repeats;

pub use address::{Prefixes, Trusted, client_address, unified};
pub use config::{ForwardAuth, ForwardAuthError};
pub use door::{Door, Refusal, Said, Subject, descriptors};
pub use path::{Spelling, normalized};
pub use repeats::{Repeats, RequestKey, Told};
