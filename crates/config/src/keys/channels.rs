//! `channels`: where messages come from and answers go to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One channel: where messages come from and answers go to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Channel {
    /// Whether it is used.
    pub enabled: bool,
    /// The plugin that brings it. If absent, the one with a channel of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The agent that its messages are for. If absent, `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The senders whose messages are taken, by the ids that the channel gives them. `*` is every sender. Messages of all others are
    /// never run, so an empty list takes none.
    pub allow_from: Vec<String>,
    /// The senders who may change a conversation that they share with others, by commands such as `/new`, `/model` and `/queue`, and stop
    /// runs of others there. `*` is every sender. In a session of their own, all senders may.
    pub commands_from: Vec<String>,
    /// The places that the `message` tool may send to besides the one that its run is for: ids of people and groups. `*` is every place.
    pub allow_to: Vec<String>,
    /// The answer to a direct message of a sender who is not in `allowFrom`, at most once in ten minutes. If absent, there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_with: Option<String>,
    /// The key of the session that a message belongs to. `{channel}`, `{kind}` (`dm` or `group`), `{conversation}` (the sender, or the
    /// group), `{sender}`, `{account}` and `{thread}` stand for those of the message. If absent, `session.dmScope` says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether the other side is told that an answer is being written, if the channel can.
    pub typing: bool,
    /// The time for which sending a text is tried before it counts as failed.
    #[schemars(range(min = 10, max = 2_592_000))]
    pub expire_after_seconds: u64,
    /// Settings for the channel. They are passed to its plugin, which decides about their form.
    #[schemars(with = "Map<String, Value>")]
    pub config: Map<String, Value>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            enabled: true,
            plugin: None,
            agent: None,
            allow_from: Vec::new(),
            commands_from: Vec::new(),
            allow_to: Vec::new(),
            refuse_with: None,
            session: None,
            typing: true,
            expire_after_seconds: 24 * 3600,
            config: Map::new(),
        }
    }
}

impl Channel {
    /// The placeholders of [`session`](Self::session).
    pub const PLACEHOLDERS: [&str; 6] = ["channel", "kind", "conversation", "sender", "account", "thread"];

    /// Returns whether messages of a sender are taken.
    pub fn admits(&self, sender: &str) -> bool {
        is_listed(&self.allow_from, sender)
    }

    /// Returns whether a sender may change a conversation that others take part in.
    pub fn commands(&self, sender: &str) -> bool {
        is_listed(&self.commands_from, sender)
    }

    /// Returns whether the `message` tool may send to a place that its run is not for.
    pub fn may_send_to(&self, to: &str) -> bool {
        is_listed(&self.allow_to, to)
    }
}

fn is_listed(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| listed == "*" || listed == name)
}

/// Whose direct messages share a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DmScope {
    /// Those of one sender of one channel: `<channel>:dm:<sender>`.
    #[default]
    PerChannelPeer,
    /// All of them, with the command line: `main`.
    Main,
}
