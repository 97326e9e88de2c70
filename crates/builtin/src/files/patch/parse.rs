//! The text of a patch.

/// What happens to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, moved_to: Option<String>, hunks: Vec<Hunk> },
}

/// Lines that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// A line somewhere before.
    pub header: Option<String>,
    pub lines: Vec<Line>,
    /// It stands at the end of the file.
    pub at_end: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Same(String),
    Removed(String),
    Added(String),
}

/// Why a text is no patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    #[error("it must begin with `*** Begin Patch`{}", if *.unified { "; this is a unified diff, which has another format" } else { "" })]
    Begin { unified: bool },
    #[error("it does not end with `*** End Patch`")]
    End,
    #[error("it changes nothing")]
    Empty,
    #[error("line {line}: expected `*** Add File:`, `*** Update File:` or `*** Delete File:`, found `{found}`")]
    Section { line: usize, found: String },
    #[error("line {line}: every line of a new file begins with `+`, found `{found}`")]
    AddedLine { line: usize, found: String },
    #[error("line {line}: a line of a change begins with a space, `-` or `+`, found `{found}`")]
    ChangedLine { line: usize, found: String },
    #[error("line {line}: no file is named")]
    NoPath { line: usize },
    #[error("line {line}: {path} has no changes")]
    NoChanges { line: usize, path: String },
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// The lines that are left, with their numbers.
struct Lines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Lines<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The next line of this section.
    fn within(&mut self) -> Option<&'a str> {
        let line = self.peek().filter(|line| !starts_section(line))?;
        self.at += 1;
        Some(line)
    }
}

fn starts_section(line: &str) -> bool {
    [ADD, UPDATE, DELETE, END].iter().any(|start| line.starts_with(start))
}

pub(super) fn parse(text: &str) -> Result<Vec<Change>, PatchError> {
    let text = text.replace("\r\n", "\n");
    let mut lines = Lines { lines: text.trim().lines().collect(), at: 0 };
    if lines.peek().map(str::trim_end) != Some(BEGIN) {
        let unified = text.trim_start().starts_with("--- ") || text.trim_start().starts_with("diff ");
        return Err(PatchError::Begin { unified });
    }
    lines.at += 1;
    let mut changes = Vec::new();
    loop {
        let line = lines.peek().ok_or(PatchError::End)?;
        let number = lines.at + 1;
        lines.at += 1;
        if line.trim_end() == END {
            break;
        }
        let path = |start: &str| -> Option<Result<String, PatchError>> {
            let path = line.strip_prefix(start)?.trim();
            Some(if path.is_empty() { Err(PatchError::NoPath { line: number }) } else { Ok(path.to_owned()) })
        };
        if let Some(path) = path(ADD) {
            changes.push(Change::Add { path: path?, content: added(&mut lines)? });
        } else if let Some(path) = path(DELETE) {
            changes.push(Change::Delete { path: path? });
        } else if let Some(path) = path(UPDATE) {
            changes.push(updated(path?, number, &mut lines)?);
        } else if !line.trim().is_empty() {
            return Err(PatchError::Section { line: number, found: line.chars().take(80).collect() });
        }
    }
    if changes.is_empty() { Err(PatchError::Empty) } else { Ok(changes) }
}

fn added(lines: &mut Lines<'_>) -> Result<String, PatchError> {
    let mut content = String::new();
    while let Some(line) = lines.within() {
        let text =
            line.strip_prefix('+').ok_or_else(|| PatchError::AddedLine { line: lines.at, found: line.into() })?;
        content.push_str(text);
        content.push('\n');
    }
    Ok(content)
}

fn updated(path: String, number: usize, lines: &mut Lines<'_>) -> Result<Change, PatchError> {
    let moved_to = lines.peek().and_then(|line| line.strip_prefix(MOVE)).map(|path| path.trim().to_owned());
    if moved_to.is_some() {
        lines.at += 1;
    }
    let mut hunks: Vec<Hunk> = Vec::new();
    while let Some(line) = lines.within() {
        if let Some(header) = line.strip_prefix("@@") {
            let header = header.trim().trim_end_matches("@@").trim();
            hunks.push(Hunk { header: (!header.is_empty()).then(|| header.to_owned()), ..Hunk::default() });
            continue;
        }
        if hunks.is_empty() {
            hunks.push(Hunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        if line.trim_end() == END_OF_FILE {
            hunk.at_end = true;
            continue;
        }
        hunk.lines.push(match (line.chars().next(), line.get(1..)) {
            (Some(' '), Some(text)) => Line::Same(text.into()),
            (Some('-'), Some(text)) => Line::Removed(text.into()),
            (Some('+'), Some(text)) => Line::Added(text.into()),
            // Editors and models drop the space of an empty line.
            (None, _) => Line::Same(String::new()),
            _ => return Err(PatchError::ChangedLine { line: lines.at, found: line.chars().take(80).collect() }),
        });
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    if hunks.is_empty() && moved_to.is_none() {
        return Err(PatchError::NoChanges { line: number, path });
    }
    Ok(Change::Update { path, moved_to, hunks })
}
