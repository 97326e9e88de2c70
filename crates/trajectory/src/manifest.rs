//! The manifest of a bundle: what is in it, what is not, and by which sums it can be checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most warnings that are written. All of them are counted.
const MOST_WARNINGS: usize = 200;

/// The contents of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    /// The schema of the events.
    pub trace_schema: String,
    /// Its version.
    pub schema_version: u32,
    /// The trace, which is the session.
    pub trace_id: String,
    /// The session.
    pub session_id: String,
    /// Its key.
    pub session_key: Option<String>,
    /// When the bundle was written.
    pub generated_at: String,
    /// The place of the workspace in all files.
    pub workspace_dir: String,
    /// The last entry of the branch in use.
    pub leaf_id: Option<String>,
    /// Where the events come from.
    pub sources: Vec<SourceSum>,
    /// The counts.
    pub counts: Counts,
    /// The limits of single values. There is no limit on all together.
    pub limits: Limits,
    /// The parts that were left out for their size.
    pub truncation: Truncation,
    /// Oddities of the session, in words. These are the first ones.
    pub warnings: Vec<String>,
    /// How many there are.
    pub warning_count: u64,
    /// The files of the bundle beside this one.
    pub files: BTreeMap<String, FileSum>,
}

/// A source of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceSum {
    /// `runtime`, `transcript` or `export`.
    pub source: String,
    /// The table of the store.
    pub from: String,
    /// The rows that were read.
    pub rows: u64,
    /// The events that came of them.
    pub events: u64,
}

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Events, numbered from 1 without a gap.
    pub events: u64,
    /// Entries of the session.
    pub entries: u64,
    /// Entries that are on the branch in use, or calls of programs on it.
    pub exported_entries: u64,
    /// Entries of branches that were left.
    pub entries_of_other_branches: u64,
    /// Calls that programs made.
    pub nested_calls: u64,
    /// Runs.
    pub runs: u64,
    /// Questions to a person.
    pub approvals: u64,
    /// Programs in `programs`.
    pub programs: u64,
}

/// The limits of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Bytes of a line of events.
    pub line_bytes: usize,
    /// Characters of a text.
    pub string_chars: usize,
    /// Items of an array, and members of an object.
    pub items: usize,
    /// Levels of arrays and objects.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 256 << 10, string_chars: 32_768, items: 64, depth: 6 }
    }
}

/// The parts that were left out for their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Truncation {
    /// Events in which a text, an array or an object was shortened.
    pub shortened_events: u64,
    /// Events whose data is only named.
    pub replaced_events: u64,
    /// Events that were dropped. There are none, ever.
    pub dropped_events: u64,
}

/// The sum of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSum {
    /// Its bytes.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Warnings, the first ones of them in words.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    pub told: Vec<String>,
    pub count: u64,
}

impl Warnings {
    pub(crate) fn add(&mut self, warning: impl Into<String>) {
        self.count += 1;
        if self.told.len() < MOST_WARNINGS {
            self.told.push(warning.into());
        }
    }
}
