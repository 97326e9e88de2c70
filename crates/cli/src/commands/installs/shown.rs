//! The page that a person is shown before something is installed. Each text of the source is one escaped line, so that it can look like no other.

use std::fmt::Write;

use pincer_install::{Finding, Judged, Need, Plan, Request, Ruling, SourceKind};
use pincer_tools::one_line;
use serde_json::{Value, json};

use crate::print::{bytes, count};

/// The most things of one kind that are listed.
const MOST: usize = 40;

/// Returns a text on one line.
pub(super) fn text(text: &str) -> String {
    one_line(text, 400)
}

pub(super) fn question(judged: &Judged) -> &'static str {
    match (judged.need(), judged.plan().request) {
        (Need::ConsentToFindings, Request::Install) => "There are critical findings. Install it all the same?",
        (Need::ConsentToFindings, Request::Update) => "There are critical findings. Update it all the same?",
        (_, Request::Install) => "Install it?",
        (_, Request::Update) => "Update it?",
    }
}

pub(super) fn plan(judged: &Judged) -> String {
    let plan = judged.plan();
    let (verb, version) = match plan.request {
        Request::Install => ("install", plan.version.as_deref().unwrap_or_default()),
        Request::Update => ("update", plan.version.as_deref().unwrap_or_default()),
    };
    let mut out = format!("{verb} the {} {} {version}", plan.kind, plan.id).trim_end().to_owned();
    let mut row = |name: &str, value: &str| {
        let _ = write!(out, "\n  {name:<12} {value}");
    };
    let kind = match plan.source.kind {
        SourceKind::Directory => "folder",
        SourceKind::Archive => "archive",
    };
    row("from", &format!("{} ({kind})", text(&plan.source.path.to_string_lossy())));
    row("to", &text(&plan.place.to_string_lossy()));
    row("digest", &plan.digest.to_string());
    row("files", &format!("{}, {}", plan.files, bytes(usize::try_from(plan.bytes).unwrap_or(usize::MAX))));
    if plan.left_out > 0 {
        row("left out", &format!("{} of .git or __MACOSX", count(plan.left_out, "file")));
    }
    if let Some(old) = plan.replaces {
        let version = old.version.as_deref().map(text).unwrap_or_default();
        row("replaces", format!("{version} {} of {}", old.digest, old.at).trim_start());
    }
    if plan.replaces_changed_files {
        row("", "the files there were changed since they were installed: they are kept aside");
    }
    row(
        "policy",
        match plan.ruling {
            Ruling::Vouched => "security.installPolicy allows exactly these files",
            Ruling::Allowed => "security.installPolicy allows it",
            Ruling::Ask => "a person decides",
        },
    );
    listed(&mut row, "runs", &plan.scan.runs);
    // All of them: a guard or a channel that hides behind many tools would be agreed to unseen.
    for (index, brought) in plan.scan.brings.iter().enumerate() {
        row(if index == 0 { "brings" } else { "" }, brought);
    }
    listed(&mut row, "programs", &plan.scan.programs.iter().cloned().collect::<Vec<_>>());
    listed(&mut row, "environment", &plan.scan.environment.iter().cloned().collect::<Vec<_>>());
    listed(&mut row, "reaches", &plan.scan.hosts.iter().cloned().collect::<Vec<_>>());
    findings(&mut out, &plan);
    out
}

fn listed(row: &mut impl FnMut(&str, &str), name: &str, values: &[String]) {
    for (index, value) in values.iter().take(MOST).enumerate() {
        row(if index == 0 { name } else { "" }, value);
    }
    if values.len() > MOST {
        row("", &format!("… and {} more", values.len() - MOST));
    }
}

fn findings(out: &mut String, plan: &Plan) {
    let mut all: Vec<&Finding> = plan.scan.findings.iter().chain(plan.hook_findings).collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    if all.is_empty() {
        out.push_str("\n  findings     none");
    }
    for finding in &all {
        let place = match (&finding.file, finding.line) {
            (Some(file), Some(line)) => format!("{file}:{line}  "),
            (Some(file), None) => format!("{file}  "),
            _ => String::new(),
        };
        let _ = write!(out, "\n  {:<12} {place}{} ({})", finding.severity.to_string(), finding.message, finding.rule);
    }
    if plan.scan.findings_left_out > 0 {
        let _ = write!(out, "\n               … and {} more", plan.scan.findings_left_out);
    }
    out.push_str("\nFindings are guesses from the text: no finding does not mean that it is harmless.");
}

pub(super) fn document(judged: &Judged) -> Value {
    let plan = judged.plan();
    let needs = match judged.need() {
        Need::Nothing => "nothing",
        Need::Consent => "consent",
        Need::ConsentToFindings => "consent_to_findings",
    };
    json!({
        "status": "planned",
        "type": plan.kind,
        "id": plan.id,
        "version": plan.version,
        "request": plan.request,
        "source": plan.source.path,
        "sourceKind": plan.source.kind,
        "place": plan.place,
        "digest": plan.digest,
        "files": plan.files,
        "bytes": plan.bytes,
        "leftOut": plan.left_out,
        "replaces": plan.replaces,
        "replacesChangedFiles": plan.replaces_changed_files,
        "policy": plan.ruling,
        "needs": needs,
        "scan": plan.scan,
        "hookFindings": plan.hook_findings,
    })
}
