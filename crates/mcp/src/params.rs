//! Arguments that are sent as headers too (since 2026-07-28, over HTTP): a tool's schema marks them with `x-mcp-header`, for
//! what stands between us and the server and does not read messages.
//!
//! rmcp does this for lists of tools that it reads itself; ours are taken as they were sent.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, JsonRpcRequest, ProtocolVersion};
use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";
/// Around what cannot be in a header as it is.
const WRAPPED: (&str, &str) = ("=?base64?", "?=");

/// An argument that is sent as a header too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mirrored {
    path: Vec<String>,
    header: HeaderName,
}

/// The headers of one call. They travel with its request.
#[derive(Clone, Debug)]
pub(crate) struct ParamHeaders(pub Vec<(HeaderName, HeaderValue)>);

/// The reason why a mark in a schema cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MarkError {
    #[error("is at something that is no argument")]
    NoArgument,
    #[error("is at something that is no text, whole number or truth value")]
    WrongType,
    #[error("names no header")]
    Unnamed,
    #[error("names something that is no header")]
    NoHeader,
    #[error("names a header twice")]
    Twice,
}

/// Returns the arguments that a schema marks.
pub(crate) fn mirrored(schema: &Value) -> Result<Vec<Mirrored>, MarkError> {
    let mut found = Found::default();
    found.look(schema, Within::Root)?;
    Ok(found.mirrored)
}

impl ParamHeaders {
    /// Returns the headers of a call with these arguments. Arguments that are absent, or no plain value, have no header.
    pub(crate) fn of(mirrored: &[Mirrored], arguments: &Map<String, Value>) -> Option<Self> {
        let headers = mirrored.iter().filter_map(|Mirrored { path, header }| {
            let (first, rest) = path.split_first()?;
            let value = rest.iter().try_fold(arguments.get(first)?, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                _ => return None,
            };
            Some((header.clone(), HeaderValue::from_str(&wrapped(text)).ok()?))
        });
        let headers: Vec<_> = headers.collect();
        (!headers.is_empty()).then_some(Self(headers))
    }

    /// Returns the headers of a message that goes out with `headers`, if its revision has them.
    pub(crate) fn with(
        message: &ClientJsonRpcMessage,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let version = headers.get(&HeaderName::from_static("mcp-protocol-version"));
        let known = version.is_some_and(|version| version >= ProtocolVersion::STANDARD_HEADERS.as_str());
        match message {
            JsonRpcMessage::Request(JsonRpcRequest { request: ClientRequest::CallToolRequest(request), .. })
                if known =>
            {
                request.extensions.get::<Self>().map(|headers| headers.0.clone()).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

fn wrapped(text: String) -> String {
    let (before, after) = WRAPPED;
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim_matches(' ') == text;
    // What looks wrapped would be unwrapped.
    if plain && !(text.starts_with(before) && text.ends_with(after)) {
        return text;
    }
    format!("{before}{}{after}", STANDARD.encode(text))
}

/// A position in a schema.
enum Within {
    Root,
    /// An argument, or one within it.
    Argument(Vec<String>),
    /// A position whose values in a call cannot be told from the schema alone.
    Elsewhere,
}

#[derive(Default)]
struct Found {
    mirrored: Vec<Mirrored>,
    names: HashSet<String>,
}

impl Found {
    fn look(&mut self, schema: &Value, within: Within) -> Result<(), MarkError> {
        let Some(object) = schema.as_object() else { return Ok(()) };
        if let Some(mark) = object.get(MARK) {
            let Within::Argument(path) = &within else { return Err(MarkError::NoArgument) };
            self.take(mark, object.get("type"), path)?;
        }
        for (key, value) in object {
            let children: Vec<(&String, &Value)> = match (key.as_str(), value) {
                // Values, not schemas.
                (MARK | "default" | "const" | "enum" | "examples", _) => continue,
                (
                    "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                    Value::Object(all),
                ) => all.iter().collect(),
                (_, Value::Array(all)) => all.iter().map(|child| (key, child)).collect(),
                _ => vec![(key, value)],
            };
            for (name, child) in children {
                let within = match (&within, key.as_str()) {
                    (Within::Root, "properties") => Within::Argument(vec![name.clone()]),
                    (Within::Argument(path), "properties") => {
                        Within::Argument(path.iter().chain([name]).cloned().collect())
                    }
                    _ => Within::Elsewhere,
                };
                self.look(child, within)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, mark: &Value, of_type: Option<&Value>, path: &[String]) -> Result<(), MarkError> {
        if !matches!(of_type.and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(MarkError::WrongType);
        }
        let name = mark.as_str().filter(|name| !name.is_empty()).ok_or(MarkError::Unnamed)?;
        let header = format!("mcp-param-{}", name.to_ascii_lowercase());
        let header: HeaderName = header.parse().map_err(|_| MarkError::NoHeader)?;
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(MarkError::Twice);
        }
        self.mirrored.push(Mirrored { path: path.to_vec(), header });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    fn sent(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
        let headers = ParamHeaders::of(&mirrored(schema).unwrap(), arguments.as_object().unwrap());
        let headers = headers.into_iter().flat_map(|headers| headers.0);
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn marked_arguments_are_headers() {
        let schema = json!({ "type": "object", "properties": {
            "text": { "type": "string", "x-mcp-header": "Text" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "sure": { "type": "boolean", "x-mcp-header": "Sure" },
            "where": { "type": "object", "properties": { "zone": { "type": "string", "x-mcp-header": "Zone" } } },
            "plain": { "type": "string", "default": { "x-mcp-header": "no schema" } },
        } });
        let cases = [
            (json!({}), vec![]),
            (json!({ "text": null, "plain": "x" }), vec![]),
            (json!({ "text": "us west" }), vec![("mcp-param-text", "us west")]),
            (json!({ "text": "" }), vec![("mcp-param-text", "")]),
            (json!({ "text": " x" }), vec![("mcp-param-text", "=?base64?IHg=?=")]),
            (json!({ "text": "ü\r\n" }), vec![("mcp-param-text", "=?base64?w7wNCg==?=")]),
            (json!({ "text": "=?base64?eA==?=" }), vec![("mcp-param-text", "=?base64?PT9iYXNlNjQ/ZUE9PT89?=")]),
            (json!({ "count": 42, "sure": false }), vec![("mcp-param-count", "42"), ("mcp-param-sure", "false")]),
            (json!({ "where": { "zone": "a" } }), vec![("mcp-param-zone", "a")]),
        ];
        for (arguments, expected) in cases {
            let mut sent = sent(&schema, &arguments);
            sent.sort();
            let expected: Vec<_> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(sent, expected, "{arguments}");
        }
    }

    #[test]
    fn marks_that_make_no_sense_are_refused() {
        let text = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        let wrong = [
            json!({ "x-mcp-header": "Root" }),
            json!({ "properties": { "a": text("") } }),
            json!({ "properties": { "a": text("A b") } }),
            json!({ "properties": { "a": text("Région") } }),
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": 1 } } }),
            json!({ "properties": { "a": { "type": "number", "x-mcp-header": "A" } } }),
            json!({ "properties": { "a": { "x-mcp-header": "A" } } }),
            json!({ "properties": { "a": text("A"), "b": text("a") } }),
            json!({ "properties": { "a": { "type": "array", "items": text("A") } } }),
            json!({ "properties": { "a": { "oneOf": [text("A")] } } }),
            json!({ "$defs": { "a": text("A") } }),
        ];
        for schema in wrong {
            assert!(mirrored(&schema).is_err(), "{schema}");
        }
    }
}
