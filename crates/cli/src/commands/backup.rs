//! `pincer backup` and `pincer restore`: a copy of the store, made while it is in use, and put in its place while it is not.

use std::fs;
use std::path::{Path, PathBuf};

use pincer_codemode::ended_by_restore;
use pincer_runtime::STORE_FILE;
use pincer_store::{Call, Run, Runs};
use pincer_store_sqlite::{Endings, Restored, SqliteError, SqliteStore};
use serde_json::{Value, json};

use crate::print::{bytes, chain, count};
use crate::refused::{Refused, report};
use crate::usage::{BackupArguments, LocationArguments};
use crate::{FAILED, WRONG_USAGE, state};

pub(crate) fn backup(locations: &LocationArguments, arguments: &BackupArguments) -> u8 {
    report(back_up(locations, &arguments.file), arguments.json)
}

pub(crate) fn restore(locations: &LocationArguments, arguments: &BackupArguments) -> u8 {
    let restored = place(locations).and_then(|place| bring_back(&arguments.file, &place));
    report(restored, arguments.json)
}

/// Where the store is or will be.
fn place(locations: &LocationArguments) -> Result<PathBuf, Refused> {
    let directory = state::directory(locations);
    let none = || Refused(WRONG_USAGE, chain(&state::OpenError::NoDirectory));
    Ok(directory.ok_or_else(none)?.join(STORE_FILE))
}

/// Returns the report, for programs and for people.
fn back_up(locations: &LocationArguments, to: &Path) -> Result<(Value, String), Refused> {
    let place = place(locations)?;
    if !place.exists() {
        return Err(Refused(
            FAILED,
            format!("there is no store {} yet, so there is nothing to back up", place.display()),
        ));
    }
    let store = SqliteStore::open(&place).map_err(|error| Refused(FAILED, chain(&error)))?;
    store.backup(to).map_err(refused)?;
    let (runs, size) = (store.runs(None).wait()?.len(), fs::metadata(to).map_or(0, |file| file.len()));
    let text = format!("backed up {} to {} ({})", count(runs, "run"), to.display(), bytes(size as usize));
    Ok((json!({ "file": to, "bytes": size, "runs": runs }), text))
}

/// Returns the report, for programs and for people.
fn bring_back(from: &Path, to: &Path) -> Result<(Value, String), Refused> {
    let endings =
        Endings { program: |_: &Run, calls: &[Call]| ended_by_restore(calls), message: pincer_agent::ended_by_restore };
    let Restored { runs, ended, messages, grants } = SqliteStore::restore(from, to, &endings).map_err(refused)?;
    let mut text = format!("restored {} from {}", count(runs, "run"), from.display());
    if !ended.is_empty() {
        text.push_str(&format!(
            "\n{} had not ended in the backup and {} now aborted; `pincer runs show` lists the calls of each:",
            count(ended.len(), "run"),
            if ended.len() == 1 { "is" } else { "are" },
        ));
        ended.iter().for_each(|id| text.push_str(&format!("\n  {id}")));
    }
    if !messages.is_empty() {
        text.push_str(&format!(
            "\n{} had no answer in the backup and {} now aborted; check what was done since before you send one again:",
            count(messages.len(), "message"),
            if messages.len() == 1 { "is" } else { "are" },
        ));
        messages.iter().for_each(|id| text.push_str(&format!("\n  {id}")));
    }
    if grants > 0 {
        let hold = if grants == 1 { "holds" } else { "hold" };
        text.push_str(&format!("\n{} {hold} again: check `pincer approvals grants`", count(grants, "grant")));
    }
    Ok((json!({ "file": from, "runs": runs, "ended": ended, "messages": messages, "grants": grants }), text))
}

/// A file that was named wrongly is wrong usage.
fn refused(error: SqliteError) -> Refused {
    let code = match &error {
        SqliteError::Taken { .. }
        | SqliteError::NotABackup { .. }
        | SqliteError::Newer { .. }
        | SqliteError::Open { .. } => WRONG_USAGE,
        _ => FAILED,
    };
    Refused(code, chain(&error))
}
