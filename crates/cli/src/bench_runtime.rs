//! The runtime that benchmarks measure: the tools of the benchmark and no others, in a directory of its own.

use std::collections::BTreeMap;
use std::path::Path;

use pincer_config::keys::{CodeMode, CodeModeFields, McpServer};
use pincer_config::{Config, Loaded};
use pincer_runtime::{BuiltIn, Principal, Runtime, RuntimeOptions, Scope, ScopeRequest};

use crate::cells::Outcome;
use crate::notices;

/// How long a program may take.
const TIMEOUT_MS: u64 = 60_000;

/// Opens a runtime with these servers.
pub(crate) fn open(
    directory: &Path,
    servers: BTreeMap<String, McpServer>,
    change: impl FnOnce(RuntimeOptions) -> RuntimeOptions,
) -> Outcome<Runtime> {
    let mut config = Config { workspace: Some(directory.display().to_string()), ..Config::default() };
    let fields = CodeModeFields { timeout_ms: Some(TIMEOUT_MS), ..CodeModeFields::default() };
    config.tools.code_mode = CodeMode::Fields(Box::new(fields));
    config.mcp.servers = servers;
    let mut loaded = Loaded::default();
    loaded.parsed.config = config;
    let options = RuntimeOptions {
        built_in: BuiltIn::LeftOut,
        observer: notices::observer(),
        ..RuntimeOptions::new(loaded, directory)
    };
    Ok(Runtime::open(change(options))?)
}

/// Returns the scope of a benchmark's programs.
pub(crate) fn scope(runtime: &Runtime) -> Outcome<Scope> {
    Ok(runtime.scope(&ScopeRequest::new(Principal::new("bench"), "bench"))?)
}
