//! `pincer bench memory`: the peak memory of the host for each megabyte of JSON that crosses between programs, tools, MCP servers
//! and clients.
//!
//! Each case runs in a process of its own, so that no case uses memory that another one has left behind. The guest's own memory
//! is not counted: a program builds its values first and then calls `mark`, which takes what is resident from there on as the base.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pincer_catalog::{Entry, Source, ToolId};
use pincer_codemode::{CodeModeResult, ExecInput};
use pincer_config::keys::McpServer;
use pincer_runtime::{Runtime, RuntimeOptions};
use pincer_tools::{FnTool, ToolCall, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::process::Command;

use super::bench_memory_server::LISTING;
use crate::bench_runtime;
use crate::cells::Outcome;
use crate::load_client::{LoadClient, Served};
use crate::measure::{forget_peak_of, peak_bytes_of, progress, reported, resident_bytes_of};
use crate::print::{bytes, line};
use crate::usage_bench::MemoryArguments;

/// Calls that are queued at once, and how large the arguments of each are.
const QUEUED: usize = 100;
const QUEUED_BYTES: usize = 64 << 10;
/// The largest `maxOutputBytes`.
const MOST_OUTPUT: usize = 10 << 20;

/// The cases: name, and what crosses.
const CASES: [(&str, &str); 6] = [
    ("arguments", "arguments of one call"),
    ("queued", "arguments of 100 calls at once, 64 KB each"),
    ("result", "a result of an MCP server"),
    ("listing", "the tools of an MCP server"),
    ("output", "output of a program, served over HTTP"),
    ("flood", "text('') without end, for each MB of maxOutputBytes"),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    cases: Vec<Figures>,
}

/// The memory that one case took.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    case: String,
    /// The JSON that crossed.
    json_bytes: usize,
    /// Resident memory that the guest took before anything crossed. Not part of the growth.
    guest_bytes: usize,
    /// By how much resident memory grew at most while it crossed.
    peak_growth_bytes: usize,
    /// Megabytes of growth for each megabyte of JSON.
    per_mb: f64,
}

impl Figures {
    fn new(case: &str, json_bytes: usize, guest_bytes: usize, peak_growth_bytes: usize) -> Self {
        let per_mb = peak_growth_bytes as f64 / json_bytes.max(1) as f64;
        Self { case: case.into(), json_bytes, guest_bytes, peak_growth_bytes, per_mb }
    }
}

pub(crate) fn run(arguments: &MemoryArguments) -> u8 {
    let bytes = arguments.megabytes as usize * 1_000_000;
    match &arguments.case {
        Some(case) => reported(true, measure(case, bytes), |_| {}),
        None => reported(arguments.json, measure_all(arguments.megabytes), show),
    }
}

fn show(report: &Report) {
    line(&format!("{:<52}{:>10}{:>12}{:>12}", "", "JSON", "peak growth", "MB for 1 MB"));
    for figures in &report.cases {
        let what = CASES.iter().find(|(case, _)| *case == figures.case).map_or("", |(_, what)| what);
        let (json, growth) = (bytes(figures.json_bytes), bytes(figures.peak_growth_bytes));
        line(&format!("{what:<52}{json:>10}{growth:>12}{:>12.1}", figures.per_mb));
    }
    let guest = report.cases.iter().map(|figures| figures.guest_bytes).max().unwrap_or(0);
    line(&format!("The guest's own memory, up to {} in these cases, is not counted.", bytes(guest)));
}

async fn measure_all(megabytes: u32) -> Outcome<Report> {
    let mut cases = Vec::new();
    for (case, what) in CASES {
        progress(what);
        let child = Command::new(std::env::current_exe()?)
            .args(["bench", "memory", "--json", "--megabytes", &megabytes.to_string(), "--case", case])
            .kill_on_drop(true)
            .output()
            .await?;
        let figures = serde_json::from_slice(&child.stdout);
        let why = || format!("the case {case} did not run: {}", String::from_utf8_lossy(&child.stderr));
        cases.push(figures.map_err(|_| why())?);
    }
    progress("");
    Ok(Report { peer: "pincer", cases })
}

async fn measure(case: &str, bytes: usize) -> Outcome<Figures> {
    let directory = tempfile::tempdir()?;
    match case {
        "listing" => listing(directory.path(), bytes).await,
        "output" | "flood" => output(directory.path(), case, bytes.min(MOST_OUTPUT)).await,
        _ => crossing(directory.path(), case, bytes).await,
    }
}

/// A record as file listings have them.
pub(crate) fn record(n: usize) -> String {
    let (name, size, day) = (format!("quarterly-report-{n:05}.pdf"), 1000 + n * 37 % 900_000, 1 + n % 28);
    let modified = format!("2026-03-{day:02}T10:15:00Z");
    json!({ "id": n, "name": name, "size": size, "tags": ["finance", "draft"], "modified": modified }).to_string()
}

/// As many records as fit into so many bytes, with commas between them.
pub(crate) fn records(bytes: usize) -> String {
    let mut text = record(0);
    let mut n = 1;
    while text.len() < bytes {
        text.push(',');
        text.push_str(&record(n));
        n += 1;
    }
    text
}

/// The figures of this process that a program marks the beginning of.
#[derive(Default)]
struct Marked {
    /// Resident before the program.
    before: AtomicUsize,
    /// Resident when values begin to cross.
    base: AtomicUsize,
}

impl Marked {
    fn mark(&self) -> std::io::Result<()> {
        let pid = std::process::id();
        self.base.store(resident_bytes_of(pid), Ordering::SeqCst);
        forget_peak_of(pid)
    }

    fn figures(&self, case: &str, json_bytes: usize) -> Figures {
        let (before, base) = (self.before.load(Ordering::SeqCst), self.base.load(Ordering::SeqCst));
        let growth = peak_bytes_of(std::process::id()).saturating_sub(base);
        Figures::new(case, json_bytes, base.saturating_sub(before), growth)
    }
}

/// A runtime with a tool that takes anything, and the server with large results.
struct Bench {
    runtime: Runtime,
    marked: Arc<Marked>,
}

impl Bench {
    fn new(directory: &Path, listing_bytes: usize) -> Outcome<Self> {
        let marked = Arc::new(Marked::default());
        let marking = Arc::clone(&marked);
        let mark = FnTool(move |_: ToolCall| {
            let done = marking.mark().map(|()| Value::Null);
            async move { done.map_err(|error| ToolError::before(format!("the peak cannot be reset: {error}"))) }
        });
        // Slow enough that all calls of a batch are there before the first is done.
        let take = FnTool(|call: ToolCall| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let count = call.input["records"].as_array().map_or(0, Vec::len);
            Ok::<Value, ToolError>(json!(count))
        });
        let entry = |name: &str| {
            Ok::<_, pincer_catalog::IdError>(Entry::new(ToolId::new(Source::Openclaw, "core", name)?, name))
        };
        let (takes, mut looks_only) = (entry("take")?, entry("mark")?);
        looks_only.flags.read_only = true;
        let server = McpServer {
            command: Some(std::env::current_exe()?.display().to_string()),
            args: vec!["bench".into(), "memory-server".into()],
            env: [(LISTING.to_owned(), listing_bytes.to_string())].into(),
            read_only: vec!["*".into()],
            ..McpServer::default()
        };
        let small = McpServer { env: [(LISTING.to_owned(), "0".to_owned())].into(), ..server.clone() };
        let servers = [("bench".to_owned(), server), ("small".to_owned(), small)].into();
        let runtime = bench_runtime::open(directory, servers, |options| RuntimeOptions {
            extend: Box::new(|door| door.tool(takes, Arc::new(take))?.tool(looks_only, Arc::new(mark))),
            ..options
        })?;
        Ok(Self { runtime, marked })
    }

    /// Asks a server what it has, and brings it to the door.
    async fn refresh(&self, server: &str) -> Outcome<()> {
        let servers = self.runtime.servers();
        servers.ready_with(servers.get(server).ok_or("there is no such server")?).await;
        Ok(())
    }

    async fn run(&self, code: String) -> Outcome<()> {
        let scope = bench_runtime::scope(&self.runtime)?;
        match self.runtime.exec(&scope, ExecInput::javascript(code)).await {
            CodeModeResult::Completed(_) => Ok(()),
            other => Err(format!("the program did not complete: {other:?}").into()),
        }
    }
}

/// Values that cross between a program and its tools.
async fn crossing(directory: &Path, case: &str, bytes: usize) -> Outcome<Figures> {
    let bench = Bench::new(directory, 0)?;
    bench.refresh("bench").await?;
    // The same few records again and again: the guest stays small, and its JSON does not.
    let kinds = 64;
    let list = format!("[{}]", (0..kinds).map(record).collect::<Vec<_>>().join(","));
    let length = list.len();
    let rows = |bytes: usize| (bytes * kinds).div_ceil(length);
    let make = |bytes: usize| {
        format!(
            "const some = {list}; const all = Array.from({{ length: {} }}, (_, i) => some[i % {kinds}]);",
            rows(bytes)
        )
    };
    // The guest first grows by the buffers that it needs to write its values as JSON and to lend the text.
    let warm = "for (let i = 0; i < 2; i++) { try { await API.read(JSON.stringify([all])) } catch {} }";
    let (code, crossed) = match case {
        "arguments" => {
            let code = format!(
                "{} {warm} await tools.mark({{}}); await tools.take({{ records: all }}); return 1",
                make(bytes)
            );
            (code, bytes)
        }
        "queued" => {
            let calls = format!("Array.from({{ length: {QUEUED} }}, () => tools.take({{ records: all }}))");
            let code =
                format!("{} {warm} await tools.mark({{}}); await Promise.all({calls}); return 1", make(QUEUED_BYTES));
            (code, QUEUED * QUEUED_BYTES)
        }
        "result" => {
            // The guest has room for the parsed value, and its text, before the result comes.
            let warm = "{ const copy = JSON.parse(JSON.stringify([all])); copy.length = 0 }";
            let call = format!("await MCP.bench.records({{ bytes: {bytes} }})");
            let code = format!(
                "{} {warm} await tools.mark({{}}); return ({call}).structuredContent.records.length",
                make(bytes)
            );
            (code, bytes)
        }
        _ => return Err(format!("there is no case {case}").into()),
    };
    bench.run("await tools.take({}); await MCP.bench.records({ bytes: 0 }); return 1".into()).await?;
    bench.marked.before.store(resident_bytes_of(std::process::id()), Ordering::SeqCst);
    bench.run(code).await?;
    let figures = bench.marked.figures(case, crossed);
    bench.runtime.servers().end().await;
    Ok(figures)
}

/// A listing, from the wire to what a program is given.
async fn listing(directory: &Path, bytes: usize) -> Outcome<Figures> {
    let bench = Bench::new(directory, bytes)?;
    // A first connection loads code, which is no cost of a listing.
    bench.refresh("small").await?;
    bench.run("return 1".into()).await?;
    bench.marked.before.store(resident_bytes_of(std::process::id()), Ordering::SeqCst);
    bench.marked.mark()?;
    bench.refresh("bench").await?;
    drop(bench.runtime.tools(&bench_runtime::scope(&bench.runtime)?));
    let figures = bench.marked.figures("listing", bytes);
    let listed = bench.runtime.catalog().len();
    bench.runtime.servers().end().await;
    if listed < 100 { Err(format!("only {listed} tools were listed").into()) } else { Ok(figures) }
}

/// Measures output of a program on its way through a server to a client.
async fn output(directory: &Path, case: &str, bytes: usize) -> Outcome<Figures> {
    let config = json!({ "tools": { "codeMode": { "maxOutputBytes": MOST_OUTPUT } } });
    let served = Served::start(directory, &config).await?;
    let mut client = LoadClient::connect(&served.address, None).await?;
    client.exec("text('warm'); return 1").await?;
    let before = served.resident_bytes();
    forget_peak_of(served.pid())?;
    let record = record(12345);
    // As much as it takes in the result, where quotes are escaped.
    let lines = bytes / json!({ "type": "text", "text": record }).to_string().len();
    let code = match case {
        "flood" => "while (true) text('')".to_owned(),
        _ => format!("for (let i = 0; i < {lines}; i++) text('{record}'); return 1"),
    };
    let (result, _) = client.exec(&code).await?;
    let growth = peak_bytes_of(served.pid()).saturating_sub(before);
    if result["output"].as_array().is_none_or(Vec::is_empty) {
        return Err(format!("nothing was printed: {}", result["error"]).into());
    }
    let crossed = if case == "flood" { MOST_OUTPUT } else { result["output"].to_string().len() };
    Ok(Figures::new(case, crossed, 0, growth))
}
