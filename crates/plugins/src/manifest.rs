//! `pincer.plugin.json5`: what a plugin brings.

use std::collections::{BTreeMap, HashSet};

use pincer_catalog::{Entry, Flags, Selector, Source, ToolId};
use pincer_config::{Problem, Problems, document};
use pincer_hooks::HookName;
use pincer_tools::{Arguments, Namespace, NamespaceFunction, NamespacePart, NamespaceSource, Plugin, check_schema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the file is called.
pub const MANIFEST: &str = "pincer.plugin.json5";

/// The channels that no plugin brings.
const BUILT_IN_CHANNELS: [&str; 3] = ["cli", "webchat", "webhook"];

/// What a plugin brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Its id: lower-case letters, digits and dashes. Its tools are called `plugin:<id>:<name>`.
    pub id: String,
    /// Its version, for people.
    pub version: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub description: Option<String>,
    /// The program and its arguments, run in the folder of the manifest. Not a shell.
    pub command: Vec<String>,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<ManifestTool>,
    /// Where it has a say, or is told of something.
    #[serde(default)]
    pub hooks: Vec<ManifestHook>,
    /// Objects that programs get.
    #[serde(default)]
    pub namespaces: Vec<ManifestNamespace>,
    /// Where messages come from and answers go to.
    #[serde(default)]
    pub channels: Vec<ManifestChannel>,
}

/// A channel: where messages come from and answers go to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestChannel {
    /// Its name: lower-case letters, digits and single dashes. `channels` of the config knows it by that.
    pub name: String,
    /// The service that it connects to, in a sentence for people.
    #[serde(default)]
    pub description: Option<String>,
    /// Its abilities.
    #[serde(default)]
    pub capabilities: ChannelCapabilities,
}

/// The abilities of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChannelCapabilities {
    /// Whether it can show that an answer is being written.
    pub typing: bool,
    /// The time that such a notice lasts: it is repeated sooner.
    #[schemars(range(min = 500, max = 600_000))]
    pub typing_ms: u64,
    /// Whether it has groups besides direct messages.
    pub groups: bool,
    /// Whether it has pictures and files.
    pub media: bool,
    /// The most bytes of one text. A longer one is sent in parts.
    #[schemars(range(min = 100, max = 1_000_000))]
    pub max_text: u32,
    /// The longest that sending one text may take.
    #[schemars(range(min = 1000, max = 600_000))]
    pub send_timeout_ms: u64,
}

impl Default for ChannelCapabilities {
    fn default() -> Self {
        Self { typing: false, typing_ms: 5000, groups: false, media: false, max_text: 4000, send_timeout_ms: 60_000 }
    }
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestTool {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// A title for people.
    #[serde(default)]
    pub label: Option<String>,
    /// What it does and when to use it. A model reads this.
    pub description: String,
    /// JSON Schema of its input, an object.
    pub input_schema: Value,
    /// JSON Schema of its result.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Doing it twice is the same as doing it once: it may be repeated after a crash.
    #[serde(default)]
    pub idempotent: bool,
    /// One call at a time.
    #[serde(default)]
    pub sequential: bool,
    /// How long a call may take.
    #[serde(default = "tool_timeout")]
    #[schemars(range(min = 10, max = 3_600_000))]
    pub timeout_ms: u64,
}

fn tool_timeout() -> u64 {
    60_000
}

/// Something that it has a say in, or is told of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestHook {
    /// Its name, as in the table of docs/hooks.md.
    #[schemars(schema_with = "hook_names")]
    pub event: HookName,
    /// The tools, as in `tools.allow` of the config, for hooks about tools. All of them if absent.
    #[serde(default)]
    pub matcher: Vec<String>,
    /// Higher is asked earlier.
    #[serde(default)]
    pub priority: i32,
    /// The longest that it may take to answer. If absent, as the table says.
    #[serde(default)]
    #[schemars(range(min = 10, max = 600_000))]
    pub timeout_ms: Option<u64>,
}

/// Returns the schema of the name of a hook: one of the table.
fn hook_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = HookName::ALL.iter().map(|name| name.as_str()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// An object that programs get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestNamespace {
    /// Its id.
    pub id: String,
    /// What programs call it: a JavaScript identifier.
    pub global_name: String,
    /// What it is for. A model reads this.
    #[serde(default)]
    pub description: Option<String>,
    /// How it is used. A model reads this.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The tools it needs: it is only there for those who have all of them. Those that its functions call if absent.
    #[serde(default)]
    pub required_tools: Vec<String>,
    /// What is in it. `{ $tool: "name" }` is a function that takes the tool's input; with `args: ["a", "b"]`, its arguments become
    /// those fields of the input. Everything else is data.
    pub scope: BTreeMap<String, Value>,
}

impl Manifest {
    /// Reads and checks the text of a manifest.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let (manifest, _): (Self, _) = document(text)?;
        let mut problems = Vec::new();
        manifest.check(&mut problems);
        if problems.is_empty() { Ok(manifest) } else { Err(Problems(problems)) }
    }

    /// The JSON Schema of a manifest.
    pub fn schema() -> Value {
        schemars::schema_for!(Self).to_value()
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        let mut wrong = |at: String, why: String| problems.push(Problem::new(at, why));
        if !Plugin::is_id(&self.id) {
            let rule =
                "lower-case letters, digits and single dashes, beginning with a letter, at most 64, and not `core`";
            wrong("id".into(), format!("`{}` is not an id: {rule}", self.id));
        }
        if self.command.first().is_none_or(String::is_empty) {
            wrong("command".into(), "there is no command to run".into());
        }
        let mut names = HashSet::new();
        for (index, tool) in self.tools.iter().enumerate() {
            let at = |key: &str| format!("tools[{index}].{key}");
            if !is_tool_name(&tool.name) || self.tool_id(&tool.name).is_err() {
                let rule = "letters, digits, `_` and `-`, beginning with a letter or `_`, at most 64, and no name of a control tool";
                wrong(at("name"), format!("`{}` is not a name for a tool: {rule}", tool.name));
            }
            if !names.insert(tool.name.as_str()) {
                wrong(at("name"), format!("there is another tool `{}`", tool.name));
            }
            if tool.description.trim().is_empty() {
                wrong(at("description"), "it is empty: a model would not know what the tool is for".into());
            }
            if let Err(error) = check_schema(&tool.input_schema) {
                wrong(at("inputSchema"), error.to_string());
            } else if tool.input_schema.get("type").and_then(Value::as_str) != Some("object") {
                wrong(at("inputSchema"), "it must have `type: \"object\"`: the input of a tool is an object".into());
            }
            if let Some(Err(error)) = tool.output_schema.as_ref().map(check_schema) {
                wrong(at("outputSchema"), error.to_string());
            }
        }
        for (index, hook) in self.hooks.iter().enumerate() {
            if !hook.matcher.is_empty() && !is_about_tools(hook.event) {
                wrong(
                    format!("hooks[{index}].matcher"),
                    format!("{} is not about tools: leave the matcher out", hook.event),
                );
            }
            for (number, name) in hook.matcher.iter().enumerate() {
                if let Err(error) = Selector::parse(&format!("hooks[{index}].matcher[{number}]"), name) {
                    let text = error.to_string();
                    let (at, why) = text.split_once(": ").unwrap_or(("", &text));
                    wrong(at.into(), why.into());
                }
            }
        }
        let mut channels = HashSet::new();
        for (index, channel) in self.channels.iter().enumerate() {
            let at = format!("channels[{index}].name");
            if !Plugin::is_id(&channel.name) || BUILT_IN_CHANNELS.contains(&channel.name.as_str()) {
                let rule = "lower-case letters, digits and single dashes, beginning with a letter, at most 64, and no name of a built-in channel";
                wrong(at, format!("`{}` is not a name for a channel: {rule}", channel.name));
            } else if !channels.insert(channel.name.as_str()) {
                wrong(at, format!("there is another channel `{}`", channel.name));
            }
        }
        let mut taken = HashSet::new();
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let at = format!("namespaces[{index}]");
            match namespace.made() {
                Err(ScopeError { path, wrong: why }) => wrong(format!("{at}.scope{path}"), why.to_string()),
                Ok(made) => {
                    if let Err(error) = made.check(&names) {
                        wrong(at.clone(), error.to_string());
                    }
                }
            }
            for name in [&namespace.id, &namespace.global_name].into_iter().collect::<HashSet<_>>() {
                if !taken.insert(name.as_str()) {
                    wrong(at.clone(), format!("there is another namespace `{name}`"));
                }
            }
        }
    }

    fn tool_id(&self, name: &str) -> Result<ToolId, pincer_catalog::IdError> {
        ToolId::new(Source::Plugin, self.id.clone(), name)
    }

    /// The entries of its tools, in their order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.tools
            .iter()
            .filter_map(|tool| {
                let mut entry = Entry::new(self.tool_id(&tool.name).ok()?, tool.description.clone());
                entry.label.clone_from(&tool.label);
                entry.input_schema = tool.input_schema.clone();
                entry.output_schema.clone_from(&tool.output_schema);
                entry.flags = Flags {
                    read_only: tool.read_only,
                    claims_read_only: false,
                    idempotent: tool.idempotent || tool.read_only,
                    sequential: tool.sequential,
                    direct_only: false,
                    // The user has put the folder where plugins are taken from.
                    trusted: true,
                };
                Some(entry)
            })
            .collect()
    }
}

impl ManifestNamespace {
    /// Returns the namespace as the door takes it.
    pub(crate) fn made(&self) -> Result<Namespace, ScopeError> {
        let mut called = Vec::new();
        let mut members = BTreeMap::new();
        for (key, value) in &self.scope {
            members.insert(key.clone(), scope(value, &format!(".{key}"), &mut called)?);
        }
        called.sort();
        called.dedup();
        let required_tools = if self.required_tools.is_empty() { called } else { self.required_tools.clone() };
        Ok(Namespace {
            id: self.id.clone(),
            global: self.global_name.clone(),
            description: self.description.clone(),
            prompt: self.prompt.clone(),
            required_tools,
            scope: NamespaceSource::Fixed(NamespacePart::Object(members)),
        })
    }
}

/// A place in the scope of a namespace that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {wrong}")]
pub(crate) struct ScopeError {
    path: String,
    wrong: WrongScope,
}

/// The reason why a part of a scope cannot be used.
#[derive(Debug, thiserror::Error)]
enum WrongScope {
    #[error("`$tool` must be the name of a tool")]
    Tool,
    #[error("`{0}` does not belong beside `$tool`: known is `args`")]
    UnknownKey(String),
    #[error("`args` must be a list of names of fields")]
    Arguments,
}

fn scope(value: &Value, path: &str, called: &mut Vec<String>) -> Result<NamespacePart, ScopeError> {
    match value {
        Value::Object(members) if members.contains_key("$tool") => {
            let wrong = |wrong: WrongScope| ScopeError { path: path.to_owned(), wrong };
            let tool = members["$tool"].as_str().ok_or_else(|| wrong(WrongScope::Tool))?;
            if let Some(other) = members.keys().find(|key| !["$tool", "args"].contains(&key.as_str())) {
                return Err(wrong(WrongScope::UnknownKey(other.clone())));
            }
            let arguments = match members.get("args") {
                None => Arguments::First,
                Some(names) => {
                    let names: Option<Vec<String>> = names
                        .as_array()
                        .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
                    Arguments::Named(names.ok_or_else(|| wrong(WrongScope::Arguments))?)
                }
            };
            called.push(tool.to_owned());
            Ok(NamespacePart::Tool(NamespaceFunction { tool: tool.into(), arguments }))
        }
        Value::Object(members) => {
            let mut made = BTreeMap::new();
            for (key, member) in members {
                made.insert(key.clone(), scope(member, &format!("{path}.{key}"), called)?);
            }
            Ok(NamespacePart::Object(made))
        }
        Value::Array(items) => {
            let made = items.iter().enumerate().map(|(index, item)| scope(item, &format!("{path}[{index}]"), called));
            Ok(NamespacePart::Array(made.collect::<Result<_, _>>()?))
        }
        other => Ok(NamespacePart::Value(other.clone())),
    }
}

/// Returns whether a hook can be limited to certain tools.
fn is_about_tools(hook: HookName) -> bool {
    matches!(hook, HookName::BeforeToolCall | HookName::AfterToolCall | HookName::ToolResultPersist)
}

fn is_tool_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    letters && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.len() <= 64
}
