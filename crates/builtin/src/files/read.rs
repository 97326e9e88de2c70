//! `read`: a file of the workspace, page by page.

use std::io::{BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::File;
use pincer_catalog::Flags;
use pincer_tools::{Site, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::{Core, LOOKS, Running, blocking};
use crate::text::binary_kind;
use crate::{Workspace, Workspaces};

/// What one page holds at most.
const PAGE_BYTES: usize = 48 << 10;
const PAGE_LINES: u64 = 2000;

pub(crate) struct Read(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReadInput {
    /// The file, relative to the workspace, for instance `src/main.rs`; or the whole path of a file of a skill.
    path: String,
    /// The line to begin with, counted from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// How many lines at most. 2000 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    limit: Option<u64>,
    /// The `next` of an earlier page, to go on there. Instead of `offset`.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadOutput {
    /// The text of this page, exactly as it stands in the file.
    content: String,
    /// The number of its first line.
    first_line: u64,
    /// How many lines it has; the last may be cut.
    lines: u64,
    /// The size of the whole file in bytes.
    size: u64,
    /// Where the next page begins: pass it as `cursor`. Absent at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    byte: u64,
    line: u64,
}

impl Core for Read {
    const NAME: &'static str = "read";
    const LABEL: &'static str = "Read file";
    const DESCRIPTION: &'static str = "Read a text file of the workspace. Gives up to 2000 lines or 48 KB at a time; when `next` is \
        present there is more: call again with `cursor: next`. Use `offset` and `limit` to read around a line that grep found. \
        Refuses binary files and says what they are.";
    const INSTEAD_OF: &'static [&'static str] = &["fs"];
    type Input = ReadInput;
    type Output = ReadOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, input: ReadInput, running: Running) -> Result<ReadOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let site = &running.context.site;
            let workspace = workspaces.of(site)?;
            read(&workspace, site, &input)
        })
        .await
    }
}

fn read(workspace: &Workspace, site: &Site, input: &ReadInput) -> Result<ReadOutput, ToolError> {
    let path = Path::new(&input.path);
    let beside = site.readable.iter().find_map(|folder| Some((folder, folder.inside(path)?)));
    let (mut file, metadata) = match beside {
        Some((folder, inside)) => workspace.open_beside(folder, inside, &input.path)?,
        None => workspace.open_file(&input.path)?,
    };
    let failed = |error: std::io::Error| ToolError::before(format!("{} cannot be read: {error}", input.path));
    let mut head = Vec::new();
    file.by_ref().take(8192).read_to_end(&mut head).map_err(failed)?;
    if let Some(kind) = binary_kind(&head) {
        let message = format!("{} is {kind} of {} bytes, not text that could be read", input.path, metadata.len());
        return Err(ToolError::before(message));
    }
    let begin = match &input.cursor {
        Some(cursor) => parse(cursor).filter(|place| place.byte <= metadata.len()).ok_or_else(|| {
            ToolError::before(format!("`{cursor}` is not a cursor: pass the `next` of an earlier page as it was"))
        })?,
        None => find_line(&mut file, input.offset.unwrap_or(1)).map_err(failed)?.ok_or_else(|| {
            let offset = input.offset.unwrap_or(1);
            ToolError::before(format!("{} ends before line {offset}: read it from the beginning", input.path))
        })?,
    };
    page(file, begin, input.limit.unwrap_or(PAGE_LINES), metadata.len()).map_err(failed)
}

fn page(mut file: File, begin: Position, most_lines: u64, size: u64) -> std::io::Result<ReadOutput> {
    file.seek(SeekFrom::Start(begin.byte))?;
    // Room for the rest of a character that the page's end would cut.
    let mut bytes = Vec::new();
    file.by_ref().take(PAGE_BYTES as u64 + 4).read_to_end(&mut bytes)?;
    let mut end = bytes.len().min(PAGE_BYTES);
    while end < bytes.len() && (bytes[end] & 0b1100_0000) == 0b1000_0000 {
        end += 1;
    }
    let mut lines = 0;
    for (at, byte) in bytes[..end].iter().enumerate() {
        if *byte == b'\n' {
            lines += 1;
            if lines == most_lines {
                end = at + 1;
                break;
            }
        }
    }
    // A page ends with a whole line if it has one.
    let cut = end < bytes.len() || begin.byte.saturating_add(bytes.len() as u64) < size;
    if cut && let Some(last) = bytes[..end].iter().rposition(|byte| *byte == b'\n') {
        end = last + 1;
    }
    let place = Position { byte: begin.byte.saturating_add(end as u64), line: begin.line.saturating_add(lines) };
    let more = place.byte < size && end > 0;
    let content = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let partial = u64::from(!content.is_empty() && !content.ends_with('\n'));
    let next = more.then(|| format!("{}@{}", place.line, place.byte));
    Ok(ReadOutput { content, first_line: begin.line, lines: lines + partial, size, next })
}

fn parse(cursor: &str) -> Option<Position> {
    let (line, byte) = cursor.split_once('@')?;
    Some(Position { line: line.parse().ok()?, byte: byte.parse().ok()? })
}

/// Where a line begins; `None` if the file ends before. An empty file has a first line.
fn find_line(file: &mut File, wanted: u64) -> std::io::Result<Option<Position>> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(1 << 16, &*file);
    let mut place = Position { byte: 0, line: 1 };
    while place.line < wanted {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        place.byte += used as u64;
        place.line += u64::from(ended);
        reader.consume(used);
    }
    // Behind the last line feed there is no line.
    let there = wanted == 1 || !reader.fill_buf()?.is_empty();
    Ok(there.then_some(place))
}
