//! Inputs and outputs against their schemas, with messages that help.

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

/// A schema that is none.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON Schema: {0}")]
pub struct SchemaError(String);

/// Whether a value is a JSON Schema that values can be checked with.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    Checked::new(schema).map(drop)
}

impl Checked {
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let validator = jsonschema::validator_for(schema).map_err(|error| SchemaError(error.to_string()))?;
        Ok(Self { validator, schema: schema.clone() })
    }

    /// What is wrong with a value, in a sentence; nothing if it fits.
    pub fn complaint(&self, value: &Value) -> Option<String> {
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
    pub fn input_complaint(&self, tool: &str, input: &Value) -> Option<String> {
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
