//! Why a store could not be saved, or a file not be taken up.

use std::io;
use std::path::PathBuf;

/// A store that is not in its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// What stands there is something else.
    #[error("{} holds no counters, and stays; choose another path", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot write: {source}: {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A file that is not taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system refuses.
    #[error("cannot read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is something else.
    #[error("it holds no counters")]
    Foreign,
    /// A later version wrote it.
    #[error("it has form {found}, and this version reads up to {newest}")]
    TooNew {
        /// The form that it names.
        found: u32,
        /// The newest that is known.
        newest: u32,
    },
    /// It is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}
