//! From a JSON Schema to the text of a type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::jsdoc::{comment, inline};
use super::literal::{literal_type, property_key, type_name};

/// How a type is laid out.
#[derive(Clone, Copy)]
pub(super) enum Layout<'a> {
    /// Over several lines with comments; referred definitions become types whose names start with `prefix`.
    Lines {
        /// What names start with.
        prefix: &'a str,
    },
    /// On one line; referred definitions are written out where they are used.
    Hint,
}

/// Nesting beyond this is `unknown`.
const MAX_DEPTH: usize = 12;
const MAX_HINT_DEPTH: usize = 3;
/// What is rendered for one schema, more or less: when it is used up, the rest is `unknown`.
const MAX_CHARS: usize = 64 << 10;
const MAX_HINT_CHARS: usize = 300;
/// An enum of more values than this is shown as its first few and the type of the rest.
const MAX_ENUM: usize = 60;
const MAX_HINT_ENUM: usize = 6;

const UNKNOWN: &str = "unknown";

pub(super) struct Renderer<'a> {
    root: &'a Value,
    layout: Layout<'a>,
    left: usize,
    /// Pointers of definitions, with the names they have.
    named: Vec<(String, String)>,
    /// Names of types that mean something else, and of all that were named here.
    taken: &'a mut BTreeSet<String>,
    /// Pointers that lead to nothing but themselves.
    endless: BTreeSet<String>,
    rendered: String,
    /// What a hint is in the middle of, so that it ends.
    open: Vec<String>,
}

impl<'a> Renderer<'a> {
    pub(super) fn new(root: &'a Value, layout: Layout<'a>, taken: &'a mut BTreeSet<String>) -> Self {
        let left = match layout {
            Layout::Lines { .. } => MAX_CHARS,
            Layout::Hint => MAX_HINT_CHARS,
        };
        let (named, endless, rendered, open) = (Vec::new(), BTreeSet::new(), String::new(), Vec::new());
        Self { root, layout, left, named, taken, endless, rendered, open }
    }

    pub(super) fn root(&mut self, indent: &str) -> String {
        self.render(self.root, indent, 0)
    }

    /// The named types that were referred to, and those that they refer to.
    pub(super) fn definitions(mut self) -> String {
        let mut done = 0;
        while let Some((pointer, name)) = self.named.get(done).cloned() {
            done += 1;
            let body = match self.resolve(&pointer) {
                Some(schema) => self.render(schema, "", 1),
                None => UNKNOWN.into(),
            };
            self.rendered.push_str(&format!("type {name} = {body};\n"));
        }
        self.rendered
    }

    fn render(&mut self, schema: &'a Value, indent: &str, depth: usize) -> String {
        let deepest = if self.is_hint() { MAX_HINT_DEPTH } else { MAX_DEPTH };
        if depth > deepest || self.left == 0 {
            return UNKNOWN.into();
        }
        // Every type costs a little, whatever is in it: so even the widest schema comes to an end.
        self.spend(8);
        match schema {
            Value::Bool(false) => "never".into(),
            Value::Object(schema) => self.object_schema(schema, indent, depth),
            _ => UNKNOWN.into(),
        }
    }

    fn spend(&mut self, chars: usize) {
        self.left = self.left.saturating_sub(chars);
    }

    fn object_schema(&mut self, schema: &'a Map<String, Value>, indent: &str, depth: usize) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            parts.push(self.reference(reference, indent, depth));
        }
        if let Some(own) = self.own_type(schema, indent, depth) {
            parts.push(own);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = schema.get(key).and_then(Value::as_array).filter(|options| !options.is_empty()) {
                let options = options.iter().map(|option| self.render(option, indent, depth + 1)).collect();
                parts.push(union(options));
            }
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            parts.extend(all.iter().map(|part| self.render(part, indent, depth + 1)));
        }
        // `unknown` adds nothing to an intersection.
        parts.retain(|part| part != UNKNOWN);
        let mut seen = BTreeSet::new();
        parts.retain(|part| seen.insert(part.clone()));
        let text = match &parts[..] {
            [] => UNKNOWN.into(),
            [one] => one.clone(),
            _ => parts.iter().map(|part| grouped(part)).collect::<Vec<_>>().join(" & "),
        };
        let nullable = schema.get("nullable").and_then(Value::as_bool) == Some(true);
        if nullable && text != UNKNOWN { union(vec![text, "null".into()]) } else { text }
    }

    /// What the schema says without looking at others.
    fn own_type(&mut self, schema: &'a Map<String, Value>, indent: &str, depth: usize) -> Option<String> {
        if let Some(value) = schema.get("const") {
            let text = literal_type(value).unwrap_or_else(|| UNKNOWN.into());
            self.spend(text.len());
            return Some(text);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let text = self.enumeration(values);
            self.spend(text.len());
            return Some(text);
        }
        match schema.get("type") {
            Some(Value::String(name)) => Some(self.named_type(name, schema, indent, depth)),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                Some(union(names.into_iter().map(|name| self.named_type(name, schema, indent, depth)).collect()))
            }
            _ if ["properties", "additionalProperties", "patternProperties"]
                .iter()
                .any(|key| schema.contains_key(*key)) =>
            {
                Some(self.object(schema, indent, depth))
            }
            _ if schema.contains_key("items") || schema.contains_key("prefixItems") => {
                Some(self.array(schema, indent, depth))
            }
            _ => None,
        }
    }

    fn named_type(&mut self, name: &str, schema: &'a Map<String, Value>, indent: &str, depth: usize) -> String {
        match name {
            "string" => format!("string{}", self.format(schema)),
            "number" | "integer" => format!("number{}", self.format(schema)),
            "boolean" => "boolean".into(),
            "null" => "null".into(),
            "array" => self.array(schema, indent, depth),
            // `dict` is what some Python libraries write.
            "object" | "dict" => self.object(schema, indent, depth),
            _ => UNKNOWN.into(),
        }
    }

    fn format(&self, schema: &Map<String, Value>) -> String {
        let format = schema.get("format").and_then(Value::as_str).filter(|_| !self.is_hint());
        format.map_or_else(String::new, inline)
    }

    fn enumeration(&self, values: &[Value]) -> String {
        let most = if self.is_hint() { MAX_HINT_ENUM } else { MAX_ENUM };
        let mut options: Vec<String> =
            values.iter().take(most).map(|value| literal_type(value).unwrap_or_else(|| UNKNOWN.into())).collect();
        if values.len() > most {
            let strings = values.iter().all(Value::is_string);
            options.push(if strings { "string".into() } else { UNKNOWN.into() });
        }
        if options.is_empty() { "never".into() } else { union(options) }
    }

    fn array(&mut self, schema: &'a Map<String, Value>, indent: &str, depth: usize) -> String {
        let items = schema.get("items");
        let tuple = schema.get("prefixItems").or(items.filter(|items| items.is_array())).and_then(Value::as_array);
        let Some(tuple) = tuple.filter(|tuple| !tuple.is_empty()) else {
            let item = items.filter(|items| !items.is_array()).map(|items| self.render(items, indent, depth + 1));
            return format!("{}[]", grouped(&item.unwrap_or_else(|| UNKNOWN.into())));
        };
        let least = schema.get("minItems").and_then(Value::as_u64).map_or(0, |least| least as usize);
        let mut parts: Vec<String> = Vec::new();
        for (index, item) in tuple.iter().enumerate() {
            let item = self.render(item, indent, depth + 1);
            parts.push(if index < least { item } else { format!("{}?", grouped(&item)) });
        }
        // In draft 2020-12 `items` speaks of the rest, in draft 7 `additionalItems` does.
        let rest = items.filter(|items| !items.is_array()).or_else(|| schema.get("additionalItems"));
        match rest {
            Some(Value::Bool(false)) => {}
            Some(rest) => parts.push(format!("...{}[]", grouped(&self.render(rest, indent, depth + 1)))),
            None => parts.push("...unknown[]".into()),
        }
        format!("[{}]", parts.join(", "))
    }

    fn object(&mut self, schema: &'a Map<String, Value>, indent: &str, depth: usize) -> String {
        let required: BTreeSet<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map_or_else(BTreeSet::new, |names| names.iter().filter_map(Value::as_str).collect());
        let inner = format!("{indent}  ");
        let mut members: Vec<String> = Vec::new();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            // What must be given comes first.
            let (must, may): (Vec<_>, Vec<_>) =
                properties.iter().partition(|(name, _)| required.contains(name.as_str()));
            for (name, property) in must.into_iter().chain(may) {
                if self.left == 0 {
                    members.push(if self.is_hint() {
                        "[more: string]: unknown".into()
                    } else {
                        format!("{inner}[more: string]: unknown;\n")
                    });
                    break;
                }
                let optional = if required.contains(name.as_str()) { "" } else { "?" };
                let text = self.render(property, &inner, depth + 1);
                let key = property_key(name);
                self.spend(key.len() + 4);
                members.push(match self.layout {
                    Layout::Hint => format!("{key}{optional}: {text}"),
                    Layout::Lines { .. } => {
                        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
                        let doc = comment(description, &inner);
                        self.spend(doc.len());
                        format!("{doc}{inner}{key}{optional}: {text};\n")
                    }
                });
            }
        }
        let record = self.record(schema, indent, depth);
        if members.is_empty() {
            return record.unwrap_or_else(|| match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => "Record<string, never>".into(),
                _ => "Record<string, unknown>".into(),
            });
        }
        let object = match self.layout {
            Layout::Hint => format!("{{ {} }}", members.join("; ")),
            Layout::Lines { .. } => format!("{{\n{}{indent}}}", members.concat()),
        };
        match record {
            Some(record) => format!("{object} & {record}"),
            None => object,
        }
    }

    /// What is said of properties that are not named.
    fn record(&mut self, schema: &'a Map<String, Value>, indent: &str, depth: usize) -> Option<String> {
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        let schemas: Vec<&'a Value> = patterns.into_iter().flat_map(Map::values).chain(others).collect();
        if schemas.is_empty() {
            return None;
        }
        let types = union(schemas.into_iter().map(|schema| self.render(schema, indent, depth + 1)).collect());
        // A type may refer to itself behind an index, but not as an argument of another type.
        let refers = self.named.iter().any(|(_, name)| types.contains(name.as_str()));
        Some(if refers { format!("{{ [key: string]: {types} }}") } else { format!("Record<string, {types}>") })
    }

    fn reference(&mut self, reference: &str, indent: &str, depth: usize) -> String {
        let Some(pointer) = reference.strip_prefix('#') else { return UNKNOWN.into() };
        let Layout::Lines { prefix } = self.layout else {
            return self.written_out(pointer, indent, depth);
        };
        if self.resolve(pointer).is_none() {
            return UNKNOWN.into();
        }
        if let Some((_, name)) = self.named.iter().find(|(known, _)| known == pointer) {
            return name.clone();
        }
        if self.endless.contains(pointer) || self.is_endless(pointer) {
            self.endless.insert(pointer.into());
            return UNKNOWN.into();
        }
        let wanted = format!("{prefix}{}", type_name(pointer.rsplit('/').next().unwrap_or_default()));
        let mut name = wanted.clone();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}{number}");
            number += 1;
        }
        self.named.push((pointer.into(), name.clone()));
        name
    }

    /// Whether a definition refers to itself with no object or array in between: TypeScript has no such types.
    fn is_endless(&self, pointer: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Value> = self.resolve(pointer).into_iter().collect();
        while let Some(schema) = open.pop() {
            for key in ["anyOf", "oneOf", "allOf"] {
                open.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten());
            }
            let next = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
            match next {
                Some(next) if next == pointer => return true,
                Some(next) if seen.insert(next) => open.extend(self.resolve(next)),
                _ => {}
            }
        }
        false
    }

    fn written_out(&mut self, pointer: &str, indent: &str, depth: usize) -> String {
        if self.open.iter().any(|open| open == pointer) {
            return UNKNOWN.into();
        }
        let Some(schema) = self.resolve(pointer) else { return UNKNOWN.into() };
        self.open.push(pointer.into());
        let text = self.render(schema, indent, depth + 1);
        self.open.pop();
        text
    }

    /// The schema at a JSON pointer in the root, percent-decoded as in a URL fragment.
    fn resolve(&self, pointer: &str) -> Option<&'a Value> {
        self.root.pointer(&pointer.replace("%20", " ").replace("%24", "$").replace("%7E", "~").replace("%25", "%"))
    }

    fn is_hint(&self) -> bool {
        matches!(self.layout, Layout::Hint)
    }
}

/// `A | B`, each once. `unknown` takes everything in.
fn union(types: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    let types: Vec<String> = types.into_iter().filter(|text| seen.insert(text.clone())).collect();
    match &types[..] {
        _ if types.iter().any(|text| text == UNKNOWN) => UNKNOWN.into(),
        [] => "never".into(),
        [one] => one.clone(),
        _ => types.iter().map(|text| grouped_in_union(text)).collect::<Vec<_>>().join(" | "),
    }
}

/// In parentheses where an operator would tear the type apart.
fn grouped(text: &str) -> String {
    if has_operator(text, &['|', '&']) || text.ends_with("*/") { format!("({text})") } else { text.into() }
}

fn grouped_in_union(text: &str) -> String {
    if has_operator(text, &['&']) { format!("({text})") } else { text.into() }
}

/// Whether an operator stands outside of all brackets, strings and comments.
fn has_operator(text: &str, operators: &[char]) -> bool {
    let (mut depth, mut in_string, mut escaped, mut in_comment) = (0i32, false, false, false);
    let mut previous = ' ';
    for c in text.chars() {
        if in_comment {
            in_comment = !(previous == '*' && c == '/');
        } else if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            match c {
                '"' => in_string = true,
                '*' if previous == '/' => in_comment = true,
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' | '>' => depth -= 1,
                _ if depth == 0 && operators.contains(&c) => return true,
                _ => {}
            }
        }
        previous = c;
    }
    false
}
