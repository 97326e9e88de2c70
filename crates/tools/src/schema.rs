//! Inputs and outputs against their schemas, with messages that help.

use std::collections::HashMap;

use jsonschema::Validator;
use pincer_catalog::{declare, nearest, shortened};
use serde_json::Value;

/// How many things that are wrong are told at once.
const MOST_ERRORS: usize = 3;
/// Messages quote the value they speak of, which may be a whole document.
const MOST_CHARS: usize = 300;

/// A schema, ready to check values with.
pub(crate) struct Checked {
    validator: Validator,
    schema: Value,
}

/// The reason why a value is no JSON Schema.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON Schema: {0}")]
pub struct SchemaError(#[source] Box<jsonschema::ValidationError<'static>>);

/// Checks that a value is a JSON Schema that values can be checked with.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    Checked::new(schema).map(drop)
}

impl Checked {
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        let validator = jsonschema::validator_for(schema).map_err(|error| SchemaError(Box::new(error)))?;
        Ok(Self { validator, schema: schema.clone() })
    }

    /// Returns a schema of a server ready to check with, if it can be: it may be none, point elsewhere, or take too long. Then the
    /// values are for the server to check.
    pub(crate) fn of_stranger(schema: &Value) -> Option<Self> {
        affordable(schema).then(|| Self::new(schema).ok()).flatten()
    }

    /// Returns what is wrong with a value, in a sentence; nothing if it fits.
    pub(crate) fn complaint(&self, value: &Value) -> Option<String> {
        let wrong: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(MOST_ERRORS)
            .map(|error| {
                let place = error.instance_path().to_string();
                let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
                format!("{}{at}", shortened(&error.to_string(), MOST_CHARS))
            })
            .collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }

    /// The same for an input, with what was expected and names that were perhaps meant.
    pub(crate) fn input_complaint(&self, tool: &str, input: &Value) -> Option<String> {
        let wrong = self.complaint(input)?;
        let mut message = format!("Invalid arguments for tool \"{tool}\": {wrong}.");
        let meant = self.misspelt(input);
        if !meant.is_empty() {
            message.push_str(&format!(" Did you mean: {}?", meant.join(", ")));
        }
        message.push_str(&format!(" Expected input: {}", declare::hint(&self.schema)));
        Some(message)
    }

    /// Known properties that are spelt like unknown ones of the input.
    fn misspelt(&self, input: &Value) -> Vec<String> {
        let Some(known) = self.schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
        let given = |name: &str| input.get(name).is_some();
        let unknown: Vec<&String> = input
            .as_object()
            .into_iter()
            .flat_map(|input| input.keys())
            .filter(|key| !known.contains_key(*key))
            .collect();
        let required = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing: Vec<&str> = required.filter_map(Value::as_str).filter(|name| !given(name)).collect();
        // One too many and one too few are one, however they are spelt.
        if let ([_], [missing]) = (unknown.as_slice(), missing.as_slice()) {
            return vec![(*missing).to_owned()];
        }
        let mut meant: Vec<String> = Vec::new();
        for key in unknown {
            let free = known.keys().filter(|name| !given(name));
            meant.extend(nearest(key, free.map(|name| (name.clone(), name.clone())), 1));
        }
        meant.dedup();
        meant
    }
}

/// What checking a value may take, in parts of the schema that are looked at.
const MOST_WORK: u64 = 100_000;

/// Whether a schema stays small when its references are followed: forty definitions that each name the next one twice are a
/// few kilobytes, and a million million parts.
fn affordable(schema: &Value) -> bool {
    fn work<'s>(whole: &'s Value, part: &'s Value, known: &mut HashMap<&'s str, u64>, depth: u32) -> u64 {
        const MOST_DEPTH: u32 = 200;
        if depth > MOST_DEPTH {
            return MOST_WORK + 1;
        }
        match part {
            Value::Array(items) => {
                items.iter().fold(1, |sum: u64, item| sum.saturating_add(work(whole, item, known, depth + 1)))
            }
            Value::Object(members) => members.iter().fold(1, |sum: u64, (key, member)| {
                let target = member.as_str().filter(|_| key == "$ref" || key == "$dynamicRef");
                let more = match target.map(|target| (target, target.strip_prefix('#'))) {
                    None => work(whole, member, known, depth + 1),
                    Some((target, Some(pointer))) => match known.get(target) {
                        Some(known) => *known,
                        None => {
                            // A circle is noticed by whoever checks.
                            known.insert(target, 1);
                            let more = whole.pointer(pointer).map_or(1, |part| work(whole, part, known, depth + 1));
                            known.insert(target, more);
                            more
                        }
                    },
                    Some((_, None)) => 1,
                };
                sum.saturating_add(more)
            }),
            _ => 1,
        }
    }
    work(schema, schema, &mut HashMap::new(), 0) <= MOST_WORK
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_of_a_stranger_is_only_used_if_it_can_be() {
        let doubled: serde_json::Map<String, Value> = (0..40)
            .map(|i| {
                let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
                (format!("d{i}"), json!({ "allOf": [next, next] }))
            })
            .collect();
        for (schema, used) in [
            (json!({ "type": "object", "required": ["a"] }), true),
            (json!({ "$ref": "#" }), true),
            (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/a" }] } } }), true),
            (json!({ "$ref": "#/$defs/d0", "$defs": doubled }), false),
            (json!({ "$ref": "http://127.0.0.1:1/schema" }), false),
            (json!({ "type": 5 }), false),
            (json!("object"), false),
        ] {
            assert_eq!(Checked::of_stranger(&schema).is_some(), used, "{schema}");
        }
    }
}
