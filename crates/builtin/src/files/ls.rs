//! `ls`: what is in a directory.

use std::sync::Arc;

use cap_std::fs::FileType;
use pincer_catalog::Flags;
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::{Core, LOOKS, Running, blocking};
use crate::{Workspace, Workspaces};

const MOST_ENTRIES: usize = 1000;

pub(crate) struct Ls(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LsInput {
    /// The directory, relative to the workspace. The workspace itself if absent.
    #[serde(default)]
    path: Option<String>,
}

/// What is there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LsOutput {
    /// What is in it, by name. At most 1000.
    entries: Vec<LsEntry>,
    /// How many there are in all.
    total: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LsEntry {
    name: String,
    kind: Kind,
    /// The size of a file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    File,
    Directory,
    Link,
    Special,
}

impl Core for Ls {
    const NAME: &'static str = "ls";
    const LABEL: &'static str = "List directory";
    const DESCRIPTION: &'static str = "List one directory of the workspace: names, kinds and sizes, hidden ones too. To look for files by \
        name in all directories use `find`, by content `grep`.";
    type Input = LsInput;
    type Output = LsOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, input: LsInput, running: Running) -> Result<LsOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let workspace = workspaces.of(&running.context.site)?;
            list(&workspace, input.path.as_deref().unwrap_or("."))
        })
        .await
    }
}

fn list(workspace: &Workspace, path: &str) -> Result<LsOutput, ToolError> {
    let dir = workspace.open_dir(path)?;
    let entries = dir.entries().map_err(|error| workspace.because(path, error))?;
    let mut all: Vec<_> = entries.filter_map(Result::ok).collect();
    all.sort_by_key(cap_std::fs::DirEntry::file_name);
    let total = all.len() as u64;
    let shown = |entry: &cap_std::fs::DirEntry| -> Option<LsEntry> {
        let kind = entry.file_type().ok()?;
        let size = if kind.is_file() { entry.metadata().ok().map(|metadata| metadata.len()) } else { None };
        Some(LsEntry { name: entry.file_name().to_string_lossy().into_owned(), kind: kind_of(kind), size })
    };
    Ok(LsOutput { entries: all.iter().filter_map(shown).take(MOST_ENTRIES).collect(), total })
}

fn kind_of(kind: FileType) -> Kind {
    match () {
        () if kind.is_file() => Kind::File,
        () if kind.is_dir() => Kind::Directory,
        () if kind.is_symlink() => Kind::Link,
        () => Kind::Special,
    }
}
