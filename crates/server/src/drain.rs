//! The signal that ends service: raised once, from any thread, seen by every door.

use tokio::sync::watch;

/// Raises the signal; clones raise the same one.
#[derive(Clone, Debug)]
pub struct DrainHandle(watch::Sender<bool>);

/// Sees the signal; clones see the same one.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<bool>);

/// Makes a signal that is not yet raised.
pub fn drain() -> (DrainHandle, Drain) {
    let (raise, see) = watch::channel(false);
    (DrainHandle(raise), Drain(see))
}

impl DrainHandle {
    /// Asks every door to take nothing new and to finish what it has.
    pub fn start(&self) {
        self.0.send_replace(true);
    }

    /// Another observer of this signal.
    pub fn observer(&self) -> Drain {
        Drain(self.0.subscribe())
    }
}

impl Drain {
    /// Whether the signal was raised.
    pub fn is_started(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the signal is raised, and never if its handle went away unraised.
    pub async fn started(mut self) {
        if self.0.wait_for(|started| *started).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
