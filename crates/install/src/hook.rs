//! `before_install`: the event that hooks get, and their findings.

use pincer_hooks::events::BeforeInstall;
use serde_json::{Value, json};

use crate::scan::Scan;
use crate::scan::{Finding, Severity};
use crate::source::SourceKind;
use crate::steps::Case;
use crate::target::Request;

/// Returns the event for hooks. Its path is that of the staged files: these, and no others, are put in place.
pub(crate) fn event(case: &Case, scan: &Scan) -> BeforeInstall {
    BeforeInstall {
        target_type: case.kind.to_string(),
        target_name: case.contents.id.clone(),
        source_path: case.contents.folder.to_string_lossy().into_owned(),
        source_path_kind: match case.source.kind {
            SourceKind::Directory => "directory".into(),
            SourceKind::Archive => "archive".into(),
        },
        origin: case.source.path.to_string_lossy().into_owned(),
        request: match case.request {
            Request::Install => "install".into(),
            Request::Update => "update".into(),
        },
        digest: case.digest.to_string(),
        builtin_scan: json!(scan),
    }
}

/// Returns the finding of a hook: a text, or an object with `severity`, `message`, `file` and `line`. It is never dropped: of one that
/// cannot be read, the whole is the message.
pub(crate) fn finding(value: &Value) -> Finding {
    let severity = serde_json::from_value(value["severity"].clone()).unwrap_or(Severity::Warning);
    let message = value.as_str().or(value["message"].as_str()).map_or_else(|| value.to_string(), str::to_owned);
    let finding = Finding::new(severity, "hook", &message);
    match value["file"].as_str() {
        Some(file) => finding.at(file, value["line"].as_u64().and_then(|line| u32::try_from(line).ok())),
        None => finding,
    }
}
