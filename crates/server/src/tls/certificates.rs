//! The certificates in force: read at the start, read again when their files change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;

use super::config::{Contents, TlsError, TlsFiles};

/// What new connections are opened with. Those that are open keep what they began with.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    // Guards what the last looks at the files found. Connections do not take it.
    looks: Mutex<Looks>,
    /// Totals that order nothing else: `Relaxed`.
    loaded: AtomicU64,
    failed: AtomicU64,
}

struct Looks {
    /// What was last tried, for better or worse.
    tried: Contents,
    /// What the last look found; an error's text if it could not read all.
    seen: Result<Contents, String>,
    error: Option<String>,
}

impl std::fmt::Debug for Looks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the contents: a key is among them.
        f.debug_struct("Looks").field("error", &self.error).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = files.read()?;
        let config = ArcSwap::new(files.config(&contents)?);
        let looks = Looks { tried: contents.clone(), seen: Ok(contents), error: None };
        Ok(Self {
            files,
            config,
            looks: Mutex::new(looks),
            loaded: AtomicU64::new(1),
            failed: AtomicU64::new(0),
        })
    }

    /// What a new connection is opened with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Why the files as they are now cannot be used; none: they are in force.
    pub fn error(&self) -> Option<String> {
        self.looks.lock().error.clone()
    }

    /// How often files were taken into force, the start included.
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Ordering::Relaxed)
    }

    /// How often files were refused.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Looks at the files. What differs from what was tried last is tried once two looks in a
    /// row found the same: a certificate and its key change one after the other.
    pub(super) fn look(&self) {
        let mut looks = self.looks.lock();
        let found = self.files.read().map_err(|error| error.to_string());
        if found != looks.seen {
            looks.seen = found;
            return;
        }
        let outcome = match found {
            Ok(contents) if contents == looks.tried => {
                // Unreadable for a while, and the same again: in force, or refused as before.
                if looks.error.is_some() {
                    looks.error = self.files.config(&contents).err().map(|it| it.to_string());
                }
                return;
            }
            Ok(contents) => {
                let made = self.files.config(&contents).map_err(|error| error.to_string());
                looks.tried = contents;
                made
            }
            Err(error) if looks.error.as_ref() == Some(&error) => return,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(config) => {
                self.config.store(config);
                self.loaded.fetch_add(1, Ordering::Relaxed);
                looks.error = None;
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                looks.error = Some(error);
            }
        }
    }
}
