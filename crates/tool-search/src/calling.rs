//! The tool that a call means, and the input that it gives.

use std::sync::Arc;

use pincer_catalog::shown_names::{Keeps, keeps};
use pincer_catalog::{Catalog, CompactEntry, Entry, LookupError, shortened};
use serde_json::{Map, Value, json};

use crate::shape::{Shape, object};

/// The members that name a tool, and those that hold its input.
const IDS: [&str; 3] = ["id", "toolId", "name"];
pub(crate) const INPUTS: [&str; 2] = ["args", "input"];
/// The most characters that are shown of the name of a member.
const MOST_NAME: usize = 60;

/// The reason why arguments are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// They are no object.
    #[error("the arguments must be a JSON object")]
    NoObject,
    /// There is no query.
    #[error("`query` is missing: say in a few words what the tool should do, or give several such texts in `queries`")]
    Query,
    /// The limit is no number.
    #[error("`limit` must be a number from 1 to {most}")]
    Limit {
        /// The largest one.
        most: usize,
    },
    /// There are too many queries.
    #[error("{count} queries are too many: ask up to 16 at once")]
    TooManyQueries {
        /// How many there are.
        count: usize,
    },
    /// No tool is named.
    #[error("`id` is missing: tool_search gives ids")]
    Id,
    /// There is no such tool.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The input of the tool is not an object.
    #[error("`{member}` must be an object. Expected input: {expected}")]
    Input {
        /// The member that holds it.
        member: String,
        /// The shape of the tool's input.
        expected: String,
    },
    /// There is something beside the id and the input.
    #[error(
        "{members} can be no part of the input of {tool}. Put the whole input into `args`. Expected input: {expected}"
    )]
    Members {
        /// The members, in words.
        members: String,
        /// The tool.
        tool: String,
        /// The shape of the tool's input.
        expected: String,
    },
    /// There are members beside those that count.
    #[error("{members} means nothing here: give {known} only")]
    Others {
        /// The members, in words.
        members: String,
        /// The members that count, in words.
        known: &'static str,
    },
    /// A member can be the whole input or a part of it.
    #[error(
        "{member} has two meanings: put the whole input into `args`, and nothing beside it. Expected input: {expected}"
    )]
    Meanings {
        /// The member, in words.
        member: String,
        /// The shape of the tool's input.
        expected: String,
    },
    /// A part of the input is given twice.
    #[error(
        "`{member}` is given twice, in `args` and beside it: put the whole input into `args`. Expected input: {expected}"
    )]
    Twice {
        /// The member.
        member: String,
        /// The shape of the tool's input.
        expected: String,
    },
}

/// Finds the tool of a name or id.
pub trait Lookup {
    /// Returns the tool that `asked` names.
    ///
    /// # Errors
    /// If it names none, or several.
    fn find(&self, asked: &str) -> Result<Arc<Entry>, LookupError>;
}

impl Lookup for Catalog {
    /// Of several tools with one name, ours keeps it, as in the lists that models are shown.
    fn find(&self, asked: &str) -> Result<Arc<Entry>, LookupError> {
        let error = match Self::find(self, asked) {
            Ok(entry) => return Ok(Arc::clone(entry)),
            Err(error) => error,
        };
        let LookupError::Ambiguous { ids, .. } = &error else { return Err(error) };
        let mut ours = ids.iter().filter_map(|id| self.get(id)).filter(|entry| keeps(entry) == Keeps::Own);
        match (ours.next(), ours.next()) {
            (Some(entry), None) => Ok(Arc::clone(entry)),
            _ => Err(error),
        }
    }
}

/// Returns the tool that the arguments of a description name, and nothing else.
///
/// # Errors
/// If they name none or several tools, or have other members too.
pub fn named(arguments: &Value, tools: &impl Lookup) -> Result<Arc<Entry>, InputError> {
    let members = arguments.as_object().ok_or(InputError::NoObject)?;
    let (naming, entry) = naming(members, tools)?;
    let asked = &members[naming];
    refuse_others(members, |member, value| member == naming || IDS.contains(&member) && value == asked, "`id`")?;
    Ok(entry)
}

/// Returns the member that names a tool, and the tool.
fn naming(members: &Map<String, Value>, tools: &impl Lookup) -> Result<(&'static str, Arc<Entry>), InputError> {
    let naming =
        IDS.into_iter().find(|member| members.get(*member).is_some_and(Value::is_string)).ok_or(InputError::Id)?;
    let asked = members[naming].as_str().unwrap_or_default().trim();
    Ok((naming, tools.find(asked)?))
}

/// Refuses members that are not among those that count.
pub(crate) fn refuse_others(
    members: &Map<String, Value>,
    counts: impl Fn(&str, &Value) -> bool,
    known: &'static str,
) -> Result<(), InputError> {
    let others: Vec<String> =
        members.iter().filter(|(member, value)| !counts(member, value)).map(|(member, _)| shown(member)).collect();
    if others.is_empty() { Ok(()) } else { Err(InputError::Others { members: others.join(", "), known }) }
}

/// Returns a member's name as an error shows it.
pub(crate) fn shown(member: &str) -> String {
    format!("`{}`", shortened(member, MOST_NAME))
}

/// Returns everything that a model has to know of a tool.
pub fn described(entry: &Entry) -> Value {
    let mut shown = json!(CompactEntry { label: title(entry), ..CompactEntry::from(entry) });
    shown["parameters"] = entry.input_schema.clone();
    if let Some(returns) = &entry.output_schema {
        shown["outputSchema"] = returns.clone();
    }
    shown
}

/// Returns the title of a tool on one line: a server can write anything into it.
pub(crate) fn title(entry: &Entry) -> Option<String> {
    const MOST_TITLE: usize = 80;
    let title = entry.label.as_ref()?.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(shortened(&title, MOST_TITLE))
}

/// The tool and the input of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallInput {
    /// The tool.
    pub entry: Arc<Entry>,
    /// Its input.
    pub args: Value,
}

impl CallInput {
    /// Reads the arguments of a call. An input beside the id, in a text, or under names with dots is understood if it has one meaning.
    ///
    /// # Errors
    /// If no tool is named, or if a part of the arguments has no place in the tool's input, or more than one.
    pub fn parse(arguments: &Value, tools: &impl Lookup) -> Result<Self, InputError> {
        let mut members = arguments.as_object().cloned().ok_or(InputError::NoObject)?;
        let (naming, entry) = naming(&members, tools)?;
        members.remove(naming);
        let shape = Shape { entry: &entry };
        let mut args = Map::new();
        let mut has_whole = false;
        for member in INPUTS {
            let Some(given) = members.get(member) else { continue };
            let whole = object(given);
            let is_whole = if has_whole {
                false
            } else if shape.has(member) {
                shape.is_whole(member, given, whole.as_ref(), members.len() > 1)?
            } else {
                true
            };
            if is_whole {
                args = whole.ok_or_else(|| InputError::Input { member: member.into(), expected: shape.text() })?;
                members.remove(member);
                has_whole = true;
            }
        }
        shape.put_all(&mut args, members)?;
        Ok(Self { args: Value::Object(args), entry })
    }

    /// Reads a tool and its whole input.
    ///
    /// # Errors
    /// If no tool is named, or if the input is not an object.
    pub fn whole(tool: &Value, input: &Value, tools: &impl Lookup) -> Result<Self, InputError> {
        let entry = named(tool, tools)?;
        let shape = Shape { entry: &entry };
        let args =
            object(input).ok_or_else(|| InputError::Input { member: INPUTS[0].into(), expected: shape.text() })?;
        Ok(Self { args: Value::Object(args), entry })
    }
}

#[cfg(test)]
mod tests {
    use pincer_catalog::{Source, ToolId};

    use super::*;

    fn catalog() -> Catalog {
        let entry = |name: &str, properties: Value| Entry {
            input_schema: json!({ "type": "object", "properties": properties }),
            ..Entry::new(ToolId::new(Source::Openclaw, "core", name).expect("an id"), "")
        };
        let text = json!({ "type": "string" });
        Catalog::new([
            entry("write", json!({ "path": text, "content": text, "options": { "type": "object" } })),
            entry("rename", json!({ "name": text, "input": text, "a.b": text })),
            entry("transform", json!({ "input": {}, "mode": text, "a": {} })),
            entry("run", json!({ "command": text, "args": { "type": "object" }, "list": { "type": "array" } })),
            entry("open", json!({ "input": { "type": "object" }, "path": text })),
        ])
        .expect("a catalog")
    }

    fn args(arguments: Value) -> Result<Value, String> {
        CallInput::parse(&arguments, &catalog()).map(|call| call.args).map_err(|error| error.to_string())
    }

    #[test]
    fn one_input_may_be_written_in_many_ways() {
        let wanted = json!({ "path": "a", "content": "b" });
        for arguments in [
            json!({ "id": "openclaw:core:write", "args": wanted }),
            json!({ "toolId": "write", "input": wanted }),
            json!({ "name": " write ", "args": wanted.to_string() }),
            json!({ "id": "write", "path": "a", "content": "b" }),
            json!({ "id": "write", "args": { "path": "a" }, "content": "b" }),
            json!({ "id": "write", "args.path": "a", "input.content": "b" }),
            json!({ "id": "write", "args": wanted, "path": "a" }),
        ] {
            assert_eq!(args(arguments.clone()), Ok(wanted.clone()), "{arguments}");
        }
        assert_eq!(args(json!({ "id": "write", "options.mode": 7 })), Ok(json!({ "options": { "mode": 7 } })));
        for nothing in
            [json!({ "id": "write" }), json!({ "id": "write", "args": null }), json!({ "id": "write", "args": "" })]
        {
            assert_eq!(args(nothing.clone()), Ok(json!({})), "{nothing}");
        }
    }

    #[test]
    fn a_tool_may_have_members_with_the_names_that_a_call_has() {
        let wanted = json!({ "name": "n", "input": "i" });
        assert_eq!(args(json!({ "id": "rename", "name": "n", "input": "i" })), Ok(wanted.clone()));
        assert_eq!(args(json!({ "id": "rename", "args": wanted })), Ok(wanted));
        assert_eq!(args(json!({ "id": "rename", "a.b": "x" })), Ok(json!({ "a.b": "x" })));
    }

    #[test]
    fn a_member_that_a_tool_has_itself_is_the_whole_input_only_if_it_can_be_nothing_else() {
        for (arguments, wanted) in [
            (json!({ "id": "rename", "name": "x", "input": "" }), json!({ "name": "x", "input": "" })),
            (json!({ "id": "rename", "input": { "name": "x" } }), json!({ "name": "x" })),
            (
                json!({ "id": "rename", "name": "x", "input": "{\"a\":1}" }),
                json!({ "name": "x", "input": "{\"a\":1}" }),
            ),
            (
                json!({ "id": "run", "command": "ls", "args": { "x": 1 } }),
                json!({ "command": "ls", "args": { "x": 1 } }),
            ),
            (json!({ "id": "run", "args": { "command": "ls", "args": {} } }), json!({ "command": "ls", "args": {} })),
            (json!({ "id": "run", "args": { "x": 1 } }), json!({ "args": { "x": 1 } })),
            (json!({ "id": "run", "args.x": 1 }), json!({ "args": { "x": 1 } })),
            (
                json!({ "id": "write", "options": { "level": 1 }, "options.mode": 7 }),
                json!({ "options": { "level": 1, "mode": 7 } }),
            ),
            (
                json!({ "id": "write", "options.mode": 7, "options": { "level": 1 } }),
                json!({ "options": { "level": 1, "mode": 7 } }),
            ),
        ] {
            assert_eq!(args(arguments.clone()), Ok(wanted), "{arguments}");
        }
        for arguments in [
            json!({ "id": "transform", "input": { "a": 1 }, "mode": "m" }),
            json!({ "id": "transform", "input": { "a": 1 } }),
            json!({ "id": "open", "input.path": "x" }),
        ] {
            let error = args(arguments.clone()).expect_err("refused");
            assert!(error.contains("has two meanings") && error.contains("Expected input"), "{arguments}: {error}");
        }
    }

    #[test]
    fn a_whole_input_is_taken_as_it_is() {
        let whole = |tool: Value, input: Value| {
            CallInput::whole(&tool, &input, &catalog()).map(|call| call.args).map_err(|error| error.to_string())
        };
        assert_eq!(whole(json!({ "id": "run" }), json!({ "args": {} })), Ok(json!({ "args": {} })));
        assert_eq!(whole(json!({ "name": "run" }), Value::Null), Ok(json!({})));
        assert!(
            whole(json!({ "id": "run" }), json!("-la")).is_err_and(|error| error.contains("`args` must be an object"))
        );
        assert!(
            whole(json!({ "id": "run", "x": 1 }), json!({})).is_err_and(|error| error.contains("`x` means nothing"))
        );
    }

    #[test]
    fn of_several_tools_with_one_name_ours_keeps_it() {
        let entry = |source, owner| Entry::new(ToolId::new(source, owner, "read").expect("an id"), "");
        let mcp = entry(Source::Mcp, "files");
        let tools = Catalog::new([mcp.clone(), entry(Source::Openclaw, "core")]).expect("a catalog");
        let id = named(&json!({ "id": "read" }), &tools).map(|entry| entry.id.to_string());
        assert_eq!(id, Ok("openclaw:core:read".to_owned()));
        let tools = Catalog::new([mcp, entry(Source::Plugin, "notes")]).expect("a catalog");
        assert!(named(&json!({ "id": "read" }), &tools).is_err_and(|error| error.to_string().contains("Ambiguous")));
    }

    #[test]
    fn nothing_is_dropped_in_silence() {
        for (arguments, part) in [
            (
                json!({ "id": "write", "args": { "path": "a" }, "mode": 7 }),
                "`mode` can be no part of the input of openclaw:core:write",
            ),
            (json!({ "id": "write", "args": { "path": "a" }, "path": "b" }), "`path` is given twice"),
            (json!({ "id": "write", "path.x": 1, "path": "b" }), "`path.x` can be no part"),
            (json!({ "id": "write", "options": { "a": 1 }, "options.a": 2 }), "`options` is given twice"),
            (json!({ "id": "write", "options.a.a.a.a.a.a.a.a.a": 1 }), "can be no part"),
            (json!({ "id": "write", "args": 5 }), "`args` must be an object"),
            (json!({ "id": "write", "args": "[1]" }), "`args` must be an object"),
            (json!({ "id": "write", "input": ["a"] }), "`input` must be an object"),
            (json!({ "id": "run", "command": "ls", "args": null }), "`args` must be an object"),
            (json!({ "id": "run", "command": "ls", "args": "-la" }), "`args` must be an object"),
            (json!({ "id": "run", "list.0": "a" }), "`list.0` can be no part"),
            (json!({ "id": "write", "args": { "path": "a" }, "input": { "path": "a" } }), "`input` can be no part"),
            (json!({ "args": {} }), "`id` is missing"),
            (json!({ "id": 5 }), "`id` is missing"),
            (json!({ "id": "wirte" }), "write"),
            (json!("write"), "must be a JSON object"),
        ] {
            let error = args(arguments.clone()).expect_err("refused");
            assert!(error.contains(part), "{arguments}: {error}");
            if error.contains("Expected") {
                let member = if arguments["id"] == "run" { "command" } else { "path" };
                assert!(error.contains(member), "the shape is told: {error}");
            }
        }
    }
}
