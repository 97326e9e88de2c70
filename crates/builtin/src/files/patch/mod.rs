//! `apply_patch`: changes to several files at once, all of them or none.

mod hunks;
mod parse;

use std::sync::Arc;

use pincer_catalog::Flags;
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::parse::{Change, parse};
use super::edit::read_text;
use crate::define::{CHANGES, Core, Running, blocking};
use crate::text::{LineEnds, diff};
use crate::workspace::{Target, shown};
use crate::{Workspace, Workspaces};

pub(crate) struct ApplyPatch(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PatchInput {
    /// The patch, from `*** Begin Patch` to `*** End Patch`.
    patch: String,
}

/// What changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PatchOutput {
    /// The files, in the order of the patch.
    files: Vec<Changed>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Changed {
    /// The file, where it is now.
    path: String,
    what: What,
    /// The change as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Added,
    Updated,
    Deleted,
    Moved,
}

impl Core for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const LABEL: &'static str = "Apply patch";
    const DESCRIPTION: &'static str = "Change, add, move and delete several files with one patch, all of it or nothing. Format:\n\
        *** Begin Patch\n*** Update File: src/a.txt\n@@ optional line before the change\n unchanged line\n-removed line\n+added line\n\
        *** Add File: src/b.txt\n+content\n*** Delete File: src/c.txt\n*** End Patch\n\
        `*** Move to: path` behind `*** Update File:` renames. Give about three unchanged lines around each change. For one file, \
        `edit` is simpler.";
    type Input = PatchInput;
    type Output = PatchOutput;

    fn flags() -> Flags {
        CHANGES
    }

    async fn run(&self, input: PatchInput, running: Running) -> Result<PatchOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let workspace = workspaces.of(&running.context.site)?;
            apply(&workspace, &input.patch)
        })
        .await
    }
}

/// One step on the disk, and how to take it back.
struct Step {
    target: Target,
    /// The new content; `None` removes the file.
    after: Option<String>,
    /// What stood there; `None` if there was no file.
    before: Option<String>,
}

fn apply(workspace: &Workspace, patch: &str) -> Result<PatchOutput, ToolError> {
    let changes = parse(patch).map_err(|error| ToolError::before(format!("the patch cannot be used: {error}")))?;
    let _changing = workspace.changing();
    let mut steps: Vec<Step> = Vec::new();
    let mut files = Vec::new();
    for change in &changes {
        files.push(plan(workspace, change, &mut steps)?);
    }
    let mut paths: Vec<String> = steps.iter().map(|step| shown(&step.target.path)).collect();
    paths.sort();
    if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(ToolError::before(format!(
            "the patch changes {} twice: put all its changes in one section",
            pair[0]
        )));
    }
    carry_out(&steps)?;
    Ok(PatchOutput { files })
}

/// Finds out what a change comes to. Nothing is written yet.
fn plan(workspace: &Workspace, change: &Change, steps: &mut Vec<Step>) -> Result<Changed, ToolError> {
    match change {
        Change::Add { path, content } => {
            let target = workspace.target(path)?;
            if target.existing.is_some() {
                return Err(ToolError::before(format!("{path} exists already: update it instead of adding it")));
            }
            let shown_path = shown(&target.path);
            let diff = diff(&shown_path, "", content);
            steps.push(Step { target, after: Some(content.clone()), before: None });
            Ok(Changed { path: shown_path, what: What::Added, diff: Some(diff) })
        }
        Change::Delete { path } => {
            let before = read_text(workspace, path)?;
            let target = workspace.target(path)?;
            let path = shown(&target.path);
            steps.push(Step { target, after: None, before: Some(before) });
            Ok(Changed { path, what: What::Deleted, diff: None })
        }
        Change::Update { path, moved_to, hunks } => {
            let stored = read_text(workspace, path)?;
            let ends = LineEnds::of(&stored);
            let before = ends.plain(&stored);
            let after = hunks::apply(&before, hunks).map_err(|error| ToolError::before(format!("{path}: {error}")))?;
            let source = workspace.target(path)?;
            let shown_path = shown(&source.path);
            let diff = Some(diff(&shown_path, &before, &after)).filter(|diff| !diff.is_empty());
            let after = ends.apply(&after);
            let Some(moved_to) = moved_to else {
                steps.push(Step { target: source, after: Some(after), before: Some(stored) });
                return Ok(Changed { path: shown_path, what: What::Updated, diff });
            };
            let mut target = workspace.target(moved_to)?;
            if target.existing.is_some() {
                return Err(ToolError::before(format!("{moved_to} exists already: {path} cannot be moved there")));
            }
            // It takes its permissions along.
            target.existing.clone_from(&source.existing);
            let path = shown(&target.path);
            steps.push(Step { target, after: Some(after), before: None });
            steps.push(Step { target: source, after: None, before: Some(stored) });
            Ok(Changed { path, what: What::Moved, diff })
        }
    }
}

/// Takes all steps; if one fails, those before it are taken back.
fn carry_out(steps: &[Step]) -> Result<(), ToolError> {
    for (index, step) in steps.iter().enumerate() {
        let taken = match &step.after {
            Some(content) => step.target.write(content.as_bytes()),
            None => step.target.remove(),
        };
        let Err(error) = taken else { continue };
        let path = shown(&step.target.path);
        let undone = steps[..index].iter().rev().all(|step| {
            let back = match &step.before {
                Some(content) => step.target.write(content.as_bytes()),
                None => step.target.remove(),
            };
            back.is_ok()
        });
        return Err(if undone {
            ToolError::before(format!("{path} was not changed, and nothing else: {error}"))
        } else {
            ToolError::unknown(format!("{path} was not changed: {error}; some of the files before it were"))
        });
    }
    Ok(())
}
