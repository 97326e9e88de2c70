//! What an author probably meant, where the engine only says what went wrong.

use pincer_sandbox::Failure;
use pincer_source::Place;

use crate::positions::Positions;
use crate::tools::RunTools;

/// Names of the web and of Node that programs expect, and what there is instead.
const ELSEWHERE: [(&str, &str); 6] = [
    ("fetch", "web_fetch"),
    ("XMLHttpRequest", "web_fetch"),
    ("fs", "read"),
    ("child_process", "exec"),
    ("require", "search"),
    ("process", "search"),
];

/// A sentence to add to a failure, if there is one that helps.
pub(crate) fn hint(failure: &Failure, positions: &Positions, source: Option<&str>, tools: &RunTools) -> Option<String> {
    if failure.name == "ReferenceError" {
        return undefined(failure.message.strip_suffix(" is not defined")?, tools);
    }
    if failure.name != "TypeError" || failure.message != "not a function" {
        return None;
    }
    let site = failure.site?;
    let place = positions.original(site);
    let callee = callee(source?, place)?;
    if let Some(path) = callee.strip_prefix("MCP.") {
        return tools.mcp().meant(path).map(|why| format!("`{callee}` is not a function: {why}"));
    }
    let Some(name) = callee.strip_prefix("tools.") else { return Some(format!("`{callee}` is not a function")) };
    let name = name.trim_matches(['[', ']', '"', '\'', '`']);
    let why = match tools.find(name) {
        Ok(entry) => format!("call it as tools.call(\"{}\", input)", entry.id),
        Err(message) => message,
    };
    Some(format!("`{callee}` is not a function: {why}"))
}

fn undefined(name: &str, tools: &RunTools) -> Option<String> {
    let function = |name: &str| tools.functions().contains_key(name);
    if function(name) {
        return Some(format!("did you mean tools.{name}?"));
    }
    let (_, instead) = ELSEWHERE.iter().find(|(known, _)| *known == name)?;
    match function(instead) {
        true => Some(format!("there is no `{name}` here; use tools.{instead}")),
        false => Some(format!("there is no `{name}` here; tools.search(\"…\") finds what there is")),
    }
}

/// What is called at a place: the engine names that of the last part of it.
fn callee(source: &str, place: Place) -> Option<String> {
    let line: Vec<char> = source.lines().nth(place.line.checked_sub(1)? as usize)?.chars().collect();
    let mut units = 0;
    let at = line.iter().position(|c| {
        units += c.len_utf16() as u32;
        units >= place.column
    })?;
    let is_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let end = at + line[at..].iter().take_while(|c| is_name(c)).count();
    let start = at - line[..at].iter().rev().take_while(|c| is_name(c) || **c == '.').count();
    let called = line[end..].iter().find(|c| !c.is_whitespace()) == Some(&'(');
    let callee: String = line[start..end].iter().collect();
    (called && !callee.is_empty() && !callee.starts_with('.')).then_some(callee)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_is_found_where_the_engine_points() {
        let source = "const ü = '😀'; await tools.bash({})\n  hits.map (x)";
        let at = |line, column| callee(source, Place { line, column });
        assert_eq!(at(1, 29).as_deref(), Some("tools.bash"));
        assert_eq!(at(2, 8).as_deref(), Some("hits.map"));
        assert_eq!(at(1, 7), None);
        assert_eq!((at(0, 1), at(9, 1), at(1, 900)), (None, None, None));
    }
}
