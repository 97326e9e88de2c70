//! `grep`: lines by their content.

use std::io;
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};
use pincer_catalog::{Flags, shortened};
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find::{Pattern, beneath, glob};
use crate::define::{Core, LOOKS, Running, blocking};
use crate::walk::{Walk, WalkOptions};
use crate::{Workspace, Workspaces};

const USUAL_LIMIT: u64 = 100;
/// A line is cut here: minified files have lines of megabytes.
const MOST_LINE_CHARS: usize = 500;
/// How large a pattern may become: `(a{1000}){1000}` is short.
const MOST_REGEX_BYTES: usize = 4 << 20;
/// What is longer is not searched.
const MOST_FILE_BYTES: u64 = 64 << 20;

pub(crate) struct Grep(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GrepInput {
    /// A regular expression (Rust syntax), or plain text with `literal`.
    pattern: String,
    /// A file or directory to search, relative to the workspace. The workspace itself if absent.
    #[serde(default)]
    path: Option<String>,
    /// Only files whose name or path matches this glob, for instance `*.ts`.
    #[serde(default)]
    glob: Option<String>,
    /// Take the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// Upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines before and after each match to show too.
    #[serde(default)]
    #[schemars(range(min = 0, max = 20))]
    context: u64,
    /// Also files whose name begins with a dot.
    #[serde(default)]
    hidden: bool,
    /// Also what .gitignore and .ignore name.
    #[serde(default)]
    ignored: bool,
    /// How many matching lines at most. 100 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    limit: Option<u64>,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrepOutput {
    /// The matching lines.
    matches: Vec<Line>,
    /// How many files were searched.
    files_searched: u64,
    /// Whether there may be more: narrow the pattern, the path or the glob, or raise the limit.
    truncated: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// The file, from the workspace.
    path: String,
    /// The number of the line, from 1.
    line: u64,
    /// The line, cut after 500 characters.
    text: String,
    /// The lines before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// The lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl Core for Grep {
    const NAME: &'static str = "grep";
    const LABEL: &'static str = "Search in files";
    const DESCRIPTION: &'static str = "Search the files of the workspace for lines that match a regular expression. Gives path, line \
        number and text, with `context` also the lines around. Skips binary files, hidden ones and what .gitignore names. Prefer \
        this to running grep in a shell.";
    type Input = GrepInput;
    type Output = GrepOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, input: GrepInput, running: Running) -> Result<GrepOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let workspace = workspaces.of(&running.context.site)?;
            Search::new(&workspace, &input, &running)?.run(input.path.as_deref().unwrap_or("."))
        })
        .await
    }
}

struct Search<'a> {
    workspace: &'a Workspace,
    running: &'a Running,
    matcher: RegexMatcher,
    glob: Option<Pattern>,
    searcher: Searcher,
    options: WalkOptions,
    limit: usize,
    output: GrepOutput,
}

impl<'a> Search<'a> {
    fn new(workspace: &'a Workspace, input: &GrepInput, running: &'a Running) -> Result<Self, ToolError> {
        let mut builder = RegexMatcherBuilder::new();
        builder.case_insensitive(input.ignore_case).fixed_strings(input.literal).line_terminator(Some(b'\n'));
        builder.size_limit(MOST_REGEX_BYTES).dfa_size_limit(MOST_REGEX_BYTES).nest_limit(50);
        let matcher = builder.build(&input.pattern).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let pattern = &input.pattern;
            ToolError::before(format!("`{pattern}` cannot be searched for: {reason}; set `literal` for plain text"))
        })?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .before_context(input.context as usize)
            .after_context(input.context as usize)
            .heap_limit(Some(MOST_FILE_BYTES as usize))
            .build();
        let glob = input.glob.as_deref().map(glob).transpose()?;
        let options = WalkOptions { hidden: input.hidden, ignored: input.ignored, ..WalkOptions::default() };
        let limit = input.limit.unwrap_or(USUAL_LIMIT) as usize;
        let output = GrepOutput { matches: Vec::new(), files_searched: 0, truncated: false };
        Ok(Self { workspace, running, matcher, glob, searcher, options, limit, output })
    }

    fn run(mut self, path: &str) -> Result<GrepOutput, ToolError> {
        let workspace = self.workspace;
        let dir = match workspace.open_dir(path) {
            Ok(dir) => dir,
            Err(crate::workspace::PathError::NotADirectory { .. }) => {
                let (file, metadata) = workspace.open_file(path)?;
                if metadata.len() > MOST_FILE_BYTES {
                    let size = metadata.len();
                    let message =
                        format!("{path} has {size} bytes: only files up to {MOST_FILE_BYTES} bytes are searched");
                    return Err(ToolError::before(message));
                }
                self.file(path, &file.into_std()).map_err(|error| workspace.because(path, error))?;
                return Ok(self.output);
            }
            Err(error) => return Err(error.into()),
        };
        let mut walk = Walk::new(&dir, self.options).map_err(|error| workspace.because(path, error))?;
        for found in walk.by_ref() {
            if self.running.abort.is_cancelled() || self.output.truncated {
                break;
            }
            let wanted = self.glob.as_ref().is_none_or(|glob| glob.matches(&found.path));
            let small = || found.entry.metadata().is_ok_and(|metadata| metadata.len() <= MOST_FILE_BYTES);
            if !found.is_file || !wanted || !small() {
                continue;
            }
            // A file that has gone, or that may not be read, is passed over.
            let Ok((file, _)) = workspace.open_file(&beneath(path, &found.path)) else { continue };
            let _ = self.file(&beneath(path, &found.path), &file.into_std());
        }
        self.output.truncated |= walk.is_cut_short();
        Ok(self.output)
    }

    fn file(&mut self, path: &str, file: &std::fs::File) -> io::Result<()> {
        self.output.files_searched += 1;
        let mut lines = Lines { path, limit: self.limit, output: &mut self.output, before: Vec::new(), first: true };
        self.searcher.search_file(&self.matcher, file, &mut lines)
    }
}

/// Collects the lines of one file.
struct Lines<'a> {
    path: &'a str,
    limit: usize,
    output: &'a mut GrepOutput,
    before: Vec<String>,
    /// Whether nothing of this file has matched yet: what comes after belongs to a match of this file.
    first: bool,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.output.matches.len() >= self.limit {
            self.output.truncated = true;
            return Ok(false);
        }
        let before = std::mem::take(&mut self.before);
        let (path, line) = (self.path.to_owned(), found.line_number().unwrap_or_default());
        self.output.matches.push(Line { path, line, text: cut(found.bytes()), before, after: Vec::new() });
        self.first = false;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        match context.kind() {
            SinkContextKind::Before => self.before.push(cut(context.bytes())),
            SinkContextKind::After if !self.first => {
                if let Some(last) = self.output.matches.last_mut() {
                    last.after.push(cut(context.bytes()));
                }
            }
            SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }
}

fn cut(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    shortened(text, MOST_LINE_CHARS)
}
