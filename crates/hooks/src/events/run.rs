//! The way of a run: whether a model answers it, its requests and replies, and its end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunContext;
use super::session::observed;
use crate::table::warn;
use crate::{HookName, Point, Table};

/// The most times that a run is revised.
const MOST_REVISIONS: u32 = 3;

/// A message is about to be answered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentReply {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The message, without its commands.
    pub cleaned_body: String,
}

/// The answer of a hook to a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct ReplyAnswer {
    /// Whether the message is answered with this, without a model.
    pub handled: bool,
    /// The answer: a text, or an object with a text. Without one the message is answered with silence.
    #[serde(deserialize_with = "reply")]
    pub reply: Option<String>,
    /// The reason, for the log.
    pub reason: Option<String>,
}

/// Reads an answer as a text, or as an object with a text.
fn reply<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Reply {
        Text(String),
        Payload { text: String },
    }
    let reply = Option::<Reply>::deserialize(deserializer)?;
    Ok(reply.map(|reply| match reply {
        Reply::Text(text) | Reply::Payload { text } => text,
    }))
}

/// A run is about to ask its model for the first time.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentRun {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The user's message.
    pub prompt: String,
    /// The conversation.
    pub messages: Vec<Value>,
    /// The instructions of the model.
    pub system_prompt: String,
}

/// The answer of a hook to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct RunAnswer {
    /// Whether the run may go on.
    pub outcome: RunOutcome,
    /// The reason, for the hook alone: it is neither logged nor shown.
    pub reason: Option<String>,
    /// The text that the user is told.
    pub message: Option<String>,
}

/// Whether a run may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// The run may go on.
    #[default]
    Pass,
    /// The run ends.
    Block,
}

/// A request is sent to a model.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmInput {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The instructions of the model.
    pub system_prompt: String,
    /// The user's message.
    pub prompt: String,
    /// The conversation as it is sent.
    pub history_messages: Vec<Value>,
    /// The pictures in it.
    pub images_count: usize,
}

/// A model has replied.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmOutput {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The texts of the reply.
    pub assistant_texts: Vec<String>,
    /// The reply.
    pub last_assistant: Value,
    /// Its tokens.
    pub usage: Value,
}

/// A run is about to end with its answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentFinalize {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Whether this run was revised before.
    pub stop_hook_active: bool,
    /// The text of the last reply.
    pub last_assistant_message: String,
    /// The conversation.
    pub messages: Vec<Value>,
}

/// The answer of a hook to the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct FinalizeAnswer {
    /// The decision.
    pub action: FinalizeAction,
    /// The reason. The model is told this if there is no instruction.
    pub reason: Option<String>,
    /// The revision that is asked for.
    #[serde(deserialize_with = "crate::object")]
    pub retry: Option<Retry>,
}

/// The decision about a run that is about to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinalizeAction {
    /// No opinion.
    #[default]
    Continue,
    /// The model goes on, with an instruction.
    Revise,
    /// The run ends, and no further hook is asked.
    Finalize,
}

/// The revision of an answer that a hook asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retry {
    /// The instruction for the model.
    pub instruction: Option<String>,
    /// Names the matter: it is revised no more often than `maxAttempts` says.
    pub idempotency_key: Option<String>,
    /// The most revisions of this matter. 1 if absent.
    pub max_attempts: Option<u32>,
}

/// The outcome for a run that is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finalize {
    /// The run ends.
    End,
    /// The model goes on with this instruction. The key counts revisions of one matter.
    Revise {
        /// The instruction.
        instruction: String,
        /// The matter.
        key: String,
    },
}

/// A run has ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEnd {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The conversation.
    pub messages: Vec<Value>,
    /// Whether it has an answer.
    pub success: bool,
    /// The reason why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time that it took.
    pub duration_ms: u64,
}

observed! { LlmInput, LlmOutput, AgentEnd, }

impl Point for BeforeAgentReply {
    const NAME: HookName = HookName::BeforeAgentReply;
    type Answer = ReplyAnswer;
}

impl Point for BeforeAgentRun {
    const NAME: HookName = HookName::BeforeAgentRun;
    type Answer = RunAnswer;
}

impl Point for BeforeAgentFinalize {
    const NAME: HookName = HookName::BeforeAgentFinalize;
    type Answer = FinalizeAnswer;
}

impl Table {
    /// Asks whether a message is answered without a model. Returns the answer of the first hook that handles it.
    pub async fn before_agent_reply(&self, event: &BeforeAgentReply) -> Option<ReplyAnswer> {
        for hook in self.of::<BeforeAgentReply>() {
            match hook.ask(event).await {
                Ok(answer) if answer.handled => {
                    let reason = answer.reason.as_deref().unwrap_or("no reason given");
                    tracing::info!(hook = hook.name, "a message is answered by a hook: {reason}");
                    return Some(answer);
                }
                Ok(_) => {}
                Err(error) => warn(hook, &error),
            }
        }
        None
    }

    /// Asks whether a run may begin. Returns the text for the user if it may not. A hook that fails blocks it.
    pub async fn before_agent_run(&self, event: &BeforeAgentRun) -> Result<(), String> {
        for hook in self.of::<BeforeAgentRun>() {
            match hook.ask(event).await {
                Ok(RunAnswer { outcome: RunOutcome::Pass, .. }) => {}
                Ok(RunAnswer { message, .. }) => {
                    let message = message.filter(|text| !text.trim().is_empty());
                    return Err(message.unwrap_or_else(|| format!("blocked by the hook {}", hook.name)));
                }
                Err(error) => {
                    return Err(format!("the hook {} could not be asked, so the run is blocked: {error}", hook.name));
                }
            }
        }
        Ok(())
    }

    /// Asks whether a run may end. `revised` says how often a matter was revised before; an empty key means all of them together.
    pub async fn before_agent_finalize(&self, event: &BeforeAgentFinalize, revised: impl Fn(&str) -> u32) -> Finalize {
        if revised("") >= MOST_REVISIONS {
            return Finalize::End;
        }
        for hook in self.of::<BeforeAgentFinalize>() {
            let answer = match hook.ask(event).await {
                Ok(answer) => answer,
                Err(error) => {
                    warn(hook, &error);
                    continue;
                }
            };
            match answer.action {
                FinalizeAction::Continue => {}
                FinalizeAction::Finalize => return Finalize::End,
                FinalizeAction::Revise => {
                    let Retry { instruction, idempotency_key, max_attempts } = answer.retry.unwrap_or_default();
                    let Some(instruction) = instruction.or(answer.reason).filter(|text| !text.trim().is_empty()) else {
                        tracing::warn!(hook = hook.name, "a revision without an instruction is left out");
                        continue;
                    };
                    let most = max_attempts.unwrap_or(1).min(MOST_REVISIONS);
                    let key = format!("{} {}", hook.name, idempotency_key.unwrap_or_default());
                    if revised(&key) < most {
                        return Finalize::Revise { instruction, key };
                    }
                }
            }
        }
        Finalize::End
    }
}
