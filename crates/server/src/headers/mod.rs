//! What a client is told beside the answer: where it stands, and when to come back.

mod draft03;
mod fields;
mod ietf;
mod profile;
mod text;

pub use fields::{each, retry_after_s, seconds_until_more};
pub use profile::HeaderProfile;
pub use text::visible;
