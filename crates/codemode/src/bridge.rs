//! Reads the requests of a program, and makes the errors it gets for an answer. All of a request is the word of a hostile program.

use std::time::Instant;

use pincer_catalog::{Entry, Flags, Source, shortened};
use pincer_sandbox::{Answer, Fault, Json, REFUSED, Request};
use pincer_store::RunId;
use pincer_tools::{CallError, Effect, ErrorCode};
use serde_json::Value;

use crate::attachments;
use crate::guest;
use crate::known_tools::KnownTools;
use crate::mcp;
use crate::pending_calls::{Settled, StoredCall};
use crate::scope::RunScope;
use crate::skills;
use crate::tools::RunTools;

/// What a program asks for.
pub(crate) enum Asked {
    Search {
        query: String,
        limit: Option<f64>,
    },
    Describe {
        tool: String,
    },
    /// Like a search and a description, for programs of `tool_search_code`.
    Find(Vec<Value>),
    Explain(Vec<Value>),
    Skills,
    Skill {
        name: String,
    },
    Call(ToolCall),
    Api {
        server: Option<String>,
        tool: Option<String>,
        with_schema: bool,
    },
    Sleep,
    Yield {
        reason: Option<String>,
    },
}

/// A tool to be called.
pub(crate) struct ToolCall {
    /// The tool's id.
    pub tool: String,
    /// As the program passed it.
    pub input: Json,
    pub method: Method,
    pub flags: Flags,
}

/// The way by which a tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Method {
    Call,
    Namespace,
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Namespace => "namespace",
        }
    }
}

/// Longer texts in an error are cut.
const MOST_NAME: usize = 200;

/// Reads a request. What cannot be read is the program's error.
pub(crate) fn read(request: &Request, scope: &RunScope, known: &KnownTools) -> Result<Asked, Fault> {
    let tools = &*scope.tools;
    let unreadable = |_| wrong("the arguments cannot be read");
    match request.method.as_str() {
        "sleep" => Ok(Asked::Sleep),
        REFUSED => {
            let why = request.args.to::<Vec<String>>().map_err(unreadable)?.pop();
            Err(wrong(why.unwrap_or_else(|| "the arguments cannot be taken".into())))
        }
        "yield" => {
            let reason = request.args.to::<Vec<String>>().map_err(unreadable)?.pop();
            Ok(Asked::Yield { reason })
        }
        "search" => {
            let mut arguments = request.args.to::<Vec<Value>>().map_err(unreadable)?.into_iter();
            let Some(Value::String(query)) = arguments.next() else {
                return Err(wrong("tools.search needs a text: tools.search(\"read a file\", { limit: 5 })"));
            };
            let limit = arguments.next().and_then(|options| options.get("limit")?.as_f64());
            Ok(Asked::Search { query, limit })
        }
        "describe" => {
            let mut arguments = request.args.to::<Vec<Value>>().map_err(unreadable)?.into_iter();
            let Some(Value::String(tool)) = arguments.next() else {
                return Err(wrong("tools.describe needs the id of a tool"));
            };
            Ok(Asked::Describe { tool })
        }
        guest::SEARCH => Ok(Asked::Find(request.args.to().map_err(unreadable)?)),
        guest::DESCRIBE => Ok(Asked::Explain(request.args.to().map_err(unreadable)?)),
        guest::CALL => {
            let call = scope.call(request.args.to().map_err(unreadable)?).map_err(wrong)?;
            let input = Json::of(&call.args).map_err(|error| self::unreadable(&error))?;
            Ok(Asked::Call(ToolCall::new(&call.entry, input, Method::Call)))
        }
        skills::LIST => Ok(Asked::Skills),
        skills::READ => {
            let mut arguments = request.args.to::<Vec<Value>>().map_err(unreadable)?.into_iter();
            let Some(Value::String(name)) = arguments.next() else {
                return Err(wrong("skills.read needs the name of a skill: skills.read(\"pdf\")"));
            };
            Ok(Asked::Skill { name })
        }
        "call" => {
            let mut arguments = items(request)?.into_iter();
            let Some(Ok(tool)) = arguments.next().map(|tool| tool.to::<String>()) else {
                return Err(wrong("tools.call needs the id of a tool and an input: tools.call(id, { … })"));
            };
            let input = arguments.next().filter(|input| !input.is_null()).unwrap_or_else(Json::empty_object);
            let entry = tools.find(&tool).map_err(|error| missing(&tool, &error.to_string(), tools, known))?;
            Ok(Asked::Call(ToolCall::new(entry, input, Method::Call)))
        }
        "namespace" => {
            let mut arguments = items(request)?.into_iter();
            let place = arguments.next().and_then(|place| place.to::<(String, String)>().ok());
            let (id, path) = place.ok_or_else(|| wrong("unknown namespace: its name cannot be read"))?;
            let namespace = tools.namespaces().iter().find(|namespace| namespace.id == id);
            let namespace =
                namespace.ok_or_else(|| wrong(format!("unknown namespace {}", shortened(&id, MOST_NAME))))?;
            let shown = || shortened(&path.replace('\0', "."), MOST_NAME);
            let arguments = arguments.enumerate();
            let arguments = arguments.map(|(place, argument)| (!request.is_absent(place + 1)).then_some(argument));
            let (tool, input) = namespace
                .call(&path, arguments.collect())
                .ok_or_else(|| wrong(format!("{}.{} is not callable", namespace.global, shown())))?
                .map_err(|error| wrong(format!("{}.{} {error}", namespace.global, shown())))?;
            let missing = || missing(&tool, &format!("Unknown tool: {tool}."), tools, known);
            let entry = tools.catalog().get(&tool).ok_or_else(missing)?;
            Ok(Asked::Call(ToolCall::new(entry, input, Method::Namespace)))
        }
        mcp::CALL => {
            let mut arguments = items(request)?.into_iter();
            let Some(Ok(id)) = arguments.next().map(|id| id.to::<String>()) else {
                return Err(wrong("the tool cannot be told"));
            };
            let entry = tools.catalog().get(&id).filter(|entry| entry.id.source() == Source::Mcp);
            let missing = || missing(&id, &format!("Unknown tool: {id}. It has been taken back."), tools, known);
            let entry = entry.ok_or_else(missing)?;
            let input = tools.mcp().input(entry, arguments.collect());
            let input = input.map_err(|error| wrong(error.to_string()).with("toolId", id.as_str()))?;
            Ok(Asked::Call(ToolCall::new(entry, input, Method::Namespace)))
        }
        mcp::API => {
            let mut arguments = request.args.to::<Vec<Value>>().map_err(unreadable)?.into_iter();
            let server = arguments.next().and_then(|server| server.as_str().map(str::to_owned));
            // The options may stand alone.
            let (mut tool, mut options) = (arguments.next(), arguments.next());
            if tool.as_ref().is_some_and(Value::is_object) {
                options = tool.take();
            }
            let tool = tool.and_then(|tool| tool.as_str().map(str::to_owned));
            let with_schema = options.is_some_and(|options| options.get("schema") == Some(&Value::Bool(true)));
            Ok(Asked::Api { server, tool, with_schema })
        }
        mcp::UNKNOWN => {
            let arguments = request.args.to::<Vec<Value>>().map_err(unreadable)?;
            let (server, tool) =
                serde_json::from_value::<(String, String)>(arguments.into_iter().next().unwrap_or_default())
                    .map_err(|_| wrong("the tool cannot be told"))?;
            let id = format!("mcp:{server}:{tool}");
            let error = CallError::new(ErrorCode::ToolFailed, tools.mcp().unknown(&server, &tool));
            Err(fault(&id, &error, Effect::None))
        }
        other => Err(wrong(format!("unsupported code mode bridge method {}", shortened(other, MOST_NAME)))),
    }
}

/// Returns the arguments of a request, each as text: those of a call may be large, and only pass through.
fn items(request: &Request) -> Result<Vec<Json>, Fault> {
    request.args.items().ok_or_else(|| wrong("the arguments cannot be read"))
}

impl ToolCall {
    fn new(entry: &Entry, input: Json, method: Method) -> Self {
        Self { tool: entry.id.to_string(), input, method, flags: entry.flags }
    }
}

pub(crate) fn wrong(message: impl Into<String>) -> Fault {
    Fault::new("TypeError", message).with("code", "invalid_input").with("effect", "none")
}

/// Reports a skill that the program does not get.
pub(crate) fn no_skill(message: &str) -> Fault {
    Fault::new("Error", shortened(message, 2 * MOST_NAME)).with("code", "skill_unavailable").with("effect", "none")
}

/// Reports a value that cannot be handed to the program.
pub(crate) fn unreadable(error: &pincer_sandbox::JsonError) -> Fault {
    Fault::new("Error", format!("the value cannot be passed on: {error}"))
}

/// Reports a tool that this run does not have, or no longer.
fn missing(tool: &str, message: &str, tools: &RunTools, known: &KnownTools) -> Fault {
    match known.get(tool) {
        Some(_) if tools.catalog().get(tool).is_none() => gone(tool),
        _ => unknown(tool, message),
    }
}

/// Reports a tool that was there when the program began.
pub(crate) fn gone(tool: &str) -> Fault {
    unknown(tool, &format!("{tool} is no longer available: it was removed or denied since this program began"))
}

pub(crate) fn unknown(tool: &str, message: &str) -> Fault {
    let error = CallError::new(ErrorCode::UnknownTool, message);
    fault(tool, &error, Effect::None)
}

/// Returns a failed call as its program gets it.
pub(crate) fn fault(tool: &str, error: &CallError, effect: Effect) -> Fault {
    let code = serde_json::to_value(error.code).unwrap_or_default();
    let effect = serde_json::to_value(effect).unwrap_or_default();
    Fault::new("ToolError", &error.message)
        .with("code", code)
        .with("toolId", shortened(tool, MOST_NAME))
        .with("effect", effect)
}

/// Reports a call whose process ended in the middle of it.
pub(crate) fn interrupted(tool: &str) -> Fault {
    let message = format!("{tool} was interrupted; it may or may not have run. Check before you retry.");
    Fault::new("ToolError", message).with("code", "interrupted").with("toolId", tool).with("effect", "unknown")
}

/// The outcome of a call of a run, and its time.
pub(crate) fn arrival(run: &RunId, Settled { call, outcome, at }: Settled) -> (Instant, Answer) {
    (at, answer(run, &call, outcome.result, outcome.effect))
}

/// What a call of a run has come to, as its program gets it.
pub(crate) fn answer(run: &RunId, call: &StoredCall, result: Result<Json, CallError>, effect: Effect) -> Answer {
    Answer { id: call.id, outcome: passed_on(run, call.seq, &call.tool, result, effect) }
}

fn passed_on(
    run: &RunId,
    seq: u32,
    tool: &str,
    result: Result<Json, CallError>,
    effect: Effect,
) -> Result<Json, Fault> {
    match result {
        Ok(value) => attachments::referred(value, run, seq, tool).map_err(|error| {
            let message = format!("the value of {tool} cannot be passed on: {error}");
            fault(tool, &CallError::new(ErrorCode::InvalidOutput, message), effect)
        }),
        Err(error) => Err(fault(tool, &error, effect)),
    }
}

/// The same, out of a recording.
pub(crate) fn replayed(run: &RunId, seq: u32, tool: &str, outcome: &str) -> Result<Json, Fault> {
    match pincer_tools::recorded(outcome) {
        Ok((result, effect)) => passed_on(run, seq, tool, result, effect),
        Err(_) => Err(interrupted(tool)),
    }
}

/// The same, out of the journal.
pub(crate) fn recorded(run: &RunId, call: &StoredCall, outcome: Option<&str>) -> Answer {
    let read = outcome.and_then(|outcome| pincer_tools::recorded(outcome).ok());
    match read {
        Some((result, effect)) => answer(run, call, result, effect),
        None => Answer::fault(call.id, interrupted(&call.tool)),
    }
}

/// Returns the value that `yield_control` resolves to.
pub(crate) fn yielded(reason: Option<&str>) -> Json {
    let mut value = serde_json::json!({ "status": "yielded" });
    if let Some(reason) = reason {
        value["reason"] = reason.into();
    }
    Json::of(&value).unwrap_or_else(|_| Json::null())
}
