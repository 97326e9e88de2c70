//! Why something was not stored or found.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

use crate::Millis;
use crate::room::Share;

/// Why something was not stored or found. What was acknowledged before is still there.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory or file cannot be made private or opened.
    #[error("the store {} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a database, or is damaged. It has been left as it is.
    #[error(
        "the store {} is damaged and was left untouched: {reason}. Restore it from a backup, or move it away to start anew",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// A later version of Pincer has written the file.
    #[error(
        "the store {} has schema {found}, this version of Pincer knows up to {known}: use the version that wrote it, or a \
         later one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// There is no room for it.
    #[error("the disk under the store {} is full: make room and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds the file for longer than we wait.
    #[error("the store {} is busy: another process has been writing for too long; try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file was removed or replaced while it was open.
    #[error(
        "the store {} was removed or replaced while this process had it open, so nothing more is stored: restart this process",
        path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// A backup cannot be written or put in place.
    #[error("{} cannot be copied to {}: {source}", from.display(), to.display())]
    Copy {
        /// The file that is copied.
        from: PathBuf,
        /// Where to.
        to: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is a file already where a backup is to be written.
    #[error("{} is there already and was left as it is: name another file, or remove it", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// A process has the store open that is to be replaced.
    #[error(
        "the store {} is in use: end all Pincer processes that have this state directory (servers, programs that run), and try \
         again",
        path.display()
    )]
    InUse {
        /// The store.
        path: PathBuf,
    },
    /// A file is not a backup, or is damaged.
    #[error("{} is not a backup of a store, or is damaged, so the store was left as it is: {reason}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// The file cannot be written.
    #[error(
        "the store {} cannot be written ({reason}): look at the disk, and at the limit on file sizes (`ulimit -f`)",
        path.display()
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// A call with a possible effect is not part of the stored checkpoint.
    #[error("call {seq} of the run {run} is not part of its stored checkpoint, so it was not made")]
    NotCovered {
        /// The run.
        run: String,
        /// The call.
        seq: u32,
    },
    /// A checkpoint is older than a call with a possible effect that was made since.
    #[error("the checkpoint of the run {run} is older than a call that it has made since, so it was not stored")]
    Outdated {
        /// The run.
        run: String,
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
        run: String,
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
        holders: Vec<(String, u32)>,
        /// In how many milliseconds the first of them can no longer be continued.
        retry_after: Millis,
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
    /// Anything else that SQLite has to say.
    #[error("the store {} failed", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Sorts what SQLite says.
    pub(crate) fn of(path: &std::path::Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt { path, reason: error.to_string() }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::SystemIoFailure) => Self::Unwritable { path, reason: error.to_string() },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            _ => Self::Database { path, source: error },
        }
    }
}

fn told(holders: &[(String, u32)]) -> String {
    let holders: Vec<_> = holders.iter().map(|(session, count)| format!("the session {session} ({count})")).collect();
    if holders.is_empty() { String::new() } else { format!("; most are of {}", holders.join(", ")) }
}
