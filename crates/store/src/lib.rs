//! What must survive the process: runs and their snapshots, the journal of nested calls, approvals and grants, idempotency keys,
//! sessions with their transcripts, the runs of agents, jobs of the schedule, and texts on their way to channels.
//!
//! Each concern is a small trait, so that another database can stand behind it with the same tests; `pincer-store-sqlite` is the
//! one there is. A method is one transaction. It returns a [`Reply`]: a future whose work goes on when it is dropped, and which
//! may be ready at once. What it has returned is committed, and survives at least the death of the process ([`Safety`]).
//! Nothing here holds a lock between two calls: the owner of a run proves it with a [`Fence`], which is checked inside the
//! commit, so that an owner that was thought dead and comes back can change nothing.
//!
//! A store keeps what it is given and knows nothing of tools, JavaScript or policy. Times are store time ([`Clock`]), and passed
//! in, so that tests need no clock.
//!
//! ```
//! use pincer_store::{RunId, Runs, StoreError};
//!
//! /// Works with every store.
//! async fn owner(store: &(dyn Runs + Sync), id: &RunId) -> Result<String, StoreError> {
//!     Ok(store.run(id).await?.owner.to_string())
//! }
//! ```

mod agent_runs;
mod approvals;
mod changes;
mod client_calls;
mod clock;
mod cron;
mod deliveries;
mod error;
mod figures;
mod frames;
mod grants;
mod ids;
mod instructions;
mod journal;
mod keys;
mod leases;
mod listings;
mod outlines;
mod recordings;
mod reply;
mod room;
mod runs;
mod safety;
mod sessions;
mod snapshots;
mod states;
mod upkeep;

pub use agent_runs::{
    Accepted, AgentRun, AgentRunState, AgentRuns, MOST_SUMMARIZED, NewAgentRun, QueueLimit, RunChange, Stopped,
    WhenFull,
};
pub use approvals::{Approval, ApprovalState, Approvals, Asked, Decision, NewApproval, Permission, Resolution};
pub use changes::{ChangeWatch, Changes};
pub use client_calls::{ClientCall, ClientCalls};
pub use clock::{Clock, Millis};
pub use cron::{
    CronAfter, CronBegin, CronBegun, CronChange, CronClock, CronDefinition, CronDue, CronJob, CronJobs, CronMissed,
    CronNow, CronPage, CronRun, CronRunState, CronSkip, NewCronJob, OpenCronRun,
};
pub use deliveries::{
    Deliveries, Delivery, DeliveryChange, DeliveryPage, DeliverySource, DeliveryState, Enqueued, MOST_PENDING,
    NewDelivery, Route,
};
pub use error::{DatabaseError, DatabaseErrorKind, StoreError};
pub use figures::{Figures, FiguresPage, RunFigures};
pub use frames::{Frame, NewFrame};
pub use grants::{Grant, GrantKind, Grants};
pub use ids::{
    AgentRunId, ApprovalId, CallId, CronJobId, DeliveryId, EntryId, GrantId, OwnerId, RunId, SessionId, SessionKey,
};
pub use instructions::Instructions;
pub use journal::{CALL_BYTES, Call, CallState, Cover, Journal, NewCall, Prune, Repeat};
pub use keys::{IdempotencyKeys, Remembered};
pub use leases::Leases;
pub use listings::{Listings, Page, RunOverview, SessionCount, Standing};
pub use outlines::{EntryOutline, EntryText, Outlines};
pub use recordings::{RecordedPart, RecordedRuns, Recordings, SharedText, StoredRecording};
pub use reply::{Reply, block_on};
pub use room::{Room, Share};
pub use runs::{Claim, Fence, NewRun, Run, RunEnd, RunKey, RunState, Runs, ToolSet};
pub use safety::Safety;
pub use sessions::{
    Attach, Committed, Entry, EntryKind, EntryPage, NewEntry, NewSession, Session, SessionCommit, SessionPage,
    Sessions, Totals,
};
pub use snapshots::{CellPart, Checkpoint, Park, Resumption, Snapshot, Snapshots};
pub use upkeep::Upkeep;

/// Everything that a store does.
pub trait Store:
    Runs
    + Listings
    + Upkeep
    + Snapshots
    + Journal
    + Recordings
    + Approvals
    + Grants
    + IdempotencyKeys
    + Instructions
    + Sessions
    + Outlines
    + AgentRuns
    + ClientCalls
    + Figures
    + CronJobs
    + Deliveries
    + Clock
    + Changes
    + Send
    + Sync
{
}

impl<T> Store for T where
    T: Runs
        + Listings
        + Upkeep
        + Snapshots
        + Journal
        + Recordings
        + Approvals
        + Grants
        + IdempotencyKeys
        + Instructions
        + Sessions
        + Outlines
        + AgentRuns
        + ClientCalls
        + Figures
        + CronJobs
        + Deliveries
        + Clock
        + Changes
        + Send
        + Sync
{
}
