//! Sessions that no key means yet: rows that are not current and have not ended.

use pincer_store::{Fence, Millis, NewSession, OwnerId, SessionId, StoreError};
use rusqlite::Connection;

use crate::sessions::{check_written, current, find};
use crate::store::Refused;

/// Stores a draft without entries.
pub(crate) fn draft(connection: &Connection, new: &NewSession, owner: &OwnerId) -> Result<(), Refused> {
    let NewSession { id, user, key, agent, label, parent, created_at } = new;
    if current(connection, user, key)?.is_some() {
        return Err(StoreError::Exists { what: "session", id: key.to_string() }.into());
    }
    let insert =
        "INSERT INTO session (id, user, key, is_current, agent, label, parent, created_at, interacted_at, updated_at, fence, owner)
         VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?7, ?7, 1, ?8) ON CONFLICT DO NOTHING";
    let parent = parent.as_ref().map(SessionId::as_str);
    let row = (id.as_str(), user, key.as_str(), agent, label, parent, created_at, owner.as_str());
    match connection.prepare_cached(insert)?.execute(row)? {
        0 => Err(StoreError::Exists { what: "session", id: id.to_string() }.into()),
        _ => Ok(()),
    }
}

/// Makes a draft current.
pub(crate) fn publish(connection: &Connection, id: &SessionId, fence: Fence, now: Millis) -> Result<(), Refused> {
    let written = check_written(connection, id, fence)?;
    if !written.is_draft {
        return Err(StoreError::SessionFenced { session: id.clone() }.into());
    }
    let session = find(connection, id)?;
    // A message that came meanwhile has made a session of its own, which stays.
    if current(connection, &session.user, &session.key)?.is_some() {
        return Err(StoreError::Exists { what: "session", id: session.key.to_string() }.into());
    }
    let publish =
        "UPDATE session SET is_current = 1, owner = NULL, fence = fence + 1, updated_at = max(updated_at, ?2),
                   interacted_at = max(interacted_at, ?2) WHERE number = ?1";
    connection.prepare_cached(publish)?.execute((written.number, now))?;
    Ok(())
}
