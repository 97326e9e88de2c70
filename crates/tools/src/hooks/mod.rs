//! Hooks about tools: they have a say before a tool is called, are told of its outcome, or change its result before it is stored.
//!
//! All that match are asked, those with the highest priority first. Their verdicts on a call are merged: a block ends the matter; the
//! input may be rewritten, each by the next; a question to a person may be demanded, and from then on the input is what that person
//! will see, so no hook may rewrite it any more. A hook that does not answer, or not sensibly, blocks: a gate that is broken is
//! shut. The other hooks of the table are registered here too, and are asked by the parts that they concern.

mod after;
mod persist;

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_hooks::asked;
use pincer_hooks::events::RunContext;
use pincer_store::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Context, Matcher};

pub(crate) use after::tell_all;
pub use after::{AfterToolCall, Observer};
pub use persist::PersistHook;
pub(crate) use persist::{persisted, persisted_message, persisted_texts};
pub use pincer_hooks::{
    Ask, CommandHook, External, FnHook, Handle, HookError, HookName, Nothing, Point, Registration, Settings, Table,
    events,
};

/// What a hook is told.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeToolCall {
    /// The run, the session and the sender.
    #[serde(flatten)]
    pub context: RunContext,
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
    #[serde(deserialize_with = "pincer_hooks::object")]
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
    /// The weight of the question: `info`, `warning` or `critical`. The person sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The decisions that the person may take, among `allow-once`, `allow-always` and `deny`. Without `allow-always`, the answer is for
    /// this call only.
    #[serde(skip_serializing)]
    pub allowed_decisions: Option<Vec<String>>,
    /// The reach of an answer, in words that Pincer does not know. With it, the answer is for this call only.
    #[serde(skip_serializing)]
    pub scope: Option<Value>,
    /// Read for the sake of plugins of other systems: here a question stays open until it is answered, unless
    /// `approvals.expireAfterSeconds` is set.
    #[serde(skip_serializing)]
    pub timeout_ms: Option<u64>,
    /// See `timeout_ms`.
    #[serde(skip_serializing)]
    pub timeout_reason: Option<String>,
    /// See `timeout_ms`.
    #[serde(skip_serializing)]
    pub timeout_behavior: Option<String>,
}

/// The weight of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Little.
    Info,
    /// Something.
    Warning,
    /// Much.
    Critical,
}

impl ApprovalDemand {
    /// Returns what an answer for ever may cover, as far as the demand says.
    fn standing(&self) -> Standing {
        let is_for_ever = |decisions: &Vec<String>| decisions.iter().any(|decision| decision == "allow-always");
        match self.scope.is_none() && self.allowed_decisions.as_ref().is_none_or(is_for_ever) {
            true => Standing::Tool,
            false => Standing::Never,
        }
    }
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

impl Point for BeforeToolCall {
    const NAME: HookName = HookName::BeforeToolCall;
    type Answer = BeforeVerdict;
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
    /// The hook itself.
    pub hook: Arc<dyn Handle<BeforeToolCall>>,
}

/// What all hooks together say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Merged {
    Go {
        params: Value,
        /// Whether a hook has put another input in place of the caller's.
        rewritten: bool,
        approval: Option<Box<ApprovalDemand>>,
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
        let verdict = match asked(&**hook, &event, *timeout).await {
            Ok(verdict) => verdict,
            Err(HookError::Late(limit)) => {
                let limit = limit.as_millis();
                return Merged::Block(format!(
                    "the hook {name} did not answer within {limit} ms, so the call is blocked"
                ));
            }
            Err(error) => {
                return Merged::Block(format!("the hook {name} could not be asked, so the call is blocked: {error}"));
            }
        };
        if verdict.block == Some(true) {
            let reason = verdict.block_reason.filter(|reason| !reason.trim().is_empty());
            let reason = reason.unwrap_or_else(|| "it gave no reason".into());
            return Merged::Block(format!("blocked by the hook {name}: {reason}"));
        }
        if let (Some(params), None) = (verdict.params, &approval) {
            rewritten |= event.params != params;
            event.params = params;
        }
        // One question is asked, in the words of the first; it grants no more than any of them would.
        standing = standing.and(verdict.standing);
        if let Some(demand) = &verdict.require_approval {
            standing = standing.and(demand.standing());
        }
        approval = approval.or(verdict.require_approval);
    }
    Merged::Go { params: event.params, rewritten, approval: approval.map(Box::new), standing }
}

impl BeforeToolCall {
    pub(crate) fn new(entry: &Entry, call: &CallId, params: Value, context: &Context) -> Self {
        Self {
            context: run_context(context),
            tool_name: entry.id.name().into(),
            tool_id: entry.id.to_string(),
            params,
            tool_call_id: call.clone(),
            tool_kind: None,
            tool_input_kind: None,
        }
    }
}

/// Returns the run and session that a call belongs to, and for whom it is made. A program outside of an agent's run stands in its place.
fn run_context(context: &Context) -> RunContext {
    let agent_run = context.agent_run.as_ref().map(ToString::to_string);
    RunContext {
        session_key: context.session.to_string(),
        session_id: None,
        run_id: agent_run.or_else(|| context.known_run().map(|run| run.to_string())),
        agent_id: context.agent.clone(),
        channel_id: context.channel.clone(),
        sender_id: context.sender.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_demand_in_words_of_other_systems_is_read_and_with_a_scope_is_for_one_call() {
        let standing = |demand: Value| {
            let verdict: BeforeVerdict =
                serde_json::from_value(json!({ "requireApproval": demand })).expect("a verdict");
            verdict.require_approval.expect("a demand").standing()
        };
        let demand = json!({
            "title": "t", "description": "d", "severity": "warning", "timeoutMs": 1, "timeoutReason": "r",
            "timeoutBehavior": "deny", "allowedDecisions": ["allow-once", "allow-always", "deny"],
        });
        assert_eq!(standing(demand.clone()), Standing::Tool);
        let mut scoped = demand;
        scoped["scope"] = json!("session");
        assert_eq!(standing(scoped), Standing::Never);
    }
}
