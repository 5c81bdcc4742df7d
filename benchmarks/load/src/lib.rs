//! What the programs share.

pub mod arguments;
pub mod count;
pub mod pin;
pub mod processes;
pub mod schedule;
pub mod seconds;
pub mod template;
