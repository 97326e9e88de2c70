//! `write`: a whole file at once.

use std::sync::Arc;

use pincer_catalog::Flags;
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::{CHANGES, Core, Running, blocking};
use crate::files::edit::read_text;
use crate::text::LineEnds;
use crate::workspace::shown;
use crate::{Workspace, Workspaces};

pub(crate) struct Write(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WriteInput {
    /// The file, relative to the workspace. Directories on the way are made.
    path: String,
    /// The whole new content.
    content: String,
    /// `keep` (the default) gives the content the line ends of the file it replaces; `exact` writes it as it is.
    #[serde(default)]
    line_ends: Keep,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Keep {
    #[default]
    Keep,
    Exact,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteOutput {
    /// The file.
    path: String,
    /// How many bytes it has now.
    bytes: u64,
    /// Whether it is new.
    created: bool,
}

impl Core for Write {
    const NAME: &'static str = "write";
    const LABEL: &'static str = "Write file";
    const DESCRIPTION: &'static str = "Create a file of the workspace, or replace one as a whole. To change a part of a file use `edit` \
        instead: it needs less text and cannot lose the rest.";
    type Input = WriteInput;
    type Output = WriteOutput;

    fn flags() -> Flags {
        Flags { idempotent: true, ..CHANGES }
    }

    async fn run(&self, input: WriteInput, running: Running) -> Result<WriteOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let workspace = workspaces.of(&running.context.site)?;
            write(&workspace, &input)
        })
        .await
    }
}

fn write(workspace: &Workspace, input: &WriteInput) -> Result<WriteOutput, ToolError> {
    let _changing = workspace.changing();
    let target = workspace.target(&input.path)?;
    let mut content = input.content.clone();
    if target.existing.is_some() && input.line_ends == Keep::Keep && !content.contains('\r') {
        // What is there may be binary: then it has no line ends to keep.
        if let Ok(before) = read_text(workspace, &input.path) {
            content = LineEnds::of(&before).apply(&content);
        }
    }
    target
        .write(content.as_bytes())
        .map_err(|error| ToolError::before(format!("{} was not written: {error}", input.path)))?;
    Ok(WriteOutput { path: shown(&target.path), bytes: content.len() as u64, created: target.existing.is_none() })
}
