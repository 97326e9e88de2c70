//! The tools as a model sees them.

use serde_json::{Value, json};

use crate::searching::{MOST_QUERIES, MOST_QUERY};
use crate::settings::Limits;

/// The name of the tool that runs programs.
pub const TOOL_SEARCH_CODE: &str = "tool_search_code";
/// The name of the tool that finds others.
pub const TOOL_SEARCH: &str = "tool_search";
/// The name of the tool that describes others.
pub const TOOL_DESCRIBE: &str = "tool_describe";
/// The name of the tool that calls others.
pub const TOOL_CALL: &str = "tool_call";

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// A title for people.
    pub title: &'static str,
    /// Its purpose, in words for the model.
    pub description: String,
    /// The JSON Schema of its input.
    pub parameters: Value,
    /// Whether a call changes nothing.
    pub is_read_only: bool,
}

/// Returns the tool that runs programs, for a catalog with so many tools.
pub fn code_definition(count: usize) -> Definition {
    Definition {
        name: TOOL_SEARCH_CODE,
        title: "Run a program",
        description: format!(
            "Run a small JavaScript program that finds tools among {count} and calls them. It is the body of an async function and \
             has these functions:\n\
             - openclaw.tools.search(query, {{ limit }}): an array of {{ id, name, description }}\n\
             - openclaw.tools.describe(id): all of a tool, its input schema in `parameters`\n\
             - openclaw.tools.call(id, args): the tool's result\n\
             - console.log(text)\n\
             Search for what you need, describe what you do not know, call it, and return only what you need to know: \
             const [tool] = await openclaw.tools.search(\"read a file\"); return await openclaw.tools.call(tool.id, {{ path: \"a.txt\" }});\n\
             There are no files, no network and no timers but through tools. If two searches find nothing that fits, there is no such tool."
        ),
        parameters: json!({
            "type": "object",
            "properties": { "code": { "type": "string", "description": "The program." } },
            "required": ["code"],
            "additionalProperties": false,
        }),
        is_read_only: false,
    }
}

/// Returns the three tools, for a catalog with so many others.
pub fn definitions(count: usize, limits: Limits) -> [Definition; 3] {
    let id = json!({ "type": "string", "description": "The id of a tool, from tool_search." });
    let query =
        json!({ "type": "string", "maxLength": MOST_QUERY, "description": "What the tool should do, in a few words." });
    [
        Definition {
            name: TOOL_SEARCH,
            title: "Find tools",
            description: format!(
                "Find tools among {count} by what they do. Gives ids and descriptions; then tool_describe, then tool_call. If two \
                 searches find nothing that fits, there is no such tool."
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": query,
                    "queries": {
                        "type": "array", "items": query, "minItems": 1, "maxItems": MOST_QUERIES,
                        "description": "Several searches at once, in place of query.",
                    },
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": limits.most, "default": limits.usual,
                        "description": "The most results of a search.",
                    },
                },
                "additionalProperties": false,
            }),
            is_read_only: true,
        },
        Definition {
            name: TOOL_DESCRIBE,
            title: "Describe a tool",
            description: "What a tool takes and gives, as JSON Schema.".into(),
            parameters: json!({
                "type": "object", "properties": { "id": id }, "required": ["id"], "additionalProperties": false,
            }),
            is_read_only: true,
        },
        Definition {
            name: TOOL_CALL,
            title: "Call a tool",
            description: "Call a tool with an input that fits its schema.".into(),
            parameters: json!({
                "type": "object",
                "properties": { "id": id, "args": { "type": "object", "description": "The input, as tool_describe says." } },
                "required": ["id"],
                "additionalProperties": false,
            }),
            is_read_only: false,
        },
    ]
}
