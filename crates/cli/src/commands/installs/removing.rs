//! Something that was installed is removed.

use std::path::Path;

use pincer_install::{Installs, Kind, Record};
use serde_json::json;

use super::{Failure, can_ask, person_agrees, ready, shown, uses};
use crate::print::{line, note};
use crate::usage::LocationArguments;
use crate::usage_plugins::RemoveArguments;
use crate::{DONE, FAILED};

pub(super) fn run(
    locations: &LocationArguments,
    kind: Kind,
    arguments: &RemoveArguments,
    json: bool,
) -> Result<u8, Failure> {
    let (loaded, state) = ready(locations)?;
    let removal = Installs::new(&state).removal(kind, &arguments.id)?;
    let (record, place) = (removal.record().clone(), removal.place());
    // A damaged manifest must not keep it from being removed.
    let channels = pincer_plugins::load(&place).map(|found| found.manifest.channels).unwrap_or_default();
    let uses = uses::of(&loaded.parsed.config, kind, &record.id, &channels);
    let changed = removal.has_changed_files();
    let document = |status: &str, kept: Option<&Path>| {
        let uses: Vec<&str> = uses.iter().map(|used| used.path.as_str()).collect();
        json!({
            "status": status, "type": kind, "id": record.id, "version": record.version, "place": place,
            "source": record.source, "digest": record.digest, "changedFiles": changed, "kept": kept, "usedBy": uses,
        })
        .to_string()
    };
    let text = text(&record, &place.to_string_lossy(), changed, &uses);
    if arguments.dry_run {
        line(&if json { document("planned", None) } else { text });
        return Ok(DONE);
    }
    let asks = !arguments.yes && can_ask();
    if !json || asks {
        note(&text);
    }
    if asks && !person_agrees("Remove it?") {
        note(&format!("the {kind} {} is still there", record.id));
        return Ok(FAILED);
    }
    if !arguments.yes && !asks {
        return Err(Failure::RemovalUnagreed { kind, id: record.id });
    }
    let kept = removal.commit()?.kept;
    if json {
        line(&document("removed", kept.as_deref()));
        return Ok(DONE);
    }
    line(&format!("removed the {kind} {} from {}", record.id, place.display()));
    if let Some(kept) = kept {
        note(&format!("its changed files are kept in {}", kept.display()));
    }
    Ok(DONE)
}

fn text(record: &Record, place: &str, changed: bool, uses: &[uses::Use]) -> String {
    let version = record.version.as_deref().map(shown::text).unwrap_or_default();
    let mut out = format!("remove the {} {} {version}", record.kind, record.id).trim_end().to_owned();
    out.push_str(&format!("\n  from         {}", shown::text(place)));
    if changed {
        out.push_str("\n               the files there were changed since they were installed: they are kept aside");
    }
    for used in uses {
        out.push_str(&format!("\n  used by      {} of the config: {}", used.path, used.consequence));
    }
    out
}
