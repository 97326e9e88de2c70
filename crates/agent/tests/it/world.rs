//! A house with an agent in it: tools of the test, and a model that follows a script.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pincer_agent::{Agent, AgentEvent, Request, RunOutcome};
use pincer_catalog::{Entry, Flags};
use pincer_config::Loaded;
use pincer_runtime::{BuiltIn, EngineStart, ModelSetup, Runtime, RuntimeOptions};
use pincer_scripted::{Script, Server};
use pincer_store::{AgentRunId, EntryPage, Leases, SessionKey, Sessions};
use pincer_testkit::house::engine;
use pincer_tools::{FnTool, ToolCall, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

pub(crate) const USER: &str = "me";
pub(crate) const KEY: &str = "main";
/// In a config: the built-in tools are there too.
pub(crate) const FILES: &str = "/* with files */";

/// What the tools of the test did.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

pub(crate) struct World {
    pub agent: Agent,
    pub server: Arc<Server>,
    pub effects: Effects,
    /// Calls of `gate` go on when it has permits.
    pub gate: Arc<Semaphore>,
    /// How many calls of `gate` have begun.
    pub begun: Arc<AtomicUsize>,
    pub directory: Arc<TempDir>,
    config: String,
    built_in: bool,
}

/// The same as [`world`], with the built-in tools.
pub(crate) fn world_with_built_in_tools(script: &str, config: &str) -> World {
    let server = Arc::new(Server::start(Script::parse(script).expect("a script")).expect("a server"));
    let directory = Arc::new(tempfile::tempdir().expect("a directory"));
    open(server, directory, Effects::default(), config, true)
}

/// A model that follows this script, and a config with these keys beside its own.
pub(crate) fn world(script: &str, config: &str) -> World {
    let server = Arc::new(Server::start(Script::parse(script).expect("a script")).expect("a server"));
    let directory = Arc::new(tempfile::tempdir().expect("a directory"));
    open(server, directory, Effects::default(), config, false)
}

fn open(server: Arc<Server>, directory: Arc<TempDir>, effects: Effects, config: &str, built_in: bool) -> World {
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let agent = agent(&server.url(), directory.path(), &effects, &gate, &begun, config, built_in);
    World { agent, server, effects, gate, begun, directory, config: config.to_owned(), built_in }
}

fn agent(
    url: &str,
    directory: &Path,
    effects: &Effects,
    gate: &Arc<Semaphore>,
    begun: &Arc<AtomicUsize>,
    config: &str,
    built_in: bool,
) -> Agent {
    let agents = match config.contains("agents:") {
        true => "",
        false => "agents: { defaults: { model: 'scripted/scripted' } },",
    };
    let text = format!(
        "{{ workspace: {:?}, models: {{ providers: {{ scripted: {{ baseUrl: '{url}/v1', apiKey: 'k', \
         models: [{{ id: 'scripted' }}, {{ id: 'narrow', contextWindow: 8000 }}, {{ id: 'coder', codeMode: true }}] }}, \
         responses: {{ baseUrl: '{url}/v1', api: 'openai-responses', apiKey: 'k' }}, \
         messages: {{ baseUrl: '{url}', api: 'anthropic-messages', apiKey: 'k' }}, \
         keyless: {{ baseUrl: '{url}/v1', apiKey: '${{NO_SUCH_KEY_ANYWHERE}}' }} }} }}, \
         {agents} {config} }}",
        directory.join("workspace").display().to_string(),
    );
    // Tools that write files may change nothing in the state directory.
    let state = &if config.contains(FILES) { directory.join("state") } else { directory.to_owned() };
    std::fs::create_dir_all(directory.join("workspace")).expect("a workspace");
    let parsed = pincer_config::parse(&text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let loaded = Loaded { parsed, ..Loaded::default() };
    let models = ModelSetup::new(&loaded, Some(state));
    let (effects, gate, begun) = (effects.clone(), Arc::clone(gate), Arc::clone(begun));
    let options = RuntimeOptions {
        engine: EngineStart::Given(engine().clone()),
        built_in: if built_in || config.contains(FILES) { BuiltIn::Registered } else { BuiltIn::LeftOut },
        extend: Box::new(move |door| {
            let note = |name: &'static str, effects: &Effects| {
                let effects = effects.clone();
                FnTool(move |call: ToolCall| {
                    let effects = effects.clone();
                    async move {
                        effects.add(format!("{name} {}", call.input["n"]));
                        Ok::<Value, ToolError>(json!({ "did": call.input["n"] }))
                    }
                })
            };
            let through = gated("gate", effects.clone(), Arc::clone(&gate), Arc::clone(&begun));
            let slow = {
                let (effects, gate, begun) = (effects.clone(), Arc::clone(&gate), Arc::clone(&begun));
                gated("slow", effects, gate, begun)
            };
            let kept = Mutex::new(Vec::new());
            let keep = FnTool(move |call: ToolCall| {
                kept.lock().unwrap().push(Arc::clone(&call.updates));
                async { Ok::<Value, ToolError>(json!("kept")) }
            });
            // A text of `bytes`, or a picture of a `type` with so many.
            let show = FnTool(|call: ToolCall| {
                let bytes = call.input["bytes"].as_u64().unwrap_or_default() as usize;
                let shown = match call.input["type"].as_str() {
                    Some(kind) => {
                        json!({ "content": [{ "type": "image", "mimeType": kind, "data": "A".repeat(bytes) }] })
                    }
                    None => "x".repeat(bytes).into(),
                };
                async { Ok::<Value, ToolError>(shown) }
            });
            let deaf = FnTool(|_: ToolCall| std::future::pending::<Result<Value, ToolError>>());
            let again = gated("again", effects.clone(), Arc::clone(&gate), Arc::clone(&begun));
            let idempotent = Flags { idempotent: true, ..Flags::default() };
            let fail = FnTool(|_: ToolCall| async { Err::<Value, _>(ToolError::before("it is broken")) });
            let entry = |name: &str, flags: Flags| Entry {
                flags,
                ..Entry::new(format!("plugin:test:{name}").parse().expect("an id"), format!("Does {name}."))
            };
            let read_only = Flags { read_only: true, ..Flags::default() };
            let sequential = Flags { sequential: true, ..Flags::default() };
            door.tool(entry("mark", Flags::default()), Arc::new(note("mark", &effects)))?
                .tool(entry("look", read_only), Arc::new(note("look", &effects)))?
                .tool(entry("step", sequential), Arc::new(note("step", &effects)))?
                .tool(entry("gate", Flags::default()), Arc::new(through))?
                .tool(entry("slow", sequential), Arc::new(slow))?
                .tool(entry("keep", read_only), Arc::new(keep))?
                .tool(entry("show", read_only), Arc::new(show))?
                .tool(entry("again", idempotent), Arc::new(again))?
                .tool(entry("deaf", Flags::default()), Arc::new(deaf))?
                .tool(entry("fail", Flags::default()), Arc::new(fail))
        }),
        ..RuntimeOptions::new(loaded, state)
    };
    Agent::new(Arc::new(Runtime::open(options).expect("a runtime")), models)
}

/// A tool that waits until it is let through.
fn gated(
    name: &'static str,
    effects: Effects,
    gate: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
) -> impl pincer_tools::Tool {
    FnTool(move |call: ToolCall| {
        let (effects, gate, begun) = (effects.clone(), Arc::clone(&gate), Arc::clone(&begun));
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            tokio::select! {
                permit = gate.acquire() => permit.expect("open").forget(),
                () = call.abort.cancelled() => return Err(ToolError::unknown("stopped")),
            }
            effects.add(format!("{name} {}", call.input["n"]));
            Ok(json!("through"))
        }
    })
}

impl World {
    /// The same state directory in another process, as far as a test can have one.
    pub(crate) fn another(&self) -> World {
        self.another_with(&self.config)
    }

    /// The same with another config.
    pub(crate) fn another_with(&self, config: &str) -> World {
        let (server, directory) = (Arc::clone(&self.server), Arc::clone(&self.directory));
        open(server, directory, self.effects.clone(), config, self.built_in)
    }

    /// Waits until so many calls of `gate` have begun.
    pub(crate) async fn busy(&self, calls: usize) {
        within(async {
            while self.begun.load(Ordering::SeqCst) < calls {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// What is left when the process dies: the store, and a lease that nobody holds.
    pub(crate) async fn dies(&self) {
        self.agent.close().await;
        self.agent.runtime().leases().release();
    }

    pub(crate) fn key(&self) -> SessionKey {
        KEY.into()
    }

    pub(crate) async fn send(&self, text: &str) -> AgentRunId {
        self.submit(Request::new(text)).await
    }

    pub(crate) async fn submit(&self, request: Request) -> AgentRunId {
        self.agent.submit(USER, &self.key(), request, None).await.expect("accepted").run_id
    }

    /// Sends a message and waits for what it comes to.
    pub(crate) async fn ask(&self, text: &str) -> RunOutcome {
        let run = self.send(text).await;
        self.outcome(&run).await
    }

    pub(crate) async fn outcome(&self, run: &AgentRunId) -> RunOutcome {
        within(self.agent.outcome(USER, run)).await.expect("an outcome")
    }

    pub(crate) async fn events(&self, run: &AgentRunId, from: u32) -> Vec<AgentEvent> {
        let mut reader = self.agent.events(USER, run, from).await.expect("events");
        let mut events = Vec::new();
        while let Some(event) = within(reader.next()).await.expect("read") {
            events.push(event);
        }
        events
    }

    /// The entries of the session, each in a few words.
    pub(crate) async fn entries(&self) -> Vec<String> {
        let store = self.agent.runtime().store();
        let session = store.current_session(USER, &self.key()).await.expect("read").expect("a session");
        let entries = store.entries(&session.id, EntryPage { after: 0, limit: 10_000 }).await.expect("read");
        let short = |entry: &pincer_store::Entry| {
            let body: Value = serde_json::from_str(&entry.body).expect("JSON");
            let message = &body["message"];
            match (entry.kind.as_str(), message["role"].as_str()) {
                ("message", Some("toolResult")) => format!("result {}", message["toolCallId"].as_str().unwrap()),
                ("message", Some(role)) => {
                    let blocks = message["content"].as_array().expect("blocks");
                    let words: Vec<String> = blocks
                        .iter()
                        .map(|block| match block["type"].as_str() {
                            Some("toolCall") => format!("call {}", block["name"].as_str().unwrap()),
                            _ => block["text"].as_str().unwrap_or("?").to_owned(),
                        })
                        .collect();
                    format!("{role}: {}", words.join(", "))
                }
                ("custom", _) => body["customType"].as_str().unwrap().to_owned(),
                ("nested_call", _) => format!("nested {} line {}", body["tool"].as_str().unwrap(), body["line"]),
                (kind, _) => kind.to_owned(),
            }
        };
        entries.iter().map(short).collect()
    }

    /// The tools that the n-th request showed.
    pub(crate) fn shown(&self, request: usize) -> Vec<String> {
        let request = &self.server.requests()[request];
        let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Waits for something that must come. The time is only there so that a test that fails ends.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it comes")
}

/// A reply with these calls of tools, each with its number.
pub(crate) fn calls(names: &[(&str, u32)]) -> String {
    let call =
        |(name, n): &(&str, u32)| format!("{{ call: {{ id: 'c{n}', name: '{name}', arguments: {{ n: {n} }} }} }}");
    let calls: Vec<String> = names.iter().map(call).collect();
    format!("{{ parts: [{}] }}", calls.join(", "))
}

/// A script whose replies follow the conversation.
pub(crate) fn conversation(replies: &[String]) -> String {
    format!("{{ order: 'conversation', replies: [{}] }}", replies.join(", "))
}

pub(crate) fn text(text: &str) -> String {
    format!("{{ parts: [{{ text: {text:?} }}] }}")
}
