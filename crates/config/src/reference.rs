//! The reference page of all keys, made from the schema.

use std::fmt::Write;

use serde_json::Value;

use crate::check::{definition, types};
use crate::schema;

const HEAD: &str = "\
# Config

<!-- Made from the types in crates/config/src/keys: see CONTRIBUTING.md. -->

Pincer reads one JSON5 file (JSON with comments, trailing commas and bare keys): the one given with `--config`, else the one
named by `$PINCER_CONFIG`, else `./pincer.json5`, else `$XDG_CONFIG_HOME/pincer/pincer.json5`. Without any, everything has its
default.

```json5
{
  tools: { profile: \"coding\", deny: [\"web_fetch\"] },
  approvals: { rules: [{ match: \"openclaw:core:write\", decision: \"ask\" }] },
}
```

`${NAME}` in a string is replaced by that environment variable, which must be set; `$${` stands for `${` itself. In
`mcp.servers` a variable that is not set makes its server down, and everything else works; `pincer config validate` tells of it.
`${secret:NAME}` is replaced by a secret of `pincer secrets set`, or of the section `secrets`; those of a server when it is started. Keys that do
not exist, keys that stand twice and values of the wrong kind are errors (exit code 2); a number outside its range is brought
into it, with a warning. `pincer config validate` checks a file, `pincer config show` prints what is in force, and `pincer
config schema` prints the JSON Schema for your editor.

`<…>` in a key stands for a name of your choice, `[]` for every item of a list.
";

/// The page, as Markdown.
pub fn reference() -> String {
    let schema = schema();
    let mut page = Page { schema: &schema, text: HEAD.to_owned() };
    for (key, member) in properties(&schema) {
        let _ = write!(page.text, "\n## `{key}`\n\n{}\n", described(member, page.resolved(member)));
        let mut rows = String::new();
        page.rows(key, member, &mut rows);
        if !rows.is_empty() {
            let _ = write!(page.text, "\n| key | value | default | what it does |\n|---|---|---|---|\n{rows}");
        }
    }
    page.text
}

struct Page<'s> {
    schema: &'s Value,
    text: String,
}

impl<'s> Page<'s> {
    /// The keys within a value, each with those within it.
    fn rows(&self, path: &str, schema: &'s Value, rows: &mut String) {
        let shape = self.resolved(schema);
        for branch in branches(shape) {
            self.rows(path, branch, rows);
        }
        if let Some(items) = shape.get("items") {
            self.rows(&format!("{path}[]"), items, rows);
        }
        if let Some(values) = shape.get("additionalProperties").filter(|values| values.is_object()) {
            let path = format!("{path}.<{}>", name_of(path));
            self.rows(&path, values, rows);
        }
        for (key, member) in properties(shape) {
            let path = format!("{path}.{key}");
            let inner = self.resolved(member);
            // A group of keys explains itself by its keys.
            let group = inner.get("properties").is_some();
            if !group {
                // A choice between keys is described where the choice is.
                let about = if member.get("description").is_some() { member } else { shape };
                let default = member.get("default").filter(|default| !is_nothing(default));
                let default = default.map(|default| format!("`{default}`")).unwrap_or_default();
                let _ =
                    writeln!(rows, "| `{path}` | {} | {default} | {} |", self.kind(member), described(inner, about));
            }
            self.rows(&path, member, rows);
        }
    }

    fn kind(&self, schema: &'s Value) -> String {
        let shape = self.resolved(schema);
        if let Some(words) = shape.get("enum").and_then(Value::as_array) {
            return list(words.iter());
        }
        let all = branches(shape);
        if !all.is_empty() {
            let constants: Vec<&Value> = all.iter().filter_map(|branch| branch.get("const")).collect();
            if !constants.is_empty() {
                return list(constants.into_iter());
            }
            let kinds: Vec<String> =
                all.iter().map(|branch| self.kind(branch)).filter(|kind| kind != "nothing").collect();
            return kinds.join(" or ");
        }
        let kinds: Vec<String> =
            types(shape).into_iter().filter(|kind| *kind != "null").map(|kind| self.one(kind, shape)).collect();
        if kinds.is_empty() { "nothing".into() } else { kinds.join(" or ") }
    }

    fn one(&self, kind: &str, shape: &'s Value) -> String {
        match kind {
            "boolean" => "`true` or `false`".into(),
            "integer" | "number" => match (shape.get("minimum"), shape.get("maximum")) {
                (Some(least), Some(most)) if most.as_f64() < Some(2e9) => format!("{least} to {most}"),
                _ => "number".into(),
            },
            "array" => match shape.get("items").map(|items| self.kind(items)) {
                Some(of) if of == "object" => "list of objects".into(),
                Some(of) if of == "string" => "list of strings".into(),
                Some(of) => format!("list of {of}"),
                None => "list".into(),
            },
            "null" => "nothing".into(),
            other => other.into(),
        }
    }

    fn resolved(&self, schema: &'s Value) -> &'s Value {
        let of = definition(self.schema, schema);
        // What may be absent is a choice between something and `null`.
        let some: Vec<&Value> = branches(of).iter().filter(|branch| types(branch) != ["null"]).collect();
        match (some.as_slice(), branches(of).len()) {
            ([only], 2) => self.resolved(only),
            _ => of,
        }
    }
}

fn branches(schema: &Value) -> &[Value] {
    ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()).map_or(&[], Vec::as_slice)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn is_nothing(default: &Value) -> bool {
    default.is_null() || default.as_array().is_some_and(Vec::is_empty) || default.is_object()
}

fn list<'v>(words: impl Iterator<Item = &'v Value>) -> String {
    words.filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// What one says of itself, or else the other; on one line, for a table.
fn described(other: &Value, first: &Value) -> String {
    let text = [first, other].into_iter().find_map(|schema| schema.get("description")?.as_str()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// What the names under a key are names of.
fn name_of(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "agents" => "agent",
        "byProvider" => "provider",
        "bySender" => "sender",
        "entries" if path.starts_with("skills") => "skill",
        "channels" => "channel",
        "entries" => "plugin",
        _ => "name",
    }
}
