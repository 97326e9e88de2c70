//! A process that is killed at any moment: no settled call is made again, and no program that was acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{engine, entry};
use pincer_catalog::{Catalog, Flags, Policy};
use pincer_codemode::{CodeMode, CodeModeResult, Durability, ExecInput, RunScope, RunTools, Settings, WaitInput};
use pincer_store::{CallState, Journal, RunId, RunState, Runs, Snapshots};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_tools::{Context, Door, FnTool, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

/// What the tools of a child have done: one line for each effect, written by the system before the call settles.
fn effects(directory: &Path) -> Vec<String> {
    fs::read_to_string(directory.join("effects")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn marking(directory: &Path) -> Arc<dyn Tool> {
    let file = directory.join("effects");
    Arc::new(FnTool(move |call: ToolCall| {
        let key = call.input["key"].as_str().unwrap_or_default().to_owned();
        let mut effects = OpenOptions::new().create(true).append(true).open(&file).unwrap();
        effects.write_all(format!("{key}\n").as_bytes()).unwrap();
        async move {
            // Time to be killed between the effect and its note.
            tokio::task::yield_now().await;
            Ok::<Value, ToolError>(json!(key))
        }
    }))
}

fn place(directory: &Path, durability: Durability) -> (CodeMode, RunScope, Arc<SqliteStore>) {
    let store = Arc::new(SqliteStore::open(&directory.join("pincer.db")).unwrap());
    let looks = Flags { read_only: true, ..Flags::default() };
    let door = Door::builder()
        .tool(entry("openclaw:core:mark", Flags::default()), marking(directory))
        .and_then(|door| door.tool(entry("openclaw:core:look", looks), common::echo()))
        .unwrap();
    let door = Arc::new(door.build(store.clone()));
    let leases = Arc::new(FileLeases::new(directory.join("owners")));
    let mode = CodeMode::new(engine().clone(), common::LIVE_CELLS, Arc::clone(&door), store.clone(), leases);
    let context = Context { session: "main".into(), ..Context::default() };
    let tools = Arc::new(RunTools::new(&door, &Catalog::new(door.entries()).unwrap(), &Policy::open(), &context));
    let settings = Settings { durability, ..Settings::default() };
    let scope = RunScope::new(tools, settings, context).by("me");
    (mode, scope, store)
}

/// Marks, looks and yields; the calls of a program have keys of their own.
fn program(name: &str) -> String {
    format!(
        "const seen = [];
         for (let i = 0; i < 3; i++) {{
           seen.push(await tools.mark({{ key: '{name}-' + i }}));
           await Promise.all([tools.look({{ i }}), tools.mark({{ key: '{name}-p' + i }})]);
           if (i === 1) await yield_control();
         }}
         return seen.length"
    )
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// Runs programs for ever, many at a time, beginning with those that others have left.
#[test]
fn child_runs_programs_until_it_is_killed() {
    let Some(directory) = std::env::var_os("PINCER_TEST_PLACE").map(std::path::PathBuf::from) else { return };
    let durability = match std::env::var("PINCER_TEST_DURABILITY").unwrap().as_str() {
        "calls" => Durability::Calls,
        _ => Durability::EveryCall,
    };
    let name = std::env::var("PINCER_TEST_NAME").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (mode, scope, store) = place(&directory, durability);
        // The test gives the whole of its store to one child at a time: what is not over belongs to one that was killed.
        for run in store.runs(None).await.unwrap().into_iter().filter(|run| !run.state.is_final()) {
            finish(&mode, &scope, run.id).await;
        }
        let lane = |lane: usize| {
            let (mode, scope, name) = (mode.clone(), scope.clone(), name.clone());
            async move {
                for number in 0..1000 {
                    let code = program(&format!("{name}-{lane}-{number}"));
                    if let CodeModeResult::Waiting(waiting) = mode.exec(&scope, ExecInput::javascript(code)).await {
                        say(&format!("waiting {}", waiting.run_id));
                        finish(&mode, &scope, waiting.run_id).await;
                    }
                }
            }
        };
        let lanes: Vec<_> = (0..4).map(|number| tokio::spawn(lane(number))).collect();
        for lane in lanes {
            lane.await.unwrap();
        }
    });
}

/// Continues a run until it is over.
async fn finish(mode: &CodeMode, scope: &RunScope, run_id: RunId) {
    loop {
        match mode.wait(scope, &WaitInput { run_id: run_id.clone() }).await {
            CodeModeResult::Waiting(_) => {}
            CodeModeResult::Completed(_) => return say(&format!("completed {run_id}")),
            CodeModeResult::Failed(failed) => return say(&format!("failed {run_id} {:?}", failed.code)),
        }
    }
}

/// Starts a child and kills it after it has said so many lines.
fn round(directory: &Path, durability: &str, name: &str, lines: usize, said: &mut Vec<String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_runs_programs_until_it_is_killed", "--nocapture"])
        .env("PINCER_TEST_PLACE", directory)
        .env("PINCER_TEST_DURABILITY", durability)
        .env("PINCER_TEST_NAME", name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let is_ours = |line: &String| ["waiting ", "completed ", "failed "].iter().any(|word| line.starts_with(word));
    let mut seen = 0;
    for line in out.lines().map_while(Result::ok).filter(is_ours) {
        said.push(line);
        seen += 1;
        if seen == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
}

fn survives(durability: &str) {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut said = Vec::new();
    // Prime numbers of lines: the kills fall on different points of the programs.
    for (number, lines) in [1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31].into_iter().enumerate() {
        round(directory, durability, &format!("c{number}"), lines, &mut said);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mode, scope, store) = place(directory, Durability::Calls);
    runtime.block_on(async {
        for run in store.runs(None).await.unwrap().into_iter().filter(|run| !run.state.is_final()) {
            finish(&mode, &scope, run.id).await;
        }
    });
    // Nothing was done twice.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    effects(directory).into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    // What settled was done, and every run is over.
    let runs = store.runs(None).wait().unwrap();
    let mut lost = 0;
    for run in &runs {
        assert!(run.state.is_final(), "{run:?}");
        assert!(store.snapshot(&run.id).wait().unwrap().is_none());
        let result: Value = serde_json::from_str(&store.run_result(&run.id).wait().unwrap().unwrap()).unwrap();
        match run.state {
            RunState::Completed => assert_eq!(result["value"], 3, "{result}"),
            _ if result["code"] == "aborted" => lost += 1,
            // A call in flight, and nobody knows.
            _ => assert_eq!(result["code"], "nested_tool_failed", "{result}"),
        }
        for call in store.calls(&run.id).wait().unwrap().iter().filter(|call| call.tool.ends_with(":mark")) {
            let key = serde_json::from_str::<Value>(&call.input).unwrap()["key"].as_str().unwrap().to_owned();
            if call.state == CallState::Settled {
                assert!(counts.contains_key(&key), "{key} settled and was not done");
            }
        }
    }
    // What was acknowledged is there; only a program that was never stored can be lost.
    let known: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    for line in said.iter().filter(|line| line.starts_with("waiting ")) {
        assert!(known.contains(line.trim_start_matches("waiting ")), "{line} is lost");
    }
    let acknowledged: BTreeSet<&str> = said.iter().filter_map(|line| line.strip_prefix("waiting ")).collect();
    let aborted = runs.iter().filter(|run| acknowledged.contains(run.id.as_str())).filter(|run| {
        let result: Value = serde_json::from_str(&store.run_result(&run.id).wait().unwrap().unwrap()).unwrap();
        result["code"] == "aborted"
    });
    assert_eq!(aborted.count(), 0);
    assert_eq!(lost, 0, "with every effect stored first nothing is lost");
    assert!(runs.iter().filter(|run| run.state == RunState::Completed).count() > 20, "{} runs", runs.len());
}

#[test]
fn killed_at_random_moments_no_settled_call_repeats_and_no_acknowledged_run_is_lost() {
    survives("calls");
}

#[test]
fn with_every_call_stored_first_a_kill_in_the_middle_loses_no_program() {
    survives("every_call");
}
