//! From the arguments of a command to a runtime, its scopes and an agent.

use std::sync::Arc;
use std::time::Duration;

use pincer_agent::Agent;
use pincer_codemode::{CodeModeResult, ErrorCode};
use pincer_config::Loaded;
use pincer_runtime::{
    Audience, EngineStart, ModelSetup, Principal, Runtime, RuntimeError, RuntimeOptions, ScopeRequest,
};

use crate::interrupt::{Interrupted, Interruptions};
use crate::print::{chain, note};
use crate::refused::Refused;
use crate::state::{self, OpenError};
use crate::usage::LocationArguments;
use crate::usage_tools::ScopeArguments;
use crate::{FAILED, INTERRUPTED, WRONG_USAGE, notices, settings};

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

/// Opens a runtime for a command that works with an agent. End both with [`close`].
pub(crate) fn for_agent(locations: &LocationArguments, loaded: Loaded) -> Result<Agent, Refused> {
    let models = ModelSetup::new(&loaded, state::directory(locations).as_deref());
    let options = options(locations, loaded).map_err(|error| Refused(FAILED, chain(&error)))?;
    let options = RuntimeOptions { engine: EngineStart::WhenNeeded, ..options };
    let runtime = Runtime::open(options).map_err(|error| refused(&error))?;
    Ok(Agent::new(Arc::new(runtime), models))
}

/// Ends an agent and its runtime. `linger` is the time that programs which go on have to end. Returns the signal that made it end without
/// waiting for hooks.
pub(crate) async fn close(agent: &Agent, linger: Duration) -> Option<Interrupted> {
    let mut interruptions = Interruptions::listen();
    let closing = agent.close();
    tokio::pin!(closing);
    let by = tokio::select! {
        biased;
        () = &mut closing => None,
        by = interruptions.next() => Some(by),
    };
    if by.is_some() {
        note("interrupted: hooks that observe are not waited for");
        agent.leave_observers();
        // Work that does not end either is continued by the next process, so another signal ends this one at once.
        tokio::select! {
            () = closing => {}
            _ = interruptions.next() => {}
        }
    }
    agent.runtime().shutdown(linger).await;
    by
}

/// Returns the exit code of a command, unless a person has interrupted its end.
pub(crate) fn ended(code: Result<u8, u8>, by: Option<Interrupted>) -> Result<u8, u8> {
    match by {
        Some(Interrupted::ByPerson) => Ok(INTERRUPTED),
        Some(Interrupted::BySystem) | None => code,
    }
}

/// Tells a failure of the runtime. Returns the exit code for it.
pub(crate) fn told(error: &RuntimeError) -> u8 {
    refused(error).tell()
}

fn refused(error: &RuntimeError) -> Refused {
    let code = match error.code() {
        ErrorCode::InvalidConfig => WRONG_USAGE,
        _ => FAILED,
    };
    Refused(code, chain(error))
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
