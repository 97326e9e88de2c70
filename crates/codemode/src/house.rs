//! Upkeep of the store while nothing is asked of this process: one task for all runs, which sleeps until something is due.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::codemode::CodeMode;

/// The least time between two rounds.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// When something is due.
#[derive(Default)]
pub(crate) struct House {
    next: Mutex<Option<Instant>>,
    sooner: Notify,
}

impl House {
    fn next(&self) -> MutexGuard<'_, Option<Instant>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something is due then. `true` if there is no task yet that waits for it.
    fn note(&self, at: Instant) -> bool {
        let mut next = self.next();
        let is_first = next.is_none();
        if next.is_none_or(|next| at < next) {
            *next = Some(at);
            self.sooner.notify_one();
        }
        is_first
    }

    /// Waits until the next thing is due.
    async fn due(&self) {
        loop {
            let Some(at) = *self.next() else { return };
            tokio::select! {
                () = tokio::time::sleep_until(at) => return,
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Notes what comes next. `false` if that is nothing: then the task ends.
    fn goes_on(&self, at: Option<Instant>) -> bool {
        *self.next() = at;
        at.is_some()
    }
}

impl CodeMode {
    /// Sees to it that the store is swept by then, also while nothing is asked.
    pub(crate) fn sweep_within(&self, time: Duration) {
        let house = Arc::clone(&self.inner.house);
        if !house.note(Instant::now() + time) {
            return;
        }
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                house.due().await;
                let Some(inner) = inner.upgrade() else { return };
                let next = CodeMode { inner }.sweep().await;
                if !house.goes_on(next.map(|next| Instant::now() + next.max(LEAST_PAUSE))) {
                    return;
                }
            }
        });
    }
}
