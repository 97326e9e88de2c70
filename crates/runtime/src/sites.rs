//! The sites of callers: the workspace of each, as the config says. Nothing that a model says has a part in it.

use std::path::{Path, PathBuf};

use pincer_config::keys::{Agent, AgentSandbox, SandboxMode};
use pincer_config::{Config, Loaded};
use pincer_process::real;
use pincer_store::SessionKey;
use pincer_tools::WorkspaceChoice;
use sha2::{Digest, Sha256};

use crate::scope::{Audience, ScopeRequest};
use crate::workspace::{beside, workspace};

/// The session that `non-main` leaves out.
const MAIN: &str = "main";
/// The directory for sandboxed sessions in the state directory.
const SANDBOXES: &str = "sandboxes";
/// The most characters of a session's key in the name of its directory.
const MOST_SHOWN: usize = 40;

/// Knows the workspaces of all agents.
pub(crate) struct Sites {
    loaded: Loaded,
    state: PathBuf,
    usual: PathBuf,
}

impl Sites {
    pub(crate) fn new(loaded: &Loaded, state: &Path) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { loaded: loaded.clone(), state: absolute(state), usual: plain(&workspace(loaded)) }
    }

    fn config(&self) -> &Config {
        &self.loaded.parsed.config
    }

    /// Returns the agent whose settings hold for a request. An operator's own command that names no agent works as no agent.
    fn agent<'r>(&self, request: &'r ScopeRequest) -> Option<Option<&'r str>> {
        let is_agents = request.audience == Audience::AgentRun || request.agent.is_some();
        is_agents.then_some(request.agent.as_deref())
    }

    /// Returns whether the session of a request is sandboxed.
    pub(crate) fn is_sandboxed(&self, request: &ScopeRequest) -> bool {
        let Some(agent) = self.agent(request) else { return request.sandboxed };
        let mode = self.config().agent_setting(agent, |agent| agent.sandbox.mode).unwrap_or_default();
        request.sandboxed
            || match mode {
                SandboxMode::Off => false,
                SandboxMode::NonMain => request.session.as_str() != MAIN,
                SandboxMode::All => true,
            }
    }

    /// Returns the workspace of a request.
    pub(crate) fn workspace(&self, request: &ScopeRequest) -> WorkspaceChoice {
        if !self.is_sandboxed(request) {
            return self.own_workspace(request);
        }
        let root = self.sandboxes(self.agent(request).flatten());
        WorkspaceChoice::Sandbox { root, name: sandbox_name(request.principal.user(), &request.session) }
    }

    /// Returns the workspace that a request has when its session is not sandboxed.
    pub(crate) fn own_workspace(&self, request: &ScopeRequest) -> WorkspaceChoice {
        let said =
            self.agent(request).and_then(|agent| self.config().agent_setting(agent, |agent| agent.workspace.clone()));
        let path = said.map(|said| plain(&beside(self.loaded.file.as_deref(), &said)));
        path.filter(|path| *path != self.usual).map_or(WorkspaceChoice::Usual, WorkspaceChoice::Directory)
    }

    fn sandboxes(&self, agent: Option<&str>) -> PathBuf {
        let said = |agent: &Agent| agent.sandbox.workspace_root.clone();
        match self.config().agent_setting(agent, said) {
            Some(said) => plain(&beside(self.loaded.file.as_deref(), &said)),
            None => self.state.join(SANDBOXES),
        }
    }

    /// Returns the directories, besides the usual workspace, in which agents can change files.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let agents = &self.config().agents;
        let file = self.loaded.file.as_deref();
        let said =
            agents.values().flat_map(|Agent { workspace, sandbox: AgentSandbox { workspace_root, .. }, .. }| {
                [workspace, workspace_root].into_iter().flatten().map(|path| plain(&beside(file, path)))
            });
        said.chain([self.state.join(SANDBOXES)]).collect()
    }
}

/// Returns the path without links and without `..`, as far as it exists.
fn plain(path: &Path) -> PathBuf {
    real(path).unwrap_or_else(|| path.to_owned())
}

/// Returns the name of the directory of a sandboxed session. People recognise the session by its beginning; the rest tells it from every
/// other one, also where letters of either case are the same.
fn sandbox_name(user: &str, session: &SessionKey) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter.to_ascii_lowercase() } else { '-' };
    let shown: String = session.as_str().chars().take(MOST_SHOWN).map(plain).collect();
    let mut digest = Sha256::new();
    // The length tells where the user's name ends.
    digest.update((user.len() as u64).to_le_bytes());
    digest.update(user);
    digest.update(session.as_str());
    let digest: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let shown = shown.trim_matches('-');
    if shown.is_empty() { digest } else { format!("{shown}-{digest}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_sessions_share_a_directory_and_no_name_leads_elsewhere() {
        let long = "x".repeat(5000);
        let keys = [
            "main",
            "Main",
            "../../etc",
            "..",
            ".",
            "",
            "a/b",
            "a-b",
            "a\0b",
            "ä",
            "ö",
            "/",
            &long,
            "agent:a:b",
            "con",
        ];
        let mut names = BTreeSet::new();
        for (user, key) in keys.iter().flat_map(|key| [("user:1", *key), ("user:2", *key), ("user:1m", *key)]) {
            let name = sandbox_name(user, &key.into());
            assert!(name.len() <= MOST_SHOWN + 33, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c)), "{name}");
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
        // A user's name and a key that together are the same letters.
        assert_ne!(sandbox_name("a", &"bc".into()), sandbox_name("ab", &"c".into()));
    }
}
