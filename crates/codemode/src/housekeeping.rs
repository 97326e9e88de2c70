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
pub(crate) struct Housekeeping {
    plan: Mutex<Plan>,
    sooner: Notify,
}

#[derive(Default)]
struct Plan {
    next: Option<Instant>,
    /// There is a task that waits for it, or is at work.
    is_kept: bool,
}

impl Housekeeping {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something is due then. `true` if there is no task yet that waits for it.
    fn note(&self, at: Instant) -> bool {
        let mut plan = self.plan();
        if plan.next.is_none_or(|next| at < next) {
            plan.next = Some(at);
            self.sooner.notify_one();
        }
        !std::mem::replace(&mut plan.is_kept, true)
    }

    /// Waits until the next thing is due, and takes it off the plan. `false` if nothing is planned: then the task ends.
    async fn due(&self) -> bool {
        loop {
            let at = {
                let mut plan = self.plan();
                match plan.next {
                    Some(at) if at <= Instant::now() => {
                        plan.next = None;
                        return true;
                    }
                    Some(at) => at,
                    None => {
                        plan.is_kept = false;
                        return false;
                    }
                }
            };
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = self.sooner.notified() => {}
            }
        }
    }
}

impl CodeMode {
    /// Sees to it that the store is swept by then, also while nothing is asked.
    pub(crate) fn sweep_within(&self, time: Duration) {
        let house = Arc::clone(&self.shared.house);
        if !house.note(Instant::now() + time) {
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            while house.due().await {
                let Some(shared) = shared.upgrade() else { return };
                // Notes that came meanwhile are on the plan too.
                if let Some(next) = (CodeMode { shared }).sweep().await {
                    house.note(Instant::now() + next.max(LEAST_PAUSE));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_noted_while_the_task_works_is_not_forgotten() {
        let house = Housekeeping::default();
        let later = |milliseconds| Instant::now() + Duration::from_millis(milliseconds);
        assert!(house.note(later(3_600_000)), "a task is needed");
        assert!(!house.note(later(1)), "there is one");
        assert!(house.due().await, "the sooner of the two");
        // At work: what comes now belongs to this task.
        assert!(!house.note(later(1)));
        assert!(house.due().await);
        assert!(!house.due().await, "nothing is planned");
        assert!(house.note(later(1)), "another task is needed");
    }
}
