//! gRPC over bare HTTP/2: connections, framing, time-outs and statuses; knows no message.

mod answer;
mod connection;
mod dialogue;
mod exchange;
#[cfg(test)]
mod fuzz;
mod head;
mod io;
mod lifecycle;
mod message;
mod room;
mod server;
mod service;
mod settings;
mod several;
mod stats;
mod status;
mod timeout;

pub use message::{Message, MessageBuilder, PREFIX_LEN};
pub use server::Server;
pub use service::{Call, Reply, Service};
pub use settings::Settings;
pub use several::{Calls, Group};
pub use stats::Stats;
pub use status::{Code, Status};
