//! All built-in tools, put behind a door.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{IdError, PolicyError};
use pincer_process::real;
use pincer_tools::hooks::Hook;
use pincer_tools::{DoorBuilder, Matcher, Redactor, RegisterError, WorkspaceChoice};

use crate::define::{Core, Typed, entry};
use crate::files::{ApplyPatch, Edit, Find, Grep, Ls, Read, Write};
use crate::message::Message;
use crate::sessions::{SessionStatus, SessionsHistory, SessionsList};
use crate::shell::{Exec, Gate, Process, can_confine};
use crate::web::WebFetch;
use crate::{
    ChannelRule, ExecMode, ExecSettings, GateError, Guard, Processes, SessionStore, WebError, WebSettings, Workspace,
    Workspaces,
};

/// What the built-in tools may do.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The directory that file tools and commands work in, unless a call has a workspace of its own.
    pub workspace: PathBuf,
    /// The other directories that are workspaces of calls, or have such in them: programs in there do not run unasked.
    pub other_workspaces: Vec<PathBuf>,
    /// Finds what file tools may not change though it lies in a workspace: the config, the state, plugins.
    pub guard: Guard,
    /// Paths that file tools may not read either: secrets and logins.
    pub hidden: Vec<PathBuf>,
    /// What happens to commands that are not on the list.
    pub exec_mode: ExecMode,
    /// The list: globs over the paths of programs, or over bare names, and whole commands.
    pub exec_allow: Vec<String>,
    /// What commands are given.
    pub exec: ExecSettings,
    /// What fetches may use.
    pub web: WebSettings,
    /// How inputs are shown in the history of sessions.
    pub redactor: Redactor,
    /// The channels that `message` may send on. Without one the tool is not there.
    pub channels: BTreeMap<String, ChannelRule>,
}

/// Why the built-in tools cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BuiltinError {
    /// The workspace cannot be opened.
    #[error("the workspace {} cannot be opened", path.display())]
    Workspace {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The list of commands is wrong.
    #[error("tools.exec.allow: {0}")]
    Gate(#[from] GateError),
    /// The web cannot be reached.
    #[error(transparent)]
    Web(#[from] WebError),
    /// A tool of ours is not what the door takes.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A tool of ours has no proper id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The gate's own matcher.
    #[error(transparent)]
    Matcher(#[from] PolicyError),
}

/// The built-in tools.
pub struct Builtin {
    settings: Settings,
    workspaces: Arc<Workspaces>,
    processes: Arc<Processes>,
}

impl Builtin {
    /// Opens the usual workspace.
    pub fn new(settings: Settings) -> Result<Self, BuiltinError> {
        let protected = settings.guard.paths(&WorkspaceChoice::Usual, &settings.workspace);
        let opened = Workspace::open(&settings.workspace, &protected, &settings.hidden);
        let usual = opened.map_err(|source| BuiltinError::Workspace { path: settings.workspace.clone(), source })?;
        let workspaces = Workspaces::new(Arc::new(usual), settings.guard.clone(), settings.hidden.clone());
        Ok(Self { settings, workspaces: Arc::new(workspaces), processes: Arc::default() })
    }

    /// Returns the workspaces.
    pub fn workspaces(&self) -> &Arc<Workspaces> {
        &self.workspaces
    }

    /// The commands in the background: who ends a session ends them.
    pub fn processes(&self) -> &Arc<Processes> {
        &self.processes
    }

    /// Puts all tools behind a door, and the gate of `exec` before it. Without a `store`, the tools about sessions are not there.
    pub fn register(
        &self,
        door: DoorBuilder,
        store: Option<Arc<dyn SessionStore>>,
    ) -> Result<DoorBuilder, BuiltinError> {
        let Settings { exec_mode, exec_allow, mut exec, web, redactor, channels, .. } = self.settings.clone();
        // One path for the gate and for the shell: they must find the same programs. What is relative would mean whatever
        // directory a command is in.
        let path = exec.environment.get("PATH").cloned().or_else(|| std::env::var("PATH").ok()).unwrap_or_default();
        let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        let path = std::env::join_paths(absolute).unwrap_or_default().to_string_lossy().into_owned();
        exec.environment.insert("PATH".into(), path.clone());
        let confines = exec.confinement.is_some() && can_confine();
        let others = self.settings.other_workspaces.iter().filter_map(|path| real(path));
        let all = std::iter::once(self.workspaces.usual().root().to_owned()).chain(others).collect();
        let gate = Arc::new(Gate::new(exec_mode, &exec_allow, &path, all, confines)?);
        let (workspaces, processes) = (|| Arc::clone(&self.workspaces), || Arc::clone(&self.processes));
        let door = add(door, Read(workspaces()))?;
        let door = add(door, Write(workspaces()))?;
        let door = add(door, Edit(workspaces()))?;
        let door = add(door, ApplyPatch(workspaces()))?;
        let door = add(door, Ls(workspaces()))?;
        let door = add(door, Find(workspaces()))?;
        let door = add(door, Grep(workspaces()))?;
        let door = add(
            door,
            Exec { workspaces: workspaces(), settings: exec, gate: Arc::clone(&gate), processes: processes() },
        )?;
        let door = add(door, Process(processes()))?;
        let mut door = add(door, WebFetch::new(web)?)?;
        if let Some(store) = store {
            door = add(door, SessionStatus { store: Arc::clone(&store), workspaces: workspaces() })?;
            door = add(door, SessionsList(Arc::clone(&store)))?;
            if !channels.is_empty() {
                door = add(door, Message { store: Arc::clone(&store), channels })?;
            }
            door = add(door, SessionsHistory { store, redactor })?;
        }
        Ok(door.hook(Hook {
            name: "tools.exec".into(),
            matcher: Matcher::parse("tools.exec", &["openclaw:core:exec"])?,
            // Behind all others: what it judges is what will run.
            priority: i32::MIN,
            timeout: Duration::from_secs(10),
            hook: gate,
        }))
    }
}

fn add<T: Core>(door: DoorBuilder, tool: T) -> Result<DoorBuilder, BuiltinError> {
    Ok(door.tool(entry::<T>()?, Arc::new(Typed(tool)))?)
}
