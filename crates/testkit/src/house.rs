//! The fixture of tests that need the runtime: tools of the test behind a real door, on a real engine and a real store.
//!
//! Tests of code mode take the [`engine`] alone, with the door of a [`Doorway`](crate::doorway::Doorway).
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pincer_codemode::fair_turns;
use pincer_config::keys::{CodeMode, CodeModeFields, Decision, McpServer, OneOrMany, Rule};
use pincer_config::{Config, Loaded};
use pincer_mcp::Sampling;
use pincer_runtime::{BuiltIn, EngineStart, Extend, Runtime, RuntimeOptions};
use pincer_sandbox::{Engine, Options};
use pincer_tools::{EventSink, Tool};
use tempfile::TempDir;

// A plan is made with these.
pub use crate::tools::{Gates, NEVER, echo, entry, fail, gate, tool};

/// The cells that the engine of tests can have at a time.
pub const LIVE_CELLS: u32 = 256;

/// Returns the engine of all tests of a process, compiled once for all tests of a build.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let load = || Options {
        cache_dir: Some(temporary_directory().join("engine-cache")),
        live_cells: LIVE_CELLS,
        long_turn: Some(fair_turns()),
        ..Options::default()
    };
    ENGINE.get_or_init(|| Engine::load(load()).expect("the engine"))
}

/// Returns cargo's directory for files of tests, which it tells only to tests themselves.
fn temporary_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    // target/debug/deps/test
    test.ancestors().nth(3).expect("the target directory").join("tmp")
}

/// Returns the path of a program of this crate, as a server.
pub fn program(name: &str, argument: &str) -> McpServer {
    let command = crate::program(name).expect("built with the workspace");
    McpServer { command: Some(command.display().to_string()), args: vec![argument.into()], ..McpServer::default() }
}

/// The plan of a runtime for a test.
pub struct Plan {
    /// The config. `workspace` is the directory of the test, if it says nothing.
    pub config: Config,
    /// The cells that may run at a time.
    pub live_cells: u32,
    /// Gets to see what calls do.
    pub events: Option<Arc<dyn EventSink>>,
    /// The answer to servers that ask for a model's answer.
    pub sampling: Sampling,
    /// Adds tools.
    pub extend: Extend,
}

/// A runtime in a directory of its own.
pub struct House {
    /// The runtime.
    pub runtime: Arc<Runtime>,
    /// The state directory.
    pub directory: TempDir,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            config: Config::default(),
            live_cells: LIVE_CELLS,
            events: None,
            sampling: Sampling::Refuse,
            extend: Box::new(Ok),
        }
    }
}

impl Plan {
    /// Adds tools under their ids.
    #[must_use]
    pub fn tools(self, tools: Vec<(&'static str, Arc<dyn Tool>)>) -> Self {
        let add = |door, (id, tool)| pincer_tools::DoorBuilder::tool(door, entry(id), tool);
        Self { extend: Box::new(move |door| tools.into_iter().try_fold((self.extend)(door)?, add)), ..self }
    }

    /// Has a person asked about calls of these tools.
    #[must_use]
    pub fn ask(mut self, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.config.approvals.rules.push(Rule { matches: OneOrMany::Many(names), decision: Decision::Ask });
        self
    }

    /// Denies these tools.
    #[must_use]
    pub fn deny(mut self, names: &[&str]) -> Self {
        self.config.tools.deny.extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Adds a server.
    #[must_use]
    pub fn server(mut self, name: &str, server: McpServer) -> Self {
        self.config.mcp.servers.insert(name.to_owned(), server);
        self
    }

    /// Sets how long programs may take.
    #[must_use]
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        let fields = CodeModeFields { timeout_ms: Some(timeout), ..self.config.tools.code_mode.fields() };
        self.config.tools.code_mode = CodeMode::Fields(Box::new(fields));
        self
    }

    /// Opens the runtime.
    pub fn open(self) -> House {
        let directory = tempfile::tempdir().expect("a directory");
        let mut loaded = Loaded::default();
        loaded.parsed.config = self.config;
        loaded.parsed.config.workspace.get_or_insert_with(|| directory.path().display().to_string());
        let options = RuntimeOptions {
            live_cells: self.live_cells,
            engine: EngineStart::Given(engine().clone()),
            sampling: self.sampling,
            built_in: BuiltIn::LeftOut,
            extend: self.extend,
            ..RuntimeOptions::new(loaded, directory.path())
        };
        let runtime = Runtime::open(options).expect("a runtime");
        if let Some(events) = self.events {
            runtime.events().observe(events);
        }
        House { runtime: Arc::new(runtime), directory }
    }
}
