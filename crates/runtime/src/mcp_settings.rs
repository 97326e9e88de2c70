//! Turns the keys of `mcp.servers` into the settings of MCP servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_config::keys::{McpElicitation, McpSampling, McpServer, McpToolFilter, McpTransport};
use pincer_config::{Loaded, Sources};
use pincer_mcp::{
    Address, Directory, Elicitation, Launch, OAuth, Reach, Readiness, Sampling, ServerSettings, Servers, Speaks,
    ToolFilter,
};
use pincer_process::holds;
use serde_json::json;

use crate::secrets::Vault;
use crate::workspace::workspace;

/// Returns the MCP servers of a config that are enabled. Nothing is started. `sampling` is for those that do not say.
pub fn mcp_servers(loaded: &Loaded, state: Option<&Path>, sampling: Sampling) -> Servers {
    let surroundings = Surroundings::new(loaded, state);
    let enabled = loaded.parsed.config.mcp.servers.iter().filter(|(_, server)| server.enabled);
    let settings = enabled.map(|(name, server)| surroundings.settings(name, server, sampling));
    Servers::new(settings, state.map(Path::to_owned))
}

/// Returns the settings of one MCP server of a config, enabled or not; `None` if there is no such server. It samples only if its own
/// entry says so.
pub fn mcp_server(loaded: &Loaded, state: Option<&Path>, name: &str) -> Option<ServerSettings> {
    let server = loaded.parsed.config.mcp.servers.get(name)?;
    Some(Surroundings::new(loaded, state).settings(name, server, Sampling::Refuse))
}

/// Returns the directories from which relative paths in the commands of servers are seen.
pub(crate) fn mcp_anchors(loaded: &Loaded) -> Vec<PathBuf> {
    Directories::new(loaded, None).anchors()
}

/// Everything beside its own entry that the settings of a server depend on.
struct Surroundings {
    directories: Directories,
    secrets: Arc<Secrets>,
}

/// Where servers work, and where things of theirs are kept.
struct Directories {
    /// Where file tools work: no program starts there that does not say so.
    workspace: PathBuf,
    /// From where relative paths are seen.
    beside: Option<PathBuf>,
    /// The state directory, if there is one.
    state: Option<PathBuf>,
}

/// Where secrets are looked up.
struct Secrets {
    vault: Vault,
    sources: Sources,
}

impl Surroundings {
    fn new(loaded: &Loaded, state: Option<&Path>) -> Self {
        let vault = Vault::new(state.map(Path::to_owned), loaded.file.as_deref());
        let secrets = Arc::new(Secrets { vault, sources: loaded.parsed.config.secrets.clone() });
        Self { directories: Directories::new(loaded, state), secrets }
    }

    fn settings(&self, name: &str, server: &McpServer, sampling: Sampling) -> ServerSettings {
        let directory = self.directories.of(name, server);
        let roots: Vec<PathBuf> = server.roots.iter().map(|root| self.directories.seen(root)).collect();
        let McpToolFilter { allow, deny } = server.tools.clone();
        let settings = ServerSettings {
            name: name.to_owned(),
            identity: identity(server, directory.path(), &roots),
            reach: reach(server, &directory),
            readiness: Readiness::Ready,
            roots,
            connect_timeout: Duration::from_millis(server.connect_timeout_ms),
            call_timeout: Duration::from_millis(server.timeout_ms),
            tools: ToolFilter { allow, deny },
            read_only: server.read_only.clone(),
            sampling: match server.sampling {
                Some(McpSampling::Refuse) => Sampling::Refuse,
                Some(McpSampling::Pass) => Sampling::Pass,
                None => sampling,
            },
            elicitation: match server.elicitation {
                McpElicitation::Refuse => Elicitation::Refuse,
                McpElicitation::Ask => Elicitation::Ask,
            },
            secrets: server.secrets(),
        };
        ServerSettings { readiness: self.readiness(server, directory, &settings), ..settings }
    }

    /// Returns whether a server can be started with these settings, or what it needs for that.
    fn readiness(&self, server: &McpServer, directory: Directory, settings: &ServerSettings) -> Readiness {
        if let Some(why) = server.unusable() {
            return Readiness::Unusable(why);
        }
        if server.unresolved.is_empty() {
            return Readiness::Ready;
        }
        let (server, settings, secrets) = (server.clone(), settings.clone(), Arc::clone(&self.secrets));
        Readiness::NeedsSecrets(Arc::new(move |within| {
            let Secrets { vault, sources } = &*secrets;
            let vault = Vault { patience: vault.patience.min(within), ..vault.clone() };
            let server = server.resolved(&vault, sources)?;
            // The rest stays: secrets decide neither where a server works nor what is stored of it.
            Ok(ServerSettings { reach: reach(&server, &directory), secrets: server.secrets(), ..settings.clone() })
        }))
    }
}

impl Directories {
    fn new(loaded: &Loaded, state: Option<&Path>) -> Self {
        Self {
            workspace: workspace(loaded),
            beside: loaded.file.as_deref().and_then(Path::parent).map(Path::to_owned),
            state: state.map(Path::to_owned),
        }
    }

    /// Returns the directories from which relative paths of a command are seen.
    fn anchors(&self) -> Vec<PathBuf> {
        self.beside.iter().chain([&self.workspace]).cloned().collect()
    }

    /// Returns the directory in which a server starts.
    fn of(&self, name: &str, server: &McpServer) -> Directory {
        match &server.cwd {
            Some(cwd) => Directory::Named(self.joined(cwd)),
            None => Directory::Own { path: self.own(name), anchors: self.anchors(), workspace: self.workspace.clone() },
        }
    }

    /// Returns a directory for a server that does not say where it starts. Nothing is there that a program of the workspace could
    /// have put there, nor above it: interpreters and package managers look for modules and settings in both.
    fn own(&self, server: &str) -> PathBuf {
        match &self.state {
            Some(state) if !holds(&self.workspace, state) => state.join("mcp").join("work").join(server),
            _ => PathBuf::from("/"),
        }
    }

    /// Returns a directory that the config names, as an absolute path.
    fn seen(&self, directory: &str) -> PathBuf {
        let directory = self.joined(directory);
        std::path::absolute(&directory).unwrap_or(directory)
    }

    fn joined(&self, directory: &str) -> PathBuf {
        self.beside.as_deref().unwrap_or(Path::new("")).join(directory)
    }
}

fn reach(server: &McpServer, directory: &Directory) -> Reach {
    match &server.command {
        Some(command) => Reach::Program(Launch {
            command: command.clone(),
            arguments: server.args.clone(),
            environment: server.env.clone(),
            directory: directory.clone(),
        }),
        None => Reach::Address(Address {
            url: server.url.clone().unwrap_or_default(),
            headers: server.headers.clone(),
            token: server.auth.token.clone(),
            oauth: OAuth {
                client_id: server.auth.client_id.clone(),
                client_secret: server.auth.client_secret.clone(),
                scopes: server.auth.scopes.clone(),
                redirect_port: server.auth.redirect_port,
            },
            speaks: match server.transport {
                Some(McpTransport::Sse) => Speaks::Events,
                Some(McpTransport::Http | McpTransport::StreamableHttp) => Speaks::Streamable,
                Some(McpTransport::Stdio) | None => Speaks::Either,
            },
        }),
    }
}

/// Returns what tells a server from others of its name. Listings of earlier versions are found by the digest of exactly this: a new
/// shape, or another spelling in it, would forget them all.
fn identity(server: &McpServer, directory: &Path, roots: &[PathBuf]) -> serde_json::Value {
    let McpServer { transport, command, args, env, cwd, url, headers, auth, .. } = server;
    json!([transport, command, args, env, cwd, url, headers, auth, directory, roots])
}
