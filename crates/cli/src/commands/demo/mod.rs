//! `pincer demo`: the main job, told step by step, with the real parts: this very program, its tools, its store, and a kill.

mod agent_turn;
mod bank;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pincer_runtime::load_engine;
use pincer_sandbox::{Limits, Output, Program, TurnEnd};
use pincer_store::{CallState, Journal};
use pincer_store_sqlite::SqliteStore;
use serde_json::Value;

use crate::cells::Outcome;
use crate::print::{bytes, chain, line, note, time};
use crate::usage_setup::DemoArguments;
use crate::{DONE, FAILED, WAITING, notices};

pub(crate) fn run(arguments: &DemoArguments) -> u8 {
    if arguments.bank {
        return bank::serve();
    }
    let place = std::env::temp_dir().join(format!("pincer-demo-{}", std::process::id()));
    let told = tell(&place);
    // It is the demo's own, and holds nothing that anybody needs.
    let _ = fs::remove_dir_all(&place);
    match told {
        Ok(()) => DONE,
        Err(error) => {
            note(&format!("error: the demo did not run: {}", chain(error.as_ref())));
            FAILED
        }
    }
}

const PROGRAM: &str = r#"const [list] = await tools.search("list the files of a directory");
const { entries } = await tools.call(list.id, { path: "orders" });
const orders = await Promise.all(entries.map(async ({ name }) =>
  JSON.parse((await tools.read({ path: `orders/${name}` })).content)));
const totals = {};
for (const { customer, amount } of orders) totals[customer] = (totals[customer] ?? 0) + amount;
await tools.write({ path: "totals.json", content: JSON.stringify(totals) });
await new Promise((resolve) => setTimeout(resolve, 1500));
return totals;"#;

const CONFIG: &str = r#"{
  workspace: "work",
  tools: { codeMode: { enabled: true, durability: "every_call" } },
  approvals: { rules: [{ match: "openclaw:core:write", decision: "ask" }] },
}"#;

fn tell(place: &Path) -> Outcome<()> {
    let start = Instant::now();
    drop(load_engine(1, &notices::observer())?);
    line(&format!(
        "A model that sees 300 tools is slow and confused. Behind Pincer it sees two, exec and wait, and writes programs that\n\
         call all the others. They run in QuickJS inside WebAssembly. The engine was ready in {}.",
        time(start.elapsed())
    ));
    let demo = Demo::new(place)?;
    heading(1, "A catalog of tools, and a program that finds and calls them, in parallel, through one policy boundary");
    let tools = demo.json(&["tools", "list", "--json"])?;
    let count = tools.as_array().map_or(0, Vec::len);
    line(&format!(
        "   {count} tools: files, commands, the web; 6 orders to add up. A rule says that `write` needs a person."
    ));
    PROGRAM.lines().for_each(|text| line(&format!("   | {text}")));
    let start = Instant::now();
    let waiting = demo.json(&["exec", "--json", "program.js"])?;
    let telemetry = &waiting["telemetry"];
    let run = waiting["runId"].as_str().ok_or_else(|| format!("the program did not wait: {waiting}"))?;
    let size = telemetry["snapshotBytes"].as_u64().unwrap_or_default() as usize;
    line(&format!(
        "   → {} calls and a search later, in {}, it waits for an approval. The process has ended;\n     the program is {} in a database.",
        telemetry["callCount"].as_u64().unwrap_or_default().saturating_sub(1),
        time(start.elapsed()),
        bytes(size)
    ));

    heading(2, "A person says yes, another process continues the program, and is killed in the middle");
    let question = waiting["pendingToolCalls"][0]["approvalId"].as_str().unwrap_or_default();
    demo.json(&["approvals", "allow", question, "--json"])?;
    line(&format!("   $ pincer approvals allow {question}"));
    line(&format!("   $ pincer wait {run}"));
    let mut child = demo.start(&["wait", run, "--json"])?;
    demo.until_written(run)?;
    child.kill()?;
    child.wait()?;
    line("   $ kill -9           # just after the file was written");

    heading(3, "It goes on where it was: what was done is not done again");
    let start = Instant::now();
    let done = demo.json(&["wait", run, "--json"])?;
    if done["status"] != "completed" {
        return Err(format!("the program did not complete: {done}").into());
    }
    line(&format!("   → {}   {} later", done["value"], time(start.elapsed())));
    let calls = demo.json(&["runs", "show", run, "--json"])?;
    let calls = calls["calls"].as_array().cloned().unwrap_or_default();
    let writes = calls.iter().filter(|call| call["tool"] == "openclaw:core:write").count();
    line(&format!("   {} calls in the journal, `write` {writes} time", calls.len()));

    hostile_cells()?;
    agent_turn::tell(&place.join("agent"), &place.join("work"))?;
    // As it was called: a first-time reader has nothing named `pincer` on the path.
    let pincer = std::env::args().next().unwrap_or_else(|| "pincer".into());
    line(&format!("\nTry your own:  {pincer} exec -e 'return (await tools.ls({{}})).entries.length'"));
    line(&format!("Ask a model:   {pincer} init && {pincer} agent -m 'Which files are here?'"));
    line(&format!("Measure it:    {pincer} bench cells && {pincer} bench calls && {pincer} bench agent"));
    Ok(())
}

/// A place of its own, and this program to run in it.
struct Demo {
    place: PathBuf,
    pincer: PathBuf,
}

impl Demo {
    fn new(place: &Path) -> Outcome<Self> {
        fs::create_dir_all(place.join("work/orders"))?;
        for (number, (customer, amount)) in
            [("ada", 12), ("grace", 7), ("ada", 30), ("edsger", 5), ("grace", 1), ("ada", 8)].into_iter().enumerate()
        {
            let order = format!(r#"{{"customer":"{customer}","amount":{amount}}}"#);
            fs::write(place.join(format!("work/orders/{}.json", number + 1)), order)?;
        }
        fs::write(place.join("pincer.json5"), CONFIG)?;
        fs::write(place.join("program.js"), PROGRAM)?;
        Ok(Self { place: place.to_owned(), pincer: std::env::current_exe()? })
    }

    fn start(&self, arguments: &[&str]) -> Outcome<Child> {
        let mut command = Command::new(&self.pincer);
        command
            .args(arguments)
            .current_dir(&self.place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.env_remove("PINCER_CONFIG").env("PINCER_STATE_DIR", self.place.join("state"));
        Ok(command.spawn()?)
    }

    /// What a command prints.
    fn json(&self, arguments: &[&str]) -> Outcome<Value> {
        let mut child = self.start(arguments)?;
        let mut text = String::new();
        if let Some(mut out) = child.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        let code = child.wait()?.code();
        if code != Some(DONE.into()) && code != Some(WAITING.into()) {
            return Err(format!("`pincer {}` ended with {code:?}: {text}", arguments.join(" ")).into());
        }
        Ok(serde_json::from_str(&text)?)
    }

    /// Until the journal has the file as written.
    fn until_written(&self, run: &str) -> Outcome<()> {
        let store = SqliteStore::open(&self.place.join("state/pincer.db"))?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let calls = store.calls(&run.into()).wait()?;
            if calls.iter().any(|call| call.tool.ends_with(":write") && call.state == CallState::Settled) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err("the file was not written".into())
    }
}

fn heading(number: u32, title: &str) {
    line(&format!("\n{number}. {title}"));
}

const TIME: Duration = Duration::from_millis(200);

fn hostile_cells() -> Outcome<()> {
    heading(4, "Model code is hostile: each of these ends alone, and nobody else notices");
    let engine = load_engine(4, &notices::observer())?;
    let programs = [
        ("an endless loop", "for (;;) {}"),
        ("one inside the engine, in native code", "[].indexOf.call({ length: 2 ** 53 }, 1)"),
        ("all the memory there is", "const hoard = []; for (;;) hoard.push(new Uint8Array(1 << 20).fill(1))"),
        ("recursion without end", "const f = () => f() + 1; return f()"),
        ("the network", "return await fetch(\"https://example.com\")"),
        ("a promise that nobody keeps", "await new Promise(() => {})"),
    ];
    for (name, source) in programs {
        let start = Instant::now();
        let turn = engine.start(Program::new(source), Limits::default())?.run_turn(TIME)?;
        let took = start.elapsed();
        let verdict = match turn.end {
            TurnEnd::Limit(limit) => limit.to_string(),
            TurnEnd::Failed(failure) => failure.to_string(),
            other => return Err(format!("{name} came to {other:?}").into()),
        };
        line(&format!("   ✗ {name}: {verdict}   ({})", time(took)));
    }
    let after = engine.start(Program::new("text(\"still here\")"), Limits::default())?.run_turn(TIME)?;
    match after.output.first() {
        Some(Output::Text { text }) => line(&format!("   → the next cell says: {text}")),
        _ => return Err("the next cell did not run".into()),
    }
    Ok(())
}
