//! The process that works on a run: it accepts the message if it was not accepted before, and works until the run has ended.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pincer_agent::{Agent, ClientTool, Request, RunOutcome, Status};
use pincer_catalog::{Entry, Flags};
use pincer_config::Loaded;
use pincer_runtime::{BuiltIn, EngineStart, ModelSetup, Runtime, RuntimeOptions};
use pincer_store::Route;
use pincer_store_sqlite::CommitMoment;
use pincer_testkit::house::engine;
use pincer_tools::{Answer, FnTool, ToolCall, ToolError};
use serde_json::{Value, json};

pub(crate) const PLACE: &str = "PINCER_CRASH_PLACE";
pub(crate) const CONFIG: &str = "PINCER_CRASH_CONFIG";
pub(crate) const DEATH: &str = "PINCER_CRASH_DEATH";
pub(crate) const EFFECTS: &str = "effects";
pub(crate) const OUTCOME: &str = "outcome";
pub(crate) const COMMITS: &str = "commits";
pub(crate) const USER: &str = "me";
pub(crate) const KEY: &str = "main";

pub(crate) fn serve() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    tokio.block_on(work(&place));
}

async fn work(place: &Path) {
    let text = std::env::var(CONFIG).expect("a config");
    let parsed = pincer_config::parse(&text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let loaded = Loaded { parsed, ..Loaded::default() };
    let state = place.join("state");
    let models = ModelSetup::new(&loaded, Some(&state));
    let effects = place.join(EFFECTS);
    let options = RuntimeOptions {
        engine: EngineStart::Given(engine().clone()),
        built_in: BuiltIn::LeftOut,
        extend: Box::new(move |door| {
            let entry = |name: &str| Entry {
                flags: Flags::default(),
                ..Entry::new(format!("plugin:test:{name}").parse().expect("an id"), "")
            };
            door.tool(entry("mark"), Arc::new(effect(&effects)))?.tool(entry("ask"), Arc::new(effect(&effects)))
        }),
        ..RuntimeOptions::new(loaded, &state)
    };
    let runtime = Arc::new(Runtime::open(options).expect("a runtime"));
    let commits = Arc::new(AtomicU64::new(0));
    let (counted, death) = (Arc::clone(&commits), std::env::var(DEATH).ok());
    let (moment, at) = match death.as_deref().map(|death| death.split_at(1)) {
        Some(("b", at)) => (Some(CommitMoment::Before), at.parse().expect("a number")),
        Some((_, at)) => (Some(CommitMoment::After), at.parse().expect("a number")),
        None => (None, 0),
    };
    runtime.store().watch_commits(Box::new(move |now| {
        let number = match now {
            CommitMoment::Before => counted.fetch_add(1, Ordering::SeqCst) + 1,
            CommitMoment::After => counted.load(Ordering::SeqCst),
        };
        if moment == Some(now) && number == at {
            // As SIGKILL would: nothing is flushed, no destructor runs.
            std::process::abort();
        }
    }));
    let agent = Agent::new(Arc::clone(&runtime), models);
    let key = KEY.into();
    let (name, description) = ("choose".to_owned(), "Asks the sender.".to_owned());
    let choose = ClientTool { name, description, parameters: json!({ "type": "object" }) };
    let route = Route { channel: "irc".into(), to: "ann".into(), ..Route::default() };
    let request = Request { client_tools: vec![choose], route: Some(route), ..Request::new("Do it.") };
    let run = agent.submit(USER, &key, request, Some("the-one".into())).await.expect("accepted").run_id;
    let outcome: RunOutcome = loop {
        let outcome = agent.outcome(USER, &run).await.expect("an outcome");
        if outcome.status != Status::Waiting {
            break outcome;
        }
        for question in &outcome.approvals {
            agent.answer(&question.approval_id, Answer::AllowOnce, "a person").await.expect("answered");
        }
        for call in &outcome.client_calls {
            // Another process may have answered it, and the run may have ended since.
            let _ = agent.answer_client(USER, &run, &call.call_id, Ok(json!("blue"))).await;
        }
    };
    agent.close().await;
    std::fs::write(place.join(COMMITS), commits.load(Ordering::SeqCst).to_string()).expect("written");
    std::fs::write(place.join(OUTCOME), serde_json::to_string(&outcome).expect("JSON")).expect("written");
    runtime.shutdown(Duration::ZERO).await;
}

/// A tool with an effect that outlives the process.
fn effect(file: &Path) -> impl pincer_tools::Tool + use<> {
    let file = file.to_owned();
    FnTool(move |call: ToolCall| {
        let file = file.clone();
        async move {
            let mut file = OpenOptions::new().create(true).append(true).open(file).expect("a file");
            writeln!(file, "{}", call.input["n"]).expect("written");
            Ok::<Value, ToolError>(json!({ "did": call.input["n"] }))
        }
    })
}
