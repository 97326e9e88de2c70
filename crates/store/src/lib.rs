//! What must survive the process: runs and their snapshots, the journal of nested calls, approvals and grants, and
//! idempotency keys.
//!
//! Each concern is a small trait, so that another database can stand behind it with the same tests. [`SqliteStore`] is the
//! default: one file in WAL mode. What a call has returned is committed, and survives at least the death of the process
//! ([`Safety`]). Nothing here holds a lock between two calls:
//! whoever owns a run proves it with a [`Fence`], which is checked inside the commit, so that an owner that was thought dead
//! and comes back can change nothing.
//!
//! It stores what it is given and knows nothing of tools, JavaScript or policy. Times are the caller's, in milliseconds since
//! 1970, so that tests need no clock. All calls block; they take well under a millisecond, plus what the disk needs.
//!
//! ```
//! use pincer_store::{NewRun, RunState, Runs, Safety, SqliteStore};
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-doc-{}", std::process::id()));
//! let store = SqliteStore::open(&directory.join("pincer.db"))?;
//! let run = NewRun { id: "cm_1", session: "main", caller: "me", agent_run: None, created_at: 0 };
//! let fence = store.create_run(&run, "process-1")?;
//!
//! // Somebody who took the run over leaves the old owner without a say.
//! let newer = store.claim_run("cm_1", fence, "process-2")?;
//! assert!(store.finish_run("cm_1", fence, RunState::Failed, "{}", 1, Safety::Power).is_err());
//! store.finish_run("cm_1", newer, RunState::Completed, "{}", 1, Safety::Power)?;
//! assert_eq!(store.run("cm_1")?.state, RunState::Completed);
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod approvals;
mod error;
mod grants;
mod journal;
mod keys;
mod migrations;
mod runs;
mod snapshots;
mod sqlite;

pub use approvals::{Approval, ApprovalState, Approvals, Decision, NewApproval, Resolution};
pub use error::StoreError;
pub use grants::{Grant, GrantKind, Grants, NewGrant};
pub use journal::{Call, CallState, Journal, NewCall, Repeat};
pub use keys::{IdempotencyKeys, Remembered};
pub use runs::{Fence, NewRun, Run, RunOverview, RunState, Runs};
pub use snapshots::{Park, Snapshot, Snapshots};
pub use sqlite::{Commit, Patience, Safety, SqliteStore};

/// Milliseconds since 1970.
pub type Millis = i64;

/// This moment, for those who have a clock to go by.
pub fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as Millis)
}
