//! One surface over one catalog, in a process of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pincer_agent::{Agent, Request};
use pincer_catalog::Entry;
use pincer_config::Loaded;
use pincer_runtime::{BuiltIn, EngineStart, ModelSetup, Principal, Runtime, RuntimeOptions, ScopeRequest};
use pincer_scripted::{Format, Script, Server};
use pincer_store::SessionKey;
use pincer_tools::{FnTool, ToolCall, ToolError};
use serde_json::{Value, json};

use super::catalog::Catalog;
use super::{Carried, Requests, Row};
use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, resident_bytes, summary};
use crate::notices;
use crate::usage_bench::{SurfaceMode, SurfacesArguments};

const USER: &str = "bench";
const MESSAGE: &str = "Hello.";
/// The matches of a search.
const MATCHES: usize = 8;
/// The providers, one for each wire format: the name, that of the format in the config, and the format.
const PROVIDERS: [(&str, &str, Format); 3] = [
    ("chat", "openai-completions", Format::Chat),
    ("responses", "openai-responses", Format::Responses),
    ("messages", "anthropic-messages", Format::Messages),
];

/// An agent with these tools behind a surface, and the model's server.
struct World {
    agent: Agent,
    server: Server,
    _directory: tempfile::TempDir,
}

impl World {
    fn new(mode: SurfaceMode, entries: Vec<Entry>) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let reply = "{ parts: [{ text: 'Hello.' }] }";
        let server =
            Server::start(Script::parse(&format!("{{ replies: [{}] }}", [reply; PROVIDERS.len()].join(", ")))?)?;
        let provider = |(name, api, format): (&str, &str, Format)| {
            let provider = json!({ "api": api, "baseUrl": server.base_url(format), "apiKey": "none" });
            (name.to_owned(), provider)
        };
        let providers: serde_json::Map<String, Value> = PROVIDERS.into_iter().map(provider).collect();
        let tools = match mode {
            SurfaceMode::Direct => json!({}),
            SurfaceMode::CodeMode => json!({ "codeMode": true }),
            SurfaceMode::Tools => json!({ "toolSearch": { "mode": "tools" } }),
            SurfaceMode::Directory => json!({ "toolSearch": { "mode": "directory" } }),
            SurfaceMode::Code => json!({ "toolSearch": { "mode": "code" } }),
        };
        let config = json!({
            "workspace": directory.path(),
            "models": { "providers": providers },
            "agents": { "defaults": { "model": "chat/m" } },
            "tools": tools,
        });
        let loaded = Loaded { parsed: pincer_config::parse(&config.to_string(), &|_| None)?, ..Loaded::default() };
        let models = ModelSetup::new(&loaded, Some(directory.path()));
        let nothing = Arc::new(FnTool(|_: ToolCall| async move { Ok::<Value, ToolError>(Value::Null) }));
        let options = RuntimeOptions {
            built_in: BuiltIn::LeftOut,
            engine: EngineStart::WhenNeeded,
            observer: notices::observer(),
            extend: Box::new(move |door| {
                entries.into_iter().try_fold(door, |door, entry| door.tool(entry, Arc::clone(&nothing) as _))
            }),
            ..RuntimeOptions::new(loaded, directory.path().join("state"))
        };
        let agent = Agent::new(Arc::new(Runtime::open(options)?), models);
        Ok(Self { agent, server, _directory: directory })
    }

    /// Sends the first message of a session, and returns the request that came of it and the run's telemetry.
    async fn first_request(&self, provider: &str) -> Outcome<(String, Value)> {
        let before = self.server.requests().len();
        let request = Request { model: Some(format!("{provider}/m")), ..Request::new(MESSAGE) };
        let run = self.agent.submit(USER, &SessionKey::from(provider), request, None).await?.run_id;
        let outcome = self.agent.outcome(USER, &run).await?;
        // The run may have failed since: servers repeat the tools in an event, and 5,000 are more than an event may have.
        let requests = self.server.requests();
        let request = requests.get(before).ok_or_else(|| format!("the model was not asked: {outcome:?}"))?;
        Ok((request.text.clone(), serde_json::to_value(&outcome.result.telemetry.tools)?))
    }

    /// Builds the surface and the instructions of a message that is not sent. Returns the number of tools that it shows.
    async fn build(&self) -> Outcome<usize> {
        let request = Request::new(MESSAGE);
        Ok(self.agent.show_prompt(USER, &SessionKey::from("shown"), &request).await?.tools.len())
    }
}

pub(super) async fn measure(mode: SurfaceMode, count: u32, arguments: &SurfacesArguments) -> Outcome<Row> {
    // Code that is loaded for the first time is no growth, and no time of a surface.
    let small = World::new(mode, Catalog::new(1, None)?.entries)?;
    small.first_request(PROVIDERS[0].0).await?;
    small.build().await?;
    small.agent.close().await;
    drop(small);

    let before = resident_bytes();
    let (world, queries, origin) = opened(mode, count, arguments.data.as_deref())?;
    let began = Instant::now();
    let schemas = world.build().await?;
    let first_build_ms = milliseconds(began.elapsed());
    let mut samples = Vec::new();
    for _ in 0..arguments.rounds {
        let began = Instant::now();
        world.build().await?;
        samples.push(began.elapsed());
    }
    let build_ms = summary(samples, milliseconds);
    let memory_bytes = resident_bytes().saturating_sub(before);
    let search_ms = match mode {
        SurfaceMode::Direct => None,
        _ => Some(searched(&world, &queries)?),
    };
    let mut carried = Vec::new();
    for (provider, _, _) in PROVIDERS {
        let (request, tools) = world.first_request(provider).await?;
        if tools["catalogSize"] != json!(count) || tools["surface"] != mode.word() {
            return Err(format!("the surface is not the one that was asked for: {tools}").into());
        }
        let tokens = tiktoken_rs::o200k_base_singleton().encode_ordinary(&request).len();
        carried.push(Carried { bytes: request.len(), tokens });
    }
    world.agent.close().await;
    let [chat, responses, messages] = carried[..] else { return Err("a wire format is missing".into()) };
    let request = Requests { chat, responses, messages };
    Ok(Row { tools: count, origin, mode, schemas, request, first_build_ms, build_ms, search_ms, memory_bytes })
}

/// Opens the world of a catalog. What is read for that is gone when this returns.
fn opened(mode: SurfaceMode, count: u32, data: Option<&Path>) -> Outcome<(World, Vec<String>, super::catalog::Origin)> {
    let catalog = Catalog::new(count as usize, data)?;
    let (queries, origin) = (catalog.queries(), catalog.origin);
    Ok((World::new(mode, catalog.entries)?, queries, origin))
}

/// Times searches in the index of the run's tools.
fn searched(world: &World, queries: &[String]) -> Outcome<Summary> {
    let runtime = world.agent.runtime();
    let scope = runtime.scope(&ScopeRequest::new(Principal::new(USER), "shown"))?;
    let tools = runtime.tools(&scope);
    let (_, index) = tools.searched();
    let mut samples = Vec::new();
    let mut found = 0;
    for query in queries.iter().chain(queries) {
        let began = Instant::now();
        found += index.search(query, MATCHES).len();
        samples.push(began.elapsed());
    }
    match found {
        0 => Err("no search found anything".into()),
        _ => Ok(summary(samples, milliseconds)),
    }
}
