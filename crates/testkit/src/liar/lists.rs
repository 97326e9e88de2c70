//! Lists of tools.

use serde_json::{Value, json};

use super::{Liar, Mode, error, floods, result};

const MANY: usize = 5000;
const PAGE: usize = 100;

impl Liar {
    pub(super) fn list(&self, id: &Value, cursor: Option<&str>) -> Value {
        let tools = match self.mode {
            Mode::FlakyList if self.listed == 1 => return error(id, -32603, "the database is not there yet"),
            Mode::Many => return many(id, cursor),
            Mode::Endless => return endless(id, cursor),
            Mode::Fat => return fat(id, cursor),
            Mode::Flood => floods::TOOLS.iter().map(|name| tool(name, "says the same very often")).collect(),
            Mode::Hints => hints(),
            Mode::Duplicates => {
                let tools =
                    [tool("twin", "the first"), tool("twin", "the second"), tool("single", "there is one of it")];
                return result(id, json!({ "tools": tools, "nextCursor": "again" }));
            }
            Mode::Cycles => cycles(),
            Mode::Names => names().iter().map(|name| tool(name, "has an awkward name")).collect(),
            Mode::Changing => vec![tool("swap", "replaces the other tool"), tool(self.other(), "comes and goes")],
            Mode::BadTools => bad_tools(),
            Mode::Huge => vec![with_bytes("huge", "returns very much text"), tool("small", "returns little")],
            Mode::Binary => vec![with_bytes("binary", "returns an image, a sound and a blob")],
            Mode::InvalidJson => vec![tool("broken", "is answered with half an object"), tool("fine", "works")],
            Mode::BadResult => super::calls::BAD_RESULTS.iter().map(|name| tool(name, "returns nonsense")).collect(),
            _ => vec![tool("echo", "returns its arguments")],
        };
        result(id, json!({ "tools": tools }))
    }

    /// The tool that `swap` replaces, or has put in its place.
    pub(super) fn other(&self) -> &'static str {
        if self.swapped { "new" } else { "old" }
    }
}

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn with_bytes(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "bytes": { "type": "integer", "minimum": 0 } } });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

fn many(id: &Value, cursor: Option<&str>) -> Value {
    let Some(from) = cursor.map_or(Some(0), |cursor| cursor.parse::<usize>().ok()) else {
        return error(id, -32602, "this cursor is not mine");
    };
    let to = (from + PAGE).min(MANY);
    let tools: Vec<_> = (from..to).map(|index| tool(&format!("tool_{index:04}"), "one of many")).collect();
    let mut page = json!({ "tools": tools });
    if to < MANY {
        page["nextCursor"] = json!(to.to_string());
    }
    result(id, page)
}

fn endless(id: &Value, cursor: Option<&str>) -> Value {
    let page: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
    let tools = [tool(&format!("tool_{page}"), "one of so many")];
    result(id, json!({ "tools": tools, "nextCursor": (page + 1).to_string() }))
}

/// Ten pages of 5 MB, and first of all a tool of 2 MB beside one that is in order.
fn fat(id: &Value, cursor: Option<&str>) -> Value {
    let page: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
    let described = |name: String, bytes: usize| tool(&name, &"very ".repeat(bytes / 5));
    let tools = match page {
        0 => vec![described("fattest".into(), 2_000_000), tool("thin", "is in order")],
        _ => (0..50).map(|index| described(format!("fat_{page}_{index}"), 100_000)).collect(),
    };
    let mut listed = json!({ "tools": tools });
    if page < 10 {
        listed["nextCursor"] = json!((page + 1).to_string());
    }
    result(id, listed)
}

fn hints() -> Vec<Value> {
    let hinted = |name: &str, annotations: Value| json!({ "name": name, "annotations": annotations, "inputSchema": { "type": "object" } });
    vec![
        hinted("look", json!({ "readOnlyHint": true, "title": "Look" })),
        hinted("again", json!({ "idempotentHint": true, "destructiveHint": false })),
        hinted("plain", json!({ "readOnlyHint": "yes", "idempotentHint": 1 })),
        hinted("resources/read", json!({ "readOnlyHint": true })),
        hinted("prompts/get", json!({ "readOnlyHint": true })),
    ]
}

/// Names that are trouble in a path, in JavaScript, in a log line, or beside each other.
fn names() -> Vec<String> {
    let plain = [
        "with space",
        " padded ",
        "tab\there",
        "two\nlines",
        "nul\0byte",
        "quote\"double",
        "quote'single",
        "back`tick`",
        "back\\slash",
        "dollar${1}",
        "dot.ted",
        "dotted",
        "dash-ed",
        "dash_ed",
        "slash/ed",
        "../../etc/passwd",
        "*/ comment /*",
        "</script>",
        "__proto__",
        "constructor",
        "prototype",
        "toString",
        "hasOwnProperty",
        "then",
        "await",
        "class",
        "return",
        "default",
        "arguments",
        "eval",
        "undefined",
        "1st",
        "1",
        "-",
        "_",
        "$",
        "",
        "UPPER",
        "upper",
        "Upper",
        "naïve",
        "nai\u{308}ve",
        "日本語",
        "🦀",
        "\u{200f}rtl\u{200e}",
        "zero\u{200b}width",
        "fn()",
        "a;b",
        "a=b",
        "a&b",
        "a%20b",
    ];
    plain.into_iter().map(str::to_owned).chain(["x".repeat(300)]).collect()
}

fn cycles() -> Vec<Value> {
    let depth = std::env::var("LIAR_DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(40);
    let deep = (0..depth)
        .fold(json!({ "type": "string" }), |inner, _| json!({ "type": "object", "properties": { "in": inner } }));
    let values: Vec<_> = (0..10_000).map(|index| format!("value-{index}")).collect();
    let schemas = [
        (
            "itself",
            json!({
                "type": "object",
                "properties": { "tree": { "$ref": "#/$defs/node" } },
                "$defs": {
                    "node": {
                        "type": "object",
                        "properties": { "children": { "type": "array", "items": { "$ref": "#/$defs/node" } } },
                    },
                },
            }),
        ),
        ("root", json!({ "type": "object", "properties": { "self": { "$ref": "#" } } })),
        (
            "mutual",
            json!({
                "type": "object",
                "properties": { "a": { "$ref": "#/$defs/a" } },
                "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } },
            }),
        ),
        ("dangling", json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/nowhere" } } })),
        ("remote", json!({ "type": "object", "properties": { "x": { "$ref": "http://127.0.0.1:1/schema.json" } } })),
        ("deep", deep),
        ("enormous", json!({ "type": "object", "properties": { "one": { "enum": values } } })),
        ("booleans", json!({ "type": "object", "properties": { "any": true, "none": false } })),
    ];
    let described =
        schemas.map(|(name, schema)| json!({ "name": name, "description": "an odd schema", "inputSchema": schema }));
    described.into()
}

fn bad_tools() -> Vec<Value> {
    vec![
        tool("first", "is good"),
        json!({ "description": "has no name", "inputSchema": { "type": "object" } }),
        json!({ "name": 7, "inputSchema": { "type": "object" } }),
        json!({ "name": "string-schema", "inputSchema": "object" }),
        json!({ "name": "null-schema", "inputSchema": null }),
        json!({ "name": "no-schema" }),
        json!({ "name": "array-schema", "inputSchema": [] }),
        json!({ "name": "string-type", "inputSchema": { "type": "string" } }),
        json!({ "name": "wrong-description", "description": { "en": "text" }, "inputSchema": { "type": "object" } }),
        json!({ "name": "wrong-annotations", "annotations": "readOnly", "inputSchema": { "type": "object" } }),
        json!({ "name": "wrong-output", "outputSchema": 1, "inputSchema": { "type": "object" } }),
        json!(null),
        json!("a string"),
        tool("last", "is good"),
    ]
}
