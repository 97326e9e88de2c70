//! Changes of sessions that need no agent: names, copies, deletion.

use std::sync::Arc;
use std::time::Duration;

use pincer_sessions::{AcquireError, Reentry, Writer, new_session_id};
use pincer_store::{Clock, EntryKind, Leases, NewSession, Session, SessionPage, Sessions, StoreError};
use pincer_tools::one_line;
use serde_json::{Value, json};

use crate::asking::{next_line, somebody_is_here};
use crate::print::{chain, count, note, streamed};
use crate::refused::Refused;
use crate::usage_sessions::SessionName;
use crate::{FAILED, WRONG_USAGE};

use super::House;
use super::find::{MOST_KEY, check_key, find, key, not_new};
use super::list::{Standing, document, entries};

/// The most bytes of a name.
const MOST_NAME: usize = 512;
/// The most sessions that are counted.
const MOST_COUNTED: u32 = 1000;

impl From<AcquireError> for Refused {
    fn from(error: AcquireError) -> Self {
        Self(FAILED, chain(&error))
    }
}

pub(super) async fn rename(house: &House, name: &SessionName, label: &str) -> Result<(Value, String), Refused> {
    let session = find(house, name).await?;
    if label.len() > MOST_NAME || label.chars().any(char::is_control) {
        let error = "the name is longer than 512 bytes, or has control characters in it: give another one";
        return Err(Refused(WRONG_USAGE, error.into()));
    }
    let label = Some(label.trim()).filter(|label| !label.is_empty());
    house.store.rename_session(&session.id, label, house.store.now()).await?;
    let text = match label {
        Some(label) => format!("{} is called \"{}\" now", key(session.key.as_str()), one_line(label, MOST_NAME)),
        None => format!("{} has no name now", key(session.key.as_str())),
    };
    Ok((json!({ "id": session.id, "key": session.key, "label": label }), text))
}

pub(super) async fn fork(
    house: &House,
    name: &SessionName,
    new_key: &str,
    at: Option<&str>,
) -> Result<(Value, String), Refused> {
    let source = find(house, name).await?;
    check_key(new_key)?;
    let shown = key(source.key.as_str());
    let at = match at {
        None => source.leaf.ok_or_else(|| Refused(FAILED, format!("{shown} has no entries that could be copied")))?,
        Some(beginning) => {
            let named =
                if beginning.is_empty() { None } else { house.store.entry_named(&source.id, beginning).await? };
            let beginning = one_line(beginning, MOST_KEY);
            let hint = format!("`pincer sessions show {shown} --all-branches` shows their ids, as #ID");
            let entry = named.ok_or_else(|| {
                let error = format!("{shown} has no entry {beginning}, or more than one whose id begins so: {hint}");
                Refused(WRONG_USAGE, error)
            })?;
            if entry.kind == EntryKind::NestedCall {
                let error = format!("{beginning} is a call that a program made, where no conversation can go on");
                return Err(Refused(WRONG_USAGE, format!("{error}: name a message. {hint}")));
            }
            entry.position
        }
    };
    let new = NewSession {
        id: new_session_id(),
        user: house.user.clone(),
        key: new_key.into(),
        agent: source.agent.clone(),
        label: None,
        parent: Some(source.id.clone()),
        created_at: house.store.now(),
    };
    let forked = house.store.fork_session(&source.id, at, new).await.map_err(|error| not_new(error, new_key))?;
    let text = format!("{} begins with {} of {shown}", key(new_key), entries(forked.entries));
    Ok((document(&forked, &Standing::of(&house.store, &forked).await?), text))
}

/// Deletes a session. Waits for another writer of it for as long as `patience`. Returns the session too.
pub(super) async fn delete(
    house: &House,
    name: &SessionName,
    yes: bool,
    patience: Duration,
) -> Result<((Value, String), Session), Refused> {
    let session = find(house, name).await?;
    check_idle(house, &session).await?;
    let shown = key(session.key.as_str());
    if !yes {
        if !somebody_is_here() {
            let error = format!("{shown} was not deleted, since there is no terminal to ask at: pass --yes");
            return Err(Refused(WRONG_USAGE, error));
        }
        streamed(&format!("Delete {shown} with {} for good? [y]es, [N]o? ", entries(session.entries)));
        let answer = next_line().await.unwrap_or_default();
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(Refused(FAILED, format!("{shown} was not deleted")));
        }
    }
    if session.is_current {
        let store = Arc::clone(&house.store);
        let writer =
            Writer::acquire(store, &house.leases, &house.user, &session.key, patience, Reentry::Refused).await?;
        // The key may mean another session by now, and a message may have come.
        if writer.session().id != session.id {
            return Err(Refused(FAILED, format!("{shown} was reset meanwhile, and was not deleted")));
        }
        check_idle(house, writer.session()).await?;
        writer.delete().await.map_err(|error| not_deleted(error, &shown))?;
    } else {
        let deleted = house.store.delete_session(&session.id, session.fence).await;
        deleted.map_err(|error| not_deleted(error, &shown))?;
    }
    house.leases.release();
    let page = SessionPage {
        user: Some(house.user.clone()),
        key: Some(session.key.clone()),
        with_ended: true,
        before: None,
        limit: MOST_COUNTED,
    };
    let left = house.store.session_page(page).await?.len();
    let text = format!("deleted {shown} with {}", entries(session.entries));
    if left > 0 {
        note(&format!(
            "note: {} of this key stay: `pincer sessions list --all` shows them",
            count(left, "other session")
        ));
    }
    let document = json!({ "id": session.id, "key": session.key, "entries": session.entries, "left": left });
    Ok(((document, text), session))
}

/// Returns why a session was not deleted. A message may be accepted until the moment when it is.
fn not_deleted(error: StoreError, shown: &str) -> Refused {
    match error {
        StoreError::SessionBusy { .. } => {
            let error = format!("{shown} was not deleted, since a message came meanwhile");
            Refused(FAILED, format!("{error}: wait for its answer, or stop it with `pincer sessions abort {shown}`"))
        }
        error => error.into(),
    }
}

/// Fails if a message of the session has no end yet.
async fn check_idle(house: &House, session: &Session) -> Result<(), Refused> {
    let standing = Standing::of(&house.store, session).await?;
    if !standing.is_busy() {
        return Ok(());
    }
    let shown = key(session.key.as_str());
    let error = format!("{shown} is {}: stop that with `pincer sessions abort {shown}` first", standing.text());
    Err(Refused(FAILED, error))
}
