//! A message to an agent, as it is accepted and stored.

use pincer_config::Config;
use pincer_model::Level;
use pincer_store::{CronJobId, Route};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::AgentError;
use crate::event::shortened;

/// The bytes that are kept of a message that gives way in a full queue.
const MOST_BRIEF: usize = 160;

/// A message to an agent, and how it is to be handled. This is stored: another process may have to answer it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// The text.
    pub message: String,
    /// Pictures that go with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Attachment>,
    /// The agent's id in the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model for this run, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the model is to think in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Level>,
    /// Whether this run tells of the tools that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<Verbose>,
    /// The treatment of the model's thoughts in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Whether this run tells how its answer was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<bool>,
    /// The longest that this run may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// What happens to it while the session is busy. If absent, as the session or the config says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueMode>,
    /// How long the queue must have been quiet before this run begins. Set when it has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce_ms: Option<u64>,
    /// Whether it comes before all that is queued.
    #[serde(skip)]
    pub is_first: bool,
    /// Whether it came while a run of its session was open. Its session does not begin anew for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_queued: bool,
    /// Whether the model gets no tools at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_tools: bool,
    /// Tools that the sender executes itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// Text that is added to the instructions of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_system_prompt: Option<String>,
    /// The scope of the model's instructions.
    #[serde(skip_serializing_if = "PromptMode::is_full")]
    pub prompt_mode: PromptMode,
    /// The channel that it came by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The place that its answer is sent to, if its sender does not wait for it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// The channel's own name for the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The name under which rules know the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The job that it comes from, if the schedule sends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<CronOrigin>,
    /// If present, the message asks for nothing but a compaction, with these instructions for the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact: Option<String>,
    /// The name of its sender, for a conversation of several people. It stands in front of what a model is sent.
    #[serde(skip)]
    pub speaker: Option<String>,
    /// The commands that it may give.
    #[serde(skip)]
    pub commands: CommandRights,
    /// Its priority among the runs of all sessions.
    #[serde(skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
}

/// The commands that a message may give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandRights {
    /// All of them.
    #[default]
    All,
    /// Those that change nothing for others in the conversation: `/status`, `/steer`, and `/stop` for runs of its own sender.
    Own,
}

/// The job of the schedule that a message comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronOrigin {
    /// The job.
    pub job: CronJobId,
    /// Its name.
    pub name: String,
    /// Whether the session begins anew with the run.
    pub begins_anew: bool,
}

/// A picture that goes with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Such as `image/png`.
    pub mime_type: String,
    /// The bytes, in Base64.
    pub data: String,
}

/// A tool that the sender of a message executes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTool {
    /// Its name.
    pub name: String,
    /// Its purpose, in words for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its input.
    #[serde(default = "any_object", alias = "inputSchema")]
    pub parameters: Value,
}

fn any_object() -> Value {
    serde_json::json!({ "type": "object" })
}

/// What happens to a message for a session that is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueMode {
    /// It joins the run that goes on, before its next request to the model.
    #[default]
    Steer,
    /// It gets a run of its own, later.
    Followup,
    /// All that wait get one run together, later.
    Collect,
    /// The run that goes on is stopped, and this message comes next.
    Interrupt,
}

/// The treatment of a model's thoughts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// They are told to no one.
    Off,
    /// They are part of the answer, as payloads of their own.
    On,
    /// They are told while they come in, as a stream of their own.
    #[default]
    Stream,
}

/// Whether a run tells of the tools that it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verbose {
    /// It does not.
    #[default]
    Off,
    /// In a line for each.
    On,
    /// With their results.
    Full,
}

/// The scope of a model's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptMode {
    /// Everything.
    #[default]
    Full,
    /// The basic instructions, those for tools, `AGENTS.md`, and the additions of the sender.
    Minimal,
    /// Only what the sender adds.
    None,
}

impl PromptMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// The order in which runs of different sessions begin when not all can go on at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// A person waits.
    Foreground,
    /// As usual.
    #[default]
    Normal,
    /// After all others.
    Background,
}

impl Priority {
    fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

impl QueueMode {
    /// Returns the mode of this name. Names of earlier versions of the reference are understood.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "steer" | "queue" => Some(Self::Steer),
            "followup" | "steer-backlog" | "steer+backlog" => Some(Self::Followup),
            "collect" => Some(Self::Collect),
            "interrupt" => Some(Self::Interrupt),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Followup => "followup",
            Self::Collect => "collect",
            Self::Interrupt => "interrupt",
        }
    }
}

impl Request {
    /// Returns a message with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Returns what is left of the message without its command, as a model is sent it.
    pub(crate) fn spoken(&self, rest: String) -> String {
        match &self.speaker {
            Some(speaker) if !rest.trim().is_empty() => format!("{speaker}: {rest}"),
            _ => rest,
        }
    }

    /// Tells the message from every other. How it is queued is no part of it, nor is its priority: the same message may be sent again
    /// from elsewhere.
    pub(crate) fn digest(&self) -> Vec<u8> {
        let same =
            Self { queue: None, debounce_ms: None, was_queued: false, priority: Priority::Normal, ..self.clone() };
        let text = serde_json::to_string(&same).unwrap_or_default();
        Sha256::digest(text.as_bytes()).to_vec()
    }

    /// Returns the beginning of the message: what is kept of one that gives way in a full queue.
    pub(crate) fn brief(&self) -> Self {
        Self {
            // With its rights, and the place where its sender is told.
            sender: self.sender.clone(),
            channel: self.channel.clone(),
            route: self.route.clone(),
            reply_to: self.reply_to.clone(),
            agent: self.agent.clone(),
            disable_tools: self.disable_tools,
            compact: self.compact.clone(),
            cron: self.cron.clone(),
            ..Self::new(shortened(&self.message.replace('\n', " "), MOST_BRIEF))
        }
    }

    /// Returns whether another message can become part of this one's run: it has the same rights, and asks for nothing of its own. A run of
    /// the schedule is its job's alone: it has the job's timeout, and its end is the job's.
    pub(crate) fn may_be_joined_by(&self, other: &Self) -> bool {
        let rights = |request: &Self| {
            // An answer goes to one place.
            let place = (request.channel.clone(), request.route.clone());
            (request.sender.clone(), place, request.agent.clone(), request.disable_tools)
        };
        let same = |own: &Option<String>, theirs: &Option<String>| theirs.is_none() || own == theirs;
        let is_plain = |request: &Self| request.compact.is_none() && request.cron.is_none();
        is_plain(self)
            && is_plain(other)
            && rights(self) == rights(other)
            && same(&self.model, &other.model)
            && (other.prompt_mode == PromptMode::Full || other.prompt_mode == self.prompt_mode)
            && (other.client_tools.is_empty() || other.client_tools == self.client_tools)
    }

    /// Returns the channel that vouches for the sender, and the sender's id there. A front that lets its clients choose a channel and a
    /// name gives their messages no route.
    pub(crate) fn heard_on(&self) -> Option<(&str, &str)> {
        let (channel, sender) = (self.channel.as_deref()?, self.sender.as_deref()?);
        let is_heard = self.route.is_some() || self.cron.is_some();
        sender.strip_prefix(channel)?.strip_prefix(':').filter(|_| is_heard).map(|id| (channel, id))
    }

    /// Fails if the sender has no rights on its channel any more. It had them when the message was accepted, or the job was made.
    pub(crate) fn check_sender(&self, config: &Config) -> Result<(), AgentError> {
        let Some((channel, sender)) = self.heard_on() else { return Ok(()) };
        match config.channels.get(channel) {
            Some(settings) if settings.admits(sender) => Ok(()),
            _ => Err(AgentError::NotTaken { channel: channel.to_owned(), sender: sender.to_owned() }),
        }
    }

    /// Reads a stored message.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_joins_only_a_run_with_the_same_rights() {
        let first = Request { sender: Some("ann".into()), model: Some("a/b".into()), ..Request::new("hello") };
        let joins = |other: Request| first.may_be_joined_by(&other);
        let plain = Request { sender: Some("ann".into()), ..Request::new("and") };
        assert!(joins(plain.clone()) && joins(Request { model: Some("a/b".into()), ..plain.clone() }));
        let tool = ClientTool { name: "t".into(), description: String::new(), parameters: any_object() };
        for other in [
            Request { sender: Some("ben".into()), ..plain.clone() },
            Request { sender: None, ..plain.clone() },
            Request { channel: Some("irc".into()), ..plain.clone() },
            Request { route: Some(Route { to: "#lounge".into(), ..Route::default() }), ..plain.clone() },
            Request { agent: Some("writer".into()), ..plain.clone() },
            Request { model: Some("c/d".into()), ..plain.clone() },
            Request { disable_tools: true, ..plain.clone() },
            Request { compact: Some(String::new()), ..plain.clone() },
            Request { prompt_mode: PromptMode::None, ..plain.clone() },
            Request { client_tools: vec![tool], ..plain },
        ] {
            assert!(!joins(other.clone()), "{other:?}");
        }
    }

    #[test]
    fn the_queue_is_no_part_of_a_message() {
        let plain = Request::new("hello");
        let queued = Request { queue: Some(QueueMode::Collect), debounce_ms: Some(5), ..plain.clone() };
        assert_eq!(plain.digest(), queued.digest());
        assert_eq!(
            plain.digest(),
            Request { priority: Priority::Foreground, was_queued: true, ..plain.clone() }.digest()
        );
        assert_ne!(plain.digest(), Request { model: Some("a/b".into()), ..plain }.digest());
    }
}
