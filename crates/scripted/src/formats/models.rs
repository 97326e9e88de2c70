//! The list of models, in the shapes of both providers.

use serde_json::{Value, json};

use super::CREATED;

/// [`CREATED`] as Anthropic writes it.
const CREATED_AT: &str = "2026-01-01T00:00:00Z";

/// Returns one model, as Anthropic describes it if `is_anthropic`, and else as OpenAI does.
pub(crate) fn model(name: &str, is_anthropic: bool) -> Value {
    if is_anthropic {
        json!({
            "type": "model", "id": name, "display_name": name, "created_at": CREATED_AT, "lifecycle": "active",
        })
    } else {
        json!({ "id": name, "object": "model", "created": CREATED, "owned_by": "pincer" })
    }
}

/// Returns the list of models.
pub(crate) fn models(names: &[String], is_anthropic: bool) -> Value {
    let data: Vec<Value> = names.iter().map(|name| model(name, is_anthropic)).collect();
    if is_anthropic {
        json!({ "data": data, "has_more": false, "first_id": names.first(), "last_id": names.last() })
    } else {
        json!({ "object": "list", "data": data })
    }
}
