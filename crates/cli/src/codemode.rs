//! From the config to code mode: engine, door and store, and for whom programs run.

use std::sync::Arc;

use pincer_builtin::Builtin;
use pincer_catalog::{Catalog, Policy};
use pincer_codemode::{CodeMode, CodeModeResult, ErrorCode, People, RunScope, RunTools, Settings};
use pincer_config::keys::McpSampling;
use pincer_config::{Config, Loaded, Scope};
use pincer_mcp::Servers;
use pincer_plugins::PluginProcess;
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_tools::{Context, Door, EventSink};

use crate::assembly::Assembly;
use crate::print::{chain, note};
use crate::usage::{PlaceArguments, ScopeArguments};
use crate::{engine, settings, state};

/// What code mode is for.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    /// Cells that run at a time.
    pub live_cells: u32,
    /// What happens when an MCP server asks for a model's answer, unless the config says.
    pub sampling: McpSampling,
}

impl Purpose {
    /// A command, which runs its own program.
    pub const COMMAND: Self = Self { live_cells: 4, sampling: McpSampling::Refuse };
}

/// Code mode as the config describes it, and what must be ended with it.
pub(crate) struct Ready {
    pub mode: CodeMode,
    pub door: Arc<Door>,
    pub store: Arc<SqliteStore>,
    loaded: Loaded,
    pub policy: Policy,
    builtin: Builtin,
    plugins: Vec<Arc<PluginProcess>>,
    pub mcp: Arc<Servers>,
}

/// Why there is no code mode, as a result that says so.
fn refused(code: ErrorCode, error: &dyn std::error::Error) -> Box<CodeModeResult> {
    Box::new(CodeModeResult::refused(code, chain(error)))
}

impl Ready {
    /// Puts everything together. `events` gets to see what calls do.
    pub fn new(
        places: &PlaceArguments,
        scope: &ScopeArguments,
        purpose: Purpose,
        events: Arc<dyn EventSink>,
    ) -> Result<Self, Box<CodeModeResult>> {
        let loaded = settings::read(places).map_err(|error| refused(ErrorCode::InvalidConfig, &error))?;
        settings::warn(&loaded);
        let directory = state::directory(places.state_dir.as_deref());
        let store = state::open(places.state_dir.as_deref());
        let store = Arc::new(store.map_err(|error| refused(ErrorCode::RuntimeUnavailable, &error))?);
        let assembly = Assembly::new(&loaded, directory.as_deref(), Arc::clone(&store), purpose.sampling)
            .map_err(|error| refused(ErrorCode::InvalidConfig, &error))?;
        let policy = loaded.parsed.config.policy(&config_scope(scope));
        let policy = policy.map_err(|error| refused(ErrorCode::InvalidConfig, &error))?;
        let engine = engine::load_for_code_mode(purpose.live_cells)
            .map_err(|error| refused(ErrorCode::RuntimeUnavailable, &error))?;
        let Assembly { door, builtin, plugins, mcp, store } = assembly;
        let door = Arc::new(door.events(events).build(store.clone()));
        mcp.attach(&door);
        let scratch = directory.as_ref().map(|directory| directory.join("scratch"));
        let memory = crate::memory::memory(&loaded.parsed.config.code_mode(None), scratch);
        let leases = Arc::new(FileLeases::new(directory.unwrap_or_default().join("owners")));
        let mode = CodeMode::within(memory, engine, purpose.live_cells, Arc::clone(&door), store.clone(), leases);
        Ok(Self { mode, door, store, loaded, policy, builtin, plugins, mcp: Arc::new(mcp) })
    }

    /// Tells a person who may expect another workspace.
    pub fn tell_workspace(&self) {
        if let Some(moved) = crate::workspace::moved(&self.loaded) {
            note(&format!("note: {moved}"));
        }
    }

    pub fn config(&self) -> &Config {
        &self.loaded.parsed.config
    }

    /// What programs may use.
    pub fn settings(&self, of: &ScopeArguments) -> Settings {
        Settings::new(&self.loaded.parsed.config.code_mode(of.agent.as_deref()))
    }

    /// For whom programs of this session run.
    pub fn scope(&self, session: &str, of: &ScopeArguments, people: People) -> Result<RunScope, Box<CodeModeResult>> {
        let context = Context {
            session: session.into(),
            user: user(),
            agent: of.agent.clone(),
            sender: of.sender.clone(),
            sandboxed: of.sandboxed,
            ..Context::default()
        };
        let catalog = Catalog::new(self.door.entries()).map_err(|error| refused(ErrorCode::InvalidConfig, &error))?;
        let tools = Arc::new(RunTools::new(&self.door, &catalog, &self.policy, &context));
        let settings = self.settings(of);
        Ok(RunScope { people, ..RunScope::new(tools, settings, context) })
    }

    /// Ends commands, plugins and servers, and leaves the store as one file.
    pub async fn end(&self) {
        self.mode.release();
        self.mcp.end().await;
        self.builtin.processes().end().await;
        for plugin in &self.plugins {
            plugin.end().await;
        }
        state::fold(&self.store);
    }
}

/// The user of this system: who may continue what they have begun.
pub(crate) fn user() -> String {
    format!("user:{}", rustix::process::getuid().as_raw())
}

pub(crate) fn config_scope(arguments: &ScopeArguments) -> Scope<'_> {
    Scope {
        agent: arguments.agent.as_deref(),
        provider: arguments.provider.as_deref(),
        model: arguments.model.as_deref(),
        sender: arguments.sender.as_deref(),
        sandboxed: arguments.sandboxed,
        run: None,
    }
}
