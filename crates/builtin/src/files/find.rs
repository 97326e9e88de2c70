//! `find`: files by their names.

use std::sync::Arc;

use globset::GlobMatcher;
use pincer_catalog::Flags;
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::{Core, LOOKS, Running, blocking};
use crate::glob::{Separator, compile};
use crate::walk::{Walk, WalkOptions};
use crate::{Workspace, Workspaces};

const USUAL_LIMIT: u64 = 200;

pub(crate) struct Find(pub Arc<Workspaces>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FindInput {
    /// A glob: `*.rs` for names anywhere, `src/**/*.rs` for paths from where the search begins.
    pattern: String,
    /// Where to begin, relative to the workspace. The workspace itself if absent.
    #[serde(default)]
    path: Option<String>,
    /// Only files or only directories.
    #[serde(default)]
    kind: Option<FindKind>,
    /// Also names that begin with a dot.
    #[serde(default)]
    hidden: bool,
    /// Also what .gitignore and .ignore name.
    #[serde(default)]
    ignored: bool,
    /// How many at most. 200 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 5000))]
    limit: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FindKind {
    File,
    Directory,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FindOutput {
    /// Paths from the workspace, in order.
    paths: Vec<String>,
    /// Whether there may be more: narrow the pattern or raise the limit.
    truncated: bool,
}

impl Core for Find {
    const NAME: &'static str = "find";
    const LABEL: &'static str = "Find files";
    const DESCRIPTION: &'static str = "Find files or directories of the workspace by a glob over their names or paths. Skips hidden ones \
        and what .gitignore names unless told otherwise.";
    type Input = FindInput;
    type Output = FindOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, input: FindInput, running: Running) -> Result<FindOutput, ToolError> {
        let workspaces = Arc::clone(&self.0);
        blocking(move || {
            let workspace = workspaces.of(&running.context.site)?;
            find(&workspace, &input, &running)
        })
        .await
    }
}

fn find(workspace: &Workspace, input: &FindInput, running: &Running) -> Result<FindOutput, ToolError> {
    let pattern = glob(&input.pattern)?;
    let limit = input.limit.unwrap_or(USUAL_LIMIT) as usize;
    let base = input.path.as_deref().unwrap_or(".");
    let dir = workspace.open_dir(base)?;
    let options = WalkOptions { hidden: input.hidden, ignored: input.ignored, ..WalkOptions::default() };
    let mut walk = Walk::new(&dir, options).map_err(|error| workspace.because(base, error))?;
    let mut paths = Vec::new();
    let mut more = false;
    for found in walk.by_ref() {
        if running.abort.is_cancelled() {
            break;
        }
        let wanted = match input.kind {
            Some(FindKind::File) => found.is_file,
            Some(FindKind::Directory) => found.is_dir,
            None => true,
        };
        if !wanted || !pattern.matches(&found.path) {
            continue;
        }
        if paths.len() == limit {
            more = true;
            break;
        }
        paths.push(beneath(base, &found.path));
    }
    Ok(FindOutput { paths, truncated: more || walk.is_cut_short() })
}

/// A glob over names, or over paths if it has a `/` in it.
pub(super) struct Pattern {
    matcher: GlobMatcher,
    whole: bool,
}

impl Pattern {
    pub(super) fn matches(&self, path: &str) -> bool {
        let text = if self.whole { path } else { path.rsplit('/').next().unwrap_or(path) };
        self.matcher.is_match(text)
    }
}

pub(super) fn glob(text: &str) -> Result<Pattern, ToolError> {
    let text = text.strip_prefix("./").unwrap_or(text);
    let matcher = compile(text, Separator::Literal).map_err(|error| {
        let shown: String = text.chars().take(80).collect();
        ToolError::before(format!("`{shown}` is not a glob: {error}"))
    })?;
    Ok(Pattern { matcher, whole: text.contains('/') })
}

/// A path from where a search began, as one from the workspace.
pub(super) fn beneath(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/').trim_start_matches("./");
    if base.is_empty() || base == "." { path.to_owned() } else { format!("{base}/{path}") }
}
