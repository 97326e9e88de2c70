//! `pincer channels start`: the process that runs channels.

use std::time::Duration;

use pincer_agent::CronNews;
use pincer_channels::{Channels, ChannelsError, Notice, Observer};
use pincer_runtime::Principal;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::commands::cron::run::{document, keep_running, text};
use crate::interrupt::Interruptions;
use crate::opened::{close, for_agent};
use crate::print::{chain, line, note};
use crate::refused::Refused;
use crate::usage::LocationArguments;
use crate::{DONE, FAILED, WRONG_USAGE, settings, tokio_runtime};

/// The time that programs have to end when this command ends.
const LINGER: Duration = Duration::from_secs(5);

pub(super) fn run(locations: &LocationArguments, names: &[String], as_json: bool) -> u8 {
    let loaded = match settings::ready(locations) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    tokio_runtime::attend(tokio_runtime::large(), async {
        // Before anything is told to be here.
        let mut interrupted = Interruptions::listen();
        let agent = for_agent(locations, loaded).map_err(Refused::tell)?;
        let user = Principal::of_this_process().user().to_owned();
        let observer = Observer::new(move |notice| tell(&notice, as_json));
        let stop = CancellationToken::new();
        let mut jobs = None;
        let code = match Channels::of_config(agent.clone(), &user, names, observer) {
            Ok(channels) => {
                let ending = stop.clone();
                let waiting = tokio::spawn(async move {
                    interrupted.next().await;
                    ending.cancel();
                });
                if agent.runtime().config().cron.enabled {
                    let agent = agent.clone();
                    jobs = Some(tokio::spawn(async move {
                        let tell = |news: &CronNews| match as_json {
                            true => line(&document(news).to_string()),
                            false => note(&text(news)),
                        };
                        keep_running(&agent, tell).await;
                    }));
                }
                let ended = channels.run(&stop).await;
                waiting.abort();
                ended.map_or_else(|error| refused(&error), |()| DONE)
            }
            Err(error) => refused(&error),
        };
        close(&agent, LINGER).await;
        if let Some(jobs) = jobs {
            // It ends with the agent.
            let _ = jobs.await;
        }
        Ok(code)
    })
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
