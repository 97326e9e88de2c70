//! What must survive the process: runs and their snapshots, the journal of nested calls, approvals and grants, and
//! idempotency keys.
//!
//! Each concern is a small trait, so that another database can stand behind it with the same tests. [`SqliteStore`] is the
//! default: one file in WAL mode. What a call has returned is committed, and survives at least the death of the process
//! ([`Safety`]). Nothing here holds a lock between two calls:
//! whoever owns a run proves it with a [`Fence`], which is checked inside the commit, so that an owner that was thought dead
//! and comes back can change nothing.
//!
//! It stores what it is given and knows nothing of tools, JavaScript or policy. Times are store time ([`Clock`]), and passed
//! in, so that tests need no clock. All calls block; they take well under a millisecond, plus what the disk needs.
//!
//! ```
//! use pincer_store::{Claim, NewRun, RunState, Runs, Safety, SqliteStore};
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-doc-{}", std::process::id()));
//! let store = SqliteStore::open(&directory.join("pincer.db"))?;
//! let (id, session, caller) = ("cm_1", "main", "me");
//! let run = NewRun { id, session, caller, agent_run: None, created_at: 0, key: None, tools: None };
//! let one = Claim { owner: "process-1", safety: Safety::Process };
//! let fence = store.create_run(&run, one, None, Safety::Process.into())?;
//!
//! // A process that takes the run over leaves the old owner without a say.
//! let two = Claim { owner: "process-2", ..one };
//! let newer = store.claim_run("cm_1", (RunState::Running, fence), two)?;
//! assert!(store.finish_run("cm_1", fence, RunState::Failed, "{}", 1, Safety::Power.into()).is_err());
//! store.finish_run("cm_1", newer, RunState::Completed, "{}", 1, Safety::Power.into())?;
//! assert_eq!(store.run("cm_1")?.state, RunState::Completed);
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod approvals;
mod backup;
mod clock;
mod error;
mod grants;
mod journal;
mod keys;
mod listing;
mod migrations;
mod presence;
mod room;
mod runs;
mod snapshots;
mod sqlite;
mod sync;
mod upkeep;

pub use approvals::{Approval, ApprovalState, Approvals, Asked, Decision, NewApproval, Permission, Resolution};
pub use backup::Restored;
pub use clock::Clock;
pub use error::StoreError;
pub use grants::{Grant, GrantKind, Grants, NewGrant};
pub use journal::{Call, CallState, Cover, Journal, NewCall, Prune, Repeat};
pub use keys::{IdempotencyKeys, Remembered};
pub use listing::{Listings, Page, RunOverview, SessionCount, Standing};
pub use room::{Room, Share};
pub use runs::{Claim, Fence, NewRun, Run, RunKey, RunState, Runs, ToolSet};
pub use snapshots::{CellPart, Checkpoint, Park, Snapshot, Snapshots};
pub use sqlite::{Commit, Patience, Safety, SqliteStore};
pub use upkeep::Upkeep;

/// Milliseconds since 1970.
pub type Millis = i64;
