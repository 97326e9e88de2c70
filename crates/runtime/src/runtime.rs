//! From the config to a working system, and what every front does with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_builtin::{Builtin, Workspaces};
use pincer_catalog::{Catalog, Entry, Source, ToolId};
use pincer_codemode::{CodeMode, CodeModeResult, Counters, ExecInput, Exposure, RunScope, RunTools, WaitInput, expose};
use pincer_config::keys::CodeModeFields;
use pincer_config::{Config, Loaded};
use pincer_mcp::{Health, Server, Servers};
use pincer_plugins::PluginProcess;
use pincer_sandbox::Engine;
use pincer_store::{ApprovalId, RunId, StoreError};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_tool_search::Mode;
use pincer_tools::{Answer, Call, ClientToolError, Door, Hub, Outcome, UpdateSink};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::assembly::Assembly;
use crate::audit::Audit;
use crate::engine::{EngineError, load_for_code_mode};
use crate::error::{RuntimeError, chain};
use crate::memory::memory;
use crate::notice::{Notice, Observer};
use crate::options::{EngineStart, RuntimeOptions, Trail};
use crate::scope::{Scope, ScopeRequest, Views};
use crate::sites::Sites;
use crate::state::{fold, open_store};
use crate::workspace::{may_write, moved_workspace, workspace};

/// A working system: store, door, tools, plugins, MCP servers, engine and code mode, for any number of principals and sessions.
/// It must be opened in a tokio runtime, and ended with [`Runtime::shutdown`].
pub struct Runtime {
    loaded: Loaded,
    door: Arc<Door>,
    store: Arc<SqliteStore>,
    leases: Arc<FileLeases>,
    servers: Arc<Servers>,
    builtin: Option<Builtin>,
    plugins: Vec<Arc<PluginProcess>>,
    /// The folders of the plugins in use, which may have skills.
    skill_folders: Vec<(String, PathBuf)>,
    sites: Sites,
    views: Views,
    mode: OnceCell<CodeMode>,
    programs: Programs,
    observer: Observer,
    /// No server is waited for any more.
    closing: CancellationToken,
}

/// The parts of code mode, besides an engine.
struct Programs {
    live_cells: u32,
    fields: CodeModeFields,
    state: PathBuf,
}

impl Runtime {
    /// Opens the store, registers all tools, and loads the engine unless that is put off. No server and no plugin is started.
    pub fn open(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let store = Arc::new(open_store(&options.state, &options.observer)?);
        let sites = Sites::new(&options.loaded, &options.state);
        let Assembly { door, builtin, plugins, skill_folders, servers } = Assembly::new(&options, &sites, &store)?;
        let RuntimeOptions { loaded, state, live_cells, engine, trail, extend, observer, .. } = options;
        let door = extend(door)?;
        let engine = match engine {
            EngineStart::AtOpen => Some(load_for_code_mode(live_cells, &observer)?),
            EngineStart::WhenNeeded => None,
            EngineStart::Given(engine) => Some(engine),
        };
        let door = Arc::new(door.build(store.clone()));
        if trail == Trail::On {
            door.events().observe(Arc::new(Audit::new(&state, observer.clone())));
        }
        servers.attach(&door);
        let leases = Arc::new(FileLeases::new(state.join("owners")));
        let programs = Programs { live_cells, fields: loaded.parsed.config.code_mode(None), state };
        let mode = engine.map(|engine| programs.mode(engine, &door, &store, &leases));
        Ok(Self {
            loaded,
            door,
            store,
            leases,
            servers: Arc::new(servers),
            builtin,
            plugins,
            skill_folders,
            sites,
            views: Views::default(),
            mode: OnceCell::new_with(mode),
            programs,
            observer,
            closing: CancellationToken::new(),
        })
    }

    /// Returns the scope of a caller: policy, settings, tools and identity that agree. It has tokens of its own.
    pub fn scope(&self, request: &ScopeRequest) -> Result<Scope, RuntimeError> {
        Ok(self.views.scope(self.config(), &self.sites, request)?)
    }

    /// Runs a program until it ends or must wait. Servers that it mentions are known before it begins; the time that takes is
    /// taken off the program's.
    pub async fn exec(&self, scope: &Scope, input: ExecInput) -> CodeModeResult {
        let mode = match self.mode().await {
            Ok(mode) => mode,
            Err(error) => return RuntimeError::from(error).refused(),
        };
        let within = scope.settings().timeout;
        let left = tokio::select! {
            left = self.servers.ready_for(&input.code, within) => left,
            () = scope.abort().cancelled() => within,
            () = self.closing.cancelled() => within,
        };
        // Only now: what became known of the servers is part of the program's tools.
        mode.exec(&scope.of_run(self.tools(scope), left), input).await
    }

    /// Continues a suspended program until it ends or must wait again.
    pub async fn wait(&self, scope: &Scope, input: &WaitInput) -> CodeModeResult {
        match self.mode().await {
            Ok(mode) => mode.wait(&self.of_run(scope), input).await,
            Err(error) => RuntimeError::from(error).refused(),
        }
    }

    /// Makes one call through the door. A server that its tool belongs to is known before.
    pub async fn call(&self, scope: &Scope, call: Call) -> Outcome {
        if let Some(server) = self.server_of(&call.tool).filter(|server| server.seen().listing.is_none()) {
            tokio::select! {
                () = self.servers.ready_with(server) => {}
                () = scope.abort().cancelled() => {}
            }
        }
        self.call_with(scope, call, Arc::clone(scope.listener())).await
    }

    /// Like [`call`](Self::call), with a listener of this call's own. Servers are not waited for.
    pub async fn call_with(&self, scope: &Scope, call: Call, updates: Arc<dyn UpdateSink>) -> Outcome {
        let tools = self.tools(scope);
        self.door.call(tools.at_the_door(), &scope.context(), call, updates).await
    }

    /// Ends a run of this scope: the program, its timers and calls, its snapshot. Returns `false` if it had ended.
    pub async fn abort(&self, scope: &Scope, run: &RunId) -> Result<bool, CodeModeResult> {
        let mode = self.mode().await.map_err(|error| RuntimeError::from(error).refused())?;
        mode.abort(&self.of_run(scope), run).await
    }

    /// Ends these programs, as far as they have not ended, and what goes on of them here.
    pub async fn abort_programs(&self, ids: &[RunId]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        match self.mode().await {
            Ok(mode) => mode.abort_runs(ids).await,
            // Without an engine none of them runs here.
            Err(_) => Ok(()),
        }
    }

    /// Answers a question to a person. Returns `false` if it was settled before.
    pub async fn answer(&self, approval: &ApprovalId, answer: Answer, by: &str) -> Result<bool, StoreError> {
        self.door.answer(approval, answer, by).await
    }

    /// Returns whether there is a run with this id that the scope may continue.
    pub async fn belongs_to(&self, scope: &Scope, run: &RunId) -> bool {
        match self.mode().await {
            Ok(mode) => mode.belongs_to(&self.of_run(scope), run).await,
            Err(_) => false,
        }
    }

    /// Returns the binary data that references in a result stand for.
    pub async fn attachments(&self, scope: &Scope, result: &CodeModeResult) -> Result<Vec<Value>, StoreError> {
        match self.mode.get() {
            Some(mode) => mode.attachments(&self.of_run(scope), result).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the tools of a scope as they are now. Made once for each version of the door.
    pub fn tools(&self, scope: &Scope) -> Arc<RunTools> {
        match scope.client_tools() {
            Some(tools) => Arc::clone(tools),
            None => self.views.tools(&self.door, scope),
        }
    }

    /// Returns the same scope with tools that the caller of an agent's run executes itself, as far as policy admits them. No other scope
    /// has those. Its tools stay as they are now.
    pub fn with_clients(&self, scope: Scope, clients: Vec<Entry>) -> Result<Scope, ClientToolError> {
        self.views.with_clients(&self.door, scope, clients)
    }

    /// Returns all tools at the door, whatever policy says: an author of policies wants to see them.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.views.catalog(&self.door, self.door.version())
    }

    /// Returns what a model is shown of the tools of a scope.
    pub fn exposure(&self, scope: &Scope) -> Exposure {
        let tools = self.tools(scope);
        let entries: Vec<_> = tools.catalog().iter().cloned().collect();
        expose(&entries, scope.policy(), scope.offer(), scope.settings(), &tools)
    }

    /// Asks the servers whose tools are not known yet, for a moment, and tells of those that have not started or are down. If all
    /// is about one tool, only the server that has it is asked.
    pub async fn know_servers(&self, about: Option<&str>) {
        let only = about.and_then(|tool| self.server_of(tool));
        let concerned = || self.servers.iter().filter(|server| only.is_none_or(|only| Arc::ptr_eq(only, server)));
        if concerned().all(|server| server.seen().listing.is_some()) {
            return;
        }
        match only {
            Some(only) => self.servers.ready_with(only).await,
            None => self.servers.ready().await,
        }
        for server in concerned() {
            let name = server.name().to_owned();
            match server.seen().health {
                _ if server.is_starting() => self.observer.tell(Notice::ServerStarting { name }),
                Health::Down(why) => self.observer.tell(Notice::ServerDown { name, why }),
                _ => {}
            }
        }
    }

    /// Suspends programs as far as they can be. Nothing new begins.
    pub async fn suspend(&self) {
        self.closing.cancel();
        if let Some(mode) = self.mode.get() {
            mode.suspend().await;
        }
    }

    /// Suspends programs as far as they can be, and ends the calls that go on. Their outcome is then not known: what may be
    /// repeated will be.
    pub async fn end_programs(&self) {
        self.closing.cancel();
        if let Some(mode) = self.mode.get() {
            mode.shutdown().await;
        }
    }

    /// Returns how many runs this process has something to do with. A suspended one whose calls have settled is none of them.
    pub fn runs_here(&self) -> usize {
        self.mode.get().map_or(0, CodeMode::runs_here)
    }

    /// Returns whether tools run for suspended programs.
    pub fn is_busy(&self) -> bool {
        self.mode.get().is_some_and(CodeMode::is_busy)
    }

    /// Waits until no tool runs any more for a suspended program.
    pub async fn linger(&self) {
        if let Some(mode) = self.mode.get() {
            mode.linger().await;
        }
    }

    /// Ends everything: suspends programs, lets the calls that go on finish within `deadline`, ends the others, and then commands,
    /// servers and plugins. The store is left as one file.
    pub async fn shutdown(&self, deadline: Duration) {
        let finished = async {
            self.suspend().await;
            self.linger().await;
        };
        let _ = tokio::time::timeout(deadline, finished).await;
        self.end_programs().await;
        if let Some(mode) = self.mode.get() {
            mode.release();
        }
        self.servers.end().await;
        if let Some(builtin) = &self.builtin {
            builtin.processes().end().await;
        }
        for plugin in &self.plugins {
            plugin.end().await;
        }
        fold(&self.store);
    }

    /// Returns what all runs of this process took together.
    pub fn counters(&self) -> Counters {
        self.mode.get().map(CodeMode::counters).unwrap_or_default()
    }

    /// Returns the hub of events of all calls.
    pub fn events(&self) -> &Hub {
        self.door.events()
    }

    /// Returns the processes of the plugins that are used.
    pub fn plugins(&self) -> &[Arc<PluginProcess>] {
        &self.plugins
    }

    /// Returns the state directory.
    pub fn state_directory(&self) -> &Path {
        &self.programs.state
    }

    /// Returns the config.
    pub fn config(&self) -> &Config {
        &self.loaded.parsed.config
    }

    /// Returns whether files can be written to the workspace of a scope, as far as permissions say.
    pub fn may_write_workspace(&self, scope: &Scope) -> bool {
        may_write(&scope.site().workspace, &workspace(&self.loaded))
    }

    /// Returns the workspaces of calls, unless the built-in tools were left out.
    pub fn workspaces(&self) -> Option<&Arc<Workspaces>> {
        self.builtin.as_ref().map(Builtin::workspaces)
    }

    pub(crate) fn skill_folders(&self) -> &[(String, PathBuf)] {
        &self.skill_folders
    }

    /// Returns the state directory.
    pub fn state(&self) -> &Path {
        &self.programs.state
    }

    /// Returns a sentence for a person who may expect another workspace.
    pub fn moved_workspace(&self) -> Option<String> {
        moved_workspace(&self.loaded)
    }

    /// Returns the one door, to register tools while the runtime is open. Calls are made by [`Runtime::call`], which knows the rights
    /// of the caller.
    pub fn door(&self) -> &Arc<Door> {
        &self.door
    }

    /// Returns whether the built-in tools are there.
    pub fn has_built_in(&self) -> bool {
        self.builtin.is_some()
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    /// Returns the processes that share the store, and this one among them.
    pub fn leases(&self) -> &Arc<FileLeases> {
        &self.leases
    }

    /// Returns the MCP servers of the config.
    pub fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// Returns how the model of a scope finds its tools, if it is to search for them. Where programs cannot run, it does so without them,
    /// and that is told. The engine is loaded for that, if it was not before.
    pub async fn tool_search(&self, scope: &Scope) -> Option<pincer_tool_search::Settings> {
        let settings = scope.tool_search()?.clone();
        if settings.mode != Mode::Code {
            return Some(settings);
        }
        let Err(error) = self.mode().await else { return Some(settings) };
        self.observer.tell(Notice::NoPrograms { why: chain(&error) });
        Some(pincer_tool_search::Settings { mode: Mode::Tools, ..settings })
    }

    /// Returns code mode. The engine is loaded with the first program, if it was not before.
    async fn mode(&self) -> Result<&CodeMode, EngineError> {
        self.mode
            .get_or_try_init(|| async {
                let (cells, observer) = (self.programs.live_cells, self.observer.clone());
                let loading = tokio::task::spawn_blocking(move || load_for_code_mode(cells, &observer));
                let engine = loading.await.map_err(EngineError::Broken)??;
                Ok(self.programs.mode(engine, &self.door, &self.store, &self.leases))
            })
            .await
    }

    fn of_run(&self, scope: &Scope) -> RunScope {
        scope.of_run(self.tools(scope), scope.settings().timeout)
    }

    fn server_of(&self, tool: &str) -> Option<&Arc<Server>> {
        let id = tool.parse::<ToolId>().ok().filter(|id| id.source() == Source::Mcp)?;
        self.servers.get(id.owner())
    }
}

impl Programs {
    fn mode(&self, engine: Engine, door: &Arc<Door>, store: &Arc<SqliteStore>, leases: &Arc<FileLeases>) -> CodeMode {
        let memory = memory(&self.fields, Some(self.state.join("scratch")));
        CodeMode::within(memory, engine, self.live_cells, Arc::clone(door), store.clone(), leases.clone())
    }
}
