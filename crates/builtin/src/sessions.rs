//! `session_status`, `sessions_list`, `sessions_history`: what the store knows of sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pincer_catalog::Flags;
use pincer_store::{
    AgentRuns, Approvals, Call, CallState, Clock, Deliveries, Journal, Listings, Millis, Page, Run, SessionCount,
    SessionKey, StoreError,
};
use pincer_tools::{Redactor, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Workspaces;
use crate::define::{Core, LOOKS, Running};

/// What these tools need of a store.
pub trait SessionStore: Listings + Journal + Approvals + AgentRuns + Deliveries + Clock + Send + Sync {}
impl<T: Listings + Journal + Approvals + AgentRuns + Deliveries + Clock + Send + Sync> SessionStore for T {}

const USUAL_LIMIT: u64 = 20;

fn failed(error: StoreError) -> ToolError {
    ToolError::before(format!("the store cannot be read: {error}"))
}

pub(crate) struct SessionStatus {
    pub store: Arc<dyn SessionStore>,
    pub workspaces: Arc<Workspaces>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoInput {}

/// How this session stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusOutput {
    /// The key of this session.
    session: String,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// Now, in UTC, for instance 2026-01-31T08:30:00Z.
    now: String,
    /// The directory that file tools and commands work in.
    workspace: String,
    /// How many programs of this session are in each state.
    runs: BTreeMap<String, u64>,
    /// The questions of this session that wait for a person.
    open_questions: Vec<String>,
}

impl Core for SessionStatus {
    const NAME: &'static str = "session_status";
    const LABEL: &'static str = "Session status";
    const DESCRIPTION: &'static str = "The state of this session: its key, the current time, the workspace, its programs, and questions that wait for a person.";
    type Input = NoInput;
    type Output = StatusOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, _: NoInput, running: Running) -> Result<StatusOutput, ToolError> {
        let context = running.context;
        let runs = self.store.run_counts(&context.session, Some(&context.user)).await.map_err(failed)?;
        let runs = runs.into_iter().map(|(state, count)| (state.as_str().to_owned(), count.into())).collect();
        let path = context.site.workspace.path();
        let path = path.as_deref().unwrap_or_else(|| self.workspaces.usual().root());
        let workspace = path.display().to_string();
        let pending = self.store.pending_approvals().await.map_err(failed)?;
        let own = pending
            .into_iter()
            .filter(|approval| approval.session == context.session && approval.user.as_ref() == Some(&context.user));
        Ok(StatusOutput {
            agent: context.agent,
            now: iso(wall_clock()),
            workspace,
            runs,
            open_questions: own.map(|approval| approval.id.to_string()).collect(),
            session: context.session.to_string(),
        })
    }
}

/// The time as the machine knows it, for the model.
fn wall_clock() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as Millis)
}

pub(crate) struct SessionsList(pub Arc<dyn SessionStore>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListInput {
    /// How many at most. 20 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u64>,
}

/// The sessions.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListOutput {
    /// The most recently active first.
    sessions: Vec<Session>,
    /// How many there are in all.
    total: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Session {
    /// Its key.
    session: String,
    /// How many programs it has run.
    runs: u64,
    /// How many of them wait to be continued.
    waiting: u64,
    /// When the last of them began, in UTC.
    last_active: String,
}

impl Core for SessionsList {
    const NAME: &'static str = "sessions_list";
    const LABEL: &'static str = "List sessions";
    const DESCRIPTION: &'static str = "Your sessions that have run programs, the most recently active first.";
    type Input = ListInput;
    type Output = ListOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, input: ListInput, running: Running) -> Result<ListOutput, ToolError> {
        let mut sessions = self.0.sessions(Some(&running.context.user)).await.map_err(failed)?;
        let total = sessions.len() as u64;
        sessions.truncate(input.limit.unwrap_or(USUAL_LIMIT) as usize);
        let shown = |SessionCount { session, runs, open, last }| Session {
            session: session.to_string(),
            runs: runs.into(),
            waiting: open.into(),
            last_active: iso(last),
        };
        Ok(ListOutput { sessions: sessions.into_iter().map(shown).collect(), total })
    }
}

pub(crate) struct SessionsHistory {
    pub store: Arc<dyn SessionStore>,
    pub redactor: Redactor,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HistoryInput {
    /// The key of a session. This one if absent.
    #[serde(default)]
    session: Option<String>,
    /// How many programs at most, the latest. 20 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u64>,
}

/// What a session has done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryOutput {
    /// Its key.
    session: String,
    /// Its programs, the latest first.
    runs: Vec<PastRun>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PastRun {
    /// The id of the program's run.
    run_id: String,
    /// `running`, `waiting`, `completed`, `failed`, `expired` or `aborted`.
    state: String,
    /// When it began, in UTC.
    started: String,
    /// The tools it called, in order.
    calls: Vec<PastCall>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PastCall {
    /// The tool's id.
    tool: String,
    /// The input, without secrets.
    input: Value,
    /// Whether it gave a value; absent while it has not settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    succeeded: Option<bool>,
}

impl Core for SessionsHistory {
    const NAME: &'static str = "sessions_history";
    const LABEL: &'static str = "Session history";
    const DESCRIPTION: &'static str = "What a session has done for you: its programs and the tools they called, the latest first. Inputs are \
        shown without secrets.";
    type Input = HistoryInput;
    type Output = HistoryOutput;

    fn flags() -> Flags {
        LOOKS
    }

    async fn run(&self, input: HistoryInput, running: Running) -> Result<HistoryOutput, ToolError> {
        let session = input.session.map_or(running.context.session, SessionKey::from);
        let limit = input.limit.unwrap_or(USUAL_LIMIT) as u32;
        let page = Page { session: Some(session.clone()), user: Some(running.context.user), before: None, limit };
        let mut runs = Vec::new();
        for latest in self.store.run_overviews(page).await.map_err(failed)?.into_iter().rev() {
            let calls = self.store.calls(&latest.run.id).await.map_err(failed)?;
            runs.push(past(&self.redactor, latest.run, calls));
        }
        Ok(HistoryOutput { session: session.to_string(), runs })
    }
}

fn past(redactor: &Redactor, run: Run, calls: Vec<Call>) -> PastRun {
    let calls = calls.into_iter().map(|call| {
        // The outcomes of old calls of long programs are not kept.
        let settled = call.state == CallState::Settled && call.outcome.as_ref().is_some_and(|text| !text.is_empty());
        let outcome: Value =
            call.outcome.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let input = serde_json::from_str(&call.input).unwrap_or_default();
        PastCall {
            tool: call.tool,
            input: redactor.redact(&input),
            succeeded: settled.then(|| outcome.get("ok").is_some()),
        }
    });
    let (run_id, state) = (run.id.to_string(), run.state.as_str().into());
    PastRun { run_id, state, started: iso(run.created_at), calls: calls.collect() }
}

/// A time in UTC. The days are those of the Gregorian calendar, counted in eras of 400 years that begin in March.
fn iso(millis: Millis) -> String {
    let (days, second) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000) / 1000);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (-1000, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso(millis), expected);
        }
    }
}
