//! News of what other processes have stored.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Tells when another process has changed something.
pub trait Changes {
    /// Returns a watch that notices a change within about this time. A database with notifications notices it sooner.
    fn watch(&self, within: Duration) -> Box<dyn ChangeWatch>;
}

/// Waits for changes by other processes.
pub trait ChangeWatch: Send {
    /// Returns once another process may have changed something since the last call, or since the watch was made.
    fn changed(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
