//! Masters that sentinels watch: whom to ask where the master is, and what they answer.

mod options;
mod question;
mod tour;

pub use options::Sentinels;
pub(super) use question::Question;
pub(super) use tour::Tour;
