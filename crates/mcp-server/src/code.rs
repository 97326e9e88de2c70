//! `exec` and `wait`, as a client calls them.

use pincer_codemode::{
    CodeModeResult, ErrorCode, ExecInput, InputError, People, Surface as CodeSurface, WaitInput, output_bytes,
    result_schema, result_text,
};
use pincer_process::give_memory_back;
use pincer_runtime::Scope;
use pincer_store::{CallId, RunId};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::connection::Connection;
use crate::face::Face;
use crate::people;
use crate::request_session::{Attendant, Ended, Nobody};
use crate::requests::Attended;

/// The room that a larger output took is given back to the system before the answer is written.
const LARGE_OUTPUT_BYTES: usize = 1 << 20;

/// The entry of `_meta` with the caller's own id of an `exec`: sent again, it is the same run.
const KEY: &str = "pincer/idempotencyKey";

impl Face {
    /// `exec` and `wait`, as they are listed.
    pub(crate) fn code_definitions(&self, scope: &Scope) -> Value {
        let surface = CodeSurface::of(&self.tools(scope), scope.settings());
        let tools = surface.tools().iter().map(|tool| {
            let mut shown = serde_json::to_value(tool).unwrap_or_default();
            let title = if tool.name == "exec" { "Run a program" } else { "Continue a program" };
            shown["title"] = title.into();
            shown["outputSchema"] = result_schema();
            // What a program does is up to its tools.
            shown["annotations"] = json!({
                "title": title, "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true,
            });
            shown
        });
        tools.collect()
    }

    pub(crate) fn instructions(&self, scope: &Scope) -> String {
        CodeSurface::instructions(&self.tools(scope))
    }
}

impl Connection {
    pub(crate) async fn exec(&self, arguments: &Value, request: RequestContext<RoleServer>) -> CallToolResult {
        let input = match ExecInput::parse(arguments) {
            Ok(input) => input,
            Err(error) => return shown(wrong(&error), Vec::new()),
        };
        let input = match request.meta.get(KEY) {
            None => input,
            Some(Value::String(key)) if !key.is_empty() => input.with_key(Some(key.clone())),
            Some(_) => {
                let error = format!("_meta[\"{KEY}\"] must be a non-empty string");
                return shown(CodeModeResult::refused(ErrorCode::InvalidInput, error), Vec::new());
            }
        };
        let runtime = &self.face.parts.runtime;
        self.attended(request, None, |scope| async move { runtime.exec(&scope, input).await }).await
    }

    pub(crate) async fn wait(&self, arguments: &Value, request: RequestContext<RoleServer>) -> CallToolResult {
        let input = match WaitInput::parse(arguments) {
            Ok(input) => input,
            Err(error) => return shown(wrong(&error), Vec::new()),
        };
        let (runtime, run) = (&self.face.parts.runtime, input.run_id.clone());
        self.attended(request, Some(&run), |scope| async move { runtime.wait(&scope, &input).await }).await
    }

    /// Runs something for a request, and stays with it: progress, questions, cancellation. `of` is the run that is continued.
    async fn attended<F: Future<Output = CodeModeResult>>(
        &self,
        request: RequestContext<RoleServer>,
        of: Option<&RunId>,
        run: impl FnOnce(Scope) -> F,
    ) -> CallToolResult {
        let parts = &self.face.parts;
        let id = CallId::from(format!("exec_{}", Uuid::now_v7()));
        let attended = Attended::new(parts.runtime.events(), &id);
        let client = people::can(&request);
        let people = if people::can_ask(client.as_ref()) { People::Present } else { People::Absent };
        let scope = self.scope.renewed().within(id).with_people(people).with_listener(attended.sink.clone());
        let attended = match of {
            // What happens to a run is nobody's business but its owner's.
            Some(of) if parts.runtime.belongs_to(&scope, of).await => attended.also(of),
            _ => attended,
        };
        let wanted = self.requested.wanted(&request);
        let attendant = Attendant {
            face: &self.face,
            request: &request,
            wanted: &wanted,
            client,
            nobody: Nobody::IsFine,
            abort: scope.abort(),
            left: scope.left(),
        };
        let result = match attendant.until(attended, run(scope.clone())).await {
            Ended::With(result) => result,
            // It is left to itself only where that is asked for.
            Ended::Unanswered(id) => CodeModeResult::refused(ErrorCode::Aborted, format!("nobody could answer {id}")),
        };
        let attachments = parts.runtime.attachments(&scope, &result).await.unwrap_or_default();
        shown(result, attachments)
    }
}

fn wrong(error: &InputError) -> CodeModeResult {
    let code = match error {
        InputError::Wrong(_) => ErrorCode::InvalidInput,
        InputError::Language(_) => ErrorCode::UnsupportedLanguage,
    };
    CodeModeResult::refused(code, error.to_string())
}

/// A result as clients get it: for models to read, for programs to use, and with what its references stand for.
fn shown(result: CodeModeResult, attachments: Vec<Value>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(result_text(&result))];
    content.extend(attachments.into_iter().filter_map(|block| serde_json::from_value::<ContentBlock>(block).ok()));
    let mut shown = CallToolResult::success(content);
    shown.is_error = Some(matches!(result, CodeModeResult::Failed(_)));
    shown.structured_content = serde_json::to_value(&result).ok();
    let bytes: usize = result.output().iter().map(output_bytes).sum();
    drop(result);
    if bytes > LARGE_OUTPUT_BYTES {
        give_memory_back();
    }
    shown
}
