//! The options of a runtime.

use std::path::PathBuf;

use pincer_config::Loaded;
use pincer_mcp::Sampling;
use pincer_sandbox::Engine;
use pincer_tools::{DoorBuilder, RegisterError};

use crate::notice::Observer;

/// The cells that may run at a time in a process that runs a program or two.
const FEW_CELLS: u32 = 4;

/// Adds tools, hooks or namespaces of an embedding program to the door.
pub type Extend = Box<dyn FnOnce(DoorBuilder) -> Result<DoorBuilder, RegisterError> + Send>;

/// The options of a runtime. [`RuntimeOptions::new`] has the defaults.
pub struct RuntimeOptions {
    /// The config.
    pub loaded: Loaded,
    /// The state directory: the store, listings and logs of servers, logins, the trail of calls.
    pub state: PathBuf,
    /// The cells that may run at a time. 4 by default.
    pub live_cells: u32,
    /// When the engine is loaded. By default when the runtime is opened.
    pub engine: EngineStart,
    /// The answer to a server that asks for a model's answer, unless the config says. By default a refusal.
    pub sampling: Sampling,
    /// Whether calls that belong to no program are noted. By default they are not.
    pub trail: Trail,
    /// Whether the tools that are there out of the box are registered. By default they are.
    pub built_in: BuiltIn,
    /// Adds what an embedding program brings. By default nothing.
    pub extend: Extend,
    /// Is told what happens on the way. By default nothing is.
    pub observer: Observer,
}

/// When the engine is loaded.
#[derive(Clone, Default)]
pub enum EngineStart {
    /// When the runtime is opened: what is wrong with it is told at once.
    #[default]
    AtOpen,
    /// With the first program: opening takes no longer than the tools need.
    WhenNeeded,
    /// It is loaded already, for at least as many cells, and with `pincer_codemode::fair_turns` in its options.
    Given(Engine),
}

/// Whether calls that belong to no program are noted in the state directory. Calls of programs are in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trail {
    /// They are not.
    #[default]
    Off,
    /// A line for each, in `logs/calls.jsonl`.
    On,
}

/// Whether the tools that are there out of the box are registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuiltIn {
    /// Policy decides which of them a caller has.
    #[default]
    Registered,
    /// No caller has any, and no workspace is opened.
    LeftOut,
}

impl RuntimeOptions {
    /// Returns the defaults for a config and a state directory.
    pub fn new(loaded: Loaded, state: impl Into<PathBuf>) -> Self {
        Self {
            loaded,
            state: state.into(),
            live_cells: FEW_CELLS,
            engine: EngineStart::default(),
            sampling: Sampling::Refuse,
            trail: Trail::default(),
            built_in: BuiltIn::default(),
            extend: Box::new(Ok),
            observer: Observer::default(),
        }
    }
}
