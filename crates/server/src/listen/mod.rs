//! From an address to a connection: listens, accepts, shakes hands, tells HTTP/2 from HTTP/1.1.

mod address;
mod listener;
mod opening;
mod socket;

pub use address::{Address, NoAddress};
pub(crate) use listener::Listening;
pub use listener::{BindError, Listener, bind};
pub use opening::{Opening, OpeningStats, Protocol};
pub use socket::{Accepted, Socket};
