//! Code mode: a model writes a program instead of choosing from a long list of tools.
//!
//! It sees two tools. `exec` runs a program as a cell, which finds and calls all the other tools through the one door; `wait`
//! continues a program that had to be suspended, in this process or another. This crate is both of them: from the model's text
//! to a [`CodeModeResult`], what a program sees of its tools ([`RunTools`]), the life of a run in the store, and what the model
//! sees of it all ([`expose`]).
//!
//! It is not the sandbox (`pincer-sandbox` knows nothing of tools), runs no tool by itself (`pincer-tools` does), and prints
//! nothing.
//!
//! ```
//! use std::sync::Arc;
//! use pincer_catalog::{Catalog, Policy};
//! use pincer_codemode::{CodeMode, CodeModeResult, ExecInput, RunScope, RunTools, Settings};
//! use pincer_sandbox::{Engine, Options};
//! use pincer_store_sqlite::{FileLeases, SqliteStore};
//! use pincer_tools::{Context, Door};
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-doc-codemode-{}", std::process::id()));
//! let store = Arc::new(SqliteStore::open(&directory.join("pincer.db"))?);
//! let door = Arc::new(Door::builder().build(store.clone()));
//! let leases = Arc::new(FileLeases::new(directory.join("owners")));
//! let mode = CodeMode::new(Engine::load(Options::default())?, 16, Arc::clone(&door), store, leases);
//!
//! let context = Context { session: "main".into(), user: "me".into(), ..Context::default() };
//! let tools = Arc::new(RunTools::new(&door, &Catalog::new(door.entries())?, &Policy::open(), &context));
//! let scope = RunScope::new(tools, Settings::default(), context);
//!
//! let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
//! let result = runtime.block_on(mode.exec(&scope, ExecInput::javascript("const [a, b] = [1, 2]; a + b")));
//! let CodeModeResult::Completed(done) = result else { panic!("{result:?}") };
//! assert_eq!(done.value.as_str(), "3");
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aside;
mod attachments;
mod bridge;
mod codemode;
mod description;
mod drive;
mod fair_scheduling;
mod frontier;
mod guest;
mod held;
mod hints;
mod housekeeping;
mod inline_turns;
mod input;
mod known_tools;
mod listener;
mod live;
mod making;
mod mcp;
mod memory;
mod namespaces;
mod orphans;
mod outcome;
mod overview;
mod pending_calls;
mod persisting;
mod places;
mod positions;
mod pruning;
mod recorder;
mod recording;
mod redaction;
mod replay;
mod replay_steps;
mod result;
mod result_text;
mod resume;
mod round_robin;
mod run;
mod scope;
mod scratch;
mod settings;
mod shared;
mod skills;
mod surface;
mod sweep;
mod telemetry;
mod text;
mod threads;
mod timers;
mod tools;
mod unbegun;

pub use codemode::CodeMode;
pub use description::INDEX_CHARS;
pub use fair_scheduling::fair_turns;
pub use guest::Guest;
pub use input::{ExecInput, InputError, WaitInput};
pub use memory::{Memory, Resident};
#[doc(hidden)]
pub use namespaces::resolve_namespace_call;
pub use orphans::{ended_by_restore, settle_orphans};
pub use overview::{Overview, overview, overviews};
pub use pincer_sandbox::{MemoryBudget, Output};
pub use recording::{MAX_RECORDING_BYTES, Recording, RecordingError};
pub use replay::{Replay, ReplayError, ReplayOptions, replay};
pub use replay_steps::{Asked, Difference, Settled, Step, What};
pub use result::{CodeModeResult, Completed, ErrorCode, Failed, PendingState, PendingToolCall, WaitReason, Waiting};
pub use result_text::{output_bytes, result_text};
pub use scope::{People, RunScope};
pub use settings::{Durability, Language, Settings, TIMEOUT_MS};
pub use shared::CodeModeStore;
pub use skills::{SkillEntry, SkillError, SkillTexts};
pub use surface::{Exposure, Offer, Surface, SurfaceError, ToolDefinition, VISIBLE, expose, result_schema};
pub use telemetry::{CapFailures, Counters, Milliseconds, Sources, Telemetry};
pub use tools::RunTools;
