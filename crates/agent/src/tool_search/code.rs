//! The result of `tool_search_code`.

use pincer_codemode::{CodeModeResult, Output};
use pincer_json::Json;
use serde::Serialize;
use serde_json::{Value, json};

/// The result of a program as its model reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CodeResult<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    logs: Vec<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
    telemetry: Value,
}

/// Returns the result of a program that has ended.
pub(crate) fn code_result(result: &CodeModeResult) -> String {
    let (value, error, notes) = match result {
        CodeModeResult::Completed(done) => (Some(&done.value), None, &*done.notes),
        CodeModeResult::Failed(failed) => (None, Some(failed.error.as_str()), &[][..]),
        // Only if the run is stopped meanwhile.
        CodeModeResult::Waiting(_) => (None, Some("the program had not ended when the run was stopped"), &[][..]),
    };
    let logs = result.output().iter().map(|item| match item {
        Output::Text { text } => text.as_str(),
        Output::Json { value } => value.as_str(),
    });
    let counted = result.telemetry();
    let telemetry = json!({
        "catalogSize": counted.catalog_size,
        "sources": counted.sources,
        "searchCount": counted.search_count,
        "describeCount": counted.describe_count,
        "callCount": counted.call_count,
    });
    let told = CodeResult { ok: error.is_none(), value, error, logs: logs.collect(), notes, telemetry };
    serde_json::to_string(&told).unwrap_or_else(|error| format!("the result cannot be written as JSON: {error}"))
}
