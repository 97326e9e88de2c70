//! Values on their way out of a program and through tools.

use crate::common::{code_of, house, says};
use serde_json::{Value, json};

/// A value with so many levels.
fn nested(levels: u32) -> String {
    format!("(() => {{ let d = []; for (let i = 1; i < {levels}; i++) d = [d]; return d }})()")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_are_too_large_reject_their_call_and_nothing_else() {
    let house = house();
    for (argument, why) in [
        ("{ a: 'x'.repeat(9 * 1024 * 1024) }".to_owned(), "8388608"),
        (format!("{{ a: {} }}", nested(100)), "100 levels"),
        (format!("{{ a: {} }}", nested(100_000)), "100 levels"),
        ("{ a: new Array(1e6 + 1).fill(0) }".to_owned(), "1000000 values"),
    ] {
        let code = format!(
            "const caught = await tools.count({argument}).catch((e) => [e.code, e.effect, e.message]);
             return [caught, await tools.echo({{ a: 1 }})]"
        );
        let value = house.value(&code).await;
        assert_eq!((&value[0][0], &value[0][1]), (&json!("invalid_input"), &json!("none")), "{argument}: {value}");
        assert!(value[0][2].as_str().unwrap().contains(why), "{argument}: {value}");
        assert_eq!(value[1], json!({ "a": 1 }), "{argument}");
        let failed = house.exec(&format!("await tools.count({argument})")).await;
        assert_eq!(code_of(&failed), "nested_tool_failed", "{argument}: {failed}");
    }
    assert_eq!(house.count(), 0, "none of them was made");
    let levels = house
        .value(&format!(
            "const d = {}; return JSON.stringify((await tools.echo({{ d }})).d) === JSON.stringify(d)",
            nested(99)
        ))
        .await;
    assert_eq!(levels, true, "a hundred levels are allowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_counted_for_each_call() {
    let house = house();
    let code = "const s = 'x'.repeat(5 * 1024 * 1024);
        return (await Promise.all([1, 2, 3].map(() => tools.echo({ s })))).map((r) => r.s.length)";
    assert_eq!(house.value(code).await, json!([5_242_880, 5_242_880, 5_242_880]));
    // A refused call leaves nothing behind in the program's memory.
    let code = "const s = 'x'.repeat(9 * 1024 * 1024); let n = 0;
        for (let i = 0; i < 30; i++) await tools.echo({ s }).catch(() => n++);
        return n";
    assert_eq!(house.value(code).await, json!(30));
    // All calls of one moment have a bound, too: the host keeps them until the turn is over.
    let code = "const s = 'x'.repeat(5e6);
        const all = await Promise.allSettled(Array.from({ length: 12 }, () => tools.look({ s })));
        return all.map((one) => one.reason?.code ?? one.status).filter((what) => what !== 'fulfilled')";
    let refused = house.exec(code).await;
    assert_eq!(refused["status"], "completed", "{refused}");
    let refused = refused["value"].as_array().unwrap().clone();
    assert!(refused.len() == 6 && refused.iter().all(|code| code == "invalid_input"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deep_value_fails_as_one() {
    let house = house();
    assert_eq!(house.exec(&format!("return {}", nested(100))).await["status"], "completed");
    for levels in [101, 4000, 150_000] {
        let failed = house.exec(&format!("return {}", nested(levels))).await;
        assert_eq!(code_of(&failed), "output_limit_exceeded", "{levels}: {failed}");
        assert!(says(&failed, "nested deeper than 100 levels"), "{levels}: {failed}");
    }
    let printed = house.exec(&format!("text({}); return 1", nested(150))).await;
    assert_eq!(printed["output"][0]["text"], "[nested deeper than 100 levels]", "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recursion_in_the_depths_of_the_engine_has_a_code() {
    let house = house();
    for code in [
        "return JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return JSON.stringify(a)",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a.flat(Infinity)",
        "return eval('('.repeat(1e5) + '1' + ')'.repeat(1e5))",
    ] {
        let failed = house.exec(code).await;
        assert_eq!(code_of(&failed), "memory_limit_exceeded", "{code}: {failed}");
        assert!(says(&failed, "recursed too deeply"), "{code}: {failed}");
    }
    // An exception that the program can catch is its own.
    for code in ["const f = () => [1, 2].sort(f); f()", "const o = { toString() { return `${o}` } }; `${o}`"] {
        let failed = house.exec(code).await;
        assert_eq!(code_of(&failed), "none", "{code}: {failed}");
        assert!(says(&failed, "Maximum call stack size exceeded"), "{code}: {failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_behind_an_error_keep_their_messages_and_the_code() {
    let house = house();
    for (code, expected, messages) in [
        (
            "await Promise.any([tools.fail({}), tools.call('nope')])",
            "nested_tool_failed",
            &["it broke", "Unknown tool: nope"][..],
        ),
        (
            "try { await tools.fail({}) } catch (cause) { throw new Error('outer', { cause }) }",
            "nested_tool_failed",
            &["Error: outer", "ToolError: it broke"],
        ),
        (
            "throw new Error('a', { cause: new TypeError('b', { cause: new RangeError('c') }) })",
            "none",
            &["Error: a", "TypeError: b", "RangeError: c"],
        ),
        (
            "throw new AggregateError([new Error('x'), new TypeError('y')], 'many')",
            "none",
            &["many", "Error: x", "TypeError: y"],
        ),
        ("const e = new Error('round'); e.cause = e; throw e", "none", &["Error: round"]),
        ("throw new Error('text', { cause: 'no error' })", "none", &["Error: text"]),
    ] {
        let failed = house.exec(code).await;
        assert_eq!(code_of(&failed), expected, "{code}: {failed}");
        assert!(messages.iter().all(|message| says(&failed, message)), "{code}: {failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_nothing_can_move_on_is_stalled() {
    let house = house();
    for code in ["await new Promise(() => {})", "await new Promise(() => {}); return 1", "await { then() {} }; 1"] {
        let failed = house.exec(code).await;
        assert_eq!(code_of(&failed), "stalled", "{code}: {failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_json_says_what_it_is() {
    let house = house();
    let code = "const tagged = { [Symbol.toStringTag]: 'Promise', a: 1 };
        const list = { p: Promise.resolve(1), r: /a\\/+/gi, b: new ArrayBuffer(3), v: new DataView(new ArrayBuffer(2)),
          w: new WeakMap(), g: (function* () {})(), u: new Uint8Array([1, 2]), tagged,
          fake: { [Symbol.toStringTag]: 'RegExp', b: 2 } };
        json(list); console.log(list.p, list.r); return [list, await tools.echo({ list })]";
    let expected = json!({
        "p": "[promise: await it]", "r": "/a\\/+/gi", "b": "[ArrayBuffer of 3 bytes: pass a Uint8Array]",
        "v": "[DataView of 2 bytes: pass a Uint8Array]", "w": "[WeakMap]", "g": "[generator: spread it]", "u": [1, 2],
        "tagged": { "a": 1 }, "fake": { "b": 2 },
    });
    let result = house.exec(code).await;
    assert_eq!(result["value"], json!([expected, { "list": expected }]), "{result}");
    assert_eq!(result["output"][0]["value"], expected, "{result}");
    assert_eq!(result["output"][1]["text"], "[promise: await it] /a\\/+/gi", "{result}");
    // A promise in a value is not handled by that.
    let failed = house.exec("return { lost: Promise.reject(new Error('lost')) }").await;
    assert!(says(&failed, "lost"), "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_counted_as_it_is_told() {
    let house = house();
    for (text, fits) in [("x", 65_000), ("\\n", 32_000), ("\\u0001", 10_000), ("\\\"", 32_000), ("é", 32_000)] {
        let code = |times: u32| format!("text(\"{text}\".repeat({times})); return 1");
        let done = house.exec(&code(fits)).await;
        assert_eq!(done["status"], "completed", "{text}: {}", done["error"]);
        assert!(done["output"].to_string().len() <= 65_536, "{text}");
        let failed = house.exec(&code(fits + fits / 8)).await;
        assert_eq!(code_of(&failed), "output_limit_exceeded", "{text}: {}", failed["status"]);
    }
    let output: Value = house.exec("text('a\"b')").await["output"].clone();
    assert_eq!(output, json!([{ "type": "text", "text": "a\"b" }]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_keep_their_order_on_the_way_through_tools() {
    let house = house();
    let value = "{ z: 1, a: { y: [{ d: 1, c: 2 }], b: null }, m: 3 }";
    for call in ["tools.echo", "tools.look"] {
        let code = format!("return JSON.stringify(await {call}({value}))");
        assert_eq!(house.value(&code).await, r#"{"z":1,"a":{"y":[{"d":1,"c":2}],"b":null},"m":3}"#, "{call}");
    }
    let code = format!("json({value}); return {value}");
    let result = house.mode.exec(&house.scope(), pincer_codemode::ExecInput::javascript(code)).await;
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(text.matches(r#"{"z":1,"a":{"y":[{"d":1,"c":2}],"b":null},"m":3}"#).count(), 2, "{text}");
}
