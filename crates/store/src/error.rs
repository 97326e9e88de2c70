//! Why a store did not do what it was asked for.

use std::error::Error;
use std::fmt;

use crate::{ApprovalId, CronJobId, Millis, RunId, SessionId, SessionKey, Share};

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A call with a possible effect is not part of the stored checkpoint.
    #[error("call {seq} of the run {run} is not part of its stored checkpoint, so it was not made")]
    NotCovered {
        /// The run.
        run: RunId,
        /// The call.
        seq: u32,
    },
    /// A checkpoint is older than a call with a possible effect that was made since.
    #[error("the checkpoint of the run {run} is older than a call that it has made since, so it was not stored")]
    Outdated {
        /// The run.
        run: RunId,
    },
    /// The permission for a call is gone.
    #[error("the permission to call {tool} was used up or revoked")]
    NotPermitted {
        /// The tool.
        tool: String,
    },
    /// The run has ended, or another process owns it now.
    #[error(
        "the run {run} has ended, or another process has taken it over: what this process did with it was not stored"
    )]
    Fenced {
        /// The run.
        run: RunId,
    },
    /// Another process writes to the session, or it was reset or deleted.
    #[error(
        "another process writes to the session {session} now, or it was reset or deleted: what this process did was not stored"
    )]
    SessionFenced {
        /// The session.
        session: SessionId,
    },
    /// A message of the session has no end yet.
    #[error(
        "the session {session} has a message that was accepted and has not ended: wait for its end, or stop it with `pincer sessions abort`"
    )]
    SessionBusy {
        /// The session.
        session: SessionId,
    },
    /// As many runs wait as may.
    #[error(
        "{limit} programs{} are suspended or can be, which is as many as may be: continue or abort some{}",
        match share {
            Share::All => String::new(),
            Share::User => " of this user".into(),
            Share::Session(session) => format!(" of the session {session}"),
        },
        told(holders)
    )]
    NoRoom {
        /// How many may.
        limit: u32,
        /// Where there is no room.
        share: Share,
        /// The sessions of the user that have most of them, and how many.
        holders: Vec<(SessionKey, u32)>,
        /// In how many milliseconds the first of them can no longer be continued.
        retry_after: Millis,
    },
    /// Agents have made as many jobs as they may.
    #[error("agents have made {limit} cron jobs for this user, which is as many as they may: remove some")]
    TooManyJobs {
        /// The most that there may be.
        limit: u32,
    },
    /// Another process has changed a job in the meantime.
    #[error("the cron job {job} was changed by another process: look at it, and try again")]
    JobChanged {
        /// The job.
        job: CronJobId,
    },
    /// There is no such thing.
    #[error("there is no {what} {id}")]
    Missing {
        /// Of which kind.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// There is one already.
    #[error("there is a {what} {id} already")]
    Exists {
        /// Of which kind.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The database could not do it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl StoreError {
    /// Returns the error for a run that is not there.
    pub fn no_run(id: &RunId) -> Self {
        Self::Missing { what: "run", id: id.to_string() }
    }

    /// Returns the error for a session that is not there.
    pub fn no_session(id: &SessionId) -> Self {
        Self::Missing { what: "session", id: id.to_string() }
    }

    /// Returns the error for a question that is not there.
    pub fn no_approval(id: &ApprovalId) -> Self {
        Self::Missing { what: "approval", id: id.to_string() }
    }

    /// Returns the error for a job that is not there.
    pub fn no_cron_job(name: &str) -> Self {
        Self::Missing { what: "cron job", id: name.to_owned() }
    }

    /// Returns whether the change may have been stored all the same: the database failed in the middle of it.
    pub fn may_be_stored(&self) -> bool {
        matches!(self, Self::Database(error) if error.kind == DatabaseErrorKind::Interrupted)
    }

    /// Returns whether the same change would be refused again, whenever it is tried.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Database(error) => error.kind == DatabaseErrorKind::Unfit,
            Self::NoRoom { .. } => false,
            _ => true,
        }
    }

    /// Returns whether the database was busy for too long, so that trying again may help.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Database(error) if error.kind == DatabaseErrorKind::Busy)
    }
}

/// A failure of the database. Its text is for the person who must act; its source is the database's own error.
#[derive(Debug)]
pub struct DatabaseError {
    kind: DatabaseErrorKind,
    error: Box<dyn Error + Send + Sync>,
}

/// The meaning of a database's failure for the change that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseErrorKind {
    /// Nothing was changed: other processes had the database for too long.
    Busy,
    /// Nothing was changed.
    Refused,
    /// Nothing was changed: the change breaks a rule of the database, and will whenever it is tried.
    Unfit,
    /// It is not known whether something was changed.
    Interrupted,
}

impl DatabaseError {
    /// Returns a failure of this kind.
    pub fn new(kind: DatabaseErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, error: error.into() }
    }

    /// Returns what it means for the change that was asked for.
    pub fn kind(&self) -> DatabaseErrorKind {
        self.kind
    }

    /// Returns the database's own error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for DatabaseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

fn told(holders: &[(SessionKey, u32)]) -> String {
    let holders: Vec<_> = holders.iter().map(|(session, count)| format!("the session {session} ({count})")).collect();
    if holders.is_empty() { String::new() } else { format!("; most are of {}", holders.join(", ")) }
}
