//! What a run came to, as its sender is told.

use std::sync::Arc;

use pincer_store::{AgentRun, AgentRunId, AgentRunState, ApprovalId, Millis, SessionKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::Happening;
use crate::telemetry::ToolTelemetry;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOutcome {
    /// The run.
    pub run_id: AgentRunId,
    /// The session.
    pub session_key: SessionKey,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// How it ended, in a word.
    pub status: Status,
    /// How it ended, in another word.
    pub summary: Summary,
    /// Why the model's last reply ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The kind of failure, if it is the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// The questions that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<OpenQuestion>,
    /// The calls that its sender is to make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_calls: Vec<OpenClientCall>,
    /// The run before it in its session that waits, while this one has not begun. Questions and calls are then those of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_behind: Option<AgentRunId>,
    /// The answer, and what it took.
    pub result: Answer,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// With an answer.
    Ok,
    /// With an error, or because it was stopped.
    Error,
    /// It took too long.
    Timeout,
    /// It has not ended: it waits for a person, or for its sender.
    Waiting,
}

/// How a run ended, in the words of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Summary {
    /// With an answer.
    Completed,
    /// With an error.
    Failed,
    /// It was stopped, or took too long.
    Aborted,
    /// It waits.
    Waiting,
}

/// A question that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// Its id.
    pub approval_id: ApprovalId,
    /// The tool's id.
    pub tool: String,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A call that the sender of a run is to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenClientCall {
    /// Its id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

/// The answer of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    /// What is sent to the user, in its order.
    pub payloads: Vec<Payload>,
    /// The tokens of all requests.
    pub usage: RunUsage,
    /// The model that answered, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it took.
    pub telemetry: RunTelemetry,
}

/// Something that is sent to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    /// The text.
    pub text: String,
    /// Whether it tells of an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The kind of the payload, if it is not the text of an answer.
    #[serde(skip_serializing_if = "PayloadKind::is_text")]
    pub kind: PayloadKind,
}

/// The kind of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PayloadKind {
    /// Text of an answer.
    #[default]
    Text,
    /// Thoughts of the model.
    Thinking,
    /// A summary of a call.
    Tool,
}

impl PayloadKind {
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

/// Tokens of the requests of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunUsage {
    /// Sent, without what the cache had.
    pub input: u64,
    /// Received.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

/// What a run took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunTelemetry {
    /// Replies of models.
    pub model_calls: u32,
    /// Calls that models asked for.
    pub tool_calls: u32,
    /// Calls that programs made.
    pub nested_calls: u32,
    /// Whether the tools were shown as `exec` and `wait`.
    pub code_mode: bool,
    /// From its beginning to its end, without waiting for people.
    pub duration_ms: u64,
    /// What its tools took of the requests, and how they were used, if a model was to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolTelemetry>,
}

/// What became of a run, for a caller that waits for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// The run.
    pub run_id: AgentRunId,
    /// `ok`, `error`, or `timeout` if it has not ended.
    pub status: WaitStatus,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the model's last reply ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// How it stands: `working`, or `paused` while it waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_state: Option<&'static str>,
    /// Where it stood when the time was over: `queue` if it had not begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_phase: Option<&'static str>,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitStatus {
    /// It has its answer.
    Ok,
    /// It failed or was stopped.
    Error,
    /// It goes on.
    Timeout,
    /// It has not begun.
    Pending,
}

/// The agent of runs that name none.
pub(crate) const MAIN: &str = "main";

impl RunOutcome {
    /// Returns an outcome without an answer.
    pub(crate) fn bare(run: &AgentRun, agent: Option<String>, status: Status, summary: Summary) -> Self {
        Self::new(run.id.clone(), run.session_key.clone(), agent, status, summary)
    }

    pub(crate) fn new(
        run_id: AgentRunId,
        session_key: SessionKey,
        agent_id: Option<String>,
        status: Status,
        summary: Summary,
    ) -> Self {
        Self {
            run_id,
            session_key,
            agent_id: agent_id.or_else(|| Some(MAIN.into())),
            status,
            summary,
            stop_reason: None,
            error: None,
            error_kind: None,
            approvals: Vec::new(),
            client_calls: Vec::new(),
            waits_behind: None,
            result: Answer::default(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the figures of its tools as they are summed later, if a model has answered it.
    pub(crate) fn figures(&self) -> Option<Arc<str>> {
        let tools = self.result.telemetry.tools.as_ref().filter(|tools| tools.requests > 0)?;
        serde_json::to_string(tools).ok().map(Into::into)
    }

    /// Returns the last event of the run: this one, with what its tools took.
    pub(crate) fn last_event(&self, mut data: Value) -> Happening {
        if let Some(tools) = &self.result.telemetry.tools {
            data["telemetry"] = json!({ "tools": tools.in_event() });
        }
        Happening::lifecycle(data)
    }

    /// Returns the texts of the answer.
    pub fn text(&self) -> String {
        let payloads = self.result.payloads.iter().filter(|payload| payload.kind == PayloadKind::Text);
        let texts: Vec<&str> = payloads.map(|payload| payload.text.as_str()).collect();
        texts.join("\n\n")
    }
}

/// Returns the result, as JSON, of a run that ends because its store is restored from a backup.
pub fn ended_by_restore(run: &AgentRun) -> String {
    let error = match run.state {
        AgentRunState::Queued => {
            "the store was restored from a backup in which this message had not begun: send it again if it was not answered since"
        }
        _ => {
            "the store was restored from a backup in which this message had no answer yet: what was done for it after the backup is \
             not known. Check before you send it again"
        }
    };
    let outcome = RunOutcome::bare(run, None, Status::Error, Summary::Aborted);
    RunOutcome { error: Some(error.into()), ..outcome }.to_json()
}

/// Returns the outcome of a run that has ended.
pub(crate) fn of_ended(run: &AgentRun) -> Option<RunOutcome> {
    if let Some(outcome) = run.result.as_deref().and_then(|result| serde_json::from_str(result).ok()) {
        return Some(outcome);
    }
    let (summary, error) = match run.state {
        AgentRunState::Dropped | AgentRunState::Summarized => {
            (Summary::Aborted, "the queue of the session was full, and this message gave way to a newer one")
        }
        AgentRunState::Aborted => (Summary::Aborted, "it was stopped before it began"),
        AgentRunState::Failed => (Summary::Failed, "it failed"),
        AgentRunState::TimedOut => (Summary::Aborted, "it took too long"),
        _ => return None,
    };
    let status = if run.state == AgentRunState::TimedOut { Status::Timeout } else { Status::Error };
    Some(RunOutcome { error: Some(error.into()), ..RunOutcome::bare(run, None, status, summary) })
}
