//! Events as people see them: a few short texts each, calls with their results, and calls of programs below the call that ran the program.

use std::collections::HashMap;

use chrono::DateTime;
use pincer_secrecy::{Bounds, Cleaner};
use serde_json::Value;

/// The members of an event that are read.
const BOUNDS: Bounds = Bounds { depth: 12, items: 200, chars: 4000, bytes: 64 << 10 };
/// The most bytes of all texts that are shown.
const MOST_BYTES: usize = 24 << 20;
/// The longest fact.
const MOST_FACT: usize = 300;

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// The user.
    User,
    /// The model.
    Model,
    /// A call of a tool.
    Call,
    /// A call that a program made.
    Nested,
    /// The run waits, or a person is asked.
    Wait,
    /// Something ended badly.
    Bad,
    /// Everything else.
    Note,
}

impl Tone {
    /// Returns its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Model => "model",
            Self::Call => "call",
            Self::Nested => "nested",
            Self::Wait => "wait",
            Self::Bad => "bad",
            Self::Note => "note",
        }
    }
}

/// An event as it is shown. All texts are those of the bundle: they may hold anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Its number.
    pub seq: u64,
    /// Its level in the tree, from 0.
    pub depth: usize,
    /// Its subject.
    pub tone: Tone,
    /// The time, as it is written.
    pub time: String,
    /// The time in milliseconds since 1970, if it is one.
    pub at: Option<i64>,
    /// How long it took.
    pub took_ms: Option<i64>,
    /// Its kind.
    pub title: String,
    /// Facts about it, each on one line.
    pub facts: Vec<String>,
    /// Texts with their names; the first one is shown at once.
    pub texts: Vec<(String, String)>,
    /// Whether it failed.
    pub has_failed: bool,
    parent: Option<usize>,
}

/// Makes events of lines.
pub(super) struct Teller {
    pub shown: Vec<Shown>,
    pub left_out: u64,
    cleaner: Cleaner,
    most: usize,
    bytes: usize,
    /// The latest call with an id.
    calls: HashMap<String, usize>,
    /// The tokens of the reply that comes next.
    tokens: Option<String>,
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn fact(value: &Value) -> String {
    let text = text(value).replace(['\n', '\r', '\t'], " ");
    match text.char_indices().nth(MOST_FACT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

impl Teller {
    pub(super) fn new(most: usize) -> Self {
        Self {
            shown: Vec::new(),
            left_out: 0,
            cleaner: Cleaner::default(),
            most,
            bytes: 0,
            calls: HashMap::new(),
            tokens: None,
        }
    }

    /// Takes the line of an event.
    pub(super) fn tell(&mut self, line: &str) {
        let Ok((event, _)) = self.cleaner.json(line, &BOUNDS) else { return };
        let kind = text(&event["type"]);
        let data = &event["data"];
        if kind == "tool.result" && self.settles(data) {
            return;
        }
        if kind == "model.completed" {
            let tokens = data["usage"].get("totalTokens").or_else(|| data["usage"].get("output"));
            self.tokens = tokens.map(|tokens| format!("{} tokens", fact(tokens)));
            return;
        }
        if self.shown.len() >= self.most || self.bytes >= MOST_BYTES {
            self.left_out += 1;
            return;
        }
        let mut shown = Shown {
            seq: event["seq"].as_u64().unwrap_or_default(),
            depth: 0,
            tone: Tone::Note,
            time: fact(&event["ts"]),
            at: event["ts"]
                .as_str()
                .and_then(|ts| DateTime::parse_from_rfc3339(ts).ok())
                .map(|at| at.timestamp_millis()),
            took_ms: None,
            title: kind.clone(),
            facts: Vec::new(),
            texts: Vec::new(),
            has_failed: false,
            parent: None,
        };
        self.fill(&mut shown, &kind, &event);
        shown.facts.retain(|fact| !fact.is_empty());
        shown.texts.retain(|(_, text)| !text.is_empty());
        let facts: usize = shown.facts.iter().map(String::len).sum();
        self.bytes += 300 + facts + shown.texts.iter().map(|(_, text)| text.len()).sum::<usize>();
        self.shown.push(shown);
    }

    fn fill(&mut self, shown: &mut Shown, kind: &str, event: &Value) {
        let data = &event["data"];
        let named = |name: &str| match fact(&data[name]) {
            empty if empty.is_empty() => empty,
            value => format!("{name} {value}"),
        };
        let mut say = |tone, title: &str, facts: Vec<String>, texts: Vec<(&str, String)>| {
            (shown.tone, shown.title, shown.facts) = (tone, title.to_owned(), facts);
            shown.texts = texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        };
        let model = || match (fact(&event["provider"]), fact(&event["modelId"])) {
            (provider, model) if provider.is_empty() => model,
            (provider, model) => format!("{provider}/{model}"),
        };
        match kind {
            "user.message" => say(Tone::User, "user", Vec::new(), said(&data["message"]["content"])),
            "assistant.message" => {
                let stop = fact(&data["message"]["stopReason"]);
                let stop =
                    if ["stop", "toolUse", ""].contains(&&*stop) { String::new() } else { format!("ended by {stop}") };
                let tokens = self.tokens.take().unwrap_or_default();
                say(Tone::Model, "model", vec![model(), tokens, stop], said(&data["message"]["content"]));
            }
            "tool.call" => self.call(shown, data),
            "tool.result" => {
                let title = format!("result of {}", fact(&data["name"]));
                say(Tone::Call, &title, vec![named("toolCallId")], vec![("result", output(data))]);
            }
            "context.compiled" => {
                let tools = data["tools"].as_array().map_or(0, Vec::len);
                let names: Vec<String> = data["tools"].as_array().into_iter().flatten().map(fact).collect();
                let facts = vec![model(), fact(&data["surface"]), format!("{tools} tools"), named("systemPromptBytes")];
                let texts = vec![
                    ("instructions", text(&data["systemPrompt"])),
                    ("at their end", text(&data["suffix"])),
                    ("tools", names.join("\n")),
                ];
                say(Tone::Note, "instructions and tools", facts, texts);
            }
            "prompt.submitted" => say(Tone::Note, "run begins", vec![fact(&event["runId"])], Vec::new()),
            "trace.artifacts" => {
                let outcome = &data["outcome"];
                let bad = !["done", ""].contains(&&*fact(&data["state"]));
                let tone = if bad { Tone::Bad } else { Tone::Note };
                let facts = vec![fact(&data["state"]), fact(&outcome["stopReason"]), fact(&outcome["error"])];
                say(tone, "run ends", facts, Vec::new());
            }
            "run.suspended" => say(Tone::Wait, "waits", vec![fact(&data["phase"])], Vec::new()),
            "run.resumed" => say(Tone::Wait, "goes on", vec![fact(&data["phase"])], Vec::new()),
            "run.taken_over" => say(Tone::Wait, "taken over by another process", Vec::new(), Vec::new()),
            "approval.requested" => {
                let request = if data["request"].is_null() { String::new() } else { pretty(&data["request"]) };
                say(
                    Tone::Wait,
                    "a person is asked",
                    vec![fact(&data["tool"]), fact(&data["approvalId"])],
                    vec![("question", request)],
                );
            }
            "approval.resolved" => {
                let by = fact(&data["decidedBy"]);
                let by = if by.is_empty() { by } else { format!("by {by}") };
                let title = match fact(&data["decision"]) {
                    empty if empty.is_empty() => "answered".to_owned(),
                    decision => decision,
                };
                let tone = if title == "allowed" { Tone::Wait } else { Tone::Bad };
                say(tone, &title, vec![by, fact(&data["tool"]), fact(&data["approvalId"])], Vec::new());
            }
            "run.stopped" => say(Tone::Bad, "stopped", vec![fact(&data["reason"])], Vec::new()),
            "run.failed" => {
                say(Tone::Bad, "failed", vec![fact(&data["kind"])], vec![("message", text(&data["message"]))])
            }
            "session.compaction" => {
                say(Tone::Note, "compaction", vec![named("tokensBefore")], vec![("summary", text(&data["summary"]))]);
            }
            "session.custom_message" => {
                say(
                    Tone::Note,
                    "told the model",
                    vec![fact(&data["customType"])],
                    vec![("text", text(&data["content"]))],
                );
            }
            "session.model_change" => {
                say(Tone::Note, "model", vec![fact(&data["provider"]), fact(&data["modelId"])], Vec::new())
            }
            "session.broken" => {
                say(Tone::Bad, "an entry that is damaged", vec![fact(&data["reason"])], vec![("entry", pretty(data))])
            }
            "session.started" => {
                say(Tone::Note, "session begins", vec![fact(&data["label"]), fact(&data["agent"])], Vec::new())
            }
            "trace.metadata" => {
                say(Tone::Note, "written by Pincer", vec![fact(&data["version"]), fact(&data["system"])], Vec::new())
            }
            "trace.exported" => say(Tone::Note, "end", vec![named("events"), named("warnings")], Vec::new()),
            other => {
                let title = other.strip_prefix("session.").unwrap_or(other).replace('_', " ");
                let data = if data.is_null() { String::new() } else { pretty(data) };
                say(Tone::Note, &title, vec![fact(&event["data"]["customType"])], vec![("data", data)]);
            }
        }
    }

    /// Takes a call.
    fn call(&mut self, shown: &mut Shown, data: &Value) {
        let (id, parent) = (text(&data["toolCallId"]), text(&data["parentToolCallId"]));
        shown.title = fact(&data["name"]);
        shown.tone = if parent.is_empty() { Tone::Call } else { Tone::Nested };
        shown.parent = self.calls.get(&parent).copied();
        let line = fact(&data["programLine"]);
        if !line.is_empty() {
            shown.facts.push(format!("line {line}"));
        }
        let arguments = &data["arguments"];
        let program = arguments.get("code").or_else(|| arguments.get("command")).and_then(Value::as_str);
        shown.texts.push(match program {
            Some(program) => ("program".to_owned(), program.to_owned()),
            None if arguments.is_null() => ("arguments".to_owned(), fact(&data["reason"])),
            None => ("arguments".to_owned(), pretty(arguments)),
        });
        if !id.is_empty() {
            self.calls.insert(id, self.shown.len());
        }
    }

    /// Adds a result to its call. Returns whether that is known.
    fn settles(&mut self, data: &Value) -> bool {
        let Some(call) = self.calls.get(&text(&data["toolCallId"])).and_then(|index| self.shown.get_mut(*index)) else {
            return false;
        };
        call.took_ms = data["durationMs"].as_i64().filter(|took| *took >= 0);
        call.has_failed = data["isError"].as_bool().unwrap_or_default();
        if let Some(took) = call.took_ms {
            call.facts.push(format!("{took} ms"));
        }
        let effect = fact(&data["effect"]);
        if effect == "unknown" {
            call.facts.push("it may or may not have had an effect".to_owned());
        }
        let result = output(data);
        self.bytes += result.len();
        if call.has_failed {
            call.facts.push("failed".to_owned());
        }
        if !result.is_empty() && self.bytes < MOST_BYTES {
            call.texts.push((if call.has_failed { "error" } else { "result" }.to_owned(), result));
        }
        true
    }

    /// Returns the events, calls of programs below the calls that ran them.
    pub(super) fn tree(self) -> Vec<Shown> {
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        // A call comes before those below it, so nothing is below itself.
        for (index, shown) in self.shown.iter().enumerate() {
            if let Some(parent) = shown.parent.filter(|parent| *parent < index) {
                children.entry(parent).or_default().push(index);
            }
        }
        let is_root = |(index, shown): &(usize, &Shown)| shown.parent.is_none_or(|parent| parent >= *index);
        let mut left: Vec<(usize, usize)> =
            self.shown.iter().enumerate().filter(is_root).map(|(index, _)| (index, 0)).collect();
        left.reverse();
        let (mut shown, mut tree): (Vec<Option<Shown>>, Vec<Shown>) =
            (self.shown.into_iter().map(Some).collect(), Vec::new());
        while let Some((index, depth)) = left.pop() {
            let Some(mut found) = shown[index].take() else { continue };
            found.depth =
                depth + usize::from(matches!(found.tone, Tone::Call) || depth == 0 && found.tone == Tone::Nested);
            let below = found.depth;
            tree.push(found);
            left.extend(children.remove(&index).into_iter().flatten().rev().map(|child| (child, below.min(20) + 1)));
        }
        tree
    }
}

/// Returns the texts of a message. Thoughts come behind what was said.
fn said(content: &Value) -> Vec<(&'static str, String)> {
    let parts = match content {
        Value::String(text) => return vec![("text", text.clone())],
        Value::Array(parts) => parts,
        _ => return Vec::new(),
    };
    let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
    for part in parts {
        match part["type"].as_str() {
            Some("thinking") => thoughts.push(text(&part["thinking"])),
            Some("toolCall") => {}
            Some("image") => texts.push(format!("[image {} {}]", fact(&part["mimeType"]), fact(&part["data"]))),
            _ if part["text"].is_string() => texts.push(text(&part["text"])),
            _ => texts.push(part.to_string()),
        }
    }
    vec![("text", texts.join("\n")), ("thinking", thoughts.join("\n"))]
}

/// Returns what came of a call.
fn output(data: &Value) -> String {
    match (&data["error"], &data["output"], &data["content"]) {
        (Value::String(error), ..) => error.clone(),
        (_, Value::Null, Value::Null) => fact(&data["reason"]),
        (_, Value::Null, content) => said(content).into_iter().map(|(_, text)| text).collect(),
        (_, Value::String(output), _) => output.clone(),
        (_, output, _) => pretty(output),
    }
}

fn pretty(value: &Value) -> String {
    let short = value.to_string();
    if short.len() <= 100 { short } else { serde_json::to_string_pretty(value).unwrap_or(short) }
}
