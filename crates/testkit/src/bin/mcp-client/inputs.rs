//! Values that fit a schema, as far as anybody can tell by looking at it.

use serde_json::{Map, Value, json};

/// An object with all that is required, and all that has a default.
pub(crate) fn input(schema: &Value) -> Value {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let needed = properties.filter(|(name, of)| required.contains(&name.as_str()) || of.get("default").is_some());
    Value::Object(needed.map(|(name, of)| (name.clone(), value(of))).collect::<Map<_, _>>())
}

fn value(schema: &Value) -> Value {
    let given = schema.get("default").or_else(|| schema.get("const")).or_else(|| schema.pointer("/enum/0"));
    if let Some(given) = given {
        return given.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => input(schema),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}
