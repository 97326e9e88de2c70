//! `pincer bench calls`: what a call of a tool costs from a program, through bridge, door and journal; what many suspended
//! programs cost; and how much a model is shown.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pincer_catalog::{Catalog, Entry, Flags, IdError, Policy, Source, ToolId};
use pincer_codemode::{CodeModeResult, Durability, ExecInput, RunTools, Settings, Surface, WaitInput, overviews};
use pincer_runtime::{Runtime, RuntimeOptions, Scope};
use pincer_store::Page;
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Context, Door, FnTool, Tool, ToolCall, ToolError};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bench_suspended;
use crate::bench_runtime;
use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, progress, reported, resident_bytes, summary};
use crate::print::{bytes, line, time};
use crate::usage_bench::{BenchArguments, CallsArguments};

/// Calls at once.
const PARALLEL: usize = 200;
/// Programs that wait.
const SUSPENDED: usize = 1000;
/// Tools in the catalog that the prompt is measured with.
const TOOLS: usize = 500;
const LIVE_CELLS: u32 = 64;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    /// One call with a possible effect after the other, in milliseconds from one to the next: each is stored before it is made.
    sequential: Summary,
    /// Calls of a tool that is known to change nothing.
    read_only: Summary,
    /// With `durability: "parked"`: nothing is stored before a call.
    parked: Summary,
    /// With `durability: "every_call"`: each is synced to the disk too.
    every_call: Summary,
    /// A program with a large heap.
    large_heap: LargeHeap,
    /// All at once, in milliseconds for all of them.
    parallel_200: Summary,
    /// 1,000 suspended programs.
    suspended_1000: Suspended,
    /// What a model is shown of 500 tools.
    prompt_500: Prompt,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LargeHeap {
    /// From one call to the next, stored before each.
    call: Summary,
    /// 100 such calls, from the start of the program to its end, in milliseconds.
    program_ms: f64,
    /// The same with `durability: "parked"`.
    parked_program_ms: f64,
    /// How many times as long.
    ratio: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Suspended {
    /// Listing all of them.
    list_ms: f64,
    /// Running one until it is stored.
    park: Summary,
    /// Continuing one to its end.
    resume: Summary,
    /// In the database, each.
    stored_bytes: usize,
    /// Of this process, more than before.
    resident_growth_bytes: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    surface_bytes: usize,
    /// Name, description and input schema of each tool.
    direct_bytes: usize,
    percent: f64,
}

pub(crate) fn run(arguments: &CallsArguments) -> u8 {
    let CallsArguments { bench: BenchArguments { json, rounds }, suspended } = *arguments;
    match suspended {
        Some(suspended) => reported(json, bench_suspended::measure(suspended as usize, rounds), bench_suspended::show),
        None => reported(json, measure(rounds), show),
    }
}

/// A runtime of its own, with a tool that notes when it is called.
pub(super) struct Bench {
    pub runtime: Runtime,
    pub scope: Scope,
    called: Arc<Mutex<Vec<Instant>>>,
    pub directory: TempDir,
}

impl Bench {
    pub(super) fn new() -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let called: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let noted = Arc::clone(&called);
        let tool = FnTool(move |call: ToolCall| {
            if let Ok(mut called) = noted.lock() {
                called.push(Instant::now());
            }
            async move { Ok::<Value, ToolError>(call.input) }
        });
        let tool: Arc<dyn Tool> = Arc::new(tool);
        let entry = |name: &str| {
            Ok::<_, IdError>(Entry::new(ToolId::new(Source::Openclaw, "core", name)?, "Returns its input"))
        };
        let (trivial, mut look) = (entry("trivial")?, entry("look")?);
        look.flags.read_only = true;
        let runtime = bench_runtime::open(directory.path(), BTreeMap::new(), |options| RuntimeOptions {
            live_cells: LIVE_CELLS,
            extend: Box::new(|door| door.tool(trivial, Arc::clone(&tool))?.tool(look, tool)),
            ..options
        })?;
        let scope = bench_runtime::scope(&runtime)?;
        Ok(Self { runtime, scope, called, directory })
    }

    async fn completed(&self, scope: &Scope, code: String) -> Outcome<()> {
        match self.runtime.exec(scope, ExecInput::javascript(code)).await {
            CodeModeResult::Completed(_) => Ok(()),
            other => Err(format!("a program came to {other:?}").into()),
        }
    }

    /// Calls one after the other: the times between them.
    async fn sequential(&self, tool: &str, rounds: u32, durability: Durability) -> Outcome<Vec<Duration>> {
        let code = format!("for (let i = 0; i < {rounds}; i++) await tools.{tool}({{ i }}); return 1");
        Ok(self.timed(code, durability).await?.0)
    }

    /// The times between the calls of a program, and how long it took as a whole.
    async fn timed(&self, code: String, durability: Durability) -> Outcome<(Vec<Duration>, Duration)> {
        let scope = self.scope.renewed().with_settings(|settings| Settings { durability, ..settings });
        self.take_called();
        let start = Instant::now();
        self.completed(&scope, code).await?;
        let took = start.elapsed();
        let called = self.take_called();
        Ok((called.windows(2).map(|pair| pair[1] - pair[0]).collect(), took))
    }

    /// A program with a heap of about 20 MB, of which each turn changes a few pages.
    async fn large_heap(&self) -> Outcome<LargeHeap> {
        let code = "const all = []; for (let i = 0; i < 150000; i++) all.push({ i, name: 'n' + i });
            for (let i = 0; i < 100; i++) { all[i * 7].name = 'changed'; await tools.trivial({ i }) } return all.length";
        let (mut calls, mut programs, mut parked) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..5 {
            let (times, took) = self.timed(code.into(), Durability::Calls).await?;
            calls.extend(times);
            programs.push(took);
            parked.push(self.timed(code.into(), Durability::Parked).await?.1);
        }
        let (program_ms, parked_ms) = (summary(programs, milliseconds).p50, summary(parked, milliseconds).p50);
        Ok(LargeHeap {
            call: summary(calls, milliseconds),
            program_ms,
            parked_program_ms: parked_ms,
            ratio: program_ms / parked_ms,
        })
    }

    fn take_called(&self) -> Vec<Instant> {
        self.called.lock().map(|mut called| std::mem::take(&mut *called)).unwrap_or_default()
    }

    async fn parallel(&self, rounds: u32) -> Outcome<Vec<Duration>> {
        let code = format!(
            "return (await Promise.all(Array.from({{ length: {PARALLEL} }}, (_, i) => tools.trivial({{ i }})))).length"
        );
        let mut times = Vec::new();
        for _ in 0..rounds {
            let start = Instant::now();
            self.completed(&self.scope, code.clone()).await?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    async fn suspended(&self) -> Outcome<Suspended> {
        let code = "const a = [1, 2, 3]; await yield_control('x'); return a.length + 2";
        let before = (resident_bytes(), size(self.directory.path()));
        let (mut ids, mut park, mut resume) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..SUSPENDED {
            let start = Instant::now();
            match self.runtime.exec(&self.scope, ExecInput::javascript(code)).await {
                CodeModeResult::Waiting(waiting) => ids.push(waiting.run_id),
                other => return Err(format!("a program came to {other:?}").into()),
            }
            park.push(start.elapsed());
        }
        let resident_growth_bytes = resident_bytes().saturating_sub(before.0);
        let start = Instant::now();
        let listed = overviews(&**self.runtime.store(), Page { limit: u32::MAX, ..Page::default() })
            .wait()?
            .iter()
            .filter(|run| run.state == "waiting")
            .count();
        let list_ms = milliseconds(start.elapsed());
        if listed != SUSPENDED {
            return Err(format!("{listed} of {SUSPENDED} programs wait").into());
        }
        let stored_bytes = size(self.directory.path()).saturating_sub(before.1) / SUSPENDED;
        for run_id in ids {
            let start = Instant::now();
            match self.runtime.wait(&self.scope, &WaitInput { run_id }).await {
                CodeModeResult::Completed(done) if done.value.as_str() == "5" => resume.push(start.elapsed()),
                other => return Err(format!("a program came to {other:?}").into()),
            }
        }
        let (park, resume) = (summary(park, milliseconds), summary(resume, milliseconds));
        Ok(Suspended { list_ms, park, resume, stored_bytes, resident_growth_bytes })
    }
}

/// All files of a directory together.
pub(super) fn size(directory: &Path) -> usize {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file()).map(|file| file.len() as usize).sum()
}

async fn measure(rounds: u32) -> Outcome<Report> {
    let bench = Bench::new()?;
    progress("sequential calls");
    bench.sequential("trivial", rounds.div_ceil(10), Durability::Calls).await?;
    let sequential = bench.sequential("trivial", rounds, Durability::Calls).await?;
    let read_only = bench.sequential("look", rounds, Durability::Calls).await?;
    let parked = bench.sequential("trivial", rounds, Durability::Parked).await?;
    progress("calls that are synced first");
    let every_call = bench.sequential("trivial", rounds, Durability::EveryCall).await?;
    progress("a large heap");
    let large_heap = bench.large_heap().await?;
    progress("parallel calls");
    let parallel = bench.parallel(rounds.div_ceil(20)).await?;
    progress("1,000 suspended programs");
    let suspended_1000 = bench.suspended().await?;
    progress("");
    Ok(Report {
        peer: "pincer",
        sequential: summary(sequential, milliseconds),
        read_only: summary(read_only, milliseconds),
        parked: summary(parked, milliseconds),
        large_heap,
        every_call: summary(every_call, milliseconds),
        parallel_200: summary(parallel, milliseconds),
        suspended_1000,
        prompt_500: prompt()?,
    })
}

/// Tools of the usual kind: a sentence, a few fields with a sentence each, half of them with a result.
pub(super) fn tools(count: usize) -> Outcome<Vec<Entry>> {
    let verbs = ["list", "create", "update", "delete", "search"];
    let nouns =
        ["issue", "invoice", "customer", "message", "document", "calendar_event", "branch", "ticket", "file", "order"];
    let make = |index: usize| -> Outcome<Entry> {
        let (verb, noun) = (verbs[index % verbs.len()], nouns[(index / verbs.len()) % nouns.len()]);
        let name = format!("{verb}_{noun}_{}", index / (verbs.len() * nouns.len()));
        let what = format!(
            "Use this to {verb} a {noun} of the current project. Fails if the {noun} is locked by somebody else."
        );
        let mut entry = Entry::new(ToolId::new(Source::Plugin, "suite", name)?, what);
        let field = |kind: &str, what: &str| json!({ "type": kind, "description": format!("{what} of the {noun}, as shown in its page.") });
        entry.input_schema = json!({
            "type": "object",
            "properties": {
                "id": field("string", "The identifier"),
                "title": field("string", "The title"),
                "labels": { "type": "array", "items": { "type": "string" }, "description": "Labels to look for or to set." },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most." },
                "state": { "type": "string", "enum": ["open", "closed", "all"], "description": "Which of them." },
                "assignee": field("string", "The account name of the one who works on it, without the leading sign,"),
                "since": field("string", "A date in ISO 8601: only what has changed since then, by the clock"),
                "sort": { "type": "string", "enum": ["created", "updated", "comments"], "description": "What to sort by. Default created." },
                "page": { "type": "integer", "minimum": 1, "description": "Which page of the results, counted from 1." },
            },
            "required": ["id"],
        });
        if index.is_multiple_of(2) {
            entry.output_schema = Some(
                json!({ "type": "object", "properties": { "id": { "type": "string" }, "url": { "type": "string" } }, "required": ["id"] }),
            );
        }
        entry.flags = Flags { trusted: true, ..Flags::default() };
        Ok(entry)
    };
    (0..count).map(make).collect()
}

fn prompt() -> Outcome<Prompt> {
    let entries = tools(TOOLS)?;
    let direct: Vec<Value> = entries
        .iter()
        .map(|entry| json!({ "name": entry.id.name(), "description": entry.description, "inputSchema": entry.input_schema }))
        .collect();
    let door = Door::builder().build(Arc::new(SqliteStore::open(&tempfile::tempdir()?.path().join("pincer.db"))?));
    let tools = RunTools::new(&door, &Catalog::new(entries)?, &Policy::open(), &Context::default());
    let surface_bytes = serde_json::to_string(Surface::of(&tools, &Settings::default()).tools())?.len();
    let direct_bytes = serde_json::to_string(&direct)?.len();
    Ok(Prompt { surface_bytes, direct_bytes, percent: 100.0 * surface_bytes as f64 / direct_bytes as f64 })
}

fn show(report: &Report) {
    let row = |name: &str, summary: Summary| {
        let shown = |milliseconds: f64| time(Duration::from_secs_f64(milliseconds / 1000.0));
        line(&format!("{name:<42}{:>12}{:>12}", shown(summary.p50), shown(summary.p95)));
    };
    line(&format!("{:<42}{:>12}{:>12}", "", "p50", "p95"));
    row("a call with an effect, one after another", report.sequential);
    row("a call that is known to change nothing", report.read_only);
    row("with an effect, durability parked", report.parked);
    row("with an effect, durability every_call", report.every_call);
    row("with an effect and a heap of 20 MB", report.large_heap.call);
    row("200 parallel calls in one program", report.parallel_200);
    row("a program until it is stored", report.suspended_1000.park);
    row("a stored program to its end", report.suspended_1000.resume);
    let figure = |name: &str, value: String| line(&format!("{name:<42}{value:>12}"));
    let LargeHeap { program_ms, parked_program_ms, ratio, .. } = &report.large_heap;
    let shown = |milliseconds: f64| time(Duration::from_secs_f64(milliseconds / 1000.0));
    figure("100 such calls, the whole program", shown(*program_ms));
    figure("the same with durability parked", format!("{} ({ratio:.2}x)", shown(*parked_program_ms)));
    let Suspended { list_ms, stored_bytes, resident_growth_bytes, .. } = &report.suspended_1000;
    figure("listing 1,000 suspended programs", time(Duration::from_secs_f64(list_ms / 1000.0)));
    figure("a suspended program in the database", bytes(*stored_bytes));
    figure("resident growth by 1,000 of them", bytes(*resident_growth_bytes));
    let Prompt { surface_bytes, direct_bytes, percent } = &report.prompt_500;
    figure("prompt for 500 tools", bytes(*surface_bytes));
    figure("their own schemas", format!("{} ({percent:.1} %)", bytes(*direct_bytes)));
}
