//! Each way to fail has its code, and says what happened and what to do.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{House, code_of, house, says, tamper};
use pincer_codemode::{CodeMode, ExecInput, RunScope, Settings};
use pincer_store::Snapshot;
use pincer_store_sqlite::FileLeases;
use serde_json::{Value, json};

async fn typescript(house: &House, code: &str) -> Value {
    serde_json::to_value(house.mode.exec(&house.scope(), ExecInput::typescript(code)).await).unwrap()
}

fn with(house: &House, change: impl FnOnce(&mut Settings)) -> RunScope {
    let mut scope = house.scope();
    change(&mut scope.settings);
    scope
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_want_modules_are_refused_and_those_that_only_speak_of_them_are_not() {
    let house = house();
    for code in [
        "import fs from 'fs'; return 1",
        "export const a = 1",
        "return await import('fs')",
        "const fs = require('fs'); return 1",
        "return import.meta.url",
    ] {
        let failed = house.exec(code).await;
        assert_eq!(code_of(&failed), "module_access_denied", "{code}: {failed}");
    }
    // Bug 13 of the reference.
    for code in [
        "return `import x from 'y'`.length > 0",
        "// require('fs')\nreturn /import .* from/.test('import a from b')",
        "const api = { import: (x) => x, require(x) { return x } }; return api.import(api.require(true))",
        "return typeof require === 'undefined'",
        "return await eval(\"import('fs')\").then(() => false, () => true)",
    ] {
        assert_eq!(house.value(code).await, true, "{code}");
    }
    // Made at run time, it finds no loader.
    let failed = house.exec("return await eval(\"import('fs')\")").await;
    assert_eq!((failed["status"].as_str(), code_of(&failed)), (Some("failed"), "none"), "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_file_network_process_or_environment() {
    let house = house();
    for name in [
        "process",
        "require",
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "Deno",
        "Bun",
        "Buffer",
        "fs",
        "os",
        "std",
        "module",
        "exports",
        "__dirname",
        "scriptArgs",
        "Worker",
        "WebAssembly",
    ] {
        assert_eq!(house.value(&format!("return typeof {name}")).await, "undefined", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_and_columns_are_those_that_the_author_wrote() {
    let house = house();
    let failed = typescript(&house, "const a: number = ;").await;
    assert_eq!(code_of(&failed), "typescript_transform_failed");
    assert!(says(&failed, "(line 1, column 19)") && says(&failed, "1 | const a: number = ;"), "{failed}");
    // Thrown behind erased types, enums and an inserted return.
    for (code, place) in [
        (
            "type A = {\n  x: number;\n};\nconst f = (a: A): never => {\n  throw new Error(`x ${a.x}`);\n};\nf({ x: 1 })",
            "cell.js:5:",
        ),
        ("enum Size { Small, Large }; const s: Size = Size.Small; null!.foo(s)", "cell.js:1:"),
        ("const x = 1;\nx.missing.more", "cell.js:2:"),
    ] {
        let failed = typescript(&house, code).await;
        assert!(says(&failed, place), "{code}: {failed}");
    }
    // Columns count as JavaScript does, whatever the engine counts.
    for code in ["const s = \"é\"; return nope()", "const s = \"ab\"; /*😀*/ return nope()"] {
        let column = code[..code.find("nope").unwrap()].encode_utf16().count() + 1;
        let failed = house.exec(code).await;
        assert!(says(&failed, &format!("cell.js:1:{column}")), "{code}: {failed}");
    }
    let failed = house.exec("foo.bar").await;
    assert!(says(&failed, "cell.js:1:1"), "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_expression_is_the_value() {
    let house = house();
    for (code, expected) in [
        ("1 + 1", json!(2)),
        ("const a = await tools.echo({ n: 1 });\na.n", json!(1)),
        ("await tools.echo({ n: 2 })", json!({ "n": 2 })),
        ("const a = 1;", json!(null)),
        ("if (true) { 5 }", json!(null)),
        ("const f = () => { return 1 }; f()", json!(1)),
        ("if (false) return 1; 'no value: there is a return'", json!(null)),
    ] {
        assert_eq!(house.value(code).await, expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_is_too_large_fails_and_what_fits_comes_back() {
    let house = house();
    let failed = house.exec("text('fits'); return 'x'.repeat(1e5)").await;
    assert_eq!(code_of(&failed), "output_limit_exceeded");
    assert!(says(&failed, "100002 bytes") || says(&failed, "bytes"), "{failed}");
    assert_eq!(failed["output"], json!([{ "type": "text", "text": "fits" }]));
    let failed = house.exec("text('fits'); text('x'.repeat(1e5)); await yield_control()").await;
    assert_eq!(code_of(&failed), "output_limit_exceeded", "also when it is about to be suspended");
    assert_eq!(failed["output"], json!([{ "type": "text", "text": "fits" }]));
    // It is a limit for each result, not for the whole run.
    let code = "for (let i = 0; i < 3; i++) { text('x'.repeat(40000)); await yield_control() } return 1";
    let mut result = house.exec(code).await;
    while result["status"] == "waiting" {
        assert_eq!(result["output"][0]["text"].as_str().unwrap().len(), 40_000);
        result = house.wait(&result).await;
    }
    assert_eq!(result["value"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_program_that_cannot_be_restored_says_why_and_is_over() {
    let house = house();
    let changes: [&dyn Fn(&mut Snapshot); 3] =
        [&|snapshot| snapshot.parts[0].truncate(100), &|snapshot| snapshot.detail = "{}".into(), &|snapshot| {
            snapshot.detail = snapshot.detail.replace("\"version\":1", "\"version\":99")
        }];
    for change in changes {
        let waiting = house.exec("await yield_control(); return 1").await;
        tamper(&house, waiting["runId"].as_str().unwrap(), change);
        let failed = house.wait(&waiting).await;
        assert_eq!(code_of(&failed), "snapshot_restore_failed", "{failed}");
        assert_eq!(code_of(&house.wait(&waiting).await), "snapshot_restore_failed", "and still says so");
    }
    // Restoring would take more than is allowed now.
    let waiting = house.exec("const a = new Uint8Array(8e6).fill(1); await yield_control(); return a.length").await;
    let tight = with(&house, |settings| settings.limits.memory_bytes = 1 << 20);
    assert_eq!(code_of(&house.wait_in(&tight, &waiting).await), "snapshot_limit_exceeded");
    // That is no fault of the program: with what it had before it goes on.
    assert_eq!(house.wait(&waiting).await["value"], 8_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_place_or_a_store_the_runtime_is_unavailable() {
    let house = house();
    let leases = Arc::new(FileLeases::new(house.directory.path().join("owners")));
    let full = CodeMode::new(crate::common::engine().clone(), 0, Arc::clone(&house.door), house.store.clone(), leases);
    let scope = with(&house, |settings| settings.timeout = Duration::from_millis(100));
    let failed = serde_json::to_value(full.exec(&scope, ExecInput::javascript("return 1")).await).unwrap();
    assert_eq!(code_of(&failed), "runtime_unavailable");
    // The lock of this process cannot be made: nothing is done that could not be accounted for.
    std::fs::write(house.directory.path().join("file"), "").unwrap();
    let leases = Arc::new(FileLeases::new(house.directory.path().join("file/owners")));
    let mode = CodeMode::new(crate::common::engine().clone(), 4, Arc::clone(&house.door), house.store.clone(), leases);
    let failed = mode.exec(&house.scope(), ExecInput::javascript("return await tools.count({})")).await;
    assert_eq!(code_of(&serde_json::to_value(failed).unwrap()), "runtime_unavailable");
    assert_eq!(house.count(), 0);
    // And without tools nothing of it is needed.
    let done = mode.exec(&house.scope(), ExecInput::javascript("return 1")).await;
    assert_eq!(serde_json::to_value(done).unwrap()["value"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_model_gets_wrong_most_is_told_with_what_it_meant() {
    let house = house();
    for (code, says_so) in [
        (
            "return await tools.ecko({})",
            "`tools.ecko` is not a function: Unknown tool: ecko. Did you mean: openclaw:core:echo",
        ),
        ("const list = {};\nlist.map((x) => x)", "`list.map` is not a function"),
        ("return await echo({})", "did you mean tools.echo?"),
        ("return await fetch('https://example.com')", "there is no `fetch` here"),
        ("const n: number = 1; return n", "language: \"typescript\""),
    ] {
        let failed = house.exec(code).await;
        assert!(says(&failed, says_so), "{code}: {failed}");
    }
    // A fence around a program is none of its business, and its lines stay its own.
    assert_eq!(house.value("```js\nreturn 1 + 1\n```").await, 2);
    assert_eq!(house.value("\n```\nconst a = `x`;\nreturn a\n```\n").await, "x");
    let failed = house.exec("```js\nconst a = 1;\nthrow new Error('here')\n```").await;
    assert!(says(&failed, "cell.js:3:"), "{failed}");
}

/// Bug 1 of the reference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promise_that_nothing_will_settle_fails_and_does_not_wait() {
    let failed = house().exec("await new Promise(() => {})").await;
    assert!(failed["status"] == "failed" && says(&failed, "nothing will ever settle"), "{failed}");
}

/// Bugs 3, 9 and 20 of the reference: a timeout is one, an error has its name and line, and deadlines do not add up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_covers_the_whole_of_an_exec() {
    let house = house();
    let scope = with(&house, |settings| settings.timeout = Duration::from_millis(400));
    let started = std::time::Instant::now();
    let failed = house.exec_in(&scope, "for (let i = 0; i < 5; i++) await tools.echo({}); for (;;) {}").await;
    assert_eq!((code_of(&failed), &failed["telemetry"]["capFailures"]["timeout"]), ("timeout", &json!(1)));
    // Not once per turn: many times more than that would be told apart on any machine.
    assert!(started.elapsed() < Duration::from_secs(30));
    let thrown = house.exec("await tools.echo({});\nthrow new RangeError('mine')").await;
    assert!(says(&thrown, "RangeError: mine\n    at <anonymous> (cell.js:2:"), "{thrown}");
}
