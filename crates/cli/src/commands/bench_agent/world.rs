//! An agent with ten tools that do nothing, and a model that follows a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pincer_agent::{Agent, Request, RunOutcome, Status, Submitted};
use pincer_config::Loaded;
use pincer_runtime::{BuiltIn, ModelSetup, Runtime, RuntimeOptions};
use pincer_store::SessionKey;
use pincer_store_sqlite::CommitMoment;
use pincer_tools::{FnTool, Tool, ToolCall, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cells::Outcome;
use crate::commands::bench_calls::tools;
use crate::notices;

/// The tools that there are.
pub(super) const TOOLS: usize = 10;
/// The answer at the end of each script.
pub(super) const ANSWER: &str = "All of it is done.";
const USER: &str = "bench";

/// How the model calls tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// By their names.
    Direct,
    /// From programs.
    Program,
}

pub(super) struct World {
    pub agent: Agent,
    commits: Arc<AtomicU64>,
    /// Is removed last.
    _directory: TempDir,
}

impl World {
    /// Opens an agent that asks the model at this address, with so many runs at once.
    pub(super) fn open(url: &str, mode: Mode, most_runs: u32) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let config = json!({
            "workspace": directory.path(),
            "models": { "providers": { "scripted": { "baseUrl": format!("{url}/v1"), "apiKey": "none" } } },
            "agents": { "defaults": { "model": "scripted/scripted", "maxConcurrent": most_runs } },
            "tools": { "codeMode": mode == Mode::Program },
        });
        let loaded = Loaded { parsed: pincer_config::parse(&config.to_string(), &|_| None)?, ..Loaded::default() };
        let models = ModelSetup::new(&loaded, Some(directory.path()));
        let entries = tools(TOOLS)?;
        let tool = FnTool(|call: ToolCall| async move { Ok::<Value, ToolError>(json!({ "id": call.input["id"] })) });
        let tool: Arc<dyn Tool> = Arc::new(tool);
        let options = RuntimeOptions {
            built_in: BuiltIn::LeftOut,
            observer: notices::observer(),
            extend: Box::new(move |door| {
                entries.into_iter().try_fold(door, |door, entry| door.tool(entry, Arc::clone(&tool)))
            }),
            ..RuntimeOptions::new(loaded, directory.path())
        };
        let runtime = Runtime::open(options)?;
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        runtime.store().watch_commits(Box::new(move |moment| {
            if moment == CommitMoment::After {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Ok(Self { agent: Agent::new(Arc::new(runtime), models), commits, _directory: directory })
    }

    /// Sends a message to a session.
    pub(super) async fn submit(&self, session: &str) -> Outcome<Submitted> {
        let key = SessionKey::from(session);
        Ok(self.agent.submit(USER, &key, Request::new("Do what is to be done."), None).await?)
    }

    /// Waits for the answer.
    pub(super) async fn answered(&self, submitted: &Submitted) -> Outcome<()> {
        let outcome: RunOutcome = self.agent.outcome(USER, &submitted.run_id).await?;
        if outcome.status == Status::Ok && outcome.text() == ANSWER {
            return Ok(());
        }
        Err(format!("a run came to {outcome:?}").into())
    }

    /// Reads all events of a run as they happen. Returns how many there were; a gap is an error.
    pub(super) async fn gapless(&self, submitted: &Submitted) -> Outcome<u32> {
        let mut events = self.agent.events(USER, &submitted.run_id, 1).await?;
        let mut next = 1;
        while let Some(event) = events.next().await? {
            let first = event.from_seq.unwrap_or(event.seq);
            if first != next {
                return Err(format!("event {first} of {} followed event {}", submitted.run_id, next - 1).into());
            }
            next = event.seq + 1;
        }
        Ok(next - 1)
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// The scripts of the model.
pub(super) mod scripts {
    use serde_json::{Value, json};

    use super::ANSWER;
    use crate::cells::Outcome;
    use crate::commands::bench_calls::tools;

    fn call(id: &str, name: &str, arguments: &Value) -> Value {
        json!({ "call": { "id": id, "name": name, "arguments": arguments } })
    }

    fn names() -> Outcome<Vec<String>> {
        Ok(tools(super::TOOLS)?.iter().map(|entry| entry.id.name().to_owned()).collect())
    }

    fn calls() -> Outcome<Vec<Value>> {
        let calls = names()?.into_iter().enumerate();
        Ok(calls.map(|(n, name)| call(&format!("call_{n}"), &name, &json!({ "id": n.to_string() }))).collect())
    }

    /// A conversation with these replies, then the answer.
    pub(in super::super) fn conversation(replies: impl IntoIterator<Item = Vec<Value>>) -> Value {
        let said = [vec![json!({ "text": ANSWER })]];
        let replies: Vec<Value> =
            replies.into_iter().chain(said).map(|parts: Vec<Value>| json!({ "parts": parts })).collect();
        json!({ "order": "conversation", "replies": replies })
    }

    /// One reply that runs a program.
    pub(in super::super) fn exec(code: &str) -> Vec<Value> {
        vec![call("call_x", "exec", &json!({ "code": code }))]
    }

    /// The answer alone.
    pub(in super::super) fn plain() -> Value {
        conversation([])
    }

    /// All calls in one reply.
    pub(in super::super) fn at_once() -> Outcome<Value> {
        Ok(conversation([calls()?]))
    }

    /// A reply for each call.
    pub(in super::super) fn in_a_row() -> Outcome<Value> {
        Ok(conversation(calls()?.into_iter().map(|call| vec![call])))
    }

    /// One program with all calls, one after the other.
    pub(in super::super) fn program() -> Outcome<Value> {
        let calls = names()?.into_iter().enumerate();
        let lines: Vec<String> = calls.map(|(n, name)| format!("await tools.{name}({{ id: '{n}' }});")).collect();
        Ok(conversation([exec(&format!("{}\nreturn 'done'", lines.join("\n")))]))
    }

    /// A call, then the answer, each after 50 ms.
    pub(in super::super) fn slow() -> Outcome<Value> {
        let mut script = conversation([calls()?.into_iter().take(1).collect()]);
        for reply in script["replies"].as_array_mut().into_iter().flatten() {
            reply["wire"] = json!({ "headersAfterMs": super::super::MODEL_MS });
        }
        Ok(script)
    }
}
