//! The result of a program as hooks want it stored, before it is stored anywhere or told to anyone.

use pincer_sandbox::{Json, Output};
use pincer_store::CallId;
use pincer_tools::{Context, Door};
use serde_json::Value;

use crate::result::CodeModeResult;

/// Asks the hooks about results at a door.
pub(crate) struct Persisting<'a> {
    pub door: &'a Door,
    /// The tool that ran the program.
    pub tool: &'static str,
    /// The `exec` whose result it is, and for whom it runs.
    pub call: &'a CallId,
    pub context: &'a Context,
}

impl Persisting<'_> {
    /// Returns a result as the hooks want it stored: what the program printed, and what it came to.
    pub(crate) async fn changed(&self, mut result: CodeModeResult) -> CodeModeResult {
        if !self.door.has_persisting() {
            return result;
        }
        let mut before: Vec<String> = result.output().iter().map(printed).collect();
        match &result {
            CodeModeResult::Completed(done) => before.push(plain(&done.value)),
            CodeModeResult::Failed(failed) => before.push(failed.error.clone()),
            CodeModeResult::Waiting(_) if before.is_empty() => return result,
            CodeModeResult::Waiting(_) => {}
        }
        let is_error = matches!(result, CodeModeResult::Failed(_));
        let mut after = self.door.persisted_texts(self.tool, self.call, before.clone(), is_error, self.context).await;
        if after == before {
            return result;
        }
        if !matches!(result, CodeModeResult::Waiting(_))
            && let (Some(came_to), Some(before)) = (after.pop(), before.pop())
            && came_to != before
        {
            match &mut result {
                CodeModeResult::Completed(done) => done.value = value(came_to, &done.value),
                CodeModeResult::Failed(failed) => failed.error = came_to,
                CodeModeResult::Waiting(_) => {}
            }
        }
        let output = match &mut result {
            CodeModeResult::Completed(done) => &mut done.output,
            CodeModeResult::Failed(failed) => &mut failed.output,
            CodeModeResult::Waiting(waiting) => &mut waiting.output,
        };
        for ((item, text), before) in output.iter_mut().zip(after).zip(before) {
            if text != before {
                *item = match item {
                    Output::Text { .. } => Output::Text { text },
                    Output::Json { value: printed } => Output::Json { value: value(text, printed) },
                };
            }
        }
        output.retain(|item| !matches!(item, Output::Text { text } if text.is_empty()));
        result
    }
}

fn printed(item: &Output) -> String {
    match item {
        Output::Text { text } => text.clone(),
        Output::Json { value } => plain(value),
    }
}

/// Returns a text without its quotes, and everything else as the JSON it is.
fn plain(value: &Json) -> String {
    value.to().unwrap_or_else(|_| value.as_str().to_owned())
}

/// Returns a text of a hook as a value: as JSON if what it stands for is more than a text.
fn value(text: String, before: &Json) -> Json {
    let was_text = before.to::<String>().is_ok();
    let parsed = if was_text { None } else { Json::parse(&text).ok() };
    parsed.or_else(|| Json::of(&Value::String(text)).ok()).unwrap_or_else(Json::null)
}
