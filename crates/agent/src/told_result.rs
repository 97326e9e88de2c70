//! The words for what came of a call, as its model reads them.

use pincer_model::{Content, Image};
use pincer_store::NewEntry;
use pincer_tools::{CallError, Effect, Outcome};
use serde_json::{Value, json};

use crate::event::shown;
use crate::record::CallResult;

/// Returns a call as errors name it: with the tool that it means, if its name does not say that.
pub(crate) fn called(name: &str, meant: Option<&str>) -> String {
    match meant {
        Some(id) if id != name && id.splitn(3, ':').last() != Some(name) => format!("{name} ({id})"),
        _ => name.to_owned(),
    }
}

/// Returns what a model is told of a call that means something else now than when it was asked for. `begun` is the calls of the program
/// that it had begun.
pub(crate) fn changed(name: &str, means: Option<&str>, begun: Option<&[NewEntry]>) -> CallResult {
    CallResult::error(match (begun, means) {
        (Some(calls), _) => format!(
            "{name} was interrupted: the program cannot go on, since it cannot be run now. Of its calls, {} had ended by then, and others \
             may or may not have run. Check before you retry.",
            calls.len()
        ),
        (None, Some(means)) => format!("{name} was not called: this name means {means} now. Look at the tools again."),
        (None, None) => format!("{name} was not called: there is no such tool any more."),
    })
}

/// Returns what a model is told of an outcome.
pub(crate) fn content_of(outcome: Outcome) -> CallResult {
    let duration = outcome.duration.as_millis() as u64;
    let effect = outcome.effect;
    let result = match outcome.value() {
        Ok(value) => of_value(&value),
        Err(error) => of_error(&error, effect),
    };
    CallResult { details: Some(json!({ "durationMs": duration, "effect": effect.as_str() })), ..result }
}

fn of_error(error: &CallError, effect: Effect) -> CallResult {
    let hint = match effect {
        Effect::Unknown => ". It may or may not have had an effect: check before you retry.",
        Effect::None | Effect::Done => "",
    };
    let message = if hint.is_empty() { &*error.message } else { error.message.trim_end_matches('.') };
    CallResult::error(format!("{message}{hint}"))
}

/// Returns a value as content: the parts of an MCP result as they are, a text as it is, everything else as JSON.
pub(crate) fn of_value(value: &Value) -> CallResult {
    if let Value::String(text) = value {
        return CallResult::text(text.clone());
    }
    let parts = value.get("content").and_then(Value::as_array);
    let is_mcp = |parts: &&Vec<Value>| {
        !parts.is_empty() && parts.iter().all(|part| part.get("type").is_some_and(Value::is_string))
    };
    let Some(parts) = parts.filter(is_mcp) else {
        return CallResult::text(value.to_string());
    };
    let text = |part: &Value, name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
    let content = parts.iter().map(|part| match text(part, "type").as_deref() {
        Some("text") => Content::Text(text(part, "text").unwrap_or_default()),
        Some("image") => match (text(part, "data"), text(part, "mimeType")) {
            (Some(base64), Some(media_type)) => Content::Image(Image::Data { media_type, base64 }),
            _ => Content::Text(part.to_string()),
        },
        _ => Content::Text(shown(part).to_string()),
    });
    let is_error = value.get("isError").and_then(Value::as_bool).unwrap_or_default();
    CallResult { content: content.collect(), is_error, details: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_servers_keep_their_parts() {
        let result = of_value(&json!({
            "content": [{ "type": "text", "text": "a" }, { "type": "image", "data": "AA", "mimeType": "image/png" }],
            "isError": true,
        }));
        assert!(result.is_error && result.content.len() == 2);
        assert!(matches!(&result.content[1], Content::Image(_)));
        assert_eq!(of_value(&json!("plain")).content, [Content::Text("plain".into())]);
        assert_eq!(of_value(&json!({ "content": [] })).content, [Content::Text("{\"content\":[]}".into())]);
    }
}
