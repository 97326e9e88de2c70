//! Commands that stop what goes on in a session. They need an agent: a run whose process is gone is ended here.

use std::time::Duration;

use pincer_agent::{Agent, AgentError, Status, StoppedRuns, WaitStatus};
use pincer_store::{AgentRunState, AgentRuns, Session, Sessions};
use serde_json::json;

use crate::opened::{close, for_agent};
use crate::print::{chain, count};
use crate::refused::Refused;
use crate::usage::LocationArguments;
use crate::{FAILED, WRONG_USAGE, settings};

use super::find::{current, key as shown};
use super::{Told, user};

/// The interval at which it is looked whether the run waits for a person.
const LOOK: Duration = Duration::from_millis(500);
/// How long the end of a run is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

impl From<AgentError> for Refused {
    fn from(error: AgentError) -> Self {
        Self(FAILED, chain(&error))
    }
}

pub(super) async fn abort(locations: &LocationArguments, key: &str) -> Result<Told, Refused> {
    let agent = agent(locations)?;
    let told = stopped(&agent, key).await;
    close(&agent, Duration::ZERO).await;
    told
}

pub(super) async fn compact(
    locations: &LocationArguments,
    key: &str,
    instructions: Option<&str>,
) -> Result<Told, Refused> {
    let agent = agent(locations)?;
    agent.end_with_own_messages();
    let told = compacted(&agent, key, instructions).await;
    close(&agent, Duration::ZERO).await;
    told
}

pub(super) async fn reset(locations: &LocationArguments, key: &str) -> Result<Told, Refused> {
    let agent = agent(locations)?;
    let told = begun_anew(&agent, key).await;
    close(&agent, Duration::ZERO).await;
    told
}

fn agent(locations: &LocationArguments) -> Result<Agent, Refused> {
    let loaded = settings::read(locations).map_err(|error| Refused(WRONG_USAGE, chain(&error)))?;
    settings::warn(&loaded);
    for_agent(locations, loaded)
}

async fn compacted(agent: &Agent, key: &str, instructions: Option<&str>) -> Result<Told, Refused> {
    let user = user();
    let store = agent.runtime().store();
    let session = current(store, &user, key).await?;
    let waits = async || -> Result<bool, Refused> {
        let open = store.open_runs(&user, &session.key).await?;
        Ok(open.iter().any(|run| run.state == AgentRunState::Waiting && !run.is_stopped))
    };
    let refused = || {
        let told = format!("{} waits for an answer and cannot be compacted before", shown(key));
        let remedy =
            format!("see `pincer approvals list`, or stop the run with `pincer sessions abort {}`", shown(key));
        Refused(FAILED, format!("{told}: {remedy}"))
    };
    if waits().await? {
        return Err(refused());
    }
    let run = agent.compact(&user, &session.key, instructions).await?.run_id;
    while !matches!(agent.wait(&user, &run, LOOK).await?.status, WaitStatus::Ok | WaitStatus::Error) {
        // A run before it has begun to wait since.
        if waits().await? {
            agent.stop(&user, &run).await?;
            return Err(refused());
        }
    }
    let outcome = agent.outcome(&user, &run).await?;
    if outcome.status != Status::Ok {
        return Err(Refused(FAILED, outcome.error.unwrap_or_else(|| "the session was not compacted".into())));
    }
    let now = store.session(&session.id).await?;
    let is_compacted = now.totals.compactions > session.totals.compactions;
    let text = outcome.text();
    let document =
        json!({ "key": session.key, "id": session.id, "runId": run, "compacted": is_compacted, "text": text });
    Ok(Some((document, text)))
}

async fn stopped(agent: &Agent, key: &str) -> Result<Told, Refused> {
    let user = user();
    let session = current(agent.runtime().store(), &user, key).await?;
    let stopped = stop(agent, &user, &session).await?;
    let text = in_words(&stopped).unwrap_or_else(|| format!("nothing was going on in {}", shown(key)));
    let StoppedRuns { active, queued } = stopped;
    Ok(Some((json!({ "key": session.key, "id": session.id, "active": active, "queued": queued }), text)))
}

async fn begun_anew(agent: &Agent, key: &str) -> Result<Told, Refused> {
    let user = user();
    let before = current(agent.runtime().store(), &user, key).await?;
    // Messages that have not begun are taken back: this process ends, and would leave one of them half answered.
    let stopped = stop(agent, &user, &before).await?;
    let session = agent.reset(&user, &before.key, "reset").await?;
    let anew = format!("{} begins anew. The session before: pincer sessions show {} --id", shown(key), before.id);
    let text = in_words(&stopped).into_iter().chain([anew]).collect::<Vec<_>>().join("\n");
    let StoppedRuns { active, queued } = stopped;
    let document = json!({
        "key": session.key,
        "id": session.id,
        "before": before.id,
        "active": active,
        "queued": queued,
    });
    Ok(Some((document, text)))
}

/// Stops all runs of a session, and waits until the one that went on has ended.
async fn stop(agent: &Agent, user: &str, session: &Session) -> Result<StoppedRuns, Refused> {
    let stopped = agent.stop_session(user, &session.key).await?;
    if let Some(run) = &stopped.active {
        let waited = agent.wait(user, run, PATIENCE).await?;
        if matches!(waited.status, WaitStatus::Timeout | WaitStatus::Pending) {
            let error = format!("{run} was told to stop, and has not ended within {} s", PATIENCE.as_secs());
            return Err(Refused(FAILED, format!("{error}: end the process that works on it, and try again")));
        }
    }
    Ok(stopped)
}

/// Returns what was stopped, if anything was.
fn in_words(stopped: &StoppedRuns) -> Option<String> {
    let messages = count(stopped.queued.len(), "message");
    match (&stopped.active, stopped.queued.len()) {
        (None, 0) => None,
        (Some(run), 0) => Some(format!("stopped {run}")),
        (Some(run), _) => Some(format!("stopped {run}, and took back {messages} that had not begun")),
        (None, _) => Some(format!("took back {messages} that had not begun")),
    }
}
