//! What must survive the process: runs and their snapshots, the journal of nested calls, approvals and grants, and
//! idempotency keys.
//!
//! Each concern is a small trait, so that another database can stand behind it with the same tests. [`SqliteStore`] is the
//! default: one file in WAL mode. What a call has returned is committed. Nothing here holds a lock between two calls:
//! whoever owns a run proves it with a [`Fence`], which is checked inside the commit, so that an owner that was thought dead
//! and comes back can change nothing.
//!
//! It stores what it is given and knows nothing of tools, JavaScript or policy. Times are the caller's, in milliseconds since
//! 1970, so that tests need no clock. All calls block; they take well under a millisecond, plus what the disk needs.
//!
//! ```
//! use pincer_store::{NewRun, RunState, Runs, SqliteStore};
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-doc-{}", std::process::id()));
//! let store = SqliteStore::open(&directory.join("pincer.db"))?;
//! let fence = store.create_run(&NewRun { id: "cm_1", session: "main", caller: "me", created_at: 0 }, "process-1")?;
//! store.set_run_state("cm_1", fence, RunState::Completed)?;
//! assert_eq!(store.run("cm_1")?.state, RunState::Completed);
//!
//! // Somebody who took the run over leaves the old owner without a say.
//! store.claim_run("cm_1", fence, "process-2")?;
//! assert!(store.set_run_state("cm_1", fence, RunState::Failed).is_err());
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
pub use runs::{Fence, NewRun, Run, RunState, Runs};
pub use snapshots::{Snapshot, Snapshots};
pub use sqlite::SqliteStore;

/// Milliseconds since 1970.
pub type Millis = i64;

/// This moment, for those who have a clock to go by.
pub fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as Millis)
}
