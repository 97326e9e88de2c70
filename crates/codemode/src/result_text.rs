//! A result as a model reads it best: what the program printed, then what it came to, in as few words as will do.

use pincer_sandbox::Output;
use pincer_store::ApprovalId;

use crate::result::{CodeModeResult, PendingState, Waiting};

/// Returns a result as text for a model, written into one buffer.
pub fn result_text(result: &CodeModeResult) -> String {
    let bytes: usize = result.output().iter().map(|item| output_bytes(item) + 1).sum();
    let mut text = String::with_capacity(bytes);
    for item in result.output() {
        match item {
            Output::Text { text: printed } => text.push_str(printed),
            Output::Json { value } => push_plain(&mut text, value.as_str()),
        }
        text.push('\n');
    }
    match result {
        CodeModeResult::Completed(done) => {
            push_plain(&mut text, done.value.as_str());
            done.notes.iter().for_each(|note| text.push_str(&format!("\nnote: {note}")));
        }
        CodeModeResult::Waiting(waiting) => text.push_str(&waits(waiting)),
        CodeModeResult::Failed(failed) => {
            let code = failed.code.and_then(|code| serde_json::to_value(code).ok());
            let code = code.and_then(|code| code.as_str().map(|code| format!(" ({code})"))).unwrap_or_default();
            let run = failed.run_id.as_ref();
            let hint =
                run.map(|id| format!(" Call wait with {{\"runId\": \"{id}\"}} to continue.")).unwrap_or_default();
            text.push_str(&format!("failed{code}: {}{hint}", failed.error));
        }
    }
    text
}

/// Returns how many bytes an item of output has.
pub fn output_bytes(item: &Output) -> usize {
    match item {
        Output::Text { text } => text.len(),
        Output::Json { value } => value.as_str().len(),
    }
}

/// Writes a text without its quotes; everything else as the JSON it is.
fn push_plain(text: &mut String, json: &str) {
    match serde_json::from_str::<String>(json) {
        Ok(plain) => text.push_str(&plain),
        Err(_) => text.push_str(json),
    }
}

fn waits(waiting: &Waiting) -> String {
    let id = &waiting.run_id;
    let mut text = format!("waiting: runId {id}.");
    let approvals: Vec<String> = waiting
        .pending_tool_calls
        .iter()
        .filter(|call| call.state == PendingState::Approval)
        .map(|call| {
            let approval = call.approval_id.as_ref().map_or("?", ApprovalId::as_str);
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
