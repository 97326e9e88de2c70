//! `pincer sessions export-trajectory`: a session as a bundle that can be given away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::Local;
use pincer_codemode::Recording;
use pincer_secrecy::Cleaner;
use pincer_store::{Millis, RecordedRuns, Recordings, Session};
use pincer_store_sqlite::SqliteStore;
use pincer_trajectory::{About, ExportError, Exporter, Program, without_secrets};
use serde_json::{Value, json};

use crate::commands::known_secrets::{Known, known};
use crate::interrupt::Interruptions;
use crate::print::{bytes, chain, count, note};
use crate::refused::Refused;
use crate::usage::LocationArguments;
use crate::usage_sessions::SessionName;
use crate::{FAILED, INTERRUPTED, WRONG_USAGE};

use super::House;
use super::find::{find, key};

/// The letters of a session's id in the name of its bundle.
const SHORT_ID: usize = 8;

impl From<ExportError> for Refused {
    fn from(error: ExportError) -> Self {
        let code = match &error {
            ExportError::Taken(_) => WRONG_USAGE,
            ExportError::Stopped => INTERRUPTED,
            ExportError::Store(_) | ExportError::Write { .. } => FAILED,
        };
        Self(code, chain(&error))
    }
}

pub(super) async fn export(
    locations: &LocationArguments,
    house: &House,
    name: &SessionName,
    output: Option<&Path>,
) -> Result<(Value, String), Refused> {
    let session = find(house, name).await?;
    let known = known(locations);
    let place = match output {
        Some(place) => place.to_owned(),
        None => usual_place(&known.workspace, &session),
    };
    let mut interruptions = Interruptions::listen();
    let stop = Arc::new(AtomicBool::new(false));
    let shown = key(session.key.as_str());
    let exported = {
        let (store, stop) = (Arc::clone(&house.store), Arc::clone(&stop));
        let work = move || {
            let Known { cleaner, about, .. } = &known;
            let exporter = Exporter { store: &*store, session: &session, cleaner, about, stop: &stop };
            exporter.export(&place, programs(&store, &session, cleaner))
        };
        tokio::task::spawn_blocking(work)
    };
    let mut exported = std::pin::pin!(exported);
    let exported = loop {
        tokio::select! {
            exported = &mut exported => break exported,
            // It ends by itself in a moment, and removes what it has written.
            _ = interruptions.next() => stop.store(true, Ordering::Relaxed),
        }
    };
    let exported = exported.map_err(|error| Refused(FAILED, format!("the export broke down: {error}")))??;
    let manifest = &exported.manifest;
    let place = exported.place.display().to_string();
    for warning in manifest.warnings.iter().take(10) {
        note(&format!("warning: {warning}"));
    }
    if manifest.warning_count > 10 {
        note(&format!("warning: and {} more: manifest.json has them", manifest.warning_count - 10));
    }
    let size: u64 = manifest.files.values().map(|file| file.bytes).sum();
    let text = format!(
        "exported {shown} with {} to {place} ({}). Look through it before you give it to others",
        count(usize::try_from(manifest.counts.events).unwrap_or(usize::MAX), "event"),
        bytes(usize::try_from(size).unwrap_or(usize::MAX)),
    );
    let document = json!({
        "path": place,
        "sessionId": manifest.session_id,
        "sessionKey": manifest.session_key,
        "counts": manifest.counts,
        "truncation": manifest.truncation,
        "warnings": manifest.warnings,
        "warningCount": manifest.warning_count,
        "files": manifest.files,
        "bytes": size,
    });
    Ok((document, text))
}

/// Returns the recordings of a session's programs, without secrets. Each is read when its turn comes: a session can have many.
fn programs<'a>(
    store: &'a SqliteStore,
    session: &'a Session,
    cleaner: &'a Cleaner,
) -> impl Iterator<Item = Result<Program, String>> + 'a {
    let of = RecordedRuns::OfSession { session: session.key.clone(), user: session.user.clone() };
    let (runs, failed) = match store.recorded_runs(of).wait() {
        Ok(runs) => (runs, None),
        Err(error) => (Vec::new(), Some(Err(error.to_string()))),
    };
    // A key outlives its sessions, and the programs of the others are no part of this one.
    let last = if session.is_current { Millis::MAX } else { session.updated_at };
    let during = move |at: Millis| (session.created_at..=last).contains(&at);
    let programs = runs.into_iter().filter_map(move |run| {
        let stored = match store.recording(&run).wait() {
            Ok(stored) if during(stored.run.created_at) => stored,
            Ok(_) => return None,
            Err(error) => return Some(Err(format!("{run}: {error}"))),
        };
        let recording = Recording::of(stored).map_err(|error| format!("{run}: {error}"));
        Some(recording.and_then(|recording| {
            let json = serde_json::to_string(&recording.redacted(&|value| without_secrets(cleaner, value)));
            Ok(Program { run: run.to_string(), json: json.map_err(|error| format!("{run}: {error}"))? })
        }))
    });
    failed.into_iter().chain(programs)
}

/// Returns where a bundle goes that no place is named for.
fn usual_place(workspace: &Path, session: &Session) -> PathBuf {
    let fits = |c: &char| c.is_ascii_alphanumeric();
    let id: String = session.id.as_str().chars().filter(fits).take(SHORT_ID).collect();
    let folder = workspace.join(".openclaw/trajectory-exports");
    let name = format!("openclaw-trajectory-{id}-{}", Local::now().format("%Y%m%dT%H%M%S%3f"));
    folder.join(name)
}

/// Returns what is known of this machine and the config, for bundles.
pub(crate) fn about(config: Value, plugins: Vec<String>, skills: Vec<String>, warnings: Vec<String>) -> About {
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        config,
        plugins,
        skills,
        warnings,
    }
}
