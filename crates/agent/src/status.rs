//! How a session stands, in words.

use pincer_store::{AgentRunState, AgentRuns, Session, SessionKey};

use crate::error::AgentError;
use crate::inner::Inner;
use crate::request::Request;
use crate::settings::SessionSettings;

/// Returns how a session stands.
pub(crate) async fn text(
    agent: &Inner,
    user: &str,
    key: &SessionKey,
    session: Option<&Session>,
    request: &Request,
) -> Result<String, AgentError> {
    let Some(session) = session else { return Ok(format!("The session {key} is new.")) };
    let settings = SessionSettings::parse(&session.settings);
    let open = agent.store.open_runs(user, key).await?;
    let count = |state| open.iter().filter(|run| run.state == state).count();
    let (running, waiting, queued) =
        (count(AgentRunState::Running), count(AgentRunState::Waiting), count(AgentRunState::Queued));
    let stands = match (running, waiting) {
        (0, 0) => "idle",
        (0, _) => "waiting for an answer",
        _ => "working",
    };
    let agent_id = request.agent.as_deref().or(session.agent.as_deref());
    let model = settings.model.clone().or_else(|| agent.models.names(agent_id).into_iter().next());
    let thinking = settings.thinking.unwrap_or_else(|| agent.models.thinking(agent_id));
    let totals = session.totals;
    Ok(format!(
        "Session {key}: {stands}, {queued} queued. Model {}, thinking {}. {} entries, {} runs, {}; tokens {} in, {} out, {} from the cache.",
        model.as_deref().unwrap_or("not set"),
        thinking.name(),
        session.entries,
        totals.runs,
        match totals.compactions {
            1 => "1 compaction".to_owned(),
            count => format!("{count} compactions"),
        },
        totals.input,
        totals.output,
        totals.cache_read,
    ))
}
