//! Sessions to and from JSON Lines.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use pincer_sessions::{
    Exported, Imported, Message, export_line, header_line, new_entry_id, new_session_id, remove_dead_drafts,
};
use pincer_store::{
    Clock, Entry, EntryKind, EntryPage, Leases, NewEntry, NewSession, Safety, Session, SessionCommit, Sessions,
    StoreError, Totals,
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::interrupt::Interruptions;
use crate::print::{chain, harmless, note};
use crate::refused::Refused;
use crate::usage_sessions::SessionName;
use crate::{FAILED, INTERRUPTED, WRONG_USAGE};

use super::find::{check_key, find, key as shown, not_new};
use super::list::{Standing, document, entries};
use super::{House, Told};

/// The entries that are read, or stored, at once.
const PAGE: u32 = 1000;
/// The most tokens that a message counts for.
const MOST_TOKENS: u64 = 1 << 40;
/// Stands for standard input or output.
const STANDARD: &str = "-";

/// Why a session was not exported.
enum ExportError {
    Store(StoreError),
    Write(io::Error),
}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl ExportError {
    fn to(self, place: &str) -> Refused {
        match self {
            Self::Store(error) => error.into(),
            Self::Write(error) => {
                Refused(FAILED, format!("{place} cannot be written: {error}. Name a file that you can write"))
            }
        }
    }
}

pub(super) async fn export(house: &House, name: &SessionName, file: &Path, json: bool) -> Result<Told, Refused> {
    let session = find(house, name).await?;
    if file == Path::new(STANDARD) {
        if json {
            let error = "with --json standard output is one document, so the lines need a FILE: name one";
            return Err(Refused(WRONG_USAGE, error.into()));
        }
        let stdout = io::stdout();
        // JSON may hold characters that drive a terminal.
        let show: fn(String) -> String = if stdout.is_terminal() { |line| harmless(&line) } else { |line| line };
        let mut out = BufWriter::new(stdout.lock());
        return match write(house, &session, &mut out, show).await {
            // A reader that has gone away is no error of ours.
            Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            Err(error) => Err(error.to("standard output")),
            Ok(_) => Ok(None),
        };
    }
    let place = file.display().to_string();
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        let error = format!("{place} is not a file that could be replaced: name another one, or - for standard output");
        return Err(Refused(WRONG_USAGE, error));
    }
    let (lines, bytes) = to_file(house, &session, file).await.map_err(|error| error.to(&place))?;
    let text = format!("exported {} with {} to {place}", shown(session.key.as_str()), entries(lines));
    Ok(Some((json!({ "file": place, "id": session.id, "key": session.key, "entries": lines, "bytes": bytes }), text)))
}

/// Writes a file beside the one that is named, and puts it in its place when it is complete.
async fn to_file(house: &House, session: &Session, file: &Path) -> Result<(u32, u64), ExportError> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = NamedTempFile::new_in(directory)?;
    let mut out = BufWriter::new(new.as_file_mut());
    let lines = write(house, session, &mut out, |line| line).await?;
    drop(out);
    new.as_file().sync_all()?;
    let bytes = new.as_file().metadata()?.len();
    new.persist(file).map_err(|error| error.error)?;
    Ok((lines, bytes))
}

/// Writes the lines of a session, and returns the number of its entries. Only one page of them is in memory.
async fn write(
    house: &House,
    session: &Session,
    out: &mut impl Write,
    show: impl Fn(String) -> String,
) -> Result<u32, ExportError> {
    let directory = std::env::current_dir().unwrap_or_default().display().to_string();
    writeln!(out, "{}", show(header_line(session, &directory)))?;
    let (mut known, mut after, mut name) = (Exported::default(), 0, None);
    loop {
        let page = house.store.entries(&session.id, EntryPage { after, limit: PAGE }).await?;
        for entry in &page {
            if entry.kind == EntryKind::SessionInfo {
                let body: Value = serde_json::from_str(&entry.body).unwrap_or_default();
                name = body["name"].as_str().map(str::to_owned);
            }
            writeln!(out, "{}", show(export_line(&mut known, entry)))?;
            after = entry.position;
        }
        if page.len() < PAGE as usize {
            break;
        }
    }
    // A name is an entry in the file. One that was given later has none.
    if name != session.label {
        let entry = Entry {
            position: after + 1,
            id: new_entry_id(),
            parent: session.leaf,
            kind: EntryKind::SessionInfo,
            run: None,
            call: None,
            body: json!({ "name": session.label }).to_string(),
            events: None,
            at: session.updated_at,
        };
        writeln!(out, "{}", show(export_line(&mut known, &entry)))?;
        after += 1;
    }
    out.flush()?;
    Ok(after)
}

pub(super) async fn import(house: &House, file: &Path, key: Option<&str>) -> Result<(Value, String), Refused> {
    let place = if file == Path::new(STANDARD) { "standard input".to_owned() } else { file.display().to_string() };
    let wrong = |error: &dyn std::error::Error| {
        Refused(WRONG_USAGE, format!("{place} cannot be imported: {}", shown(&chain(error))))
    };
    let text = read(file).map_err(|error| wrong(&error))?;
    let imported = pincer_sessions::import(&text).map_err(|error| wrong(&error))?;
    drop(text);
    imported.warnings.iter().for_each(|warning| note(&format!("warning: {place}: {warning}")));
    let id = new_session_id();
    let key = match key {
        Some(key) => key.to_owned(),
        None => format!("imported-{}", imported.id.as_deref().unwrap_or(id.as_str())),
    };
    check_key(&key)?;
    let new = NewSession {
        id: id.clone(),
        user: house.user.clone(),
        key: key.as_str().into(),
        agent: None,
        label: imported.name.clone(),
        parent: None,
        // Not the time of the file: a session that was old at once would begin anew with its first message, and one from the future
        // would never be idle.
        created_at: house.store.now(),
    };
    let warnings = imported.warnings.clone();
    let mut interruptions = Interruptions::listen();
    // Filled page by page under no key, and then published in one step: nothing of it is seen before it is whole.
    let owner = house.leases.hold().await?;
    remove_dead_drafts(&*house.store, &house.leases).await?;
    let draft = house.store.draft_session(new, &owner).await.map_err(|error| not_new(error, &key))?;
    let filled = tokio::select! {
        filled = fill(house, &draft, imported) => filled,
        _ = interruptions.next() => Err(Refused(INTERRUPTED, "interrupted: nothing was imported".into())),
    };
    let published = match filled {
        Ok(()) => {
            let published = house.store.publish_session(&id, draft.fence, house.store.now()).await;
            published.map_err(|error| not_new(error, &key))
        }
        Err(refused) => Err(refused),
    };
    let session = match published {
        Ok(session) => session,
        Err(refused) => return Err(forgotten(house.store.delete_session(&id, draft.fence).await, refused)),
    };
    house.leases.release();
    let mut told = document(&session, &Standing::of(&house.store, &session).await?);
    told["warnings"] = json!(warnings);
    Ok((told, format!("imported {place} as {} with {}", shown(&key), entries(session.entries))))
}

fn read(file: &Path) -> io::Result<String> {
    if file != Path::new(STANDARD) {
        return fs::read_to_string(file);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// Returns why a session was not imported, and whether a part of it is left.
fn forgotten(gone: Result<(), StoreError>, Refused(code, why): Refused) -> Refused {
    match gone {
        Ok(()) | Err(StoreError::Missing { .. }) => Refused(code, why),
        Err(error) => {
            let left = format!("the part that was stored could not be removed: {}", chain(&error));
            Refused(code, format!("{why}; {left}. No command shows it, and the next import removes it"))
        }
    }
}

async fn fill(house: &House, draft: &Session, imported: Imported) -> Result<(), Refused> {
    let mut left = imported.entries.into_iter().peekable();
    while left.peek().is_some() {
        let entries: Vec<NewEntry> = left.by_ref().take(PAGE as usize).collect();
        let commit = SessionCommit {
            totals: totals(&entries),
            entries,
            context_from: Some(imported.context_from),
            now: house.store.now(),
            ..SessionCommit::default()
        };
        house.store.commit_session(&draft.id, draft.fence, commit, Safety::Process).await?;
    }
    Ok(())
}

/// Returns the figures that entries bring along.
fn totals(entries: &[NewEntry]) -> Totals {
    let mut totals = Totals::default();
    for entry in entries {
        if entry.kind == EntryKind::Compaction {
            totals.compactions += 1;
        }
        let message = (entry.kind == EntryKind::Message).then(|| Message::parse(&entry.body).ok()).flatten();
        let Some(usage) = message.and_then(|message| message.usage) else { continue };
        // A file may say anything: sums must stay numbers.
        let add = |total: &mut i64, count: u64| *total += i64::try_from(count.min(MOST_TOKENS)).unwrap_or_default();
        add(&mut totals.input, usage.input);
        add(&mut totals.output, usage.output);
        add(&mut totals.cache_read, usage.cache_read);
        add(&mut totals.cache_write, usage.cache_write);
    }
    totals
}
