//! Conditions that a reply sets for its request.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::exchange::Request;

/// Conditions that a reply sets for its request. A request that does not meet them gets status 400 with an explanation, and
/// [`Server::complaints`](crate::Server::complaints) has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Expect {
    /// The names of all tools that are offered, in their order: a prompt cache depends on it.
    pub tools: Option<Vec<String>>,
    /// Texts that must each be in some string of the body. A script may have one text in place of the list.
    #[serde(deserialize_with = "one_or_many")]
    pub contains: Vec<String>,
    /// The path.
    pub path: Option<String>,
    /// Headers and their values.
    pub header: BTreeMap<String, String>,
}

impl Expect {
    /// Returns the first thing that is not as expected.
    pub(crate) fn mismatch(&self, request: &Request) -> Option<String> {
        if let Some(path) = &self.path
            && *path != request.path
        {
            return Some(format!("expected the path {path}, not {}", request.path));
        }
        for (name, value) in &self.header {
            match request.header(name) {
                Some(found) if found == value => {}
                Some(found) => return Some(format!("expected the header `{name}: {value}`, not `{found}`")),
                None => return Some(format!("expected the header `{name}: {value}`, which is missing")),
            }
        }
        if let Some(tools) = &self.tools {
            let found = tool_names(&request.body);
            if *tools != found {
                return Some(format!("expected the tools {tools:?}, not {found:?}"));
            }
        }
        let missing = self.contains.iter().find(|text| !has_text(&request.body, text))?;
        Some(format!("expected the text {missing:?} in the body"))
    }
}

/// Returns the names of the tools in a request. A tool of the provider's own has only a type.
fn tool_names(body: &Value) -> Vec<String> {
    let name = |tool: &Value| {
        let places = [&tool["name"], &tool["function"]["name"], &tool["custom"]["name"], &tool["type"]];
        places.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
    };
    body["tools"].as_array().into_iter().flatten().map(name).collect()
}

fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| has_text(item, text)),
        Value::Object(fields) => fields.values().any(|field| has_text(field, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    })
}
