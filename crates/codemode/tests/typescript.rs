//! TypeScript handling is touched by TypeScript programs only. In a file of its own: the count is of the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{House, code_of, house, says};
use pincer_codemode::{ExecInput, Language};
use serde_json::Value;

async fn exec_typescript(house: &House, code: &str) -> Value {
    serde_json::to_value(house.mode.exec(&house.scope(), ExecInput::typescript(code)).await).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typescript_is_for_typescript_programs_only() {
    let house = house();
    let before = pincer_source::typescript_preparations();
    house.value("const list = [1, 2].map((n) => n + 1); return list").await;
    house.exec("let x = ;").await;
    let waiting = house.exec("await yield_control(); return 1").await;
    house.wait(&waiting).await;
    let mut off = house.scope();
    off.settings.languages = vec![Language::Javascript];
    let refused = house.mode.exec(&off, ExecInput::typescript("const n: number = 1; return n")).await;
    let refused = serde_json::to_value(refused).unwrap();
    assert_eq!(code_of(&refused), "unsupported_language");
    assert!(says(&refused, "typescript input is disabled"), "{refused}");
    assert_eq!(pincer_source::typescript_preparations(), before, "no JavaScript program touches it");
    let done =
        exec_typescript(&house, "enum E { A = 2 }\nconst n: number = E.A; interface X { a: string }\nreturn n").await;
    assert_eq!(done["value"], 2);
    assert_eq!(pincer_source::typescript_preparations(), before + 1);
    // Nothing at all is parsed where there is no new program: continuing one, other inputs, a language that is off.
    let waiting = house.exec("await yield_control(); return 1").await;
    let read = pincer_source::preparations();
    assert_eq!(house.wait(&waiting).await["value"], 1);
    house.mode.exec(&off, ExecInput::typescript("const n: number = 1; return n")).await;
    house.exec("  ").await;
    assert_eq!(pincer_source::preparations(), read, "no parser is touched");
}
