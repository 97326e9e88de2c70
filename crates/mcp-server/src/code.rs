//! `exec` and `wait`, as a client calls them.

use std::collections::VecDeque;
use std::pin::Pin;

use pincer_codemode::{
    CodeModeResult, ErrorCode, ExecInput, InputError, People, RunScope, Surface as CodeSurface, WaitInput,
    result_schema,
};
use pincer_tools::Context;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::connection::Connection;
use crate::face::Face;
use crate::people;
use crate::progress::Progress;
use crate::requests::{Attended, News, question};
use crate::text::text;

impl Face {
    /// `exec` and `wait`, as they are listed.
    pub(crate) fn code_definitions(&self) -> Value {
        let surface = CodeSurface::of(&self.tools(), &self.parts.settings);
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

    pub(crate) fn instructions(&self) -> String {
        CodeSurface::instructions(&self.tools())
    }
}

impl Connection {
    pub(crate) async fn exec(&self, arguments: &Value, request: RequestContext<RoleServer>) -> CallToolResult {
        let input = match ExecInput::parse(arguments) {
            Ok(input) => input,
            Err(error) => return shown(&wrong(&error), Vec::new()),
        };
        self.face.parts.servers.ready_for(&input.code).await;
        self.attended(request, |scope| async move { self.face.parts.mode.exec(&scope, input).await }).await
    }

    pub(crate) async fn wait(&self, arguments: &Value, request: RequestContext<RoleServer>) -> CallToolResult {
        let input = match WaitInput::parse(arguments) {
            Ok(input) => input,
            Err(error) => return shown(&wrong(&error), Vec::new()),
        };
        self.attended(request, |scope| async move { self.face.parts.mode.wait(&scope, &input).await }).await
    }

    /// Runs something for a request, and stays with it: progress, questions, cancellation.
    async fn attended<F: Future<Output = CodeModeResult>>(
        &self,
        request: RequestContext<RoleServer>,
        run: impl FnOnce(RunScope) -> F,
    ) -> CallToolResult {
        let parts = &self.face.parts;
        let id = format!("exec_{}", Uuid::now_v7());
        let attended = parts.requests.attend(&id);
        let client = request.client_capabilities();
        let abort = CancellationToken::new();
        let context = Context {
            session: parts.session.clone(),
            channel: Some("mcp".into()),
            parent_call: Some(id),
            abort: abort.clone(),
            ..Context::default()
        };
        let scope = RunScope::new(self.face.tools(), parts.settings.clone(), context, self.user(&request).0);
        let people = if people::can_ask(client.as_ref()) { People::Present } else { People::Absent };
        let scope = RunScope { people, listener: attended.sink.clone(), ..scope };
        let result = self.tended(&request, &scope, attended, &abort, run(scope.clone())).await;
        let attachments = parts.mode.attachments(&scope, &result).await.unwrap_or_default();
        shown(&result, attachments)
    }

    async fn tended(
        &self,
        request: &RequestContext<RoleServer>,
        scope: &RunScope,
        mut attended: Attended,
        abort: &CancellationToken,
        going: impl Future<Output = CodeModeResult>,
    ) -> CodeModeResult {
        let client = request.client_capabilities();
        let mut progress = Progress::new(request.meta.get_progress_token(), request.peer.clone());
        let mut questions: VecDeque<News> = VecDeque::new();
        let mut asking: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
        tokio::pin!(going);
        loop {
            // One question at a time: people read one after the other.
            if asking.is_none()
                && let Some(next) = questions.pop_front()
            {
                asking = Some(Box::pin(self.ask(request, scope, client.as_ref(), next)));
            }
            tokio::select! {
                biased;
                result = &mut going => return result,
                () = request.ct.cancelled(), if !abort.is_cancelled() => abort.cancel(),
                Some(news) = attended.news.recv() => match news {
                    News::Event(event) => {
                        progress.tell(&event).await;
                        if scope.people == People::Present && question(&event).is_some() {
                            questions.push_back(News::Event(event));
                        }
                    }
                    asked => questions.push_back(asked),
                },
                () = async { match &mut asking { Some(asking) => asking.as_mut().await, None => std::future::pending().await } } => {
                    asking = None;
                }
            }
        }
    }

    /// Asks the client's user. Whoever cannot be asked after all has left.
    async fn ask(
        &self,
        request: &RequestContext<RoleServer>,
        scope: &RunScope,
        client: Option<&rmcp::model::ClientCapabilities>,
        news: News,
    ) {
        match news {
            News::Event(event) => {
                let Some(id) = question(&event) else { return };
                let Ok(approval) = self.face.parts.approvals.approval(id) else { return };
                if !people::approve(&request.peer, &self.face.parts.door, &approval).await {
                    scope.left.cancel();
                }
            }
            News::Asked(asked, answer) => {
                let _ = answer.send(people::pass(&request.peer, client, asked).await);
            }
        }
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
fn shown(result: &CodeModeResult, attachments: Vec<Value>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(text(result))];
    content.extend(attachments.into_iter().filter_map(|block| serde_json::from_value::<ContentBlock>(block).ok()));
    let mut shown = CallToolResult::success(content);
    shown.structured_content = serde_json::to_value(result).ok();
    shown.is_error = Some(matches!(result, CodeModeResult::Failed(_)));
    shown
}
