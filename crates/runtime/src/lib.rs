//! From a config to a working system: what every front (a command line, an MCP server, a gateway) shares.
//!
//! [`Runtime::open`] takes a config and a state directory, and has the store, the one door with all its tools, plugins and MCP
//! servers, the engine and code mode. A front asks it for a [`Scope`] per caller, which is the only way to run or call anything:
//! policy, settings, tools and identity are made there in one place, from one [`ScopeRequest`].
//!
//! It parses no arguments, prints nothing and ends no process: what happens on the way is told as a [`Notice`]. How tools behave
//! is the business of `pincer-tools`, how programs run that of `pincer-codemode`.
//!
//! ```
//! use std::time::Duration;
//! use pincer_codemode::{CodeModeResult, ExecInput};
//! use pincer_config::Loaded;
//! use pincer_runtime::{BuiltIn, Principal, Runtime, RuntimeOptions, ScopeRequest};
//!
//! # let state = std::env::temp_dir().join(format!("pincer-doc-runtime-{}", std::process::id()));
//! let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! tokio.block_on(async {
//!     let options = RuntimeOptions { built_in: BuiltIn::LeftOut, ..RuntimeOptions::new(Loaded::default(), &state) };
//!     let runtime = Runtime::open(options)?;
//!     let scope = runtime.scope(&ScopeRequest::new(Principal::of_this_process(), "main"))?;
//!     let result = runtime.exec(&scope, ExecInput::javascript("return 6 * 7")).await;
//!     let CodeModeResult::Completed(done) = result else { panic!("{result:?}") };
//!     assert_eq!(done.value.as_str(), "42");
//!     runtime.shutdown(Duration::from_secs(1)).await;
//!     Ok::<(), pincer_runtime::RuntimeError>(())
//! })?;
//! # std::fs::remove_dir_all(state)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assembly;
mod audit;
mod engine;
mod error;
mod guarded;
mod hooks;
mod mcp_settings;
mod memory;
mod models;
mod notice;
mod options;
mod runtime;
mod scope;
mod secrets;
mod settings;
mod sites;
mod skills;
mod state;
mod user_directories;
mod workspace;

pub use assembly::{found_plugins, redactor, trusted_plugins};
pub use engine::{EngineError, load_engine};
pub use error::{RuntimeError, chain};
pub use hooks::{ConfiguredHooks, HookProgram, hook_programs};
pub use mcp_settings::{mcp_server, mcp_servers};
pub use models::{ModelSetup, ModelSetupError};
pub use notice::{Notice, Observer};
pub use options::{BuiltIn, EngineStart, Extend, RuntimeOptions, Trail};
pub use runtime::Runtime;
pub use scope::{Audience, Principal, Scope, ScopeRequest};
pub use secrets::{MOST_SECRET_BYTES, Promised, SecretError, Stored, Vault, fit_secret};
pub use settings::{program_settings, tool_search_settings};
pub use skills::{LeftOut, ScopeSkills};
pub use state::{STORE_FILE, StateError, open_store, usual_state_directory, write_private};
pub use user_directories::user_directory;
pub use workspace::workspace as usual_workspace;
