//! `exec` as a whole: what each way to end looks like as a result.

use crate::common::{House, code_of, house};
use pincer_codemode::{RunScope, Settings};
use pincer_sandbox::Limits;
use serde_json::{Value, json};

/// The result as JSON, without its telemetry.
fn bare(mut value: Value) -> Value {
    let telemetry = value.as_object_mut().expect("an object").remove("telemetry").expect("telemetry");
    assert_eq!(telemetry["visibleTools"], json!(["exec", "wait"]));
    assert_eq!(telemetry["execCount"], 1);
    value
}

async fn run_in(house: &House, source: &str) -> Value {
    bare(house.exec(source).await)
}

async fn run(source: &str) -> Value {
    run_in(&house(), source).await
}

/// Short enough for a test, long enough for every program that ends by itself.
async fn run_briefly(source: &str) -> Value {
    let house = house();
    bare(house.exec_in(&house.brief(), source).await)
}

async fn run_with(limits: Limits) -> Value {
    let house = house();
    let scope = house.scope();
    let settings = Settings { limits, ..scope.settings.clone() };
    bare(house.exec_in(&RunScope { settings, ..scope }, "return 1").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_results() {
    assert_eq!(run("return { a: [1, 2] }").await, json!({ "status": "completed", "value": { "a": [1, 2] } }));
    assert_eq!(run("const x = 1").await, json!({ "status": "completed", "value": null }));
    assert_eq!(
        run("text('a'); json({ b: 1 }); return 'c'").await,
        json!({
            "status": "completed", "value": "c",
            "output": [{ "type": "text", "text": "a" }, { "type": "json", "value": { "b": 1 } }],
        })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_programs_own_exception_has_no_code_but_its_line() {
    let failed = run("const f = () => {\n  throw new TypeError('mine');\n};\nf()").await;
    assert_eq!(
        failed,
        json!({
            "status": "failed",
            "error": "TypeError: mine\n    at f (cell.js:2:13)\n    at <anonymous> (cell.js:4:1)",
        })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_has_its_code_and_says_what_to_do() {
    for (source, code, says) in [
        ("let x = ;", "invalid_input", "(line 1, column 9)\n  1 | let x = ;\n    |         ^"),
        ("  \n ", "invalid_input", "must be a non-empty string"),
        ("for (;;) {}", "timeout", "deadline of 300 ms"),
        ("const a = []; for (;;) a.push(new Uint8Array(1e6))", "memory_limit_exceeded", "67108864 bytes"),
        ("text('x'.repeat(1e5))", "output_limit_exceeded", "summary"),
        ("return 'x'.repeat(1e5)", "output_limit_exceeded", "100002 bytes"),
        ("for (;;) setTimeout(() => {}, 1)", "too_many_pending_tool_calls", "1040"),
        ("await new Promise(() => {})", "stalled", "nothing will ever settle"),
        ("Promise.reject(new Error('lost')); return 1", "none", "nothing handled"),
        ("const f = () => f(); f()", "none", "call stack"),
        ("return process.env", "none", "process is not defined"),
    ] {
        let failed = run_briefly(source).await;
        assert_eq!((failed["status"].as_str(), code_of(&failed)), (Some("failed"), code), "{source}: {failed}");
        assert!(failed["error"].as_str().is_some_and(|error| error.contains(says)), "{source}: {failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_before_a_failure_is_kept() {
    let failed = run_briefly("console.log('got here'); for (;;) {}").await;
    assert_eq!(failed["output"], json!([{ "type": "text", "text": "got here" }]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_fire_in_order() {
    let source = "const log = []; for (const ms of [30, 10, 20, 10]) setTimeout(() => log.push(ms), ms);
        const gone = setTimeout(() => log.push('never'), 5); clearTimeout(gone);
        await new Promise((r) => setTimeout(r, 40)); return log";
    assert_eq!(run(source).await["value"], json!([10, 10, 20, 30]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_run_from_where_they_are_set_and_one_after_the_other() {
    async fn texts(source: &str) -> Vec<String> {
        let done = run(&format!("{source}; await new Promise((go) => setTimeout(go, 30))")).await;
        let items = done["output"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["text"].as_str().unwrap_or_default().to_owned()).collect()
    }
    let busy = "setTimeout(() => text('a10'), 10); const s = Date.now(); while (Date.now() - s < 60); setTimeout(() => text('b5'), 5)";
    assert_eq!(texts(busy).await, ["a10", "b5"]);
    let jobs =
        "setTimeout(() => { text('a'); Promise.resolve().then(() => text('a2')) }, 1); setTimeout(() => text('b'), 1)";
    assert_eq!(texts(jobs).await, ["a", "a2", "b"]);
    let clears =
        "let b; setTimeout(async () => { await 0; clearTimeout(b) }, 1); b = setTimeout(() => text('never'), 1)";
    assert_eq!(texts(clears).await, Vec::<String>::new());
    assert_eq!(
        run("const t = setTimeout(() => text('never'), 1); if (t) clearTimeout(t); return t > 0").await["value"],
        true
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_cannot_be_is_invalid_config() {
    assert_eq!(code_of(&run_with(Limits { memory_bytes: usize::MAX, ..Limits::default() }).await), "invalid_config");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_too_long_is_invalid_input() {
    assert_eq!(code_of(&run_with(Limits { source_bytes: 3, ..Limits::default() }).await), "invalid_input");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telemetry_counts_what_was_hit_and_tells_no_input() {
    let house = house();
    let failed = house.exec_in(&house.brief(), "'secret'; for (;;) {}").await;
    assert_eq!(failed["telemetry"]["capFailures"]["timeout"], 1);
    // The deadline counts from before the cell is there: how much of it the guest gets is the machine's matter.
    assert!(failed["telemetry"]["ms"]["guest"].as_f64().is_some_and(|ms| ms > 0.0));
    assert!(!failed["telemetry"].to_string().contains("secret"));
    assert_eq!(house.mode.counters().cap_failures.timeout, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_delays_do_no_harm() {
    for delay in ["1e300", "-1", "0.5", "null"] {
        let source = format!("const t = setTimeout(() => {{}}, {delay}); clearTimeout(t); return 'fine'");
        assert_eq!(run(&source).await["value"], "fine");
    }
    let waiting =
        run_briefly("Array.prototype.toJSON = () => [1e22]; await new Promise((go) => setTimeout(go, 1e22))").await;
    assert_eq!(
        (waiting["status"].as_str(), &waiting["pendingToolCalls"][0]["method"]),
        (Some("waiting"), &json!("sleep"))
    );
}

/// The examples in the documentation return what they say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_programs_return_what_their_comments_say() {
    let pages = [include_str!("../../../../docs/guest.md"), include_str!("../../../../docs/programs.md")];
    let mut count = 0;
    for block in pages.iter().flat_map(|page| page.split("```js\n").skip(1)) {
        let block = block.split("```").next().expect("a closed block");
        let (_, expected) = block.rsplit_once("// → ").expect("a comment with the value");
        let expected: Value = serde_json::from_str(expected).expect("JSON");
        assert_eq!(run(block).await["value"], expected, "{block}");
        count += 1;
    }
    assert!(count >= 7);
}

/// The reference in the documentation is what a program is given. `PINCER_DOCS_WRITE=1` writes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_is_what_programs_are_given() {
    let given = run("return await API.read('guest.d.ts')").await["value"].as_str().expect("a text").to_owned();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md");
    let page = std::fs::read_to_string(&file).expect("the page");
    let marker = "see CONTRIBUTING.md. -->\n";
    let (before, _) = page.split_once(marker).expect("a marker");
    let expected = format!("{before}{marker}\n```ts\n{given}```\n");
    if std::env::var("PINCER_DOCS_WRITE").is_ok() {
        std::fs::write(&file, &expected).expect("written");
    }
    assert!(page == expected || std::env::var("PINCER_DOCS_WRITE").is_ok(), "write it anew with PINCER_DOCS_WRITE=1");
}
