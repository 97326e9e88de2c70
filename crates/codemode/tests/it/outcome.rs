//! When a program is over, and what of its end is left out.

use std::time::{Duration, Instant};

use crate::common::{House, code_of, house, says};
use serde_json::{Value, json};

const RACE: &str = "const late = new Promise((_, reject) => setTimeout(reject, 60_000, new Error('too late')));
    const first = await Promise.race([tools.echo({ a: 1 }), late]);";

fn notes(result: &Value) -> Vec<&str> {
    result["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

async fn completed(house: &House, code: &str) -> Value {
    let result = house.exec(code).await;
    assert_eq!(result["status"], "completed", "{code}: {result}");
    result
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_has_returned_does_not_wait_for_timers() {
    let house = house();
    let began = Instant::now();
    for end in ["return first.a", "first.a"] {
        let result = completed(&house, &format!("{RACE} {end}")).await;
        assert_eq!(result["value"], 1, "{result}");
        assert_eq!(notes(&result), ["a timer was still set when the program returned; it was dropped"], "{result}");
    }
    let result =
        completed(&house, "for (let i = 0; i < 3; i++) setTimeout(() => text('never'), 60_000); return 1").await;
    assert_eq!(notes(&result), ["3 timers were still set when the program returned; they were dropped"], "{result}");
    assert_eq!(result["output"], Value::Null, "{result}");
    // Not even those that are due at once, and not those of a program that had turns before.
    let result = completed(&house, "await tools.echo({}); setTimeout(() => text('never'), 0); return 1").await;
    assert_eq!((notes(&result).len(), &result["output"]), (1, &Value::Null), "{result}");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_awaited_timers_are_waited_for() {
    let house = house();
    let result = completed(&house, "tools.count({}); setTimeout(() => text('never'), 60_000); return 1").await;
    assert_eq!((house.count(), notes(&result).len()), (1, 1), "{result}");
    // A timer that comes before the last call has settled is heard.
    let gate = tokio::spawn({
        let gates = house.gates.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            gates.open("a");
        }
    });
    let result = completed(&house, "tools.gate({ name: 'a' }); setTimeout(() => text('heard'), 1); return 1").await;
    gate.await.unwrap();
    assert_eq!((&result["output"][0]["text"], notes(&result).len()), (&json!("heard"), 0), "{result}");
    for code in [
        "await new Promise((go) => setTimeout(go, 5)); return 1",
        "new Promise((go) => setTimeout(go, 5, 1))",
        "(async () => { await new Promise((go) => setTimeout(go, 5)); return (await tools.echo({ a: 1 })).a })()",
    ] {
        let result = completed(&house, code).await;
        assert_eq!((&result["value"], notes(&result).len()), (&json!(1), 0), "{code}: {result}");
    }
    // A rejection that nothing handles fails the program also when timers are left.
    let result = house.exec("setTimeout(() => {}, 60_000); Promise.reject(new Error('lost')); return 1").await;
    assert!(says(&result, "lost"), "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continued_program_does_not_wait_for_timers_either() {
    let house = house();
    let code = "setTimeout(() => {}, 60_000); await yield_control(); return 1";
    let waiting = house.exec(code).await;
    let result = house.wait(&waiting).await;
    assert_eq!((&result["status"], &result["value"]), (&json!("completed"), &json!(1)), "{result}");
    assert_eq!(notes(&result).len(), 1, "{result}");
    // Nor one that returned before it was suspended.
    let waiting = house.exec("setTimeout(() => {}, 60_000); yield_control(); return 2").await;
    let result = house.wait(&waiting).await;
    assert_eq!((&result["value"], notes(&result).len()), (&json!(2), 1), "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_value_of_a_last_expression_fails_no_program() {
    let house = house();
    for (last, why) in [
        ("'x'.repeat(1e5)", "too large"),
        ("'x'.repeat(9e6)", "too large"),
        ("let deep = []; for (let i = 0; i < 150; i++) deep = [deep]; deep", "too large"),
        ("new Array(1e6 + 1).fill(0)", "too large"),
        ("({ get a() { throw new Error('no') } })", "threw"),
        ("({ toJSON() { throw new Error('no') } })", "threw"),
        ("({ get then() { throw new Error('no') } })", "threw"),
        ("new Proxy({}, { ownKeys() { throw new Error('no') } })", "threw"),
        ("new Promise(() => {})", "never settle"),
        ("({ then() {} })", "never settle"),
        ("Promise.resolve('x'.repeat(1e5))", "too large"),
    ] {
        let why = if why == "never settle" { "ever settle" } else { why };
        let code = format!("text('done'); {last}");
        let result = completed(&house, &code).await;
        assert_eq!(
            (&result["value"], &result["output"][0]["text"]),
            (&Value::Null, &json!("done")),
            "{last}: {result}"
        );
        assert!(notes(&result).iter().any(|note| note.contains("left out") && note.contains(why)), "{last}: {result}");
        if !last.contains(';') {
            let result = house.exec(&format!("return {last}")).await;
            assert_eq!(result["status"], "failed", "{last}: {result}");
        }
    }
    // The effects of the expression are the program's own.
    for last in ["tools.fail({})", "(async () => { throw new Error('mine') })()", "null.x", "Promise.reject(1)"] {
        assert_eq!(house.exec(last).await["status"], "failed", "{last}");
    }
    assert_eq!(code_of(&house.exec("tools.fail({})").await), "nested_tool_failed");
    assert_eq!(house.value("[1, { a: [2] }]").await, json!([1, { "a": [2] }]));
    assert_eq!(house.value("undefined").await, Value::Null);
    assert_eq!(house.value("1, 2").await, json!(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_value_that_output_leaves_no_room_for_is_left_out() {
    let house = house();
    let code = "(async () => { await null; await tools.echo({}); text('y'.repeat(40_000)) })(); 'x'.repeat(40_000)";
    let result = completed(&house, code).await;
    assert_eq!(notes(&result).len(), 1, "{result}");
}
