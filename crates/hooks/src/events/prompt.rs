//! The model of a run and its prompt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunContext;
use crate::table::warn;
use crate::{HookName, Point, Table};

/// An attachment of a message, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Such as `image`.
    pub kind: String,
    /// Such as `image/png`.
    pub mime_type: String,
}

/// The model of a run is about to be chosen.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeModelResolve {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The user's message.
    pub prompt: String,
    /// Its attachments.
    pub attachments: Vec<Attachment>,
}

/// Another model for a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct ModelOverride {
    /// The provider.
    pub provider_override: Option<String>,
    /// The model.
    pub model_override: Option<String>,
}

/// A run begins: for plugins of earlier versions.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentStart {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The user's message.
    pub prompt: String,
    /// The conversation.
    pub messages: Vec<Value>,
}

/// The answer of a hook of earlier versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct StartAnswer {
    /// Another model.
    #[serde(flatten)]
    pub model: ModelOverride,
    /// The additions to the prompt.
    #[serde(flatten)]
    pub prompt: PromptAdditions,
}

/// The prompt of a run is about to be built.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforePromptBuild {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The user's message.
    pub prompt: String,
    /// The conversation.
    pub messages: Vec<Value>,
}

/// The additions of hooks to a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct PromptAdditions {
    /// The instructions in place of the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Text before the user's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepend_context: Option<String>,
    /// Text after the user's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_context: Option<String>,
    /// Text before the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepend_system_context: Option<String>,
    /// Text after the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_context: Option<String>,
    /// The only tools of the run, among those that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_allow: Option<Vec<String>>,
}

/// The bootstrap files of a run are about to become part of its prompt.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentBootstrap {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The files.
    pub files: Vec<BootstrapFile>,
}

/// A file that is part of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub content: String,
}

/// The answer of a hook to bootstrap files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct BootstrapAnswer {
    /// The files in place of those.
    pub files: Option<Vec<BootstrapFile>>,
}

impl Point for BeforeModelResolve {
    const NAME: HookName = HookName::BeforeModelResolve;
    type Answer = ModelOverride;
}

impl Point for BeforeAgentStart {
    const NAME: HookName = HookName::BeforeAgentStart;
    type Answer = StartAnswer;
}

impl Point for BeforePromptBuild {
    const NAME: HookName = HookName::BeforePromptBuild;
    type Answer = PromptAdditions;
}

impl Point for AgentBootstrap {
    const NAME: HookName = HookName::AgentBootstrap;
    type Answer = BootstrapAnswer;
}

impl ModelOverride {
    /// Takes what is not decided yet from another answer.
    pub fn or(self, later: Self) -> Self {
        Self {
            provider_override: self.provider_override.or(later.provider_override),
            model_override: self.model_override.or(later.model_override),
        }
    }
}

impl PromptAdditions {
    /// Joins the answer of a later hook.
    pub fn and(self, later: Self) -> Self {
        let joined = |own: Option<String>, later: Option<String>| match (own, later) {
            (Some(own), Some(later)) => Some(format!("{own}\n\n{later}")),
            (own, later) => own.or(later),
        };
        Self {
            system_prompt: self.system_prompt.or(later.system_prompt),
            prepend_context: joined(self.prepend_context, later.prepend_context),
            append_context: joined(self.append_context, later.append_context),
            prepend_system_context: joined(self.prepend_system_context, later.prepend_system_context),
            append_system_context: joined(self.append_system_context, later.append_system_context),
            tools_allow: match (self.tools_allow, later.tools_allow) {
                (Some(own), Some(later)) => Some(own.into_iter().filter(|tool| later.contains(tool)).collect()),
                (own, later) => own.or(later),
            },
        }
    }

    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Table {
    /// Asks for another model.
    pub async fn before_model_resolve(&self, event: &BeforeModelResolve) -> ModelOverride {
        let mut merged = ModelOverride::default();
        for hook in self.of::<BeforeModelResolve>() {
            match hook.ask(event).await {
                Ok(answer) => merged = merged.or(answer),
                Err(error) => warn(hook, &error),
            }
        }
        merged
    }

    /// Asks hooks of earlier versions for another model and for additions to the prompt.
    pub async fn before_agent_start(&self, event: &BeforeAgentStart) -> StartAnswer {
        let mut merged = StartAnswer::default();
        for hook in self.of::<BeforeAgentStart>() {
            match hook.ask(event).await {
                Ok(answer) => {
                    let added = if hook.may_inject { answer.prompt } else { PromptAdditions::default() };
                    merged = StartAnswer { model: merged.model.or(answer.model), prompt: merged.prompt.and(added) };
                }
                Err(error) => warn(hook, &error),
            }
        }
        merged
    }

    /// Asks for additions to the prompt.
    pub async fn before_prompt_build(&self, event: &BeforePromptBuild) -> PromptAdditions {
        let mut merged = PromptAdditions::default();
        for hook in self.of::<BeforePromptBuild>() {
            match hook.ask(event).await {
                Ok(answer) => merged = merged.and(answer),
                Err(error) => warn(hook, &error),
            }
        }
        merged
    }

    /// Asks for the bootstrap files in place of these.
    pub async fn agent_bootstrap(&self, mut event: AgentBootstrap) -> Vec<BootstrapFile> {
        for hook in self.of::<AgentBootstrap>() {
            match hook.ask(&event).await {
                Ok(answer) => event.files = answer.files.unwrap_or(event.files),
                Err(error) => warn(hook, &error),
            }
        }
        event.files
    }
}
