//! Room for programs that wait. How much is taken is counted by triggers, so that it costs the same to look with ten runs and
//! with a hundred thousand. Users may name their sessions alike.

use pincer_store::{Millis, Room, RunId, Share, StoreError};
use rusqlite::{Connection, OptionalExtension};

use crate::rows::id;
use crate::store::Refused;

/// The time after which a refused run may try again if no suspended program has an end.
const RETRY: Millis = 1000;

/// Gives a run room, if it has none.
pub(crate) fn reserve(connection: &Connection, run: &RunId, room: &Room, now: Millis) -> Result<(), Refused> {
    let of_run = "SELECT caller, session, reserved FROM run WHERE id = ?1";
    let (caller, session, is_reserved): (String, String, bool) = connection
        .prepare_cached(of_run)?
        .query_row([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if is_reserved {
        return Ok(());
    }
    let taken = |kind: &str, name: &str| -> rusqlite::Result<u32> {
        let count = "SELECT count FROM room WHERE kind = ?1 AND name = ?2";
        Ok(connection.prepare_cached(count)?.query_row((kind, name), |row| row.get(0)).optional()?.unwrap_or(0))
    };
    let (share, limit) = match () {
        () if taken("session", &format!("{caller}\n{session}"))? >= room.of_session => {
            (Share::Session(session.into()), room.of_session)
        }
        () if taken("user", &caller)? >= room.of_user => (Share::User, room.of_user),
        () if taken("all", "")? >= room.all => (Share::All, room.all),
        () => {
            connection.prepare_cached("UPDATE run SET reserved = 1 WHERE id = ?1")?.execute([run.as_str()])?;
            return Ok(());
        }
    };
    // Only the user's own sessions: those of others are private.
    let holders = "SELECT session, count(*) FROM run WHERE caller = ?1 AND reserved = 1 AND ended_at IS NULL
        GROUP BY session ORDER BY 2 DESC, 1 LIMIT 3";
    let mut holders = connection.prepare_cached(holders)?;
    let holders =
        holders.query_map([&caller], |row| Ok((id(row, 0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let first = match share {
        Share::All => "SELECT min(expires_at) FROM run WHERE expires_at IS NOT NULL AND ?1 = ?1",
        _ => "SELECT min(expires_at) FROM run WHERE caller = ?1 AND reserved = 1 AND ended_at IS NULL",
    };
    let first: Option<Millis> = connection.prepare_cached(first)?.query_row([&caller], |row| row.get(0))?;
    let retry_after = first.map_or(RETRY, |first| (first - now).max(RETRY));
    Err(StoreError::NoRoom { limit, share, holders, retry_after }.into())
}
