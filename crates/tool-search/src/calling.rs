//! The tool that a call means, and the input that it gives.

use std::sync::Arc;

use pincer_catalog::{Catalog, CompactEntry, Entry, LookupError, declare, shortened};
use serde_json::{Map, Value, json};

/// The members that name a tool, and those that hold its input.
const IDS: [&str; 3] = ["id", "toolId", "name"];
const INPUTS: [&str; 2] = ["args", "input"];
/// The most parts of a name with dots.
const MOST_DEEP: usize = 8;
/// The most characters that are shown of an expected shape.
const MOST_SHAPE: usize = 600;

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

/// Returns the tool that the arguments of a call name.
pub fn named(arguments: &Value, catalog: &Catalog) -> Result<Arc<Entry>, InputError> {
    let members = arguments.as_object().ok_or(InputError::NoObject)?;
    let member =
        IDS.into_iter().find(|member| members.get(*member).is_some_and(Value::is_string)).ok_or(InputError::Id)?;
    let asked = members[member].as_str().unwrap_or_default().trim();
    Ok(Arc::clone(catalog.find(asked)?))
}

/// Returns everything that a model has to know of a tool.
pub fn described(entry: &Entry) -> Value {
    let mut shown = json!(CompactEntry::from(entry));
    shown["parameters"] = entry.input_schema.clone();
    if let Some(returns) = &entry.output_schema {
        shown["outputSchema"] = returns.clone();
    }
    shown
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
    /// Reads the arguments of a call. An input beside the id, in a text, or under names with dots is understood if all of it can be a
    /// part of the tool's input.
    pub fn parse(arguments: &Value, catalog: &Catalog) -> Result<Self, InputError> {
        let entry = named(arguments, catalog)?;
        let mut members = arguments.as_object().cloned().ok_or(InputError::NoObject)?;
        let naming = IDS.into_iter().find(|member| members.get(*member).is_some_and(Value::is_string));
        naming.map(|member| members.remove(member));
        let shape = Shape { entry: &entry };
        let mut args = Map::new();
        for member in INPUTS {
            // A tool may have a member of this name itself.
            let Some(given) = members.get(member) else { continue };
            match object(given) {
                Some(object) => {
                    args = object;
                    members.remove(member);
                    break;
                }
                None if shape.has(member) => {}
                None => return Err(InputError::Input { member: member.into(), expected: shape.text() }),
            }
        }
        let mut strange = Vec::new();
        for (member, value) in members {
            let path = INPUTS.iter().find_map(|input| member.strip_prefix(input)?.strip_prefix('.')).unwrap_or(&member);
            let whole = shape.has(path);
            let name = if whole { path } else { path.split('.').next().unwrap_or_default() };
            if !shape.has(name) || path.split('.').count() > MOST_DEEP {
                strange.push(format!("`{member}`"));
            } else if !put(&mut args, if whole { vec![path] } else { path.split('.').collect() }, value) {
                return Err(InputError::Twice { member: name.to_owned(), expected: shape.text() });
            }
        }
        if !strange.is_empty() {
            let (members, tool) = (strange.join(", "), entry.id.to_string());
            return Err(InputError::Members { members, tool, expected: shape.text() });
        }
        Ok(Self { args: Value::Object(args), entry })
    }
}

/// The shape of a tool's input.
struct Shape<'a> {
    entry: &'a Entry,
}

impl Shape<'_> {
    fn has(&self, member: &str) -> bool {
        self.entry.input_schema.get("properties").and_then(|properties| properties.get(member)).is_some()
    }

    fn text(&self) -> String {
        shortened(&declare::hint(&self.entry.input_schema), MOST_SHAPE)
    }
}

/// Returns an input as an object, also one that was written as a text.
fn object(given: &Value) -> Option<Map<String, Value>> {
    match given {
        Value::Object(members) => Some(members.clone()),
        Value::Null => Some(Map::new()),
        Value::String(text) if text.trim().is_empty() => Some(Map::new()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Puts a value at a path. Returns `false` if there is another one.
fn put(args: &mut Map<String, Value>, path: Vec<&str>, value: Value) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let mut at = args;
    for parent in parents {
        let below = at.entry(*parent).or_insert_with(|| json!({}));
        let Value::Object(members) = below else { return false };
        at = members;
    }
    match at.get(*last) {
        Some(known) => *known == value,
        None => {
            at.insert((*last).to_owned(), value);
            true
        }
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
    fn nothing_is_dropped_in_silence() {
        for (arguments, part) in [
            (
                json!({ "id": "write", "args": { "path": "a" }, "mode": 7 }),
                "`mode` can be no part of the input of openclaw:core:write",
            ),
            (json!({ "id": "write", "args": { "path": "a" }, "path": "b" }), "`path` is given twice"),
            (json!({ "id": "write", "path.x": 1, "path": "b" }), "`path` is given twice"),
            (json!({ "id": "write", "options.a.a.a.a.a.a.a.a.a": 1 }), "can be no part"),
            (json!({ "id": "write", "args": 5 }), "`args` must be an object"),
            (json!({ "id": "write", "args": "[1]" }), "`args` must be an object"),
            (json!({ "id": "write", "input": ["a"] }), "`input` must be an object"),
            (json!({ "args": {} }), "`id` is missing"),
            (json!({ "id": 5 }), "`id` is missing"),
            (json!({ "id": "wirte" }), "write"),
            (json!("write"), "must be a JSON object"),
        ] {
            let error = args(arguments.clone()).expect_err("refused");
            assert!(error.contains(part), "{arguments}: {error}");
            if error.contains("Expected") {
                assert!(error.contains("path"), "the shape is told: {error}");
            }
        }
    }
}
