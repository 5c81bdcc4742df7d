//! What both programs share.

pub mod arguments;
