//! Notices what other processes have committed, by looking now and then: SQLite has no notifications.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pincer_store::{ChangeWatch, Changes};

use crate::SqliteStore;
use crate::store::Core;

/// Looks at the counter that SQLite keeps of commits by other connections. It is that of the connection that writes: for it, what
/// this process has committed itself does not count.
struct Watch {
    /// Weak: a watch that is not used does not keep the file open.
    core: Weak<Core>,
    every: Duration,
    seen: Option<i64>,
}

impl Changes for SqliteStore {
    fn watch(&self, within: Duration) -> Box<dyn ChangeWatch> {
        let seen = self.core.change_counter();
        Box::new(Watch { core: Arc::downgrade(&self.core), every: within, seen })
    }
}

impl ChangeWatch for Watch {
    fn changed(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            loop {
                tokio::time::sleep(self.every).await;
                let Some(core) = self.core.upgrade() else { return std::future::pending().await };
                // `None` while a commit is under way here: the next look will tell.
                if let Some(now) = core.change_counter()
                    && self.seen.replace(now) != Some(now)
                {
                    return;
                }
            }
        })
    }
}
