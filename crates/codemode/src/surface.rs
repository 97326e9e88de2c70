//! What a model sees: its tools as they are, or `exec` and `wait` for all of them.

use std::borrow::Borrow;

use pincer_catalog::{Entry, Policy};
use serde::Serialize;
use serde_json::{Value, json};

use crate::description;
use crate::settings::Settings;
use crate::tools::RunTools;

/// What a model sees in code mode.
pub const VISIBLE: [&str; 2] = ["exec", "wait"];

/// A tool as a model is shown it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// Its purpose, in words for the model.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Value,
}

/// How tools are offered to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// As they are.
    #[default]
    Direct,
    /// By `exec` and `wait`.
    CodeMode,
}

/// What a run shows its model.
#[derive(Clone, Debug, PartialEq)]
pub enum Exposure {
    /// No tools: a raw call of a model, a run without tools, an allowlist that leaves none.
    None,
    /// The tools as they are.
    Direct(Vec<ToolDefinition>),
    /// `exec` and `wait`, and the tools that are only ever shown directly.
    CodeMode(Surface),
}

/// What a model sees in code mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface {
    tools: Vec<ToolDefinition>,
}

/// A request to a model shows something else than it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "code mode is on, so the model must see exactly {}; this request would show it {}. The run was stopped",
    expected.join(", "),
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
)]
pub struct SurfaceError {
    expected: Vec<String>,
    found: Vec<String>,
}

/// Decides what a model sees of these tools under this policy. `tools` are the same ones as programs would have them.
pub fn expose(
    entries: &[impl Borrow<Entry>],
    policy: &Policy,
    offer: Offer,
    settings: &Settings,
    tools: &RunTools,
) -> Exposure {
    let effective: Vec<&Entry> = entries.iter().map(Borrow::borrow).filter(|entry| policy.admits(entry)).collect();
    if effective.is_empty() {
        return Exposure::None;
    }
    let direct = effective.iter().filter(|entry| entry.flags.direct_only).map(|entry| definition(entry));
    // Without tools in the catalog there is nothing for programs to do.
    if offer == Offer::Direct || tools.catalog().is_empty() {
        return Exposure::Direct(effective.iter().map(|entry| definition(entry)).collect());
    }
    let tools: Vec<ToolDefinition> = [exec(tools, settings), wait()].into_iter().chain(direct).collect();
    let surface = Surface { tools };
    tracing::debug!(visible = ?surface.names(), "code mode is on");
    Exposure::CodeMode(surface)
}

impl Surface {
    /// `exec` and `wait` alone, for a program's own caller.
    pub fn of(tools: &RunTools, settings: &Settings) -> Self {
        Self { tools: vec![exec(tools, settings), wait()] }
    }

    /// What a client is told once of how to use the two, in fewer words than the tools' own descriptions have.
    pub fn instructions(tools: &RunTools) -> String {
        description::instructions(tools)
    }

    /// The tools, in the order in which they are shown.
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// Checks the names in a request that is about to be sent: all of these, each once, and no other.
    pub fn check(&self, names: &[&str]) -> Result<(), SurfaceError> {
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            names.sort();
            names
        };
        let (expected, found) = (sorted(&self.names()), sorted(names));
        if expected == found { Ok(()) } else { Err(SurfaceError { expected, found }) }
    }
}

fn definition(entry: &Entry) -> ToolDefinition {
    ToolDefinition {
        name: entry.id.name().into(),
        description: entry.description.clone(),
        input_schema: entry.input_schema.clone(),
    }
}

fn exec(tools: &RunTools, settings: &Settings) -> ToolDefinition {
    let languages: Vec<Value> = settings.languages.iter().map(|language| json!(language)).collect();
    ToolDefinition {
        name: "exec".into(),
        description: description::exec(tools, settings),
        input_schema: json!({
            "type": "object",
            "properties": {
                "code": { "type": "string", "description": "The program: the body of an async function." },
                "language": { "type": "string", "enum": languages, "description": "Default javascript. Never a shell." },
            },
            "required": ["code"],
            "additionalProperties": false,
        }),
    }
}

fn wait() -> ToolDefinition {
    ToolDefinition {
        name: "wait".into(),
        description: description::WAIT.into(),
        input_schema: json!({
            "type": "object",
            "properties": { "runId": { "type": "string", "description": "From a result with status \"waiting\"." } },
            "required": ["runId"],
            "additionalProperties": false,
        }),
    }
}

/// JSON Schema of what both return. It is for programs that call them: a model has no use for it.
pub fn result_schema() -> Value {
    let item = json!({
        "type": "object",
        "properties": {
            "type": { "type": "string", "enum": ["text", "json"] },
            "text": { "type": "string" },
            "value": {},
        },
        "required": ["type"],
    });
    let pending = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "method": { "type": "string" },
            "toolId": { "type": "string" },
            "state": { "type": "string", "enum": ["running", "approval", "client", "queued"] },
            "since": { "type": "integer" },
            "approvalId": { "type": "string" },
        },
        "required": ["id", "method", "state", "since"],
    });
    json!({
        "type": "object",
        "properties": {
            "status": { "type": "string", "enum": ["completed", "waiting", "failed"] },
            "value": { "description": "completed: what the program returned." },
            "runId": { "type": "string", "description": "waiting, and failed for want of the store: pass it to wait." },
            "reason": { "type": "string", "enum": ["pending_tools", "yield"] },
            "pendingToolCalls": { "type": "array", "items": pending },
            "error": { "type": "string", "description": "failed: what went wrong, and where." },
            "code": { "type": "string", "description": "failed: which kind of failure, unless it is the program's own." },
            "output": { "type": "array", "items": item, "description": "What it printed since the last result." },
            "notes": { "type": "array", "items": { "type": "string" }, "description": "completed: what was left out." },
            "telemetry": { "type": "object" },
        },
        "required": ["status", "telemetry"],
    })
}
