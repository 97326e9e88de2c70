//! The globals that a program has.

use std::time::Duration;

use pincer_catalog::{Catalog, shortened};
use pincer_sandbox::{Global, Json, Output, Program};
use pincer_store::CallId;
use pincer_tool_search::{CallInput, Limits, SearchInput, TOOL_SEARCH_CODE, described, hits, named, nested_id};
use serde_json::{Value, json};

use crate::scope::RunScope;
use crate::surface::VISIBLE;

/// The methods behind `openclaw.tools`.
pub(crate) const SEARCH: &str = "openclaw.search";
pub(crate) const DESCRIBE: &str = "openclaw.describe";
pub(crate) const CALL: &str = "openclaw.call";

/// The most characters of a server's reason in a line of output.
const MOST_WHY: usize = 200;

/// The kind of a program: the globals that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guest {
    /// A program of `exec`.
    #[default]
    CodeMode,
    /// A program of `tool_search_code`: the language, a small console, and `openclaw.tools`.
    ToolSearch,
}

impl Guest {
    /// Returns the name of the tool that runs such programs.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::CodeMode => "exec",
            Self::ToolSearch => TOOL_SEARCH_CODE,
        }
    }

    /// Returns what hooks are told of it.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::CodeMode => "code_mode_exec",
            Self::ToolSearch => TOOL_SEARCH_CODE,
        }
    }

    /// Returns the id of a call that such a program makes.
    pub(crate) fn call_id(self, parent: &CallId, tool: &str, seq: u32) -> CallId {
        match self {
            Self::CodeMode => format!("{parent}/{seq}").into(),
            Self::ToolSearch => {
                let name = tool.splitn(3, ':').last().unwrap_or_default();
                nested_id(TOOL_SEARCH_CODE, parent.as_str(), name, seq).into()
            }
        }
    }

    /// Returns the tools that a model with such programs sees.
    pub(crate) fn visible(self) -> Vec<String> {
        match self {
            Self::CodeMode => VISIBLE.map(str::to_owned).to_vec(),
            Self::ToolSearch => vec![TOOL_SEARCH_CODE.to_owned()],
        }
    }

    /// Gives a program its globals. The lazy ones are those of these names.
    pub(crate) fn with_globals(self, program: Program, lazy: &[String]) -> Program {
        match self {
            Self::CodeMode => lazy.iter().fold(program, |program, name| program.global(name, Global::Lazy)),
            Self::ToolSearch => {
                let functions = [("search", SEARCH), ("describe", DESCRIBE), ("call", CALL)];
                let functions = functions.map(|(name, method)| (name.to_owned(), Global::Call(method.to_owned())));
                let tools = vec![("tools".to_owned(), Global::Object(functions.into()))];
                program.bare().global("openclaw", Global::Object(tools))
            }
        }
    }
}

impl RunScope {
    /// Gives a program its globals.
    pub(crate) fn with_globals(&self, program: Program) -> Program {
        let program = match self.guest {
            Guest::CodeMode => program.library(self.library()),
            Guest::ToolSearch => program,
        };
        self.guest.with_globals(program, &self.lazy_globals())
    }

    /// Returns the names of the globals that its programs load when they first use them.
    pub(crate) fn lazy_globals(&self) -> Vec<String> {
        match self.guest {
            Guest::CodeMode => self.globals().map(str::to_owned).collect(),
            Guest::ToolSearch => Vec::new(),
        }
    }

    /// Returns the tools that its programs can find.
    pub(crate) fn found(&self) -> &Catalog {
        match self.guest {
            Guest::CodeMode => self.tools.catalog(),
            Guest::ToolSearch => &self.tools.searched().0,
        }
    }

    /// Returns the time that a program may compute in this turn, of what is left until its deadline.
    pub(crate) fn guest_time(&self, left: Duration, spent_ms: f64) -> Duration {
        // A deadline of its own counts instead of that of `exec`, in which the time of calls counts too.
        let Some(all) = self.settings.guest_time else { return left };
        all.saturating_sub(Duration::from_secs_f64((spent_ms / 1000.0).max(0.0)))
    }

    /// Returns the time that a program has to compute at most.
    pub(crate) fn whole_time(&self) -> Duration {
        self.settings.guest_time.unwrap_or(self.settings.timeout)
    }

    /// Finds tools for a program of `tool_search_code`.
    pub(crate) fn search(&self, arguments: Vec<Value>) -> Result<Json, String> {
        let limits = Limits::new(self.settings.search_usual, self.settings.search_most);
        let asked = match of_two("search", "a query and options", arguments)? {
            // The arguments of the tool `tool_search`, written as one object.
            (asked @ Value::Object(_), None) => asked,
            (query, None | Some(Value::Null)) => json!({ "query": query }),
            (query, Some(Value::Object(mut options))) => {
                options.insert("query".to_owned(), query);
                Value::Object(options)
            }
            (_, Some(_)) => return Err("the options of openclaw.tools.search must be an object: { limit }".into()),
        };
        let input = SearchInput::parse(&asked, limits).map_err(|error| error.to_string())?;
        Json::of(&hits(&self.tools.searched().1, &input)).map_err(|error| error.to_string())
    }

    /// Describes a tool to a program of `tool_search_code`.
    pub(crate) fn describe(&self, arguments: Vec<Value>) -> Result<Json, String> {
        let (tool, None | Some(Value::Null)) = of_two("describe", "an id", arguments)? else {
            return Err("openclaw.tools.describe takes an id, and nothing else".into());
        };
        let entry = named(&of_tool(tool), self.found()).map_err(|error| error.to_string())?;
        Json::of(&described(&entry)).map_err(|error| error.to_string())
    }

    /// Reads a call of a program of `tool_search_code`.
    pub(crate) fn call(&self, arguments: Vec<Value>) -> Result<CallInput, String> {
        let call = match of_two("call", "an id and the input", arguments)? {
            // The arguments of the tool `tool_call`, written as one object.
            (tool @ Value::Object(_), None) => CallInput::parse(&of_tool(tool), self.found()),
            (tool, input) => CallInput::whole(&of_tool(tool), &input.unwrap_or_default(), self.found()),
        };
        call.map_err(|error| error.to_string())
    }

    /// Returns the lines that tell of servers whose tools cannot be found, as far as they are not printed yet.
    pub(crate) fn missing(&self, printed: &[Output]) -> Vec<Output> {
        let line = |(name, why): (&str, &str)| {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            let why = shortened(&why, MOST_WHY);
            Output::Text { text: format!("the MCP server {name} is unavailable, so its tools cannot be found: {why}") }
        };
        self.tools.missing_servers().map(line).filter(|line| !printed.contains(line)).collect()
    }
}

/// Returns the first two arguments of a function. Others are refused: a program that gives them means something by it.
fn of_two(function: &str, takes: &str, arguments: Vec<Value>) -> Result<(Value, Option<Value>), String> {
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    let two = (arguments.next().unwrap_or_default(), arguments.next());
    match count {
        0..=2 => Ok(two),
        _ => Err(format!("openclaw.tools.{function} takes {takes}, and not {count} arguments")),
    }
}

/// Returns the arguments that name a tool: by its id or name, as a search has found it, or as they are.
fn of_tool(tool: Value) -> Value {
    let is_found = tool.get("id").is_some() && tool.get("source").is_some() && tool.get("sourceName").is_some();
    match tool {
        Value::Object(mut found) if is_found => json!({ "id": found.remove("id") }),
        Value::Object(arguments) => Value::Object(arguments),
        name => json!({ "id": name }),
    }
}
