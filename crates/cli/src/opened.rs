//! From the arguments of a command to a runtime and its scopes.

use pincer_codemode::{CodeModeResult, ErrorCode};
use pincer_config::Loaded;
use pincer_runtime::{Audience, Principal, Runtime, RuntimeError, RuntimeOptions, ScopeRequest};

use crate::print::{chain, note};
use crate::state::{self, OpenError};
use crate::usage::LocationArguments;
use crate::usage_tools::ScopeArguments;
use crate::{FAILED, WRONG_USAGE, notices, settings};

/// Returns the options of a runtime that draws its notices on stderr.
pub(crate) fn options(locations: &LocationArguments, loaded: Loaded) -> Result<RuntimeOptions, OpenError> {
    let state = state::directory(locations).ok_or(OpenError::NoDirectory)?;
    Ok(RuntimeOptions { observer: notices::observer(), ..RuntimeOptions::new(loaded, state) })
}

/// Opens a runtime for programs. A failure is a result that tells it.
pub(crate) fn for_programs(
    locations: &LocationArguments,
    change: impl FnOnce(RuntimeOptions) -> RuntimeOptions,
) -> Result<Runtime, Box<CodeModeResult>> {
    let refused = |code, error: &dyn std::error::Error| Box::new(CodeModeResult::refused(code, chain(error)));
    let loaded = settings::read(locations).map_err(|error| refused(ErrorCode::InvalidConfig, &error))?;
    settings::warn(&loaded);
    let options = options(locations, loaded).map_err(|error| refused(ErrorCode::RuntimeUnavailable, &error))?;
    Runtime::open(change(options)).map_err(|error| Box::new(error.refused()))
}

/// Opens a runtime for a command that looks at tools or calls one. A failure is told, and is this exit code.
pub(crate) fn for_tools(
    locations: &LocationArguments,
    change: impl FnOnce(RuntimeOptions) -> RuntimeOptions,
) -> Result<Runtime, u8> {
    let loaded = settings::ready(locations)?;
    let options = options(locations, loaded).map_err(|error| {
        note(&format!("error: {}", chain(&error)));
        FAILED
    })?;
    Runtime::open(change(options)).map_err(|error| told(&error))
}

/// Tells a failure of the runtime. Returns the exit code for it.
pub(crate) fn told(error: &RuntimeError) -> u8 {
    note(&format!("error: {}", chain(error)));
    match error.code() {
        ErrorCode::InvalidConfig => WRONG_USAGE,
        _ => FAILED,
    }
}

/// Returns the scope that arguments ask for, for the user of this process.
pub(crate) fn request(session: &str, arguments: &ScopeArguments) -> ScopeRequest {
    ScopeRequest {
        agent: arguments.agent.clone(),
        provider: arguments.provider.clone(),
        model: arguments.model.clone(),
        sandboxed: arguments.sandboxed,
        audience: Audience::Operator,
        ..ScopeRequest::new(Principal::of_this_process().known_as(arguments.sender.clone()), session)
    }
}
