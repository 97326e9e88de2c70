//! TypeScript types out of JSON Schema (drafts 7 and 2020-12), for guests that want to know a tool's shape.
//!
//! Schemas and descriptions are somebody else's text. Whatever they hold, what is rendered parses as TypeScript, is bounded in
//! depth and size, and carries nothing out of a comment.

mod jsdoc;
mod literal;
mod schema;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Entry;
use jsdoc::comment;
use schema::{Layout, Renderer};

pub use literal::property_key;

/// A rendered type and the named types it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeText {
    /// `type Name = …;` lines that must stand before it, each with a newline.
    pub definitions: String,
    /// The type itself.
    pub text: String,
}

/// The type that a schema describes, over several lines that are indented by `indent` after the first, with descriptions as
/// comments. Definitions that the schema refers to become named types, whose names start with `prefix`.
pub fn type_of(schema: &Value, prefix: &str, indent: &str) -> TypeText {
    type_among(schema, prefix, indent, &mut taken())
}

/// Names that no named type may have: those of the types that come with every header.
fn taken() -> BTreeSet<String> {
    ["McpApiHeader", "McpToolResult"].map(str::to_owned).into()
}

/// The same among others: its named types have names that are not `taken`, and take them.
fn type_among(schema: &Value, prefix: &str, indent: &str, taken: &mut BTreeSet<String>) -> TypeText {
    let mut renderer = Renderer::new(schema, Layout::Lines { prefix }, taken);
    let text = renderer.root(indent);
    TypeText { definitions: renderer.definitions(), text }
}

/// The same on one short line, without comments: for an index or an error message.
pub fn hint(schema: &Value) -> String {
    Renderer::new(schema, Layout::Hint, &mut BTreeSet::new()).root("")
}

/// The declaration of an entry as a method called `name`, with its description, on lines that are indented by `indent`.
pub fn method(entry: &Entry, name: &str, indent: &str) -> TypeText {
    method_among(entry, name, indent, &mut taken())
}

fn method_among(entry: &Entry, name: &str, indent: &str, taken: &mut BTreeSet<String>) -> TypeText {
    let prefix = literal::type_name(name);
    let input = type_among(&entry.input_schema, &prefix, indent, taken);
    let output = entry.output_schema.as_ref();
    let output = output.map(|schema| type_among(schema, &format!("{prefix}Result"), indent, taken));
    let (defined, result) =
        output.map_or((String::new(), "unknown".into()), |output| (output.definitions, output.text));
    let optional = if requires_nothing(&entry.input_schema) { "?" } else { "" };
    let (doc, key) = (comment(&entry.description, indent), property_key(name));
    TypeText {
        definitions: input.definitions + &defined,
        text: format!("{doc}{indent}{key}(input{optional}: {}): Promise<{result}>;\n", input.text),
    }
}

/// The declaration of a namespace at `path` whose functions are these entries, each under the name given with it. A function
/// resolves to the type that `result` makes of what its entry declares. `more` are further members, indented by two spaces.
pub fn namespace<'e>(
    path: &str,
    functions: impl IntoIterator<Item = (&'e str, &'e Entry)>,
    result: impl Fn(Option<&str>) -> String,
    more: &str,
) -> String {
    let (mut definitions, mut members, mut taken) = (String::new(), String::new(), taken());
    for (name, entry) in functions {
        let prefix = literal::type_name(name);
        let input = type_among(&entry.input_schema, &prefix, "  ", &mut taken);
        let output = entry.output_schema.as_ref();
        let output = output.map(|schema| type_among(schema, &format!("{prefix}Result"), "  ", &mut taken));
        definitions.push_str(&input.definitions);
        definitions.extend(output.iter().map(|output| output.definitions.as_str()));
        let optional = if requires_nothing(&entry.input_schema) { "?" } else { "" };
        let (doc, result) =
            (comment(&entry.description, "  "), result(output.as_ref().map(|output| output.text.as_str())));
        members.push_str(&format!("{doc}  function {name}(input{optional}: {}): Promise<{result}>;\n", input.text));
    }
    let definitions: String = definitions.lines().map(|line| format!("  {line}\n")).collect();
    format!("declare namespace {path} {{\n{more}{definitions}{members}}}\n")
}

/// The declaration of an object called `object` whose methods are these entries, each under the name given with it.
pub fn object<'e>(object: &str, methods: impl IntoIterator<Item = (&'e str, &'e Entry)>) -> String {
    let (mut definitions, mut members, mut taken) = (String::new(), String::new(), taken());
    for (name, entry) in methods {
        let rendered = method_among(entry, name, "  ", &mut taken);
        definitions.push_str(&rendered.definitions);
        members.push_str(&rendered.text);
    }
    format!("{definitions}declare const {object}: {{\n{members}}};\n")
}

fn requires_nothing(schema: &Value) -> bool {
    schema.get("required").and_then(Value::as_array).is_none_or(Vec::is_empty)
}
