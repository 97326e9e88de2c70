//! Hooks that change the result of a tool before it is stored anywhere: in the journal of a program, or in a transcript.

use pincer_catalog::{Entry, ToolId};
use pincer_hooks::events::{ToolResultAnswer, ToolResultPersist};
use pincer_hooks::{ContentForm, in_place_of};
use pincer_json::Json;
use pincer_store::CallId;
use serde_json::{Value, json};

use super::run_context;
use crate::{Context, Matcher};

/// A hook that changes results, and the tools whose results it gets.
#[derive(Clone)]
pub struct PersistHook {
    /// The tools.
    pub matcher: Matcher,
    /// The hook itself.
    pub hook: pincer_hooks::Hook<ToolResultPersist>,
}

/// Returns the result of a call as the hooks want it stored: a value, or the text of an error. `None` if no hook changes it.
pub(crate) async fn persisted(
    hooks: impl Iterator<Item = &PersistHook>,
    entry: &Entry,
    call: &CallId,
    result: Result<&Json, &String>,
    context: &Context,
) -> Option<Result<Json, String>> {
    let value = result.map(|value| value.tree().unwrap_or_default());
    let before = message(entry, call, &value);
    let event = ToolResultPersist {
        context: run_context(context),
        tool_name: entry.id.name().into(),
        tool_call_id: call.to_string(),
        message: before.clone(),
        is_synthetic: false,
    };
    // Only the parts of an MCP result can be other things than text.
    let form = match &value {
        Ok(Value::Object(members)) if is_content(&before, members) => ContentForm::Parts,
        _ => ContentForm::Text,
    };
    let after = persisted_message(hooks, entry, event, form).await;
    if after == before {
        return None;
    }
    let content = after.get("content").cloned().unwrap_or_default();
    if after.get("isError").and_then(Value::as_bool).unwrap_or_default() {
        return Some(Err(text_of(&content)));
    }
    let value = match value {
        // The parts of an MCP result are its content.
        Ok(Value::Object(mut members)) if form == ContentForm::Parts => {
            if members.get("content") != Some(&content) {
                // It says the same in another form.
                members.remove("structuredContent");
            }
            members.insert("content".into(), content);
            Value::Object(members)
        }
        Ok(Value::String(_)) | Err(_) => Value::String(text_of(&content)),
        Ok(_) => {
            let text = text_of(&content);
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
    };
    // It is JSON already.
    Some(Ok(Json::of(&value).unwrap_or_else(|_| Json::null())))
}

/// Returns a message of the role `toolResult` as the hooks want it stored.
pub(crate) async fn persisted_message(
    hooks: impl Iterator<Item = &PersistHook>,
    entry: &Entry,
    mut event: ToolResultPersist,
    form: ContentForm,
) -> Value {
    for PersistHook { hook, .. } in hooks.filter(|hook| hook.matcher.could_mean(entry)) {
        let answered = match hook.ask(&event).await {
            Ok(ToolResultAnswer { message: None }) => continue,
            Ok(ToolResultAnswer { message: Some(answer) }) => in_place_of(&event.message, &answer, form),
            Err(error) => Err(error),
        };
        match answered {
            Ok(message) => event.message = message,
            Err(error) => {
                tracing::warn!(hook = hook.name, tool = %entry.id, "the hook tool_result_persist is skipped: {error}");
            }
        }
    }
    event.message
}

/// Returns the texts of a program's result as the hooks want them stored, as many as there were: what a program printed, and what it
/// came to.
pub(crate) async fn persisted_texts(
    hooks: impl Iterator<Item = &PersistHook>,
    tool: &str,
    call: &CallId,
    texts: Vec<String>,
    is_error: bool,
    context: &Context,
) -> Vec<String> {
    let entry = Entry::new(ToolId::control(tool), "");
    let content: Vec<Value> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
    let before = message_of(&entry, call, Value::Array(content), is_error);
    let event = ToolResultPersist {
        context: run_context(context),
        tool_name: tool.into(),
        tool_call_id: call.to_string(),
        message: before.clone(),
        is_synthetic: false,
    };
    let after = persisted_message(hooks, &entry, event, ContentForm::Text).await;
    if after == before {
        return texts;
    }
    let content = after.get("content").cloned().unwrap_or_default();
    let parts = content.as_array().filter(|parts| parts.len() == texts.len());
    let same = parts.and_then(|parts| {
        parts.iter().map(|part| part.get("text").and_then(Value::as_str).map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    same.unwrap_or_else(|| {
        // The hook made something else of it, which stands in the place of what the program came to.
        let mut whole = vec![String::new(); texts.len().saturating_sub(1)];
        whole.push(text_of(&content));
        whole
    })
}

fn message(entry: &Entry, call: &CallId, value: &Result<Value, &String>) -> Value {
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let content = match value {
        Ok(Value::String(value)) => text(value),
        Ok(Value::Object(members)) if members.get("content").is_some_and(Value::is_array) => members["content"].clone(),
        Ok(value) => text(&value.to_string()),
        Err(error) => text(error),
    };
    let is_error = match value {
        Ok(value) => value.get("isError").and_then(Value::as_bool).unwrap_or_default(),
        Err(_) => true,
    };
    message_of(entry, call, content, is_error)
}

fn message_of(entry: &Entry, call: &CallId, content: Value, is_error: bool) -> Value {
    json!({
        "role": "toolResult",
        "toolCallId": call,
        "toolName": entry.id.name(),
        "content": content,
        "isError": is_error,
    })
}

fn is_content(message: &Value, members: &serde_json::Map<String, Value>) -> bool {
    members.contains_key("content") && message.get("content") == members.get("content")
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
