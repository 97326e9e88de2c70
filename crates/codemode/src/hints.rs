//! What an author probably meant, where the engine only says what went wrong.

use pincer_catalog::shortened;
use pincer_sandbox::Failure;
use pincer_source::{Callee, callees_at};

use crate::guest::Guest;
use crate::positions::Positions;
use crate::scope::RunScope;
use crate::tools::RunTools;

/// Names of the web and of Node that programs expect.
const ELSEWHERE: [&str; 6] = ["fetch", "XMLHttpRequest", "fs", "child_process", "require", "process"];

/// The hint to programs that have nothing but this.
const BARE: &str = "there are openclaw.tools.search, openclaw.tools.describe, openclaw.tools.call, and console";

/// A longer callee is cut in a message.
const MOST_CALLEE: usize = 100;

/// A sentence to add to a failure, if there is one that helps.
pub(crate) fn hint(failure: &Failure, positions: &Positions, source: Option<&str>, scope: &RunScope) -> Option<String> {
    if scope.guest == Guest::ToolSearch {
        let is_undefined = failure.name == "ReferenceError" && failure.message.ends_with(" is not defined");
        return is_undefined.then(|| BARE.to_owned());
    }
    let tools = &*scope.tools;
    if failure.name == "ReferenceError" {
        return undefined(failure.message.strip_suffix(" is not defined")?, tools);
    }
    if failure.name != "TypeError" || failure.message != "not a function" {
        return None;
    }
    let place = positions.original(failure.site?);
    // Several calls can have one place. Those of functions that are there are not the ones.
    let mut callees = callees_at(source?, place);
    callees.retain(|callee| !is_there(callee, tools));
    match callees.as_slice() {
        [callee] => Some(not_callable(callee, tools)),
        callees => {
            let mut wrong = callees.iter().filter(|callee| has_no_such_member(callee));
            let only = wrong.next().filter(|_| wrong.next().is_none())?;
            Some(not_callable(only, tools))
        }
    }
}

/// Whether a callee is a function that every program of this run has.
fn is_there(callee: &Callee, tools: &RunTools) -> bool {
    match callee.path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tools", name] => matches!(*name, "search" | "describe" | "call") || tools.functions().contains_key(*name),
        ["console", _]
        | ["API", _]
        | ["text" | "json" | "yield_control" | "setTimeout" | "clearTimeout" | "unwrap"] => true,
        _ => false,
    }
}

/// Whether a callee, not being there, can only be a mistake.
fn has_no_such_member(callee: &Callee) -> bool {
    matches!(callee.path.first().map(String::as_str), Some("tools" | "MCP")) && callee.path.len() > 1
}

fn not_callable(callee: &Callee, tools: &RunTools) -> String {
    let text = shortened(&callee.text, MOST_CALLEE);
    let why = match callee.path.split_first() {
        Some((root, path)) if root == "MCP" && !path.is_empty() => tools.mcp().meant(&path.join(".")),
        Some((root, [name])) if root == "tools" => Some(match tools.find(name) {
            Ok(entry) => format!("call it as tools.call(\"{}\", input)", entry.id),
            Err(error) => error.to_string(),
        }),
        _ => None,
    };
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("`{text}` is not a function{why}")
}

fn undefined(name: &str, tools: &RunTools) -> Option<String> {
    let function = |id: &str| tools.functions().iter().find(|(_, known)| *known == id).map(|(function, _)| function);
    if tools.functions().contains_key(name) {
        return Some(format!("did you mean tools.{name}?"));
    }
    if !ELSEWHERE.contains(&name) {
        return None;
    }
    let instead = tools.instead_of(name).and_then(|entry| function(&entry.id.to_string()));
    Some(match instead {
        Some(instead) => format!("there is no `{name}` here; use tools.{instead}"),
        None => format!("there is no `{name}` here; tools.search(\"…\") finds what there is"),
    })
}
