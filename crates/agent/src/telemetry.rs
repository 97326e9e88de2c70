//! What the tools of a run took of its requests, and how its model used them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pincer_codemode::{RunTools, Sources, Telemetry};
use pincer_tool_search::Mode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::compaction::estimate;
use crate::prompt::Prompt;
use crate::surface::{Style, Surface};

/// The most tools whose calls are counted one by one: a program can call tools for ever.
const MOST_TOOLS: usize = 200;

/// What the tools of a run took of its first request, and how its model used them. Tokens are estimated: four letters of English are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolTelemetry {
    /// How the model reached its tools: `none`, `direct`, `codeMode`, or the mode of Tool Search (`code`, `tools`, `directory`).
    pub surface: String,
    /// The tools that the model saw, as JSON: name, description and input schema.
    pub tools: Weight,
    /// The instructions.
    pub prompt: Weight,
    /// The tools as they would have been, had the model seen all of them.
    pub direct: Weight,
    /// The tools that it could reach.
    pub catalog_size: usize,
    /// The same, by source.
    pub sources: Sources,
    /// The schemas that the model saw at the beginning.
    pub schemas_shown: usize,
    /// Searches for tools.
    pub search_count: u32,
    /// Descriptions of tools.
    pub describe_count: u32,
    /// Calls of tools, those of programs included, without the tools that search, describe and run programs.
    pub call_count: u32,
    /// How often the model was told of tools that it had not used.
    pub hint_count: u32,
    /// The tools that were called, with their numbers of calls.
    pub calls: Vec<CalledTool>,
}

/// The size of a part of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Weight {
    /// Its bytes.
    pub bytes: u64,
    /// Its tokens, estimated.
    pub tokens: u64,
}

impl Weight {
    fn of(text: &str) -> Self {
        Self { bytes: text.len() as u64, tokens: estimate::text(text) }
    }

    /// Returns the weight of tools as a model is sent them, but for the wire format's own words.
    fn of_tools<'t>(tools: impl Iterator<Item = (&'t str, &'t str, &'t serde_json::Value)>) -> Self {
        let tool = |(name, description, parameters): (&str, &str, &serde_json::Value)| {
            Self::of(&json!({ "name": name, "description": description, "parameters": parameters }).to_string())
        };
        tools.map(tool).sum()
    }
}

impl std::iter::Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| sum + part)
    }
}

impl std::ops::Add for Weight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), tokens: self.tokens.saturating_add(other.tokens) }
    }
}

/// A tool that was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CalledTool {
    /// Its id.
    pub id: String,
    /// Where it comes from: `openclaw`, `plugin`, `mcp` or `client`.
    pub source: String,
    /// Its calls.
    pub count: u32,
}

impl ToolTelemetry {
    /// Adds what another run took.
    pub fn add(&mut self, other: &Self) {
        self.tools = self.tools + other.tools;
        self.prompt = self.prompt + other.prompt;
        self.direct = self.direct + other.direct;
        self.catalog_size = self.catalog_size.max(other.catalog_size);
        let largest = |one: usize, other: usize| one.max(other);
        self.sources = Sources {
            openclaw: largest(self.sources.openclaw, other.sources.openclaw),
            plugin: largest(self.sources.plugin, other.sources.plugin),
            mcp: largest(self.sources.mcp, other.sources.mcp),
            client: largest(self.sources.client, other.sources.client),
        };
        self.schemas_shown += other.schemas_shown;
        self.search_count += other.search_count;
        self.describe_count += other.describe_count;
        self.call_count += other.call_count;
        self.hint_count += other.hint_count;
        for call in &other.calls {
            match self.calls.iter_mut().find(|known| known.id == call.id) {
                Some(known) => known.count += call.count,
                None => self.calls.push(call.clone()),
            }
        }
        match () {
            () if self.surface.is_empty() => self.surface.clone_from(&other.surface),
            () if self.surface != other.surface => "mixed".clone_into(&mut self.surface),
            () => {}
        }
    }
}

/// The use that a run has made of its tools. It is stored with the run, so that the next worker goes on counting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToolUse {
    pub searches: u32,
    pub describes: u32,
    pub hints: u32,
    pub calls: BTreeMap<String, u32>,
    /// Calls of tools that are not counted one by one.
    pub others: u32,
}

impl ToolUse {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Counts a call of a tool.
    pub(crate) fn called(&mut self, id: &str) {
        if self.calls.len() >= MOST_TOOLS && !self.calls.contains_key(id) {
            self.others += 1;
        } else {
            *self.calls.entry(id.to_owned()).or_default() += 1;
        }
    }

    /// Counts the searches and descriptions of a program that has ended. Its calls are counted one by one.
    pub(crate) fn ended(&mut self, program: &Telemetry) {
        self.searches += program.search_count;
        self.describes += program.describe_count;
    }
}

/// The tools of a run and its instructions, as its model sees them.
#[derive(Clone)]
pub(crate) struct Exposed {
    pub surface: Arc<Surface>,
    pub prompt: Weight,
    pub tools: Arc<RunTools>,
}

impl Exposed {
    pub(crate) fn new(surface: &Arc<Surface>, prompt: &Prompt, tools: Arc<RunTools>) -> Self {
        let prompt = prompt.texts().iter().map(|text| Weight::of(text)).sum();
        Self { surface: Arc::clone(surface), prompt, tools }
    }

    /// Returns the telemetry of a run that has used its tools so.
    pub(crate) fn telemetry(&self, used: &ToolUse) -> ToolTelemetry {
        let Self { surface, prompt, tools } = self;
        let shown = surface.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str(), &tool.parameters));
        let (direct, sources) = direct(tools);
        let source = |id: &str| id.split(':').next().unwrap_or_default().to_owned();
        let calls =
            used.calls.iter().map(|(id, count)| CalledTool { id: id.clone(), source: source(id), count: *count });
        ToolTelemetry {
            surface: name(surface.style).to_owned(),
            tools: if surface.style == Style::Direct { direct } else { Weight::of_tools(shown) },
            prompt: *prompt,
            direct,
            catalog_size: tools.catalog().len(),
            sources,
            schemas_shown: surface.tools.len(),
            search_count: used.searches,
            describe_count: used.describes,
            call_count: used.calls.values().sum::<u32>() + used.others,
            hint_count: used.hints,
            calls: calls.collect(),
        }
    }
}

/// Returns the weight of all tools, and their sources.
fn direct(tools: &RunTools) -> (Weight, Sources) {
    let shown = tools.catalog().iter().map(|entry| (entry.id.name(), entry.description.as_str(), &entry.input_schema));
    (Weight::of_tools(shown), Sources::from(tools.catalog()))
}

fn name(style: Style) -> &'static str {
    match style {
        Style::Nothing => "none",
        Style::Direct => "direct",
        Style::CodeMode => "codeMode",
        Style::Search(Mode::Code) => "code",
        Style::Search(Mode::Tools) => "tools",
        Style::Search(Mode::Directory) => "directory",
    }
}
