//! The events that hooks get, and the answers that they may give. Each file has the places of one matter, and how answers are merged.

mod install;
mod message;
mod prompt;
mod run;
mod session;
mod tool;

pub use install::{BeforeInstall, InstallAnswer, Installing};
pub use message::{MessageReceived, MessageSending, MessageSent, Sending, SendingAnswer};
pub use prompt::{
    AgentBootstrap, Attachment, BeforeAgentStart, BeforeModelResolve, BeforePromptBuild, BootstrapAnswer,
    BootstrapFile, ModelOverride, PromptAdditions, StartAnswer,
};
pub use run::{
    AgentEnd, BeforeAgentFinalize, BeforeAgentReply, BeforeAgentRun, Finalize, FinalizeAction, FinalizeAnswer,
    LlmInput, LlmOutput, ReplyAnswer, Retry, RunAnswer, RunOutcome,
};
pub use session::{AfterCompaction, BeforeCompaction, BeforeReset, Command, SessionEnd, SessionStart};
pub use tool::{BeforeMessageWrite, MessageWriteAnswer, ToolResultAnswer, ToolResultPersist, Written};

use serde::Serialize;

/// The run, session and sender that an event belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunContext {
    /// The session's key.
    pub session_key: String,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The run of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The channel that the message came by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    /// The sender of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
}
