//! A result as a model reads it best: what the program printed, then what it came to, in as few words as will do.

use pincer_codemode::{CodeModeResult, Output, PendingState, Waiting};

/// The text of a result.
pub(crate) fn text(result: &CodeModeResult) -> String {
    let mut lines: Vec<String> = result.output().iter().map(printed).collect();
    match result {
        CodeModeResult::Completed(done) => lines.push(plain(done.value.as_str())),
        CodeModeResult::Waiting(waiting) => lines.push(waits(waiting)),
        CodeModeResult::Failed(failed) => {
            let code = failed.code.and_then(|code| serde_json::to_value(code).ok());
            let code = code.and_then(|code| code.as_str().map(|code| format!(" ({code})"))).unwrap_or_default();
            let run = failed.run_id.as_deref();
            let hint =
                run.map(|id| format!(" Call wait with {{\"runId\": \"{id}\"}} to continue.")).unwrap_or_default();
            lines.push(format!("failed{code}: {}{hint}", failed.error));
        }
    }
    lines.join("\n")
}

fn printed(item: &Output) -> String {
    match item {
        Output::Text { text } => text.clone(),
        Output::Json { value } => plain(value.as_str()),
    }
}

/// A text without its quotes; everything else as the JSON it is.
fn plain(json: &str) -> String {
    serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())
}

fn waits(waiting: &Waiting) -> String {
    let id = &waiting.run_id;
    let mut text = format!("waiting: runId {id}.");
    let approvals: Vec<String> = waiting
        .pending_tool_calls
        .iter()
        .filter(|call| call.state == PendingState::Approval)
        .map(|call| {
            let approval = call.approval_id.as_deref().unwrap_or("?");
            format!("{} (pincer approvals allow {approval})", call.tool_id.as_deref().unwrap_or(&call.method))
        })
        .collect();
    let others: Vec<&str> = waiting
        .pending_tool_calls
        .iter()
        .filter(|call| call.state != PendingState::Approval)
        .map(|call| call.tool_id.as_deref().unwrap_or(&call.method))
        .collect();
    if !others.is_empty() {
        text.push_str(&format!(" Not done yet: {}.", others.join(", ")));
    }
    if approvals.is_empty() {
        text.push_str(&format!(" Call wait with {{\"runId\": \"{id}\"}} to continue."));
    } else {
        text.push_str(&format!(
            " A person must approve: {}. Tell them; when they have answered, call wait with {{\"runId\": \"{id}\"}}.",
            approvals.join(", ")
        ));
    }
    text
}
