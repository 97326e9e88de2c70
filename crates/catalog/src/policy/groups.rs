//! Named sets of tools. Names of tools that do not exist (yet) do no harm here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Entry, Source};

/// What a group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Tools of ours, by name.
    Names(&'static [&'static str]),
    /// All of ours but those of the groups `fs` and `runtime`.
    Openclaw,
    /// All of plugins and MCP servers.
    Plugins,
}

const RUNTIME: &[&str] = &["exec", "process", "code_execution"];
const FS: &[&str] = &["read", "write", "edit", "apply_patch", "ls", "find", "grep"];
const SESSIONS: &[&str] =
    &["session_status", "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "subagents"];
const WEB: &[&str] = &["web_fetch", "web_search", "x_search"];
const MEMORY: &[&str] = &["memory_search", "memory_get"];
const MESSAGING: &[&str] = &["message"];
const UI: &[&str] = &["browser", "screen", "canvas", "terminal"];
const AUTOMATION: &[&str] = &["cron", "gateway", "heartbeat_respond"];
const AGENTS: &[&str] = &["agents_list", "ask_user"];
const MEDIA: &[&str] = &["view_image", "image_generate", "tts", "pdf"];
const NODES: &[&str] = &["nodes", "computer"];

pub(super) const GROUPS: &[(&str, Group)] = &[
    ("agents", Group::Names(AGENTS)),
    ("automation", Group::Names(AUTOMATION)),
    ("fs", Group::Names(FS)),
    ("media", Group::Names(MEDIA)),
    ("memory", Group::Names(MEMORY)),
    ("messaging", Group::Names(MESSAGING)),
    ("nodes", Group::Names(NODES)),
    ("openclaw", Group::Openclaw),
    ("plugins", Group::Plugins),
    ("runtime", Group::Names(RUNTIME)),
    ("sessions", Group::Names(SESSIONS)),
    ("ui", Group::Names(UI)),
    ("web", Group::Names(WEB)),
];

impl Group {
    pub(super) fn has(self, entry: &Entry) -> bool {
        let core = entry.id.source() == Source::Openclaw;
        match self {
            Self::Names(names) => core && names.contains(&entry.id.name()),
            Self::Openclaw => core && !FS.contains(&entry.id.name()) && !RUNTIME.contains(&entry.id.name()),
            Self::Plugins => matches!(entry.id.source(), Source::Plugin | Source::Mcp),
        }
    }
}

/// A set of tools for a kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Only the status of the session.
    Minimal,
    /// Files, commands, the web, sessions and memory; all MCP tools.
    Coding,
    /// Messages and sessions; all MCP tools.
    Messaging,
    /// Everything.
    Full,
}

impl Profile {
    pub(super) fn has(self, entry: &Entry) -> bool {
        let core = entry.id.source() == Source::Openclaw;
        let within = |groups: &[&[&str]]| core && groups.iter().any(|names| names.contains(&entry.id.name()));
        let mcp = entry.id.source() == Source::Mcp;
        match self {
            Self::Minimal => within(&[&["session_status"]]),
            Self::Coding => mcp || within(&[FS, RUNTIME, WEB, SESSIONS, MEMORY, AGENTS, MEDIA, &["cron"]]),
            Self::Messaging => mcp || within(&[MESSAGING, SESSIONS]),
            Self::Full => true,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minimal => "minimal",
            Self::Coding => "coding",
            Self::Messaging => "messaging",
            Self::Full => "full",
        })
    }
}
