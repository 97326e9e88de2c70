//! What is known of a server before anybody has talked to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pincer_catalog::is_glob_match;
use pincer_config::keys::{McpElicitation, McpSampling, McpServer, McpToolFilter};
use pincer_process::{anchored, holds};
use sha2::{Digest, Sha256};

/// A server, as the config has it.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Its name.
    pub name: String,
    /// How it is reached, and everything else.
    pub config: McpServer,
    /// Where it is started, if it is a program.
    pub directory: PathBuf,
    /// The directories that it is told to work in, as absolute paths. It is told of no others.
    pub roots: Vec<PathBuf>,
    /// How its command is read, if it does not say where it starts.
    pub apart: Option<Apart>,
    /// What happens when it asks for a model's answer.
    pub sampling: McpSampling,
}

/// A server that starts apart from the workspace.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The directories from which its relative paths are seen.
    pub anchors: Vec<PathBuf>,
    /// Where programs can put files.
    pub workspace: PathBuf,
}

impl ServerSettings {
    /// Program and arguments, if it is one, as they are started.
    pub(crate) fn words(&self) -> Option<Vec<String>> {
        let program = self.config.command.clone()?;
        let words: Vec<String> = std::iter::once(program).chain(self.config.args.iter().cloned()).collect();
        Some(match &self.apart {
            Some(apart) => anchored(&words, &apart.anchors),
            None => words,
        })
    }

    /// Its environment, beside what it has of ours.
    pub(crate) fn environment(&self, words: &[String]) -> BTreeMap<String, String> {
        let mut environment = self.config.env.clone();
        let scripts = words.iter().map(Path::new).filter(|file| file.is_file());
        let mut directories = scripts.filter_map(Path::parent);
        if self.apart.as_ref().is_some_and(|apart| directories.any(|directory| holds(directory, &apart.workspace))) {
            // Programs can put files beside its script, which Python would take for its modules.
            environment.entry("PYTHONSAFEPATH".into()).or_insert_with(|| "1".into());
        }
        environment
    }

    /// How long it may take to be there.
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.config.connect_timeout_ms)
    }

    /// How long a call may take.
    pub(crate) fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.config.timeout_ms)
    }

    /// Whether somebody may be asked on its behalf.
    pub(crate) fn may_ask_people(&self) -> bool {
        self.config.elicitation == McpElicitation::Ask
    }

    /// How it is reached, in a word: `stdio`, `http`, `sse`.
    pub fn transport(&self) -> &'static str {
        use pincer_config::keys::McpTransport::{Http, Sse, Stdio, StreamableHttp};
        match self.config.transport {
            Some(Sse) => "sse",
            Some(Http | StreamableHttp) => "http",
            Some(Stdio) => "stdio",
            None if self.config.command.is_some() => "stdio",
            None => "http",
        }
    }

    /// Differs when another server may be meant: what is stored of one is not used for the other. Secrets are part of it and
    /// cannot be told from it.
    pub(crate) fn digest(&self) -> String {
        let McpServer { transport, command, args, env, cwd, url, headers, auth, .. } = &self.config;
        let told =
            serde_json::json!([transport, command, args, env, cwd, url, headers, auth, self.directory, self.roots]);
        let digest = Sha256::digest(pincer_json::canonical(&told));
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns whether the operator says that a tool of this name changes nothing.
    pub(crate) fn is_read_only(&self, tool: &str) -> bool {
        self.config.read_only.iter().any(|pattern| is_glob_match(pattern, tool))
    }

    /// Whether the filter leaves a tool of this name.
    pub(crate) fn admits(&self, tool: &str) -> bool {
        let McpToolFilter { allow, deny } = &self.config.tools;
        let any = |patterns: &[String]| patterns.iter().any(|pattern| is_glob_match(pattern, tool));
        (allow.is_empty() || any(allow)) && !any(deny)
    }
}
