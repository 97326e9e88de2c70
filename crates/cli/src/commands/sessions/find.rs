//! Finds the session that an argument means.

use pincer_catalog::nearest;
use pincer_sessions::key_complaint;
use pincer_store::{Session, SessionKey, SessionPage, Sessions, StoreError};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;

use crate::WRONG_USAGE;
use crate::commands::runs::LEAST_PREFIX;
use crate::refused::Refused;
use crate::usage_sessions::SessionName;

use super::House;

/// The most characters that are shown of a key.
pub(super) const MOST_KEY: usize = 512;
/// The sessions that are read at once.
const PAGE: u32 = 500;

/// Returns the session that a key means now, or the one whose id begins so.
pub(super) async fn find(house: &House, name: &SessionName) -> Result<Session, Refused> {
    if !name.id
        && let Some(session) = house.store.current_session(&house.user, &SessionKey::from(&*name.key)).await?
    {
        return Ok(session);
    }
    let all = all(&house.store, &house.user).await?;
    let is_id = |session: &&Session| name.key.len() >= LEAST_PREFIX && session.id.as_str().starts_with(&*name.key);
    let mut found: Vec<&Session> = all.iter().filter(is_id).collect();
    found.sort_by_key(|session| session.id != *name.key);
    match &found[..] {
        [session] => Ok((*session).clone()),
        [session, ..] if session.id == *name.key => Ok((*session).clone()),
        [] if name.id => {
            let hint = "`pincer sessions list --all` shows them";
            Err(Refused(WRONG_USAGE, format!("there is no session with the id {}: {hint}", key(&name.key))))
        }
        [] => Err(unknown(&name.key, &all)),
        several => {
            let error = format!("{} sessions have an id that begins with {}", several.len(), key(&name.key));
            Err(Refused(WRONG_USAGE, format!("{error}: give more of it")))
        }
    }
}

/// Returns the session that a key means now.
pub(crate) async fn current(store: &SqliteStore, user: &str, key: &str) -> Result<Session, Refused> {
    match store.current_session(user, &SessionKey::from(key)).await? {
        Some(session) => Ok(session),
        None => Err(unknown(key, &all(store, user).await?)),
    }
}

/// Returns all sessions of a user.
async fn all(store: &SqliteStore, user: &str) -> Result<Vec<Session>, StoreError> {
    let mut all: Vec<Session> = Vec::new();
    loop {
        let before = all.last().map(|last| (last.updated_at, last.id.clone()));
        let page = SessionPage { user: Some(user.to_owned()), key: None, with_ended: true, before, limit: PAGE };
        let found = store.session_page(page).await?;
        let is_last = found.len() < PAGE as usize;
        all.extend(found);
        if is_last {
            return Ok(all);
        }
    }
}

fn unknown(asked: &str, all: &[Session]) -> Refused {
    let keys = all.iter().filter(|session| session.is_current).map(|session| session.key.to_string());
    let near: Vec<String> =
        nearest(asked, keys.map(|known| (known.clone(), known)), 3).iter().map(|k| key(k)).collect();
    let near = if near.is_empty() { String::new() } else { format!(" did you mean {}?", near.join(" or ")) };
    Refused(WRONG_USAGE, format!("there is no session {}:{near} `pincer sessions list` shows all", key(asked)))
}

/// Returns a key as it is shown.
pub(super) fn key(key: &str) -> String {
    one_line(key, MOST_KEY)
}

/// Fails if a new session cannot have this key.
pub(super) fn check_key(new: &str) -> Result<(), Refused> {
    match key_complaint(new) {
        Some(wrong) => Err(Refused(WRONG_USAGE, format!("the session key {:?} {wrong}", key(new)))),
        None => Ok(()),
    }
}

/// Returns why a new session cannot be stored.
pub(super) fn not_new(error: StoreError, new: &str) -> Refused {
    match error {
        StoreError::Exists { .. } => {
            let remedy = "give another key, or delete that one first";
            Refused(WRONG_USAGE, format!("there is a session {} already: {remedy}", key(new)))
        }
        error => error.into(),
    }
}
