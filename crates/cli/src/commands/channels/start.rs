//! `pincer channels start`: the process that runs channels.

use std::sync::Arc;
use std::time::Duration;

use pincer_agent::Agent;
use pincer_channels::{Channels, ChannelsError, Notice, Observer};
use pincer_runtime::{EngineStart, ModelSetup, Principal, Runtime, RuntimeOptions};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::interrupt::Interruptions;
use crate::opened::{options, told};
use crate::print::{chain, line, note};
use crate::usage::LocationArguments;
use crate::{DONE, FAILED, WRONG_USAGE, settings, state, tokio_runtime};

/// How long programs that go on have when this is ended.
const LINGER: Duration = Duration::from_secs(5);

pub(super) fn run(locations: &LocationArguments, names: &[String], as_json: bool) -> u8 {
    let loaded = match settings::ready(locations) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let models = ModelSetup::new(&loaded, state::directory(locations).as_deref());
    let tokio = match tokio_runtime::large() {
        Ok(tokio) => tokio,
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return FAILED;
        }
    };
    let code = tokio.block_on(async {
        // Before anything is told to be here.
        let mut interrupted = Interruptions::listen();
        let opened = options(locations, loaded).map_err(|error| {
            note(&format!("error: {}", chain(&error)));
            FAILED
        })?;
        let opened = RuntimeOptions { engine: EngineStart::WhenNeeded, ..opened };
        let runtime = Arc::new(Runtime::open(opened).map_err(|error| told(&error))?);
        let agent = Agent::new(Arc::clone(&runtime), models);
        let user = Principal::of_this_process().user().to_owned();
        let observer = Observer::new(move |notice| tell(&notice, as_json));
        let stop = CancellationToken::new();
        let code = match Channels::of_config(agent.clone(), &user, names, observer) {
            Ok(channels) => {
                let ending = stop.clone();
                let waiting = tokio::spawn(async move {
                    interrupted.next().await;
                    ending.cancel();
                });
                let ended = channels.run(&stop).await;
                waiting.abort();
                ended.map_or_else(|error| refused(&error), |()| DONE)
            }
            Err(error) => refused(&error),
        };
        agent.close().await;
        runtime.shutdown(LINGER).await;
        Ok::<u8, u8>(code)
    });
    tokio.shutdown_background();
    code.unwrap_or_else(|code| code)
}

fn tell(notice: &Notice, as_json: bool) {
    match as_json {
        true => line(&json!(notice).to_string()),
        false => note(&notice.to_string()),
    }
}

fn refused(error: &ChannelsError) -> u8 {
    note(&format!("error: {}", chain(error)));
    match error {
        ChannelsError::NoChannel { .. }
        | ChannelsError::Nothing
        | ChannelsError::TurnedOff { .. }
        | ChannelsError::NoPlugin { .. }
        | ChannelsError::Ambiguous { .. } => WRONG_USAGE,
        _ => FAILED,
    }
}
