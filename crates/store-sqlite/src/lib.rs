//! The store in one SQLite file, in WAL mode.
//!
//! One connection writes and a few read, so that a long read (an export, a transcript) does not hold up a commit. A small commit
//! is made by the caller's own thread if no other one is under way: that takes less time than to wake another thread up.
//! Everything else has a queue. Commits do not sync; one sync serves all that wait for one.
//!
//! Beside the store: the leases by which processes see each other ([`FileLeases`]), and copies of the file
//! ([`SqliteStore::backup`], [`SqliteStore::restore`]).
//!
//! ```
//! use pincer_store::{Claim, NewRun, RunEnd, RunState, Runs, Safety};
//! use pincer_store_sqlite::SqliteStore;
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-doc-{}", std::process::id()));
//! let store = SqliteStore::open(&directory.join("pincer.db"))?;
//! let id = "cm_1".into();
//! let run = NewRun {
//!     id: "cm_1".into(), session: "main".into(), user: "me".into(), agent_run: None, created_at: 0, key: None, tools: None,
//!     recorded: None,
//! };
//! let claim = |owner: &str| Claim { owner: owner.into(), safety: Safety::Process };
//! let fence = store.create_run(run, claim("process-1"), None, Safety::Process).wait()?;
//!
//! // A process that takes the run over leaves the old owner without a say.
//! let newer = store.claim_run(&id, (RunState::Running, fence), claim("process-2")).wait()?;
//! assert!(store.finish_run(&id, fence, RunEnd::new(RunState::Failed, "{}"), 1, Safety::Power).wait().is_err());
//! store.finish_run(&id, newer, RunEnd::new(RunState::Completed, "{}"), 1, Safety::Power).wait()?;
//! assert_eq!(store.run(&id).wait()?.state, RunState::Completed);
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent_runs;
mod approvals;
mod backup;
mod changes;
mod clock;
mod cron;
mod cron_runs;
mod deliveries;
mod drafts;
mod error;
mod examine;
mod figures;
mod file;
mod forks;
mod grants;
mod instructions;
mod journal;
mod keys;
mod leases;
mod listings;
mod migrations;
mod outlines;
#[cfg(test)]
mod plans;
mod presence;
mod readers;
mod recordings;
mod room;
mod rows;
mod runs;
mod searches;
mod sessions;
mod snapshots;
mod store;
mod sync;
mod upkeep;
mod worker;

pub use backup::{Endings, Restored};
pub use error::SqliteError;
pub use examine::{Examined, Integrity};
pub use leases::FileLeases;
pub use store::{CommitHook, CommitMoment, SqliteStore};
