//! `before_install`: what a hook is told of an installation, and what it may answer.

use std::path::PathBuf;

use pincer_tools::one_line;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::scan::{Finding, Scan, Severity};
use crate::source::SourceKind;
use crate::target::{Kind, Request};

const MOST_REASON: usize = 500;

/// The event of a `before_install` hook.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeInstall {
    /// The kind of the thing to install.
    pub target_type: Kind,
    /// Its name.
    pub target_name: String,
    /// Where it comes from.
    pub source_path: PathBuf,
    /// The kind of the source.
    pub source_path_kind: SourceKind,
    /// The folder with exactly the files that will be put in place. A hook that looks at files looks here.
    pub staged_path: PathBuf,
    /// How the source was named.
    pub origin: Origin,
    /// Whether it is new, or takes the place of an older one.
    pub request: Request,
    /// The digest of its files.
    pub digest: Digest,
    /// The findings of Pincer.
    pub builtin_scan: Scan,
}

/// How the source was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// By the person.
    Named,
    /// By the record of the last installation.
    Recorded,
}

/// The answer of a hook.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallVerdict {
    /// Its findings.
    pub findings: Vec<HookFinding>,
    /// Whether it is against it. `false` says nothing: it takes back no block of another hook.
    pub block: bool,
    /// Why it is against it.
    pub block_reason: Option<String>,
}

/// A finding of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookFinding {
    /// How bad it is; a warning if it does not say.
    #[serde(default = "warning")]
    pub severity: Severity,
    /// The finding in words.
    pub message: String,
    /// Where it is.
    #[serde(default)]
    pub file: Option<String>,
    /// The line.
    #[serde(default)]
    pub line: Option<u32>,
}

fn warning() -> Severity {
    Severity::Warning
}

impl HookFinding {
    pub(crate) fn finding(&self) -> Finding {
        let finding = Finding::new(self.severity, "hook", &self.message);
        match &self.file {
            Some(file) => finding.at(file, self.line),
            None => finding,
        }
    }
}

impl InstallVerdict {
    pub(crate) fn reason(&self) -> String {
        one_line(self.block_reason.as_deref().unwrap_or("it gives no reason"), MOST_REASON)
    }
}
