//! Bootstrap files: texts of a workspace's owner that every run is to know. They are read anew for each run, by the workspace's handle.

use std::sync::Arc;

use pincer_builtin::Workspace;
use pincer_hooks::events as hooks;
use pincer_runtime::{Runtime, Scope};
use pincer_tools::one_line;

use super::{Part, PartKind};
use crate::request::PromptMode;

/// The bounds if the config does not say.
const USUAL_MOST: u64 = 20_000;
const USUAL_TOTAL: u64 = 60_000;
/// The most characters of the name of a file that a hook has added.
const MOST_NAME: usize = 80;
/// The file that is shown until a run has completed with it.
const FIRST: &str = "BOOTSTRAP.md";
/// The only file in short instructions.
const SHORT: &str = "AGENTS.md";
/// The files, the ones that change least first.
const FILES: [(&str, Of); 6] = [
    (SHORT, Of::Agent),
    ("SOUL.md", Of::Agent),
    ("IDENTITY.md", Of::Agent),
    ("USER.md", Of::Workspace),
    (FIRST, Of::Workspace),
    ("MEMORY.md", Of::Workspace),
];

/// The owner of a file. A sandboxed session is the same agent as ever, but the agent's notes about its user are not for other people
/// that it talks to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// If the directory of a sandboxed session has no such file, that of the agent's own workspace is read.
    Agent,
    /// Only the workspace that the run works in.
    Workspace,
}

/// The files of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bootstrap {
    pub files: Vec<BootstrapFile>,
    pub bounds: Bounds,
    /// The workspace that has begun when this run completes.
    pub begins: Option<String>,
}

impl Bootstrap {
    /// Returns the files as hooks see them.
    pub(crate) fn told(&self) -> Vec<hooks::BootstrapFile> {
        let told = |file: &BootstrapFile| hooks::BootstrapFile { name: file.name.clone(), content: file.told() };
        self.files.iter().map(told).collect()
    }

    /// Takes the files that hooks have made of these. The ones that are as they were keep what else is known of them.
    #[must_use]
    pub(crate) fn replaced(self, files: Vec<hooks::BootstrapFile>) -> Self {
        let taken = |file: hooks::BootstrapFile| {
            let same = self.files.iter().find(|own| own.name == file.name && own.told() == file.content);
            let bytes = file.content.len() as u64;
            same.cloned().unwrap_or_else(|| BootstrapFile {
                name: one_line(&file.name, MOST_NAME),
                content: Content::Text { text: file.content, bytes },
            })
        };
        let files: Vec<BootstrapFile> = files.into_iter().map(taken).collect();
        let begins = self.begins.filter(|_| files.iter().any(|file| file.name == FIRST));
        Self { files, bounds: self.bounds, begins }
    }

    /// Leaves out the file that is only for the first run.
    pub(crate) fn leave_out_first(&mut self) {
        self.files.retain(|file| file.name != FIRST);
        self.begins = None;
    }
}

/// One file, or a reason why it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootstrapFile {
    pub name: String,
    pub content: Content,
}

impl BootstrapFile {
    fn told(&self) -> String {
        match &self.content {
            Content::Text { text, .. } => text.clone(),
            Content::Unreadable(_) => String::new(),
        }
    }
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The text as far as it was read, and the bytes of the whole file.
    Text { text: String, bytes: u64 },
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

/// The most characters of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub file: usize,
    pub total: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { file: USUAL_MOST as usize, total: USUAL_TOTAL as usize }
    }
}

/// Reads the files of a scope. It blocks.
pub(crate) fn read(runtime: &Runtime, scope: &Scope, mode: PromptMode) -> Bootstrap {
    let config = runtime.config();
    let agent = scope.request().agent.as_deref();
    let bound = |said: Option<u64>, usual: u64| usize::try_from(said.unwrap_or(usual)).unwrap_or(usize::MAX);
    let bounds = Bounds {
        file: bound(config.agent_setting(agent, |agent| agent.bootstrap_max_chars), USUAL_MOST),
        total: bound(config.agent_setting(agent, |agent| agent.bootstrap_total_max_chars), USUAL_TOTAL),
    };
    let mut bootstrap = Bootstrap { bounds, ..Bootstrap::default() };
    let Some(workspaces) = runtime.workspaces().filter(|_| mode != PromptMode::None) else { return bootstrap };
    let existing = |choice| workspaces.existing(choice).ok().flatten();
    let own = existing(&scope.site().workspace);
    let of_agent = scope.agent_workspace().and_then(existing);
    for (name, of) in FILES {
        if mode == PromptMode::Minimal && name != SHORT {
            continue;
        }
        let place = |workspace: &Option<Arc<Workspace>>| workspace.as_ref().and_then(|it| file(it, name, bounds.file));
        let found = place(&own).or_else(|| if of == Of::Agent { place(&of_agent) } else { None });
        let Some(content) = found else { continue };
        if name == FIRST {
            bootstrap.begins = own.as_ref().map(|workspace| workspace.root().display().to_string());
        }
        bootstrap.files.push(BootstrapFile { name: name.to_owned(), content });
    }
    bootstrap
}

fn file(workspace: &Workspace, name: &str, most: usize) -> Option<Content> {
    // A character has at most four bytes.
    match workspace.beginning(name, most.saturating_mul(4).saturating_add(4)) {
        Ok(None) => None,
        Ok(Some(read)) if read.text.trim().is_empty() => None,
        Ok(Some(read)) => Some(Content::Text { text: read.text, bytes: read.size }),
        Err(error) => Some(Content::Unreadable(error.to_string())),
    }
}

const HEADING: &str =
    "# Files of the workspace\n\nTheir owner wrote them for you. They are shown as they were when this run began.";

/// Returns a part for each file, within the bounds. A file that is cut says so.
pub(super) fn parts(bootstrap: &Bootstrap) -> Vec<Part> {
    let Bounds { file: most, total } = bootstrap.bounds;
    let mut left = total;
    let mut parts = Vec::new();
    for file in &bootstrap.files {
        let name = &file.name;
        let body = match &file.content {
            Content::Unreadable(why) => format!("[{name} is left out: {why}]"),
            Content::Text { .. } if left == 0 => {
                format!(
                    "[{name} is left out: the files before it have {total} characters, which is as many as all may have]"
                )
            }
            Content::Text { text, bytes } => {
                let most = most.min(left);
                let cut = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
                let shown = &text[..cut];
                left -= shown.chars().count();
                match cut as u64 >= *bytes {
                    true => shown.trim_end().to_owned(),
                    false => format!("{shown}\n[{name} is cut here: these are the first {cut} of its {bytes} bytes]"),
                }
            }
        };
        let heading = if parts.is_empty() { format!("{HEADING}\n\n") } else { String::new() };
        let text = format!("{heading}## {name}\n\n{body}");
        parts.push(Part { part: PartKind::Bootstrap, file: Some(name.clone()), text });
    }
    parts
}
