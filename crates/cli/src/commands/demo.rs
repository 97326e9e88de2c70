//! `pincer demo`: the main job, told step by step.

use std::time::{Duration, Instant};

use pincer_codemode::{CodeModeResult, Exec};
use pincer_sandbox::{Answer, Engine, Json, Limits, Output, Program, TurnEnd};

use crate::cells::Outcome;
use crate::print::{bytes, chain, line, note, time};
use crate::{DONE, FAILED, engine};

pub(crate) fn run() -> u8 {
    match tell() {
        Ok(()) => DONE,
        Err(error) => {
            note(&format!("error: the demo did not run: {}", chain(error.as_ref())));
            FAILED
        }
    }
}

const TIME: Duration = Duration::from_secs(10);

fn tell() -> Outcome<()> {
    let start = Instant::now();
    let engine = engine::load(16)?;
    line(&format!(
        "Pincer runs small programs in QuickJS inside WebAssembly. The engine was ready in {}.",
        time(start.elapsed())
    ));
    a_cell(&engine)?;
    a_suspended_cell(&engine)?;
    hostile_cells(&engine)?;
    // As it was called: a first-time reader has nothing named `pincer` on the path.
    let pincer = std::env::args().next().unwrap_or_else(|| "pincer".into());
    line(&format!("\nTry your own:  {pincer} exec -e 'return [1, 2, 3].map((n) => n * n)'"));
    line(&format!("Measure it:    {pincer} bench cells"));
    Ok(())
}

fn heading(number: u32, title: &str) {
    line(&format!("\n{number}. {title}"));
}

fn code(source: &str) {
    source.lines().for_each(|text| line(&format!("   | {text}")));
}

fn a_cell(engine: &Engine) -> Outcome<()> {
    heading(1, "A fresh cell: a program in, a value out");
    let source = "const words = \"the quick brown fox\".split(\" \");\nreturn Object.fromEntries(words.map((w) => [w, w.length]));";
    code(source);
    let start = Instant::now();
    let turn = engine.start(Program::new(source), Limits::default())?.run_turn(TIME)?;
    let took = start.elapsed();
    let TurnEnd::Value(Some(value)) = turn.end else { return Err(format!("{:?}", turn.end).into()) };
    line(&format!("   → {value}   in {}", time(took)));
    Ok(())
}

fn a_suspended_cell(engine: &Engine) -> Outcome<()> {
    heading(2, "A cell that must wait is suspended, stored, and continued later, anywhere");
    let source = "const cart = new Map([[\"tea\", 3], [\"cake\", 4]]);\n\
                  let total = 0;\n\
                  for (const [item, price] of cart) {\n  \
                  const { approved } = await approve(`buy ${item} for ${price}?`);\n  \
                  if (approved) total += price;\n\
                  }\n\
                  return `spent ${total}`;";
    code(source);
    let mut cell = engine.start(Program::new(source).function("approve"), Limits::default())?;
    let mut turn = cell.run_turn(TIME)?;
    let mut approved = true;
    while let TurnEnd::Waiting = turn.end {
        let request = turn.requests.first().ok_or("the program waits without a request")?;
        let place = request.site.map_or_else(String::new, |site| format!(" (line {})", site.line));
        line(&format!("   ⏸ {}{}{place}", request.method, request.args));
        let start = Instant::now();
        let snapshot = cell.park()?;
        let parked = start.elapsed();
        drop(cell);
        line(&format!(
            "     the VM is now {} of data, made in {}; nothing is left running",
            bytes(snapshot.len()),
            time(parked)
        ));
        let start = Instant::now();
        cell = engine.restore(&snapshot, Limits::default())?;
        cell.deliver(Answer::value(request.id, Json::of(&serde_json::json!({ "approved": approved }))?))?;
        turn = cell.run_turn(TIME)?;
        line(&format!("   ▶ answered {{approved: {approved}}} and continued in {}", time(start.elapsed())));
        approved = !approved;
    }
    let TurnEnd::Value(Some(value)) = turn.end else { return Err(format!("{:?}", turn.end).into()) };
    line(&format!("   → {value}"));
    Ok(())
}

fn hostile_cells(engine: &Engine) -> Outcome<()> {
    heading(3, "Model code is hostile: each of these ends alone, and nobody else notices");
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
        let result = Exec::new(source).timeout_ms(200).run(engine);
        let took = start.elapsed();
        let verdict = match &result {
            CodeModeResult::Completed(done) => done.value.to_string(),
            CodeModeResult::Failed(failed) => failed.error.lines().next().unwrap_or_default().to_owned(),
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
