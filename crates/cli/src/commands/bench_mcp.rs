//! `pincer bench mcp`: what a call of an MCP server costs from a program, beside the same call with the official SDK alone; and
//! what Pincer costs as a server.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pincer_catalog::{Catalog, Entry, Policy, Source, ToolId};
use pincer_codemode::{CodeModeResult, ExecInput, RunTools};
use pincer_config::keys::McpServer;
use pincer_runtime::Runtime;
use pincer_sandbox::Library;
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Context, Door, Event, EventKind, EventSink};
use rmcp::model::CallToolRequestParams;
use rmcp::serve_client;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::bench_runtime;
use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, progress, reported, resident_bytes_of, summary};
use crate::print::{bytes, line};
use crate::usage_bench::BenchArguments;

/// Calls at once, each of 50 ms.
const PARALLEL: usize = 50;
/// Servers that `mcp serve` is started with.
const SERVERS: usize = 10;
/// How often it is started.
const STARTS: usize = 11;
/// Tools in the catalog that is declared.
const TOOLS: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    /// The same call of the same server with the SDK alone.
    sdk_ms: Summary,
    /// `MCP.trivial.echo()` from a program, from one call to the next.
    cell_ms: Summary,
    /// How many times as long, in the middle.
    ratio: f64,
    /// The same call, of a server whose tools the operator marked as read-only.
    read_ms: Summary,
    /// How many times as long as with the SDK alone.
    read_ratio: f64,
    /// 50 calls of 50 ms at once, all of them.
    parallel_50_ms: f64,
    /// From the start of `mcp serve` with ten servers to its answer to `initialize`.
    start_ms: Summary,
    /// What it then has in memory.
    start_resident_bytes: usize,
    /// Declarations of 1,000 tools.
    declare_1000_ms: Summary,
}

pub(crate) fn run(arguments: &BenchArguments) -> u8 {
    reported(arguments.json, measure(arguments.rounds as usize), show)
}

fn show(report: &Report) {
    let Report { sdk_ms, cell_ms, ratio, read_ms, read_ratio, parallel_50_ms, start_ms, .. } = report;
    let Report { start_resident_bytes, declare_1000_ms, .. } = report;
    line(&format!("a call with the SDK alone        {:.3} ms  (p95 {:.3})", sdk_ms.p50, sdk_ms.p95));
    line(&format!(
        "the same from a program          {:.3} ms  (p95 {:.3}), {ratio:.2} times",
        cell_ms.p50, cell_ms.p95
    ));
    line(&format!(
        "the same, marked as read-only    {:.3} ms  (p95 {:.3}), {read_ratio:.2} times",
        read_ms.p50, read_ms.p95
    ));
    line(&format!("50 calls of 50 ms at once        {parallel_50_ms:.0} ms"));
    line(&format!("mcp serve to its first answer    {:.0} ms  (p95 {:.0})", start_ms.p50, start_ms.p95));
    line(&format!("  and what it then has in memory {}", bytes(*start_resident_bytes)));
    line(&format!("declarations of 1,000 tools      {:.1} ms  (p95 {:.1})", declare_1000_ms.p50, declare_1000_ms.p95));
}

async fn measure(rounds: usize) -> Outcome<Report> {
    let rounds = rounds.max(50);
    let directory = tempfile::tempdir()?;
    let bench = Bench::new(directory.path()).await?;
    // Taken in turns, so that a noisy moment harms both.
    let (mut sdk, mut cell, mut read) = (Vec::new(), Vec::new(), Vec::new());
    let alone = Alone::start().await?;
    for turn in 0..5 {
        progress(&format!("calls, {} of 5", turn + 1));
        sdk.extend(alone.calls(rounds / 5).await?);
        cell.extend(bench.calls("trivial", rounds / 5).await?);
        read.extend(bench.calls("reads", rounds / 5).await?);
    }
    progress("calls at once");
    let parallel = bench.parallel().await?;
    bench.runtime.servers().end().await;
    drop(alone);
    progress("starts");
    let (starts, resident) = starts(directory.path()).await?;
    progress("declarations");
    let declared = declarations(directory.path())?;
    progress("");
    let (sdk_ms, cell_ms) = (summary(sdk, milliseconds), summary(cell, milliseconds));
    let read_ms = summary(read, milliseconds);
    Ok(Report {
        peer: "pincer",
        sdk_ms,
        cell_ms,
        ratio: cell_ms.p50 / sdk_ms.p50,
        read_ms,
        read_ratio: read_ms.p50 / sdk_ms.p50,
        parallel_50_ms: milliseconds(parallel),
        start_ms: summary(starts, milliseconds),
        start_resident_bytes: resident,
        declare_1000_ms: summary(declared, milliseconds),
    })
}

fn trivial() -> Outcome<McpServer> {
    let command = Some(std::env::current_exe()?.display().to_string());
    Ok(McpServer { command, args: vec!["bench".into(), "trivial-server".into()], ..McpServer::default() })
}

/// The SDK alone, as its own examples use it.
struct Alone {
    client: rmcp::service::RunningService<rmcp::RoleClient, ()>,
    _child: tokio::process::Child,
}

impl Alone {
    async fn start() -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "trivial-server"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (stdout, stdin) = child.stdout.take().zip(child.stdin.take()).ok_or("the server has no pipes")?;
        Ok(Self { client: serve_client((), (stdout, stdin)).await?, _child: child })
    }

    async fn calls(&self, count: usize) -> Outcome<Vec<Duration>> {
        let mut took = Vec::new();
        for n in 0..count {
            let arguments = json!({ "n": n }).as_object().cloned().unwrap_or_default();
            let began = Instant::now();
            self.client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await?;
            took.push(began.elapsed());
        }
        Ok(took)
    }
}

/// A runtime with a server behind it, under two names: one of them is marked as read-only.
struct Bench {
    runtime: Runtime,
    called: Called,
}

/// When calls began.
#[derive(Clone, Default)]
struct Called(Arc<Mutex<Vec<Instant>>>);

impl EventSink for Called {
    fn event(&self, event: &Event) {
        if let (EventKind::Start { .. }, Ok(mut called)) = (&event.what, self.0.lock()) {
            called.push(Instant::now());
        }
    }

    fn wants_values(&self) -> bool {
        false
    }
}

impl Bench {
    async fn new(directory: &Path) -> Outcome<Self> {
        let called = Called::default();
        let reads = McpServer { read_only: vec!["*".into()], ..trivial()? };
        let servers = [("trivial".to_owned(), trivial()?), ("reads".to_owned(), reads)].into();
        let runtime = bench_runtime::open(directory, servers, |options| options)?;
        runtime.events().observe(Arc::new(called.clone()));
        runtime.servers().refresh_all().await;
        Ok(Self { runtime, called })
    }

    async fn run(&self, code: String) -> Outcome<()> {
        let scope = bench_runtime::scope(&self.runtime)?;
        match self.runtime.exec(&scope, ExecInput::javascript(code)).await {
            CodeModeResult::Completed(_) => Ok(()),
            other => Err(format!("the program did not complete: {other:?}").into()),
        }
    }

    async fn calls(&self, server: &str, count: usize) -> Outcome<Vec<Duration>> {
        self.called.0.lock().map(|mut called| called.clear()).unwrap_or_default();
        self.run(format!("for (let n = 0; n <= {count}; n++) await MCP.{server}.echo({{ n }})")).await?;
        let called = self.called.0.lock().map(|called| called.clone()).unwrap_or_default();
        Ok(called.windows(2).map(|pair| pair[1] - pair[0]).collect())
    }

    async fn parallel(&self) -> Outcome<Duration> {
        let began = Instant::now();
        self.run(format!("await Promise.all(Array.from({{ length: {PARALLEL} }}, () => MCP.trivial.sleep({{}})))"))
            .await?;
        Ok(began.elapsed())
    }
}

/// Starts `mcp serve` with ten servers whose tools are known from before.
async fn starts(directory: &Path) -> Outcome<(Vec<Duration>, usize)> {
    let server = serde_json::to_value(trivial()?.written())?;
    let servers: serde_json::Map<_, _> = (0..SERVERS).map(|n| (format!("server{n}"), server.clone())).collect();
    let config = directory.join("pincer.json5");
    std::fs::write(&config, json!({ "mcp": { "servers": servers } }).to_string())?;
    let state = directory.join("state");
    let known = Command::new(std::env::current_exe()?)
        .arg("--config")
        .arg(&config)
        .arg("--state-dir")
        .arg(&state)
        .args(["mcp", "list", "--json"])
        .output();
    if !known.await?.status.success() {
        return Err("the servers could not be listed".into());
    }
    let (mut took, mut resident) = (Vec::new(), 0);
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--config")
            .arg(&config)
            .arg("--state-dir")
            .arg(&state)
            .args(["mcp", "serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (mut stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or("the server has no pipes")?;
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } },
        });
        stdin.write_all(format!("{hello}\n").as_bytes()).await?;
        let answer = BufReader::new(stdout).lines().next_line().await?;
        took.push(began.elapsed());
        answer.filter(|answer| answer.contains("serverInfo")).ok_or("there was no answer to initialize")?;
        resident = child.id().map_or(0, resident_bytes_of).max(resident);
        drop(stdin);
        child.wait().await?;
    }
    Ok((took, resident))
}

/// Declares a catalog of 1,000 tools over ten servers.
fn declarations(directory: &Path) -> Outcome<Vec<Duration>> {
    let schema = json!({
        "type": "object",
        "properties": {
            "owner": { "type": "string", "description": "Whose repository it is" },
            "state": { "enum": ["open", "closed", "all"], "description": "Which ones" },
            "labels": { "type": "array", "items": { "type": "string" } },
            "page": { "type": "object", "properties": { "number": { "type": "integer" }, "size": { "type": "integer", "default": 30 } } },
        },
        "required": ["owner"],
    });
    let entries: Vec<Entry> = (0..TOOLS)
        .filter_map(|n| {
            let id = ToolId::new(Source::Mcp, format!("server{}", n % 10), format!("list_things_{n}")).ok()?;
            Some(Entry {
                input_schema: schema.clone(),
                ..Entry::new(id, "Lists the things of a repository, page by page.")
            })
        })
        .collect();
    let door = Door::builder().build(Arc::new(SqliteStore::open(&directory.join("declared.db"))?));
    let catalog = Catalog::new(entries)?;
    let mut took = Vec::new();
    for _ in 0..STARTS {
        let tools = RunTools::new(&door, &catalog, &Policy::open(), &Context::default());
        let began = Instant::now();
        tools.global("API").ok_or("there is no API")?;
        took.push(began.elapsed());
    }
    Ok(took)
}
