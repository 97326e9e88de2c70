//! `edit`: exact replacements, each of a text that stands in the file once.

use std::io::Read as _;
use std::sync::Arc;

use pincer_catalog::Flags;
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::{CHANGES, Core, Running, blocking};
use crate::text::{LineEnds, binary_kind, diff};
use crate::workspace::shown;
use crate::{Workspace, Workspaces};

/// The most bytes of a file: it is held in memory.
const MOST_BYTES: u64 = 32 << 20;

pub(crate) struct Edit(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EditInput {
    /// The file, relative to the workspace.
    path: String,
    /// The replacements. All are looked up in the file as it is now, and must not overlap.
    #[schemars(length(min = 1, max = 200))]
    edits: Vec<Replacement>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replacement {
    /// The text to replace, exactly as it stands in the file, with enough around it to occur only once.
    #[schemars(length(min = 1))]
    old_text: String,
    /// What stands there afterwards. Empty to delete.
    new_text: String,
    /// Replace every occurrence.
    #[serde(default)]
    all: bool,
}

/// What changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditOutput {
    /// The file.
    path: String,
    /// How many places changed.
    replaced: u64,
    /// The change as a unified diff.
    diff: String,
}

impl Core for Edit {
    const NAME: &'static str = "edit";
    const LABEL: &'static str = "Edit file";
    const DESCRIPTION: &'static str = "Change parts of a file: replace exact texts, each of which must occur exactly once (or set \
        `all`). Several replacements in one call are made together or not at all. Read the file first and copy the text without \
        line numbers. Returns a diff.";
    type Input = EditInput;
    type Output = EditOutput;

    fn flags() -> Flags {
        CHANGES
    }

    async fn run(&self, input: EditInput, running: Running) -> Result<EditOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let workspace = workspaces.of(&running.context.site)?;
            edit(&workspace, &input)
        })
        .await
    }
}

fn edit(workspace: &Workspace, input: &EditInput) -> Result<EditOutput, ToolError> {
    let _changing = workspace.changing();
    let stored = read_text(workspace, &input.path)?;
    let ends = LineEnds::of(&stored);
    let before = ends.plain(&stored);
    let (after, replaced) = replace(&before, ends, &input.edits)
        .map_err(|reason| ToolError::before(format!("{}: {reason}", input.path)))?;
    let target = workspace.target(&input.path)?;
    let failed = |error| ToolError::before(format!("{} was not changed: {error}", input.path));
    target.write(ends.apply(&after).as_bytes()).map_err(failed)?;
    let path = shown(&target.path);
    Ok(EditOutput { diff: diff(&path, &before, &after), path, replaced })
}

/// Reads a file as text.
pub(super) fn read_text(workspace: &Workspace, path: &str) -> Result<String, ToolError> {
    let (file, metadata) = workspace.open_file(path)?;
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| ToolError::before(format!("{path} cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST_BYTES {
        let message = format!("{path} has {} bytes: only files up to {MOST_BYTES} bytes can be edited", metadata.len());
        return Err(ToolError::before(message));
    }
    if let Some(kind) = binary_kind(&bytes) {
        return Err(ToolError::before(format!("{path} is {kind}: only text can be edited")));
    }
    String::from_utf8(bytes)
        .map_err(|_| ToolError::before(format!("{path} is not UTF-8 text: only text can be edited")))
}

/// The reason why no replacement was made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ReplaceError {
    #[error("{}{wrong}", edit_number(.number))]
    Edit {
        /// The number of the edit, if there are several.
        number: Option<usize>,
        wrong: WrongEdit,
    },
    #[error("two replacements overlap at line {line}: make them one")]
    Overlap { line: usize },
    #[error("the file would have more than {MOST_BYTES} bytes")]
    TooLarge,
}

/// The reason why one edit cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum WrongEdit {
    #[error("the text to replace is empty")]
    Empty,
    #[error("the new text is the same as the old")]
    Same,
    #[error("the text to replace is not in the file{hint}")]
    NotFound { hint: String },
    #[error(
        "the text to replace is in the file {count} times (lines {}{}): add lines around it, or set `all`",
        first_lines.join(", "),
        if *count > first_lines.len() { ", …" } else { "" }
    )]
    Ambiguous { count: usize, first_lines: Vec<String> },
}

fn edit_number(number: &Option<usize>) -> String {
    number.map_or_else(String::new, |number| format!("edit {number}: "))
}

/// Makes all replacements or none.
fn replace(text: &str, ends: LineEnds, edits: &[Replacement]) -> Result<(String, u64), ReplaceError> {
    let mut places: Vec<(usize, usize, usize)> = Vec::new();
    let mut news: Vec<String> = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let (old, new) = (ends.plain(&edit.old_text), ends.plain(&edit.new_text));
        let wrong = |wrong: WrongEdit| ReplaceError::Edit { number: (edits.len() > 1).then_some(index + 1), wrong };
        if old.is_empty() {
            return Err(wrong(WrongEdit::Empty));
        }
        if old == new {
            return Err(wrong(WrongEdit::Same));
        }
        let found: Vec<usize> = text.match_indices(&old).map(|(at, _)| at).collect();
        match found.len() {
            0 => return Err(wrong(WrongEdit::NotFound { hint: closest(text, &old) })),
            1 => {}
            _ if edit.all => {}
            count => {
                let first_lines = found.iter().take(5).map(|at| line_of(text, *at).to_string()).collect();
                return Err(wrong(WrongEdit::Ambiguous { count, first_lines }));
            }
        }
        places.extend(found.into_iter().map(|at| (at, at + old.len(), index)));
        news.push(new);
    }
    places.sort_by_key(|(from, _, _)| *from);
    if let Some(pair) = places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        return Err(ReplaceError::Overlap { line: line_of(text, pair[1].0) });
    }
    let grown: usize = places.iter().map(|(_, _, index)| news[*index].len()).sum();
    if text.len() + grown > MOST_BYTES as usize {
        return Err(ReplaceError::TooLarge);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (from, to, index) in &places {
        out.push_str(&text[at..*from]);
        out.push_str(&news[*index]);
        at = *to;
    }
    out.push_str(&text[at..]);
    Ok((out, places.len() as u64))
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns a hint about the text that was probably meant: the same but for white space.
fn closest(text: &str, old: &str) -> String {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(first) = old.lines().map(squeezed).find(|line| !line.is_empty()) else { return String::new() };
    let same = text.lines().position(|line| squeezed(line) == first);
    same.map(|index| format!("; line {} differs from its first line in white space only", index + 1))
        .unwrap_or_else(|| ": read the file again, it may have changed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str, edits: &[(&str, &str, bool)]) -> Result<String, ReplaceError> {
        let edits: Vec<Replacement> = edits
            .iter()
            .map(|(old, new, all)| Replacement { old_text: (*old).into(), new_text: (*new).into(), all: *all })
            .collect();
        replace(text, LineEnds::of(text), &edits).map(|(text, _)| text)
    }

    #[test]
    fn replacements_are_exact_unique_and_together() {
        assert_eq!(made("a b c", &[("a", "x", false), ("c", "", false)]), Ok("x b ".into()));
        assert_eq!(made("a a", &[("a", "b", true)]), Ok("b b".into()));
        for (text, edits, told) in [
            ("a\na", &[("a", "x", false)][..], "is in the file 2 times (lines 1, 2)"),
            ("abc", &[("x", "y", false)], "is not in the file"),
            ("  a  b", &[("a b", "y", false)], "line 1 differs from its first line in white space only"),
            ("abc", &[("ab", "x", false), ("bc", "y", false)], "overlap at line 1"),
            ("abc", &[("ab", "ab", false)], "the same as the old"),
            ("abc", &[("a", "1", false), ("z", "2", false)], "edit 2: "),
        ] {
            let error = made(text, edits).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
