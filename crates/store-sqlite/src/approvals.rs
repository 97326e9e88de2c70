//! Questions in rows.

use pincer_store::{
    Approval, ApprovalId, ApprovalState, Approvals, Asked, Decision, Grant, Millis, NewApproval, Permission, Reply,
    Resolution, RunId, Safety, StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::SqliteStore;
use crate::grants::put;
use crate::journal::spend;
use crate::rows::{id, optional_id, state};
use crate::store::Refused;

const COLUMNS: &str = "id, run, session, tool, digest, request, state, decided_by, created_at, expires_at, seq, \
                       fingerprint, user, used, decided_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    Ok(Approval {
        id: id(row, 0)?,
        run: optional_id(row, 1)?,
        session: id(row, 2)?,
        tool: row.get(3)?,
        digest: row.get(4)?,
        request: row.get(5)?,
        state: state(row, 6)?,
        decided_by: row.get(7)?,
        created_at: row.get(8)?,
        expires_at: row.get(9)?,
        seq: row.get(10)?,
        fingerprint: row.get(11)?,
        user: row.get(12)?,
        is_used: row.get(13)?,
        decided_at: row.get(14)?,
    })
}

fn find(connection: &Connection, id: &ApprovalId) -> Result<Approval, Refused> {
    let query = format!("SELECT {COLUMNS} FROM approval WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id.as_str()], read).optional()?;
    found.ok_or_else(|| StoreError::no_approval(id).into())
}

/// Uses a yes for a call of a run; `false` if it is none. The call's own row keeps it from being made twice, so one that is
/// made again after a crash finds its yes again.
pub(crate) fn use_for(connection: &Connection, id: &ApprovalId, run: &RunId, seq: u32) -> rusqlite::Result<bool> {
    let take = "UPDATE approval SET used = 1 WHERE id = ?1 AND run = ?2 AND seq = ?3 AND state = 'allowed'";
    Ok(connection.prepare_cached(take)?.execute((id.as_str(), run.as_str(), seq))? == 1)
}

/// Closes the question about a call that something else allows: it must not look as if the call had not been made.
fn close(connection: &Connection, run: &RunId, seq: u32) -> rusqlite::Result<()> {
    let close = "UPDATE approval SET used = 1, state = iif(state = 'pending', 'cancelled', state),
                 decided_by = iif(state = 'pending', 'a grant', decided_by) WHERE run = ?1 AND seq = ?2 AND used = 0";
    connection.prepare_cached(close)?.execute((run.as_str(), seq))?;
    Ok(())
}

fn expire(connection: &Connection, now: Millis) -> rusqlite::Result<Vec<ApprovalId>> {
    let mut expire = connection
        .prepare_cached("UPDATE approval SET state = ?1, decided_at = expires_at WHERE state = 'pending' AND expires_at <= ?2 RETURNING id")?;
    expire.query_map((ApprovalState::Expired.as_str(), now), |row| id(row, 0))?.collect()
}

impl Approvals for SqliteStore {
    fn ask(&self, new: NewApproval) -> Reply<()> {
        self.transaction(Safety::Power, new.request.len(), move |connection| {
            let made = connection.execute(
                "INSERT INTO approval (id, run, session, tool, digest, request, state, created_at, expires_at, seq, fingerprint,
                    user)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING",
                (
                    new.id.as_str(),
                    new.run.as_ref().map(RunId::as_str),
                    new.session.as_str(),
                    &new.tool,
                    &new.digest,
                    &*new.request,
                    ApprovalState::Pending.as_str(),
                    new.created_at,
                    new.expires_at,
                    new.seq,
                    &new.fingerprint,
                    &new.user,
                ),
            )?;
            if made == 0 {
                return Err(StoreError::Exists { what: "approval", id: new.id.to_string() }.into());
            }
            Ok(())
        })
    }

    fn approval(&self, id: &ApprovalId) -> Reply<Approval> {
        self.look_up(|connection| find(connection, id))
    }

    fn pending_approvals(&self) -> Reply<Vec<Approval>> {
        self.read(|connection| {
            let query = format!("SELECT {COLUMNS} FROM approval WHERE state = 'pending' ORDER BY created_at, id");
            Ok(connection.prepare_cached(&query)?.query_map([], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn resolve(
        &self,
        id: &ApprovalId,
        decision: Decision,
        grants: Vec<Grant>,
        by: &str,
        now: Millis,
    ) -> Reply<Resolution> {
        let state = match decision {
            Decision::Allow => ApprovalState::Allowed,
            Decision::Deny => ApprovalState::Denied,
            Decision::Cancel => ApprovalState::Cancelled,
        };
        let (id, by) = (id.clone(), by.to_owned());
        self.transaction(Safety::Power, 0, move |connection| {
            expire(connection, now)?;
            let resolve =
                "UPDATE approval SET state = ?2, decided_by = ?3, decided_at = ?5 WHERE id = ?1 AND state = ?4";
            let row = (id.as_str(), state.as_str(), &by, ApprovalState::Pending.as_str(), now);
            let applied = connection.execute(resolve, row)? == 1;
            if applied {
                grants.iter().try_for_each(|grant| put(connection, grant))?;
            }
            Ok(Resolution { applied, approval: find(connection, &id)? })
        })
    }

    fn standing_question(&self, asked: Asked, now: Millis) -> Reply<Option<Approval>> {
        self.transaction(Safety::Power, 0, move |connection| {
            let Asked { session, user, call, digest, fingerprint } = &asked;
            // Questions of earlier versions have no fingerprint and no user.
            let same = "digest = ?1 AND (fingerprint IS NULL OR fingerprint = ?2) AND (user IS NULL OR user = ?3)";
            expire(connection, now)?;
            let found = match call {
                Some((run, seq)) => {
                    let query = format!(
                        "SELECT {COLUMNS} FROM approval WHERE run = ?4 AND seq = ?5 AND {same} AND state <> 'cancelled'
                         ORDER BY created_at DESC, id DESC LIMIT 1"
                    );
                    let asked = (digest, fingerprint, user, run.as_str(), seq);
                    connection.prepare_cached(&query)?.query_row(asked, read)
                }
                None => {
                    let query = format!(
                        "SELECT {COLUMNS} FROM approval WHERE {same} AND session = ?4 AND run IS NULL AND used = 0
                            AND state IN ('pending', 'allowed', 'denied') ORDER BY state, created_at, id LIMIT 1"
                    );
                    let asked = (digest, fingerprint, user, session.as_str());
                    connection.prepare_cached(&query)?.query_row(asked, read)
                }
            };
            Ok(found.optional()?)
        })
    }

    fn use_answer(&self, id: &ApprovalId) -> Reply<bool> {
        let id = id.clone();
        self.commit(Safety::Process, 0, move |connection| {
            let take =
                "UPDATE approval SET used = 1 WHERE id = ?1 AND state IN ('allowed', 'denied', 'expired') AND used = 0";
            Ok(connection.execute(take, [id.as_str()])? == 1)
        })
    }

    fn questions_of(&self, run: &RunId) -> Reply<Vec<Approval>> {
        self.look_up(|connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM approval WHERE run = ?1 AND state <> 'cancelled' ORDER BY created_at, id"
            );
            Ok(connection.prepare_cached(&query)?.query_map([run.as_str()], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn spend(&self, run: &RunId, seq: u32, permission: Permission) -> Reply<bool> {
        let run = run.clone();
        self.transaction(Safety::Power, 0, move |connection| {
            let is_spent = spend(connection, &run, seq, &permission)?;
            if is_spent {
                close(connection, &run, seq)?;
            }
            Ok(is_spent)
        })
    }

    fn expire_approvals(&self, now: Millis) -> Reply<Vec<ApprovalId>> {
        self.transaction(Safety::Power, 0, move |connection| Ok(expire(connection, now)?))
    }
}
