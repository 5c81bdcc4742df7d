//! Why a request was limited, afterwards, and what would limit it, beforehand.

mod kept;
mod packed;
mod policy;
mod record;
mod ring;
mod safe;
mod time;

pub(crate) use kept::put_cut;
pub use kept::{put_kept, when_kept};
pub(crate) use packed::{Cut, Reader, cut, put_text};
pub use policy::put_explanation;
pub(crate) use record::{ENTRY, NAME, pack};
pub use ring::{MOST_KEPT, Ring};
pub(crate) use time::Rfc3339;
