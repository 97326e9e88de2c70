//! Jobs of the schedule: they are made here, begun here when they are due, and agents have a tool for them.
//!
//! The store sees to it that a time is run for once (`CronJobs::begin_cron_run`), and that the end of a run is part of its job's history.
//! A process has only to look when the next job is due.

mod begin;
mod document;
mod due;
mod jobs;
mod tool;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pincer_store::{Clock, CronNow, Millis};
use pincer_store_sqlite::SqliteStore;

pub(crate) use document::in_words;
pub use document::{cron_job_document, cron_run_document};
pub use due::{Cron, CronNews};
pub use jobs::{JobMaker, JobSession, JobWish, When, add_cron_job, set_cron_job_enabled};
pub(crate) use tool::add_tool;

use crate::inner::Inner;

/// Returns what both clocks show. Times that people name are those of the clock on the wall, whatever the store goes by.
pub fn cron_now(store: &SqliteStore) -> CronNow {
    CronNow { wall: wall_clock(), store: store.now() }
}

fn wall_clock() -> Millis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX))
}

impl Inner {
    /// Has the schedule of this process look at its jobs again.
    pub(crate) fn tell_cron_changed(self: &Arc<Self>) {
        self.cron_changed.notify_one();
    }
}
