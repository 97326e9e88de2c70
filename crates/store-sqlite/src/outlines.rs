//! Sessions in parts, for readers that never hold a whole one in memory.

use pincer_store::{
    ApprovalId, EntryKind, EntryOutline, EntryPage, EntryText, Millis, Outlines, Reply, SessionId, SessionKey,
};
use rusqlite::Row;

use crate::SqliteStore;
use crate::rows::{id, optional_id};
use crate::sessions::{number, read_entry};

/// One page of entries. Of a body only its length is read, unless it is that of a note or a nested call.
const OUTLINE: &str = "SELECT position, parent, kind, run, call, octet_length(body), at,
        CASE WHEN kind = 'custom' AND json_valid(body) AND json_type(body, '$.customType') = 'text'
            THEN substr(json_extract(body, '$.customType'), 1, 100) END,
        CASE WHEN kind = 'nested_call' AND json_valid(body) AND json_type(body, '$.startedAt') = 'integer'
            THEN json_extract(body, '$.startedAt') END,
        CASE WHEN kind = 'nested_call' AND json_valid(body) AND json_type(body, '$.durationMs') = 'integer'
            THEN json_extract(body, '$.durationMs') END
    FROM entry WHERE session = ?1 AND position > ?2 ORDER BY position LIMIT ?3";
/// Entries with the ids of their parents.
const TEXTS: &str =
    "SELECT entry.position, entry.id,
        CASE WHEN entry.parent BETWEEN 0 AND 4294967295 THEN entry.parent END, entry.kind, entry.run, entry.call, entry.body, NULL, entry.at,
        above.id
    FROM entry LEFT JOIN entry AS above ON above.session = entry.session AND above.position = entry.parent
    WHERE entry.session = ?1 AND entry.position BETWEEN ?2 AND ?3 ORDER BY entry.position";

fn read_outline(row: &Row<'_>) -> rusqlite::Result<EntryOutline> {
    Ok(EntryOutline {
        position: row.get(0)?,
        // A damaged row may name any number.
        parent: row.get::<_, Option<i64>>(1)?.map(|parent| u32::try_from(parent).unwrap_or(u32::MAX)),
        kind: EntryKind::from_word(&row.get::<_, String>(2)?),
        run: optional_id(row, 3)?,
        call: row.get(4)?,
        bytes: row.get::<_, i64>(5)?.unsigned_abs(),
        at: row.get(6)?,
        note: row.get(7)?,
        began_at: row.get(8)?,
        took_ms: row.get(9)?,
    })
}

impl Outlines for SqliteStore {
    fn outline(&self, session: &SessionId, page: EntryPage) -> Reply<Vec<EntryOutline>> {
        let session = session.clone();
        self.read(move |connection| {
            let of = (number(connection, &session)?, page.after, page.limit);
            Ok(connection.prepare_cached(OUTLINE)?.query_map(of, read_outline)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn entry_texts(&self, session: &SessionId, first: u32, last: u32) -> Reply<Vec<EntryText>> {
        let session = session.clone();
        self.read(move |connection| {
            let of = (number(connection, &session)?, first, last);
            let read = |row: &Row<'_>| Ok(EntryText { entry: read_entry(row)?, parent_id: optional_id(row, 9)? });
            Ok(connection.prepare_cached(TEXTS)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn questions_asked(
        &self,
        user: &str,
        session: &SessionKey,
        (from, to): (Millis, Millis),
    ) -> Reply<Vec<(ApprovalId, Millis)>> {
        let (user, session) = (user.to_owned(), session.clone());
        self.read(move |connection| {
            // Few questions are kept, and this is seldom asked: an index would cost each of them more.
            let query = "SELECT id, created_at FROM approval WHERE session = ?1 AND (user IS NULL OR user = ?2)
                         AND created_at BETWEEN ?3 AND ?4 ORDER BY created_at, id";
            let of = (session.as_str(), &user, from, to);
            let read = |row: &Row<'_>| Ok((id(row, 0)?, row.get(1)?));
            Ok(connection.prepare_cached(query)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }
}
