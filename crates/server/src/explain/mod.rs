//! Why a request was limited, afterwards, and what would limit it, beforehand.

mod kept;
mod packed;
mod policy;
mod record;
mod ring;
mod safe;
mod time;

pub use kept::{put_kept, when_kept};
pub use policy::put_explanation;
pub(crate) use record::pack;
pub use ring::{MOST_KEPT, Ring};
