//! Sessions and their entries in rows.

use std::sync::Arc;

use pincer_store::{
    Attach, Committed, Entry, EntryKind, EntryPage, Fence, Millis, NewEntry, NewSession, OwnerId, Reply, Safety,
    Session, SessionCommit, SessionId, SessionKey, SessionPage, Sessions, StoreError, Totals,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::SqliteStore;
use crate::agent_runs::{change_run, forget_questions};
use crate::deliveries::{forget_of_session, store};
use crate::drafts::{draft, publish};
use crate::forks::copy_branch;
use crate::instructions;
use crate::rows::{id, optional_id, state};
use crate::searches::search;
use crate::store::Refused;

const COLUMNS: &str = "id, user, key, is_current, agent, label, parent, created_at, interacted_at, updated_at, ended, leaf, \
                       context_from, entries, settings, input, output, cache_read, cache_write, runs, compactions, active, owner, fence";
pub(crate) const ENTRY: &str = "position, id, parent, kind, run, call, body, events, at";
/// The most sessions that are forgotten in one step: other processes must not wait for long.
const FORGOTTEN_AT_ONCE: u32 = 100;
/// The most entries that go with them, if more than one session goes.
const ENTRIES_AT_ONCE: u32 = 20_000;

/// The entries up to the leaf from which a branch is picked, the last first. Of those that are passed over, only the position is
/// read.
pub(crate) const CONTEXT: &str = "SELECT position, id, parent, kind, run, call, body, events, at FROM entry
    WHERE session = ?1 AND position BETWEEN ?2 AND ?3 ORDER BY position DESC";
/// The first two entries whose ids come at or after a beginning: if the second does not have it, the first is the only one.
pub(crate) const NAMED: &str = "SELECT position, id, parent, kind, run, call, body, events, at FROM entry
    WHERE session = ?1 AND id >= ?2 ORDER BY id LIMIT 2";
/// The drafts. Their index holds nothing else.
pub(crate) const DRAFTS: &str = "SELECT number FROM session WHERE is_current = 0 AND ended IS NULL";

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        id: id(row, 0)?,
        user: row.get(1)?,
        key: id(row, 2)?,
        is_current: row.get(3)?,
        agent: row.get(4)?,
        label: row.get(5)?,
        parent: optional_id(row, 6)?,
        created_at: row.get(7)?,
        interacted_at: row.get(8)?,
        updated_at: row.get(9)?,
        ended: row.get(10)?,
        leaf: row.get(11)?,
        context_from: row.get(12)?,
        entries: row.get(13)?,
        settings: row.get(14)?,
        totals: Totals {
            input: row.get(15)?,
            output: row.get(16)?,
            cache_read: row.get(17)?,
            cache_write: row.get(18)?,
            runs: row.get(19)?,
            compactions: row.get(20)?,
        },
        active: optional_id(row, 21)?,
        owner: optional_id(row, 22)?,
        fence: Fence(row.get(23)?),
    })
}

pub(crate) fn read_entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        position: row.get(0)?,
        id: id(row, 1)?,
        parent: row.get(2)?,
        kind: state(row, 3)?,
        run: optional_id(row, 4)?,
        call: row.get(5)?,
        body: row.get(6)?,
        events: row.get(7)?,
        at: row.get(8)?,
    })
}

pub(crate) fn find(connection: &Connection, id: &SessionId) -> Result<Session, Refused> {
    let query = format!("SELECT {COLUMNS} FROM session WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id.as_str()], read).optional()?;
    found.ok_or_else(|| StoreError::no_session(id).into())
}

/// Returns the session that a key means now.
pub(crate) fn current(connection: &Connection, user: &str, key: &SessionKey) -> rusqlite::Result<Option<Session>> {
    let query = format!("SELECT {COLUMNS} FROM session WHERE user = ?1 AND key = ?2 AND is_current = 1");
    connection.prepare_cached(&query)?.query_row((user, key.as_str()), read).optional()
}

/// Stores a session without entries.
pub(crate) fn create(connection: &Connection, new: &NewSession) -> Result<(), Refused> {
    let insert =
        "INSERT INTO session (id, user, key, is_current, agent, label, parent, created_at, interacted_at, updated_at, fence)
         VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?7, ?7, 1) ON CONFLICT DO NOTHING";
    let NewSession { id, user, key, agent, label, parent, created_at } = new;
    let parent = parent.as_ref().map(SessionId::as_str);
    let row = (id.as_str(), user, key.as_str(), agent, label, parent, created_at);
    match connection.prepare_cached(insert)?.execute(row)? {
        0 => Err(StoreError::Exists { what: "session", id: key.to_string() }.into()),
        _ => Ok(()),
    }
}

/// A session that is written to, as far as a commit needs it.
pub(crate) struct Written {
    pub(crate) number: i64,
    leaf: Option<u32>,
    entries: u32,
    pub(crate) is_draft: bool,
}

/// Fails unless the session is current or a draft, and `fence` is its writer's.
pub(crate) fn check_written(connection: &Connection, id: &SessionId, fence: Fence) -> Result<Written, Refused> {
    let query =
        "SELECT number, leaf, entries, NOT is_current, fence, is_current OR ended IS NULL FROM session WHERE id = ?1";
    let read = |row: &Row<'_>| {
        let written = Written { number: row.get(0)?, leaf: row.get(1)?, entries: row.get(2)?, is_draft: row.get(3)? };
        Ok((written, Fence(row.get(4)?), row.get::<_, bool>(5)?))
    };
    match connection.prepare_cached(query)?.query_row([id.as_str()], read).optional()? {
        Some((written, found, true)) if found == fence => Ok(written),
        Some(_) => Err(StoreError::SessionFenced { session: id.clone() }.into()),
        None => Err(StoreError::no_session(id).into()),
    }
}

/// Fails unless the session is current and `fence` is its writer's.
fn check(connection: &Connection, id: &SessionId, fence: Fence) -> Result<Written, Refused> {
    match check_written(connection, id, fence)? {
        Written { is_draft: true, .. } => Err(StoreError::SessionFenced { session: id.clone() }.into()),
        written => Ok(written),
    }
}

fn insert(connection: &Connection, written: &mut Written, new: &NewEntry) -> Result<(), Refused> {
    let (parent, is_leaf) = match new.attach {
        Attach::Leaf => (written.leaf, true),
        Attach::Beside(parent) => (Some(parent), false),
        Attach::Under(parent) => (parent, true),
    };
    if let Some(parent) = parent.filter(|parent| !(1..=written.entries).contains(parent)) {
        return Err(StoreError::Missing { what: "entry", id: parent.to_string() }.into());
    }
    written.entries += 1;
    let insert = "INSERT INTO entry (session, position, id, parent, kind, run, call, body, events, at)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
    let made = connection.prepare_cached(insert)?.execute(params![
        written.number,
        written.entries,
        new.id.as_str(),
        parent,
        new.kind.as_str(),
        new.run.as_ref().map(|run| run.as_str()),
        new.call,
        &*new.body,
        new.events.as_deref(),
        new.at,
    ])?;
    if made == 0 {
        return Err(StoreError::Exists { what: "entry", id: new.id.to_string() }.into());
    }
    if is_leaf {
        written.leaf = Some(written.entries);
    }
    Ok(())
}

fn apply(connection: &Connection, mut written: Written, commit: &SessionCommit) -> Result<Committed, Refused> {
    let first = written.entries + 1;
    for entry in &commit.entries {
        insert(connection, &mut written, entry)?;
    }
    for change in &commit.runs {
        change_run(connection, written.number, change, first, commit.now)?;
    }
    instructions::store(connection, written.number, first, commit)?;
    store(connection, &commit.deliveries)?;
    let Totals { input, output, cache_read, cache_write, runs, compactions } = commit.totals;
    // A sum that no integer holds becomes a fraction in SQLite, which the table refuses: the greatest integer stands for it.
    let update = "UPDATE session SET leaf = ?2, entries = ?3, updated_at = max(updated_at, ?4), settings = coalesce(?5, settings),
                  context_from = coalesce(?6, context_from), interacted_at = max(interacted_at, coalesce(?7, interacted_at)),
                  input = min(input + ?8, ?15), output = min(output + ?9, ?15), cache_read = min(cache_read + ?10, ?15),
                  cache_write = min(cache_write + ?11, ?15), runs = runs + ?12, compactions = compactions + ?13, owner = CASE WHEN ?14 THEN NULL ELSE owner END,
                  fence = fence + ?14 WHERE number = ?1";
    connection.prepare_cached(update)?.execute(params![
        written.number,
        written.leaf,
        written.entries,
        commit.now,
        commit.settings.as_deref(),
        commit.context_from,
        commit.interacted_at,
        input,
        output,
        cache_read,
        cache_write,
        runs,
        compactions,
        commit.release,
        i64::MAX,
    ])?;
    Ok(Committed { first, leaf: written.leaf })
}

fn bytes(commit: &SessionCommit) -> usize {
    let listed = |list: &Option<Arc<str>>| list.as_ref().map_or(0, |list| list.len());
    let frame = commit.frame.as_ref().map_or(0, |frame| frame.body.len() + frame.detail.len());
    let lists = listed(&commit.skills) + listed(&commit.shown_tools) + frame;
    let entry = |entry: &NewEntry| entry.body.len() + entry.events.as_ref().map_or(0, |events| events.len());
    let texts: usize = commit.deliveries.iter().map(|delivery| delivery.text.len()).sum();
    lists + texts + commit.entries.iter().map(entry).sum::<usize>()
}

pub(crate) fn number(connection: &Connection, id: &SessionId) -> Result<i64, Refused> {
    let query = "SELECT number FROM session WHERE id = ?1";
    let found = connection.prepare_cached(query)?.query_row([id.as_str()], |row| row.get(0)).optional()?;
    found.ok_or_else(|| StoreError::no_session(id).into())
}

impl Sessions for SqliteStore {
    fn create_session(&self, session: NewSession) -> Reply<Session> {
        self.transaction(Safety::Power, 0, move |connection| {
            create(connection, &session)?;
            find(connection, &session.id)
        })
    }

    fn draft_session(&self, session: NewSession, owner: &OwnerId) -> Reply<Session> {
        let owner = owner.clone();
        self.transaction(Safety::Process, 0, move |connection| {
            draft(connection, &session, &owner)?;
            find(connection, &session.id)
        })
    }

    fn publish_session(&self, id: &SessionId, fence: Fence, now: Millis) -> Reply<Session> {
        let id = id.clone();
        self.transaction(Safety::Power, 0, move |connection| {
            publish(connection, &id, fence, now)?;
            find(connection, &id)
        })
    }

    fn drafts(&self) -> Reply<Vec<Session>> {
        self.read(|connection| {
            let query = format!("SELECT {COLUMNS} FROM session WHERE number IN ({DRAFTS}) ORDER BY number");
            Ok(connection.prepare_cached(&query)?.query_map([], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn current_session(&self, user: &str, key: &SessionKey) -> Reply<Option<Session>> {
        self.look_up(|connection| Ok(current(connection, user, key)?))
    }

    fn session(&self, id: &SessionId) -> Reply<Session> {
        self.look_up(|connection| find(connection, id))
    }

    fn session_page(&self, page: SessionPage) -> Reply<Vec<Session>> {
        self.read(move |connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM session WHERE (?1 IS NULL OR user = ?1) AND (?2 IS NULL OR key = ?2)
                 AND (is_current = 1 OR ?3 AND ended IS NOT NULL) AND (?4 IS NULL OR (updated_at, id) < (?4, ?5))
                 ORDER BY updated_at DESC, id DESC LIMIT ?6"
            );
            let (at, before) = page.before.as_ref().map_or((None, None), |(at, id)| (Some(*at), Some(id.as_str())));
            let key = page.key.as_ref().map(SessionKey::as_str);
            let of = (&page.user, key, page.with_ended, at, before, page.limit);
            Ok(connection.prepare_cached(&query)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn claim_session(&self, id: &SessionId, seen: Fence, owner: &OwnerId, commit: SessionCommit) -> Reply<Fence> {
        if let Err(error) = self.check_there() {
            return Reply::ready(Err(error.into()));
        }
        let (id, owner) = (id.clone(), owner.clone());
        self.transaction(Safety::Process, bytes(&commit), move |connection| {
            let written = check(connection, &id, seen)?;
            let take = "UPDATE session SET owner = ?2, fence = ?3 WHERE number = ?1";
            connection.prepare_cached(take)?.execute((written.number, owner.as_str(), seen.0 + 1))?;
            apply(connection, written, &commit)?;
            Ok(Fence(seen.0 + 1))
        })
    }

    fn commit_session(&self, id: &SessionId, fence: Fence, commit: SessionCommit, safety: Safety) -> Reply<Committed> {
        let id = id.clone();
        let has_deliveries = !commit.deliveries.is_empty();
        let reply = self.transaction(safety, bytes(&commit), move |connection| {
            let written = check_written(connection, &id, fence)?;
            apply(connection, written, &commit)
        });
        self.told_of_deliveries(has_deliveries, reply)
    }

    fn reset_session(
        &self,
        id: &SessionId,
        fence: Fence,
        next: SessionId,
        reason: &str,
        now: Millis,
    ) -> Reply<Session> {
        let (id, reason) = (id.clone(), reason.to_owned());
        self.transaction(Safety::Power, 0, move |connection| {
            let written = check(connection, &id, fence)?;
            let owner = "SELECT owner FROM session WHERE number = ?1";
            let owner: Option<String> =
                connection.prepare_cached(owner)?.query_row([written.number], |row| row.get(0))?;
            // The proof of the old one ends too: its writer has that of the new one.
            let end = "UPDATE session SET is_current = 0, ended = ?2, owner = NULL, active = NULL, fence = fence + 1,
                       updated_at = max(updated_at, ?3) WHERE number = ?1";
            connection.prepare_cached(end)?.execute((written.number, &reason, now))?;
            let begin =
                "INSERT INTO session (id, user, key, is_current, agent, label, parent, created_at, interacted_at,
                            updated_at, fence, owner, settings)
                         SELECT ?2, user, key, 1, agent, label, id, ?3, ?3, ?3, fence, ?4, settings FROM session
                         WHERE number = ?1 ON CONFLICT DO NOTHING";
            if connection.prepare_cached(begin)?.execute((written.number, next.as_str(), now, owner))? == 0 {
                return Err(StoreError::Exists { what: "session", id: next.to_string() }.into());
            }
            let session = find(connection, &next)?;
            let moved = "UPDATE agent_run SET session = ?2 WHERE session = ?1 AND state = 'queued'";
            connection.prepare_cached(moved)?.execute((written.number, number(connection, &next)?))?;
            Ok(session)
        })
    }

    fn fork_session(&self, source: &SessionId, at: u32, new: NewSession) -> Reply<Session> {
        let source = source.clone();
        // Much may be copied.
        self.transaction(Safety::Power, usize::MAX, move |connection| {
            let from = number(connection, &source)?;
            create(connection, &new)?;
            let to = number(connection, &new.id)?;
            if !copy_branch(connection, from, at, to)? {
                return Err(StoreError::Missing { what: "entry", id: format!("{source}/{at}") }.into());
            }
            instructions::copy(connection, from, to)?;
            find(connection, &new.id)
        })
    }

    fn rename_session(&self, id: &SessionId, label: Option<&str>, now: Millis) -> Reply<()> {
        let (id, label) = (id.clone(), label.map(str::to_owned));
        self.transaction(Safety::Power, 0, move |connection| {
            let rename = "UPDATE session SET label = ?2, updated_at = max(updated_at, ?3) WHERE id = ?1";
            match connection.execute(rename, (id.as_str(), &label, now))? {
                0 => Err(StoreError::no_session(&id).into()),
                _ => Ok(()),
            }
        })
    }

    fn set_session_settings(&self, user: &str, key: &SessionKey, settings: Arc<str>, now: Millis) -> Reply<()> {
        let (user, key) = (user.to_owned(), key.clone());
        self.transaction(Safety::Power, 0, move |connection| {
            let set =
                "UPDATE session SET settings = ?3, updated_at = max(updated_at, ?4) WHERE user = ?1 AND key = ?2 AND is_current = 1";
            match connection.execute(set, (&user, key.as_str(), &*settings, now))? {
                0 => Err(StoreError::Missing { what: "session", id: key.to_string() }.into()),
                _ => Ok(()),
            }
        })
    }

    fn delete_session(&self, id: &SessionId, fence: Fence) -> Reply<()> {
        let id = id.clone();
        self.transaction(Safety::Power, usize::MAX, move |connection| {
            let session = find(connection, &id)?;
            if session.fence != fence {
                return Err(StoreError::SessionFenced { session: id.clone() }.into());
            }
            let number = number(connection, &id)?;
            // Looked at in here: a message may be accepted until this transaction begins.
            let is_busy = "SELECT EXISTS (SELECT 1 FROM agent_run WHERE session = ?1 AND ended_at IS NULL)";
            if connection.query_row(is_busy, [number], |row| row.get(0))? {
                return Err(StoreError::SessionBusy { session: id.clone() }.into());
            }
            forget_questions(connection, number)?;
            forget_of_session(connection, number)?;
            connection.execute("DELETE FROM session WHERE number = ?1", [number])?;
            Ok(())
        })
    }

    fn context(&self, id: &SessionId) -> Reply<Vec<Entry>> {
        let id = id.clone();
        self.read(move |connection| {
            // One moment for both: the session may be deleted in between.
            let transaction = connection.unchecked_transaction()?;
            let session = find(&transaction, &id)?;
            let Some(leaf) = session.leaf else { return Ok(Vec::new()) };
            let mut query = transaction.prepare_cached(CONTEXT)?;
            let mut rows = query.query((number(&transaction, &id)?, session.context_from, leaf))?;
            let (mut wanted, mut branch) = (Some(leaf), Vec::new());
            while let (Some(position), Some(row)) = (wanted, rows.next()?) {
                if row.get::<_, u32>(0)? == position {
                    let entry = read_entry(row)?;
                    wanted = entry.parent;
                    branch.push(entry);
                }
            }
            branch.retain(|entry| entry.kind != EntryKind::NestedCall);
            branch.reverse();
            Ok(branch)
        })
    }

    fn entries(&self, id: &SessionId, page: EntryPage) -> Reply<Vec<Entry>> {
        let id = id.clone();
        self.read(move |connection| {
            let number = number(connection, &id)?;
            let query =
                format!("SELECT {ENTRY} FROM entry WHERE session = ?1 AND position > ?2 ORDER BY position LIMIT ?3");
            let found = (number, page.after, page.limit);
            Ok(connection.prepare_cached(&query)?.query_map(found, read_entry)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn entry_named(&self, id: &SessionId, beginning: &str) -> Reply<Option<Entry>> {
        let (id, beginning) = (id.clone(), beginning.to_owned());
        self.read(move |connection| {
            let number = number(connection, &id)?;
            let mut query = connection.prepare_cached(NAMED)?;
            let found = query.query_map((number, &beginning), read_entry)?.collect::<rusqlite::Result<Vec<_>>>()?;
            let mut found = found.into_iter().filter(|entry| entry.id.as_str().starts_with(&beginning));
            let (first, second) = (found.next(), found.next());
            Ok(first.filter(|entry| second.is_none() || entry.id == beginning.as_str()))
        })
    }

    fn search_entries(&self, user: Option<&str>, words: Vec<String>, limit: u32) -> Reply<Vec<(SessionId, Entry)>> {
        let user = user.map(str::to_owned);
        self.read(move |connection| Ok(search(connection, user.as_deref(), &words, limit)?))
    }

    fn forget_sessions(&self, updated_before: Millis) -> Reply<usize> {
        self.transaction(Safety::Process, usize::MAX, move |connection| {
            let due = "SELECT number, entries FROM session WHERE updated_at < ?1 AND owner IS NULL AND active IS NULL
                AND NOT EXISTS (SELECT 1 FROM agent_run WHERE agent_run.session = session.number AND ended_at IS NULL)
                ORDER BY updated_at LIMIT ?2";
            let mut due = connection.prepare_cached(due)?;
            let due = due.query_map((updated_before, FORGOTTEN_AT_ONCE), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let due: Vec<(i64, u32)> = due.collect::<rusqlite::Result<_>>()?;
            let (mut forgotten, mut entries) = (0, 0u32);
            for (number, of_session) in due {
                entries = entries.saturating_add(of_session);
                if forgotten > 0 && entries > ENTRIES_AT_ONCE {
                    break;
                }
                forget_questions(connection, number)?;
                forget_of_session(connection, number)?;
                connection.prepare_cached("DELETE FROM session WHERE number = ?1")?.execute([number])?;
                forgotten += 1;
            }
            Ok(forgotten)
        })
    }
}
