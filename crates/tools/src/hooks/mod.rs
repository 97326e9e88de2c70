//! Hooks: code that has a say before a tool is called, or is told of its outcome.
//!
//! All that match are asked, those with the highest priority first. What they say is merged: a block ends the matter; the input
//! may be rewritten, each by the next; a question to a person may be demanded, and from then on the input is what that person
//! will see, so nobody may rewrite it any more. A hook that does not answer, or not sensibly, blocks: a gate that is broken is
//! shut.

mod after;
mod command;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_store::{CallId, RunId, SessionKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BoxFuture, Context, Matcher};

pub(crate) use after::tell_all;
pub use after::{AfterHook, AfterToolCall, FnAfterHook, Observer};
pub use command::CommandHook;

/// What a hook is told.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeToolCall {
    /// The tool's name.
    pub tool_name: String,
    /// The tool's id.
    pub tool_id: String,
    /// The input, as the hooks before have left it.
    pub params: Value,
    /// The call's id.
    pub tool_call_id: CallId,
    /// What the tool is, where its name does not say so: `code_mode_exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    /// What its input is: `javascript` or `typescript`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_input_kind: Option<String>,
    /// The session.
    pub session: SessionKey,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// What a hook says. Nothing at all is fine too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a verdict, an object or null")]
pub struct BeforeVerdict {
    /// Another input.
    pub params: Option<Value>,
    /// `true` ends the matter. `false` says nothing: it does not lift another hook's block.
    pub block: Option<bool>,
    /// Why it is blocked.
    pub block_reason: Option<String>,
    /// A person must be asked.
    pub require_approval: Option<ApprovalDemand>,
    /// What an answer for ever would cover, whoever asks. Only hooks of ours can say.
    #[serde(skip)]
    pub standing: Standing,
}

/// A question that a hook wants asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object with title and description")]
pub struct ApprovalDemand {
    /// In a few words.
    pub title: Option<String>,
    /// In more.
    pub description: Option<String>,
}

/// What "always" means as an answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Every later call of the tool.
    #[default]
    Tool,
    /// Later calls of the tool that need nothing but these: commands of one shape, for instance.
    Parts(Vec<String>),
    /// Nothing: this will be asked again.
    Never,
}

impl Standing {
    /// What both cover.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Tool, other) | (other, Self::Tool) => other,
            (Self::Parts(mut parts), Self::Parts(more)) => {
                parts.extend(more);
                Self::Parts(parts)
            }
        }
    }

    /// The names under which grants are kept.
    pub(crate) fn keys(&self, tool: &str) -> Vec<String> {
        match self {
            Self::Tool => vec![tool.to_owned()],
            Self::Parts(parts) => parts.iter().map(|part| format!("{tool} {part}")).collect(),
            Self::Never => Vec::new(),
        }
    }

    /// The name under which a grant for the next calls is kept: such a grant is for calls like the one that was asked about.
    pub(crate) fn counted_key(keys: &[String]) -> Option<String> {
        (!keys.is_empty()).then(|| keys.join(" + "))
    }
}

/// The reason why a hook could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    Start(#[source] Box<dyn Error + Send + Sync>),
    /// It ended as a failure.
    #[error("it failed with {status}{}", if stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Failed {
        /// How it ended.
        status: String,
        /// The last it said.
        stderr: String,
    },
    /// It said something else than a verdict.
    #[error("its answer is not a verdict: {0}")]
    Answer(#[source] Box<dyn Error + Send + Sync>),
}

/// A hook that has a say.
pub trait BeforeHook: Send + Sync {
    /// Looks at a call that is about to be made.
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>>;
}

/// A closure as a hook.
pub struct FnHook<F>(pub F);

impl<F> BeforeHook for FnHook<F>
where
    F: Fn(&BeforeToolCall) -> Result<BeforeVerdict, HookError> + Send + Sync,
{
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        let verdict = (self.0)(event);
        Box::pin(async move { verdict })
    }
}

/// A hook and when it is asked.
#[derive(Clone)]
pub struct Hook {
    /// For messages.
    pub name: String,
    /// Which tools it is asked about.
    pub matcher: Matcher,
    /// Higher is asked earlier.
    pub priority: i32,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// Who is asked.
    pub hook: Arc<dyn BeforeHook>,
}

/// What all hooks together say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Merged {
    Go {
        params: Value,
        /// Whether a hook has put another input in place of the caller's.
        rewritten: bool,
        approval: Option<ApprovalDemand>,
        standing: Standing,
    },
    Block(String),
}

/// Asks all hooks that match.
pub(crate) async fn ask_all(hooks: impl Iterator<Item = &Hook>, entry: &Entry, mut event: BeforeToolCall) -> Merged {
    let mut matching: Vec<&Hook> = hooks.filter(|hook| hook.matcher.could_mean(entry)).collect();
    // Stable: of equal priority, who was registered first is asked first.
    matching.sort_by_key(|hook| std::cmp::Reverse(hook.priority));
    let mut approval: Option<ApprovalDemand> = None;
    let (mut standing, mut rewritten) = (Standing::Tool, false);
    for Hook { name, timeout, hook, .. } in matching {
        let verdict = match tokio::time::timeout(*timeout, hook.before_tool_call(&event)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => {
                return Merged::Block(format!("the hook {name} could not be asked, so the call is blocked: {error}"));
            }
            Err(_) => {
                let limit = timeout.as_millis();
                return Merged::Block(format!(
                    "the hook {name} did not answer within {limit} ms, so the call is blocked"
                ));
            }
        };
        if verdict.block == Some(true) {
            let reason = verdict.block_reason.unwrap_or_else(|| "it gave no reason".into());
            return Merged::Block(format!("blocked by the hook {name}: {reason}"));
        }
        if let (Some(params), None) = (verdict.params, &approval) {
            rewritten |= event.params != params;
            event.params = params;
        }
        // One question is asked, in the words of the first; it grants no more than any of them would.
        approval = approval.or(verdict.require_approval);
        standing = standing.and(verdict.standing);
    }
    Merged::Go { params: event.params, rewritten, approval, standing }
}

impl BeforeToolCall {
    pub(crate) fn new(entry: &Entry, call: &CallId, params: Value, context: &Context) -> Self {
        Self {
            tool_name: entry.id.name().into(),
            tool_id: entry.id.to_string(),
            params,
            tool_call_id: call.clone(),
            tool_kind: None,
            tool_input_kind: None,
            session: context.session.clone(),
            agent: context.agent.clone(),
            run_id: context.run.as_ref().map(|run| run.id().to_owned()),
        }
    }
}
