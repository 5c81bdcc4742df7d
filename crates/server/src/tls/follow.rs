//! A thread that looks at the certificate files every second, so that no worker waits for a disk.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::certificates::Certificates;

const EVERY: Duration = Duration::from_secs(1);

/// Follows the files until it is dropped.
#[derive(Debug)]
pub struct Follower {
    // Its end is the signal to stop.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts to follow.
    ///
    /// # Errors
    /// The system gave no thread.
    pub fn start(certificates: Arc<Certificates>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let follow = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                certificates.look();
            }
        };
        let thread = thread::Builder::new().name("tidegate-certs".to_owned()).spawn(follow)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
