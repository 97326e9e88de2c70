//! Approvals: questions to a person, stored before they are asked. The first answer wins.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::grants::put;
use crate::sqlite::{Refused, stored_enum};
use crate::{Millis, NewGrant, Safety, SqliteStore, StoreError};

/// How a question stands. Only a pending one can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// Nobody has answered.
    Pending,
    /// Somebody said yes.
    Allowed,
    /// Somebody said no.
    Denied,
    /// Nobody answered in time. Not a refusal by a person.
    Expired,
    /// What it was asked for is gone.
    Cancelled,
}

stored_enum!(ApprovalState {
    Pending = "pending",
    Allowed = "allowed",
    Denied = "denied",
    Expired = "expired",
    Cancelled = "cancelled",
});

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// The question is withdrawn.
    Cancel,
}

/// A question to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewApproval<'a> {
    /// Its id.
    pub id: &'a str,
    /// The run that asks, if one does.
    pub run: Option<&'a str>,
    /// The session it belongs to.
    pub session: &'a str,
    /// The user for whom the call is made: an answer is for no other.
    pub user: Option<&'a str>,
    /// The tool's id.
    pub tool: &'a str,
    /// The number of the call within the run: an answer is for that call and no other.
    pub seq: Option<u32>,
    /// A digest of the tool and the input: an answer is for nothing else.
    pub digest: &'a [u8],
    /// The tool's fingerprint: an answer is for the tool as it was when it was asked about.
    pub fingerprint: Option<&'a [u8]>,
    /// What is shown to the person, as JSON.
    pub request: &'a str,
    /// When it was asked.
    pub created_at: Millis,
    /// When it expires, if it does.
    pub expires_at: Option<Millis>,
}

/// A question as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// The run that asks, if one does.
    pub run: Option<String>,
    /// The session it belongs to.
    pub session: String,
    /// The user for whom the call is made. Questions of earlier versions may have none.
    pub user: Option<String>,
    /// The tool's id.
    pub tool: String,
    /// The number of the call within the run.
    pub seq: Option<u32>,
    /// A digest of the tool and the input.
    pub digest: Vec<u8>,
    /// The tool's fingerprint.
    pub fingerprint: Option<Vec<u8>>,
    /// What is shown to the person, as JSON.
    pub request: String,
    /// How it stands.
    pub state: ApprovalState,
    /// Who decided, if somebody did.
    pub decided_by: Option<String>,
    /// When it was asked.
    pub created_at: Millis,
    /// When it expires, if it does.
    pub expires_at: Option<Millis>,
}

/// The call that a question is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The session it belongs to.
    pub session: &'a str,
    /// The user for whom it is made.
    pub user: &'a str,
    /// Its run, and its number in there.
    pub call: Option<(&'a str, u32)>,
    /// The digest of its tool and input.
    pub digest: &'a [u8],
    /// The tool's fingerprint.
    pub fingerprint: &'a [u8],
}

/// The permission for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission<'a> {
    /// It needs none.
    Free,
    /// A person's answer.
    Answer {
        /// The question.
        approval: &'a str,
    },
    /// A grant for so many calls.
    Counted {
        /// The grant.
        grant: &'a str,
    },
    /// Grants that hold until they are revoked.
    Standing {
        /// The grants; all of them are needed.
        grants: &'a [String],
    },
}

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Whether this answer was the one that counted.
    pub applied: bool,
    /// The question, as it stands now.
    pub approval: Approval,
}

/// Questions and answers.
pub trait Approvals {
    /// Stores a question.
    fn ask(&self, approval: &NewApproval<'_>) -> Result<(), StoreError>;
    /// The question with this id.
    fn approval(&self, id: &str) -> Result<Approval, StoreError>;
    /// The questions without an answer, oldest first.
    fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError>;
    /// Answers a question, and stores what the answer grants for later, in one step. Only the first answer counts, and none
    /// after its time.
    fn resolve(
        &self,
        id: &str,
        decision: Decision,
        grants: &[NewGrant<'_>],
        by: &str,
        now: Millis,
    ) -> Result<Resolution, StoreError>;
    /// Returns the question about this very call: the latest one of the call of a run, answered or not; without a run, one that
    /// is open or whose answer has not been used.
    fn standing_question(&self, asked: &Asked<'_>, now: Millis) -> Result<Option<Approval>, StoreError>;
    /// Uses the answer to a question that belongs to no run, yes or no. Only the first use counts: `false` for every other.
    fn use_answer(&self, id: &str) -> Result<bool, StoreError>;
    /// Closes the questions whose time is over, and returns their ids.
    fn expire_approvals(&self, now: Millis) -> Result<Vec<String>, StoreError>;
}

const COLUMNS: &str = "id, run, session, tool, digest, request, state, decided_by, created_at, expires_at, seq, \
                       fingerprint, user";

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    Ok(Approval {
        id: row.get(0)?,
        run: row.get(1)?,
        session: row.get(2)?,
        tool: row.get(3)?,
        digest: row.get(4)?,
        request: row.get(5)?,
        state: row.get(6)?,
        decided_by: row.get(7)?,
        created_at: row.get(8)?,
        expires_at: row.get(9)?,
        seq: row.get(10)?,
        fingerprint: row.get(11)?,
        user: row.get(12)?,
    })
}

fn find(connection: &Connection, id: &str) -> Result<Approval, Refused> {
    let query = format!("SELECT {COLUMNS} FROM approval WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id], read).optional()?;
    found.ok_or_else(|| StoreError::Missing { what: "approval", id: id.into() }.into())
}

/// Uses a yes for a call of a run; `false` if it is none. The call's own row keeps it from being made twice, so one that is
/// made again after a crash finds its yes again.
pub(crate) fn use_for(connection: &Connection, id: &str, run: &str, seq: u32) -> rusqlite::Result<bool> {
    let take = "UPDATE approval SET used = 1 WHERE id = ?1 AND run = ?2 AND seq = ?3 AND state = 'allowed'";
    Ok(connection.prepare_cached(take)?.execute((id, run, seq))? == 1)
}

fn expire(connection: &Connection, now: Millis) -> rusqlite::Result<Vec<String>> {
    let mut expire = connection
        .prepare_cached("UPDATE approval SET state = ?1 WHERE state = 'pending' AND expires_at <= ?2 RETURNING id")?;
    expire.query_map((ApprovalState::Expired, now), |row| row.get(0))?.collect()
}

impl Approvals for SqliteStore {
    fn ask(&self, new: &NewApproval<'_>) -> Result<(), StoreError> {
        self.transaction(Safety::Power, |connection| {
            let made = connection.execute(
                "INSERT INTO approval (id, run, session, tool, digest, request, state, created_at, expires_at, seq, fingerprint,
                    user)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING",
                (
                    new.id,
                    new.run,
                    new.session,
                    new.tool,
                    new.digest,
                    new.request,
                    ApprovalState::Pending,
                    new.created_at,
                    new.expires_at,
                    new.seq,
                    new.fingerprint,
                    new.user,
                ),
            )?;
            if made == 0 {
                return Err(StoreError::Exists { what: "approval", id: new.id.into() }.into());
            }
            Ok(())
        })
    }

    fn approval(&self, id: &str) -> Result<Approval, StoreError> {
        self.look(|connection| find(connection, id))
    }

    fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM approval WHERE state = 'pending' ORDER BY created_at, id");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([], read)?.collect())
    }

    fn resolve(
        &self,
        id: &str,
        decision: Decision,
        grants: &[NewGrant<'_>],
        by: &str,
        now: Millis,
    ) -> Result<Resolution, StoreError> {
        let state = match decision {
            Decision::Allow => ApprovalState::Allowed,
            Decision::Deny => ApprovalState::Denied,
            Decision::Cancel => ApprovalState::Cancelled,
        };
        self.transaction(Safety::Power, |connection| {
            expire(connection, now)?;
            let resolve = "UPDATE approval SET state = ?2, decided_by = ?3 WHERE id = ?1 AND state = ?4";
            let applied = connection.execute(resolve, (id, state, by, ApprovalState::Pending))? == 1;
            if applied {
                grants.iter().try_for_each(|grant| put(connection, grant))?;
            }
            Ok(Resolution { applied, approval: find(connection, id)? })
        })
    }

    fn standing_question(&self, asked: &Asked<'_>, now: Millis) -> Result<Option<Approval>, StoreError> {
        let Asked { session, user, call, digest, fingerprint } = *asked;
        // Questions of earlier versions have no fingerprint and no user.
        let same = "digest = ?1 AND (fingerprint IS NULL OR fingerprint = ?2) AND (user IS NULL OR user = ?3)";
        self.transaction(Safety::Power, |connection| {
            expire(connection, now)?;
            let found = match call {
                Some((run, seq)) => {
                    let query = format!(
                        "SELECT {COLUMNS} FROM approval WHERE run = ?4 AND seq = ?5 AND {same} AND state <> 'cancelled'
                         ORDER BY created_at DESC, id DESC LIMIT 1"
                    );
                    connection.prepare_cached(&query)?.query_row((digest, fingerprint, user, run, seq), read)
                }
                None => {
                    let query = format!(
                        "SELECT {COLUMNS} FROM approval WHERE {same} AND session = ?4 AND run IS NULL AND used = 0
                            AND state IN ('pending', 'allowed', 'denied') ORDER BY state, created_at, id LIMIT 1"
                    );
                    connection.prepare_cached(&query)?.query_row((digest, fingerprint, user, session), read)
                }
            };
            Ok(found.optional()?)
        })
    }

    fn use_answer(&self, id: &str) -> Result<bool, StoreError> {
        let take =
            "UPDATE approval SET used = 1 WHERE id = ?1 AND state IN ('allowed', 'denied', 'expired') AND used = 0";
        self.with(|connection| Ok(connection.execute(take, [id])? == 1))
    }

    fn expire_approvals(&self, now: Millis) -> Result<Vec<String>, StoreError> {
        self.transaction(Safety::Power, |connection| Ok(expire(connection, now)?))
    }
}
