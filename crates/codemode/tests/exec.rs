//! `exec` without tools: what each way to end looks like as a result.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::OnceLock;

use pincer_codemode::{CodeModeResult, Exec};
use pincer_sandbox::{Engine, Limits, Options};
use serde_json::{Value, json};

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let cache_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache");
    ENGINE
        .get_or_init(|| Engine::load(Options { cache_dir: Some(cache_dir), ..Options::default() }).expect("the engine"))
}

/// The result as JSON, without its telemetry.
fn result(exec: &Exec) -> Value {
    let mut value = serde_json::to_value(exec.run(engine())).expect("JSON");
    let telemetry = value.as_object_mut().expect("an object").remove("telemetry").expect("telemetry");
    assert_eq!(telemetry["visibleTools"], json!(["exec", "wait"]));
    assert_eq!(telemetry["execCount"], 1);
    value
}

fn run(source: &str) -> Value {
    result(&Exec::new(source))
}

/// Short enough for a test, long enough for every program that ends by itself.
fn run_briefly(source: &str) -> Value {
    result(&Exec::new(source).timeout_ms(300))
}

fn code_of(value: &Value) -> &str {
    value["code"].as_str().unwrap_or("none")
}

#[test]
fn completed_results() {
    assert_eq!(run("return { a: [1, 2] }"), json!({ "status": "completed", "value": { "a": [1, 2] } }));
    assert_eq!(run("const x = 1"), json!({ "status": "completed", "value": null }));
    assert_eq!(
        run("text('a'); json({ b: 1 }); return 'c'"),
        json!({
            "status": "completed", "value": "c",
            "output": [{ "type": "text", "text": "a" }, { "type": "json", "value": { "b": 1 } }],
        })
    );
}

#[test]
fn the_programs_own_exception_has_no_code_but_its_line() {
    let failed = run("const f = () => {\n  throw new TypeError('mine');\n};\nf()");
    assert_eq!(
        failed,
        json!({
            "status": "failed",
            "error": "TypeError: mine\n    at f (cell.js:2:13)\n    at <anonymous> (cell.js:4:1)",
        })
    );
}

#[test]
fn each_failure_has_its_code_and_says_what_to_do() {
    for (source, code, says) in [
        ("let x = ;", "invalid_input", "(line 1, column 9)\n  1 | let x = ;\n    |         ^"),
        ("  \n ", "invalid_input", "there is no code"),
        ("for (;;) {}", "timeout", "deadline of 300 ms"),
        ("await new Promise((r) => setTimeout(r, 1e6))", "timeout", "before the timer"),
        ("const a = []; for (;;) a.push(new Uint8Array(1e6))", "memory_limit_exceeded", "67108864 bytes"),
        ("text('x'.repeat(1e5))", "output_limit_exceeded", "summary"),
        ("return 'x'.repeat(1e5)", "output_limit_exceeded", "100002 bytes"),
        ("for (;;) setTimeout(() => {}, 1)", "too_many_pending_tool_calls", "1152"),
        ("await new Promise(() => {})", "none", "nothing will ever settle"),
        ("Promise.reject(new Error('lost'))", "none", "nothing handled"),
        ("const f = () => f(); f()", "none", "call stack"),
        ("return process.env", "none", "process is not defined"),
    ] {
        let failed = run_briefly(source);
        assert_eq!((failed["status"].as_str(), code_of(&failed)), (Some("failed"), code), "{source}: {failed}");
        assert!(failed["error"].as_str().is_some_and(|error| error.contains(says)), "{source}: {failed}");
    }
}

#[test]
fn output_before_a_failure_is_kept() {
    let failed = run_briefly("console.log('got here'); for (;;) {}");
    assert_eq!(failed["output"], json!([{ "type": "text", "text": "got here" }]));
}

#[test]
fn timers_fire_in_order_and_detached_work_is_finished() {
    let source = "const log = []; for (const ms of [30, 10, 20, 10]) setTimeout(() => log.push(ms), ms);
        const gone = setTimeout(() => log.push('never'), 5); clearTimeout(gone);
        await new Promise((r) => setTimeout(r, 40)); setTimeout(() => text('after'), 5); return log";
    let done = run(source);
    assert_eq!(done["value"], json!([10, 10, 20, 30]));
    assert_eq!(done["output"], json!([{ "type": "text", "text": "after" }]));
}

#[test]
fn timers_run_from_where_they_are_set_and_one_after_the_other() {
    let texts = |source: &str| -> Vec<String> {
        let done = run(source);
        let items = done["output"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["text"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let busy = "setTimeout(() => text('a10'), 10); const s = Date.now(); while (Date.now() - s < 60); setTimeout(() => text('b5'), 5)";
    assert_eq!(texts(busy), ["a10", "b5"]);
    let jobs =
        "setTimeout(() => { text('a'); Promise.resolve().then(() => text('a2')) }, 1); setTimeout(() => text('b'), 1)";
    assert_eq!(texts(jobs), ["a", "a2", "b"]);
    let clears =
        "let b; setTimeout(async () => { await 0; clearTimeout(b) }, 1); b = setTimeout(() => text('never'), 1)";
    assert_eq!(texts(clears), Vec::<String>::new());
    assert_eq!(
        run("const t = setTimeout(() => text('never'), 1); if (t) clearTimeout(t); return t > 0")["value"],
        true
    );
}

#[test]
fn yielding_all_the_time_does_not_stop_the_timers() {
    let source =
        "let done = false; setTimeout(() => { done = true }, 10); while (!done) await yield_control(); return 1";
    assert_eq!(run(source)["value"], 1);
}

#[test]
fn a_limit_that_cannot_be_is_invalid_config() {
    let exec = Exec::new("return 1").limits(Limits { memory_bytes: usize::MAX, ..Limits::default() });
    assert_eq!(code_of(&result(&exec)), "invalid_config");
}

#[test]
fn yields_return_at_once_with_their_reason() {
    assert_eq!(
        run("return [await yield_control('why'), await yield_control()]")["value"],
        json!([{ "status": "yielded", "reason": "why" }, { "status": "yielded" }])
    );
}

#[test]
fn a_program_that_is_too_long_is_invalid_input() {
    let exec = Exec::new("return 1").limits(Limits { source_bytes: 3, ..Limits::default() });
    assert_eq!(code_of(&result(&exec)), "invalid_input");
}

#[test]
fn telemetry_counts_what_was_hit_and_tells_no_input() {
    let CodeModeResult::Failed(failed) = Exec::new("'secret'; for (;;) {}").timeout_ms(100).run(engine()) else {
        panic!()
    };
    assert_eq!(failed.telemetry.cap_failures.timeout, 1);
    // The deadline counts from before the cell is there: how much of it the guest gets is the machine's matter.
    assert!(failed.telemetry.ms.guest > 0.0);
    assert!(!serde_json::to_string(&failed.telemetry).expect("JSON").contains("secret"));
}

#[test]
fn odd_delays_do_no_harm() {
    for delay in ["1e300", "-1", "0.5", "null"] {
        let source = format!("const t = setTimeout(() => {{}}, {delay}); clearTimeout(t); return 'fine'");
        assert_eq!(run(&source)["value"], "fine");
    }
    let failed = run_briefly("Array.prototype.toJSON = () => [1e22]; setTimeout(() => {}, 1e22); return 1");
    assert_eq!(code_of(&failed), "timeout");
}

/// The examples in the documentation return what they say.
#[test]
fn documented_programs_return_what_their_comments_say() {
    let page = include_str!("../../../docs/guest.md");
    let mut count = 0;
    for block in page.split("```js\n").skip(1) {
        let block = block.split("```").next().expect("a closed block");
        let (_, expected) = block.rsplit_once("// → ").expect("a comment with the value");
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        assert_eq!(run(block)["value"], expected, "{block}");
        count += 1;
    }
    assert!(count >= 4);
}
