//! The sandbox's sample of the language, by the way that programs take: what is made of a text has the value of the text.

use crate::common::house;
use pincer_codemode::ExecInput;
use serde_json::Value;

/// The positions in which an expression is given to the source stage.
const FORMS: [&str; 5] = [
    "return (%)",
    "(%)",
    "const first = 1\nconst value = %\nvalue",
    "const value = (async () => %)()\nawait value",
    "const [value] = [%]; for (const { a } of [{ a: value }]) return (a)",
];

/// Runs every expression in every form.
async fn check(input: impl Fn(String) -> ExecInput) {
    let house = house();
    let scope = house.scope();
    let mut wrong = Vec::new();
    for line in include_str!("../../../sandbox/tests/ecmascript.txt").lines() {
        let (expression, expected) = line.rsplit_once(" ⇒ ").expect("a line of the form `expression ⇒ value`");
        let expected: Value = serde_json::from_str(expected).unwrap_or(Value::Null);
        for form in FORMS {
            // The sandbox's own test has a function of its host for this.
            let call = if expression.contains("call(3)") { "const call = async (n) => n;\n" } else { "" };
            let code = call.to_owned() + &form.replace('%', expression);
            let result = serde_json::to_value(house.mode.exec(&scope, input(code.clone())).await).expect("JSON");
            if result["status"] != "completed" || result["value"] != expected {
                wrong
                    .push(format!("{code}\n  expected {expected}\n  got      {} {}", result["value"], result["error"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_keep_their_values_in_javascript() {
    check(ExecInput::javascript).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_keep_their_values_in_typescript() {
    check(ExecInput::typescript).await;
}
