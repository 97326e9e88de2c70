//! The hooks of a run: the questions of each place in the loop, and the use of their answers.

mod observing;
mod session;
mod shown;
mod writing;

use std::sync::Arc;

use pincer_hooks::events::{
    AgentBootstrap, AgentEnd, BeforeAgentFinalize, BeforeAgentReply, BeforeAgentRun, BeforeAgentStart,
    BeforeMessageWrite, BeforeModelResolve, BeforePromptBuild, Finalize, LlmInput, LlmOutput, ModelOverride,
    PromptAdditions, ReplyAnswer, RunContext, ToolResultPersist, Written,
};
use pincer_hooks::{Holds, Point, Table};
use pincer_model::{Reply, Request as ModelRequest};
use pincer_sessions::{Block, Message as Stored};
use pincer_store::{AgentRunId, SessionId, SessionKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::inner::Inner;
use crate::prompt::Bootstrap;
use crate::request::Request;
use crate::transcript::Transcript;

pub(crate) use observing::Observing;
pub(crate) use session::SessionHooks;
pub(crate) use shown::{messages, of_stored, stored_messages};
pub(crate) use writing::Author;

/// The kind of the note that keeps the answers of hooks to the beginning of a run.
pub(crate) const NOTE: &str = "pincer.hooks";
/// The kinds of messages that hooks add to the user's turn: before what the user said, and after it.
pub(crate) const BEFORE_USER: &str = "pincer.context-before";
pub(crate) const AFTER_USER: &str = "pincer.context-after";

/// The marks around text that hooks add to the user's turn.
const BEGIN: &str = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
const END: &str = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";

/// The text in place of a message that a hook keeps out of the transcript.
pub(crate) const WITHHELD: &str = "[withheld by a hook]";

/// The hooks as a run finds them when this process begins to work on it.
#[derive(Clone)]
pub(crate) struct RunHooks {
    table: Arc<Table>,
    context: RunContext,
    /// The user and the key of the session: observers of one session are told in order.
    of: (String, String),
}

/// The answers of hooks to the beginning of a run, as far as they change something. A run that goes on later keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Beginning {
    /// Another model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The additions to the prompt.
    pub prompt: PromptAdditions,
}

impl RunHooks {
    /// Returns the hooks of a session, for a request.
    pub(crate) fn new(agent: &Inner, user: &str, key: &SessionKey, request: &Request) -> Self {
        let context = RunContext {
            session_key: key.to_string(),
            agent_id: Some(request.agent.clone().unwrap_or_else(|| crate::outcome::MAIN.into())),
            channel_id: request.channel.clone(),
            sender_id: request.sender.clone(),
            ..RunContext::default()
        };
        Self { table: agent.runtime.door().hooks(), context, of: (user.to_owned(), key.to_string()) }
    }

    /// Sets the run.
    pub(crate) fn of_run(mut self, run: &AgentRunId) -> Self {
        self.context.run_id = Some(run.to_string());
        self
    }

    /// Sets the session.
    pub(crate) fn in_session(mut self, session: &SessionId) -> Self {
        self.context.session_id = Some(session.to_string());
        self
    }

    /// Returns whether there are hooks at a place. Without one, the parts of the event need not be collected.
    pub(crate) fn has<P: Point>(&self) -> bool
    where
        Table: Holds<P>,
    {
        self.table.has::<P>()
    }

    pub(crate) fn context(&self) -> RunContext {
        self.context.clone()
    }

    /// Tells all hooks at a place, behind what they were told of this session before. Nothing waits for that.
    pub(crate) fn tell<P: Point>(&self, agent: &Inner, event: P)
    where
        Table: Holds<P>,
    {
        if !self.has::<P>() {
            return;
        }
        let table = Arc::clone(&self.table);
        agent.observing.push(self.of.clone(), Box::pin(async move { table.tell(&event).await }));
    }

    /// Tells all hooks at a place, and waits for them.
    pub(crate) async fn tell_now<P: Point>(&self, event: &P)
    where
        Table: Holds<P>,
    {
        self.table.tell(event).await;
    }

    /// Asks whether the message is answered without a model.
    pub(crate) async fn reply(&self, prompt: &str) -> Option<ReplyAnswer> {
        if !self.has::<BeforeAgentReply>() {
            return None;
        }
        let event = BeforeAgentReply { context: self.context(), cleaned_body: prompt.to_owned() };
        self.table.before_agent_reply(&event).await
    }

    /// Asks for another model and for additions to the prompt.
    pub(crate) async fn beginning(&self, request: &Request, prompt: &str, transcript: Vec<Value>) -> Beginning {
        let prompt = prompt.to_owned();
        let mut model = ModelOverride::default();
        if self.has::<BeforeModelResolve>() {
            let attachments = request.images.iter().map(|image| pincer_hooks::events::Attachment {
                kind: "image".into(),
                mime_type: image.mime_type.clone(),
            });
            let attachments = attachments.collect();
            let event = BeforeModelResolve { context: self.context(), prompt: prompt.clone(), attachments };
            model = self.table.before_model_resolve(&event).await;
        }
        let mut additions = PromptAdditions::default();
        if self.has::<BeforeAgentStart>() {
            let event =
                BeforeAgentStart { context: self.context(), prompt: prompt.clone(), messages: transcript.clone() };
            let answer = self.table.before_agent_start(&event).await;
            (model, additions) = (model.or(answer.model), answer.prompt);
        }
        if self.has::<BeforePromptBuild>() {
            let event = BeforePromptBuild { context: self.context(), prompt, messages: transcript };
            additions = self.table.before_prompt_build(&event).await.and(additions);
        }
        Beginning { model: named(model, request), prompt: additions }
    }

    /// Asks for the bootstrap files in place of these.
    pub(crate) async fn bootstrap(&self, bootstrap: Bootstrap) -> Bootstrap {
        if !self.has::<AgentBootstrap>() {
            return bootstrap;
        }
        let event = AgentBootstrap { context: self.context(), files: bootstrap.told() };
        let files = self.table.agent_bootstrap(event).await;
        bootstrap.replaced(files)
    }

    /// Returns whether the beginning of a run is asked about.
    pub(crate) fn has_beginning(&self) -> bool {
        self.has::<BeforeModelResolve>() || self.has::<BeforeAgentStart>() || self.has::<BeforePromptBuild>()
    }

    /// Asks whether a run may send a conversation to a model. Returns the text for the user if it may not.
    pub(crate) async fn may_run(
        &self,
        prompt: &str,
        messages: impl FnOnce() -> Vec<Value>,
        system: &[String],
    ) -> Result<(), String> {
        if !self.has::<BeforeAgentRun>() {
            return Ok(());
        }
        let event = BeforeAgentRun {
            context: self.context(),
            prompt: prompt.to_owned(),
            messages: messages(),
            system_prompt: system.join("\n\n"),
        };
        self.table.before_agent_run(&event).await
    }

    /// Tells of a request to a model.
    pub(crate) fn tell_input(&self, agent: &Inner, prompt: &str, target: (&str, &str), request: &ModelRequest) {
        if self.has::<LlmInput>() {
            let history = shown::of_model(&request.messages);
            let event = LlmInput {
                context: self.context(),
                provider: target.0.to_owned(),
                model: target.1.to_owned(),
                system_prompt: request.instruction_text().unwrap_or_default(),
                prompt: prompt.to_owned(),
                images_count: shown::images(&request.messages),
                history_messages: history,
            };
            self.tell(agent, event);
        }
    }

    /// Tells of a reply.
    pub(crate) fn tell_output(&self, agent: &Inner, target: (&str, &str), reply: &Reply, stored: &Stored) {
        if self.has::<LlmOutput>() {
            let usage = &reply.usage;
            let origin = reply.message.origin.as_ref();
            let (provider, model) = origin.map_or(target, |origin| (origin.provider.as_str(), origin.model.as_str()));
            let event = LlmOutput {
                context: self.context(),
                provider: provider.to_owned(),
                model: model.to_owned(),
                assistant_texts: vec![reply.message.text()].into_iter().filter(|text| !text.is_empty()).collect(),
                last_assistant: shown::of_stored(stored),
                usage: json!({
                    "input": usage.input,
                    "output": usage.output,
                    "cacheRead": usage.cache_read,
                    "cacheWrite": usage.cache_write,
                }),
            };
            self.tell(agent, event);
        }
    }

    /// Asks whether a run may end with its last reply. `revised` counts the revisions before, by matter.
    pub(crate) async fn finalize(
        &self,
        target: (&str, &str),
        last: &str,
        transcript: Vec<Value>,
        revised: impl Fn(&str) -> u32,
    ) -> Finalize {
        let event = BeforeAgentFinalize {
            context: self.context(),
            provider: target.0.to_owned(),
            model: target.1.to_owned(),
            stop_hook_active: revised("") > 0,
            last_assistant_message: last.to_owned(),
            messages: transcript,
        };
        self.table.before_agent_finalize(&event, revised).await
    }

    /// Tells that a run has ended.
    pub(crate) fn tell_end(&self, agent: &Inner, transcript: &Transcript, error: Option<String>, duration_ms: u64) {
        if self.has::<AgentEnd>() {
            let (messages, success) = (messages(transcript), error.is_none());
            self.tell(agent, AgentEnd { context: self.context(), messages, success, error, duration_ms });
        }
    }

    /// Returns a message as it is to be written. Hooks change its content; the parts that the loop goes by (role, ids, calls) stay.
    pub(crate) async fn written(&self, message: Stored) -> Stored {
        if !self.has::<BeforeMessageWrite>() {
            return message;
        }
        let before = shown::of_stored(&message);
        let event = BeforeMessageWrite { context: self.context(), message: before.clone() };
        match self.table.before_message_write(event).await {
            Written::Message(after) if after == before => message,
            Written::Message(after) => rewritten(message, &after),
            Written::Blocked => {
                let content = message.content.into_iter().filter(|block| block.kind == "toolCall").collect();
                with_texts(Stored { content, ..message }, vec![Block::text(WITHHELD)])
            }
        }
    }

    /// Returns a result that no tool at the door has given, as it is to be stored.
    pub(crate) async fn persisted(&self, agent: &Inner, tool: &str, message: Stored) -> Stored {
        let door = agent.runtime.door();
        if !door.has_persisting() {
            return message;
        }
        let before = shown::of_stored(&message);
        let event = ToolResultPersist {
            context: self.context(),
            tool_name: message.tool_name.clone().unwrap_or_default(),
            tool_call_id: message.tool_call_id.clone().unwrap_or_default(),
            message: before.clone(),
            is_synthetic: true,
        };
        let after = door.persisted_message(tool, event).await;
        if after == before { message } else { rewritten(message, &after) }
    }
}

/// Returns the text of hooks as it stands in the user's turn.
pub(crate) fn delimited(text: &str) -> String {
    // A mark within would end the text before its end.
    let text = text.replace(BEGIN, "").replace(END, "");
    format!("{BEGIN}\n{text}\n{END}")
}

/// Returns the name of the model that hooks have chosen.
fn named(model: ModelOverride, request: &Request) -> Option<String> {
    let ModelOverride { provider_override: provider, model_override: model } = model;
    match (provider, model) {
        (Some(provider), Some(model)) => {
            let own = model.strip_prefix(&format!("{provider}/")).unwrap_or(&model);
            Some(format!("{provider}/{own}"))
        }
        (None, Some(model)) if model.contains('/') => Some(model),
        // A model of the provider that would be asked anyway.
        (None, Some(model)) => match request.model.as_deref().and_then(|name| name.split_once('/')) {
            Some((provider, _)) => Some(format!("{provider}/{model}")),
            None => Some(model),
        },
        (Some(provider), None) => {
            tracing::warn!("hooks chose the provider {provider:?} and no model of it: the run keeps its model");
            None
        }
        (None, None) => None,
    }
}

/// Puts the content that a hook answered into a message.
fn rewritten(message: Stored, answer: &Value) -> Stored {
    let text = |part: &Value, name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
    let block = |part: &Value| match text(part, "type").as_deref() {
        Some("text") => Some(Block::text(text(part, "text").unwrap_or_default())),
        Some("image") => Some(Block {
            kind: "image".into(),
            data: text(part, "data"),
            mime_type: text(part, "mimeType"),
            url: text(part, "url"),
            ..Block::default()
        }),
        _ => None,
    };
    let content = match answer.get("content") {
        Some(Value::String(text)) => vec![Block::text(text.clone())],
        Some(Value::Array(parts)) => parts.iter().filter_map(block).collect(),
        _ => return message,
    };
    // A picture is shown to hooks without its data: one that comes back so is the one that was there.
    let mut pictures =
        message.content.iter().filter(|block| block.kind == "image").cloned().collect::<Vec<_>>().into_iter();
    let content = content
        .into_iter()
        .filter_map(|block| match block.kind == "image" && block.data.is_none() && block.url.is_none() {
            true => pictures.next(),
            false => Some(block),
        })
        .collect();
    let is_error = answer.get("isError").and_then(Value::as_bool).or(message.is_error);
    with_texts(Stored { is_error, ..message }, content)
}

/// Puts texts and pictures in place of those of a message. Its calls stay, and thoughts that belong to them: providers want those back.
fn with_texts(message: Stored, texts: Vec<Block>) -> Stored {
    let is_said = |block: &Block| matches!(block.kind.as_str(), "text" | "refusal" | "image");
    let rest = message.content.into_iter().filter(|block| !is_said(block));
    let (thoughts, calls): (Vec<Block>, Vec<Block>) = rest.partition(|block| block.kind != "toolCall");
    let mut content: Vec<Block> = thoughts.into_iter().chain(texts).chain(calls).collect();
    if content.is_empty() {
        // A message without content would look as if it had never been written.
        content.push(Block::text(WITHHELD));
    }
    Stored { content, ..message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_changes_what_a_message_says_and_not_what_the_loop_goes_by() {
        let call = Block { kind: "toolCall".into(), id: Some("c".into()), name: Some("t".into()), ..Block::default() };
        let message = Stored { content: vec![Block::text("a"), call.clone()], ..Stored::default() };
        let changed = rewritten(message.clone(), &json!({ "content": "b", "role": "user" }));
        assert_eq!(changed.content, [Block::text("b"), call.clone()]);
        assert_eq!(changed.role, message.role);
        assert_eq!(rewritten(message.clone(), &json!({ "content": [] })).content, [call]);
        assert_eq!(rewritten(message.clone(), &json!({})).content, message.content);
        let plain = Stored { content: vec![Block::text("a")], ..Stored::default() };
        assert_eq!(rewritten(plain, &json!({ "content": [] })).content, [Block::text(WITHHELD)]);
    }

    #[test]
    fn a_model_is_named_by_its_provider_and_its_own_name() {
        let of = |provider: Option<&str>, model: Option<&str>| {
            let asked = Request { model: Some("p/usual".into()), ..Request::default() };
            let model = ModelOverride {
                provider_override: provider.map(str::to_owned),
                model_override: model.map(str::to_owned),
            };
            named(model, &asked)
        };
        assert_eq!(of(Some("a"), Some("m")).as_deref(), Some("a/m"));
        assert_eq!(of(Some("a"), Some("a/m")).as_deref(), Some("a/m"));
        assert_eq!(of(None, Some("b/m")).as_deref(), Some("b/m"));
        assert_eq!(of(None, Some("m")).as_deref(), Some("p/m"));
        assert_eq!((of(Some("a"), None), of(None, None)), (None, None));
    }

    #[test]
    fn text_of_hooks_cannot_leave_its_marks() {
        let text = delimited(&format!("a{END}b"));
        assert_eq!(text, format!("{BEGIN}\nab\n{END}"));
    }
}
