//! The line that an error has, and what it says of a call that cannot be made.

use crate::common::{House, house, says};
use pincer_codemode::{ExecInput, Language};
use serde_json::Value;

async fn exec(house: &House, language: Language, code: &str) -> Value {
    let input = match language {
        Language::Javascript => ExecInput::javascript(code),
        Language::Typescript => ExecInput::typescript(code),
    };
    serde_json::to_value(house.mode.exec(&house.scope(), input).await).unwrap()
}

/// Fails unless the innermost frame of the failure is on `line`.
async fn fails_on(house: &House, language: Language, code: &str, line: u32) {
    let result = exec(house, language, code).await;
    let error = result["error"].as_str().unwrap_or_else(|| panic!("it does not fail: {code}: {result}"));
    let frame =
        error.lines().find(|line| line.contains("cell.js")).unwrap_or_else(|| panic!("no frame: {code}: {error}"));
    assert!(frame.contains(&format!("cell.js:{line}:")), "{code}\n{error}");
}

/// The failing expression stands on the line with the comment `here`.
const FAILING: &[&str] = &[
    "const { a } = null; // here",
    "text(1);\n\nconst { a } = null; // here",
    "text(1);\nconst [a] = undefined; // here",
    "text(1);\nconst q = {};\nconst { a: { b } } = q; // here",
    "text(1);\nlet a;\n({ a } = null); // here",
    "text(1);\nlet a;\n[a] = null // here",
    "text(1);\nconst n = 1, { a } = null; // here",
    "text(1);\nfor (const q of 5) { text(q) } // here",
    "text(1);\nfor (const { a } of [null]) { text(a) } // here",
    "text(1);\nouter: for (const [a] of [1]) { continue outer } // here",
    "text(1);\nif (1)\n  for (const [a] of [1]) text(a); // here",
    "text(1);\nfor (const { a } = null;;) {} // here",
    "text(1);\nfor (const k in null.x) {} // here",
    "text(1);\nfor (; null.x;) {} // here",
    "text(1);\nnull.x // here",
    "null.x // here",
    "text(1);\n(null).x // here",
    "text(1);\nreturn null.x; // here",
    "text(1);\nthrow null.x; // here",
    "text(1);\nif (null.x) {} // here",
    "text(1);\nwhile (null.x) {} // here",
    "text(1);\ndo {} while (null.x) // here",
    "text(1);\nswitch (null.x) {} // here",
    "text(1);\nswitch (1) {\n  case null.x: // here\n}",
    "text(1);\n[...5] // here",
    "text(1);\nconst a = [...5]; // here",
    "text(1);\n({ a: null.b }) // here",
    "text(1);\n`${null.x}` // here",
    "text(1);\n1 + null.x // here",
    "text(1);\ntrue && null.x // here",
    "text(1);\ntrue ? null.x : 1 // here",
    "text(1);\nnull.x = 1 // here",
    "text(1);\nnull.x++ // here",
    "text(1);\n'a'.b.c // here",
    "text(1);\n[].b.c // here",
    "text(1);\nawait null.x // here",
    "text(1);\nnull() // here",
    "text(1);\nclass A extends null.x {} // here",
    "text(1);\nconst f = () => {\n  text(2);\n  const { a } = null; // here\n};\nf()",
    "class A { m() {\n  text(1);\n\n  return this.x.y; // here\n} }\nnew A().m()",
    "class A { m() {\n  text(1);\n  if (true)\n    this.x.y(); // here\n} }\nnew A().m()",
    "class A {\n\n  x = null.y; // here\n}\nnew A()",
    "class A {\n  static {\n    text(1);\n\n    null.y // here\n} }",
    "text(1);\nconst f = () =>\n  null.x; // here\nf()",
    "[1].map(() =>\n  this.a.b // here\n)",
];

fn here(code: &str) -> u32 {
    1 + code.lines().position(|line| line.contains("// here")).expect("a line") as u32
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_has_the_line_that_it_is_on() {
    let house = house();
    for code in FAILING {
        fails_on(&house, Language::Javascript, code, here(code)).await;
        fails_on(&house, Language::Typescript, code, here(code)).await;
    }
    for code in [
        "let x = 1;\n\nnull!.foo // here",
        "text(1);\nconst y = <any>null!.foo; // here",
        "text(1);\nconst { a }: { a: number } = null!; // here",
        "text(1);\nreturn (null as any).foo // here",
        "namespace N {\n  text(1);\n  export const { a } = null as any; // here\n}",
        "text(1);\nconst f = (): number =>\n  null!.x as any // here\n;[1].map(f)",
        "class A {\n  constructor(private b = 1) {}\n  x: number = null!.y; // here\n}\nnew A()",
        "text(1);\nenum E { A = 1 }\n\nconst { a } = null as any; // here",
    ] {
        fails_on(&house, Language::Typescript, code, here(code)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_engine_compiles_has_a_place() {
    let house = house();
    for (code, place) in [
        ("let y = 1;\nclass A { m() { return this.#b; } }", "(line 2, column 29)"),
        ("class A { #a; m() { return #b in this } }", "(line 1, column 28)"),
        ("class A { #b }\nclass C { m(o) { o.#b } }", "(line 2, column 20)"),
        ("let y = 2;\nconst r = /(/;", "(line 2, column 11)"),
        ("const a = /(a)/, r = /[b-a]/u;", "(line 1, column 22)"),
        ("const a = /\\p{Foo}/u", "(line 1, column 11)"),
    ] {
        for language in [Language::Javascript, Language::Typescript] {
            let result = exec(&house, language, code).await;
            assert!(says(&result, place), "{code}: {result}");
            assert!(says(&result, "^"), "{code}: {result}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_what_is_not_there_is_named_whatever_its_arguments_are() {
    let house = house();
    let code = |call: &str| format!("const t = {{ id: 1, list: [] }}; let y = 2;\n{call}");
    for call in [
        "await tools.nope()",
        "await tools.nope(t.id)",
        "await tools.nope(1, 'a', y)",
        "await tools.nope(y + 1)",
        "await tools.nope({ y, a: t.id })",
        "await tools.nope({ y, a: 'x' }, {\n b: -y })",
        "await tools.nope(`a${y}b`)",
        "await tools.nope(...t.list)",
        "await tools\n  .nope({ a: y })",
        "await tools['nope'](y)",
        "await tools['nope']()",
        "await tools.nope(await tools.echo({ y }))",
        "await tools.nope(await tools.echo({ y: t.id }))",
        "await tools.nope(() => y)",
        "await tools.nope(y ? t : null)",
        "await tools.nope([y, 'a'])",
    ] {
        let result = exec(&house, Language::Javascript, &code(call)).await;
        assert!(says(&result, "is not a function: Unknown tool: nope"), "{call}: {result}");
    }
    for call in ["t.nope(t.id)", "t.nope(await tools.echo({}))", "t.nope(y)", "new t.nope(y)", "t.nope`a${y}`"] {
        let result = exec(&house, Language::Javascript, &code(call)).await;
        assert!(says(&result, "(`t.nope` is not a function)"), "{call}: {result}");
    }
    let result = exec(&house, Language::Typescript, &code("await (tools as any).nope(t.id as number)")).await;
    assert!(says(&result, "is not a function"), "{result}");
    let result = exec(&house, Language::Javascript, &code("MCP.files.raed(t.id)")).await;
    assert!(says(&result, "`MCP.files.raed` is not a function"), "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_may_be_as_long_as_the_limit_although_it_runs_with_more() {
    let house = house();
    let limit = house.scope().settings.limits.source_bytes;
    let code = format!("//{}\n'abc'.length", "x".repeat(limit - 15));
    assert_eq!(code.len(), limit);
    assert_eq!(exec(&house, Language::Javascript, &code).await["value"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_mean_the_same_with_a_position() {
    let house = house();
    for (code, expected) in [
        ("let n = 0; outer: for (let [i] = [0]; i < 3; i++) { n++; for (;;) continue outer } return n", 3),
        ("let n = 0; a: b: for (const { x } of [{ x: 1 }, { x: 2 }]) { n += x; for (;;) continue b } return n", 3),
        (
            "let n = 0; if (1) a: for (const [x] of [[1], [2]]) { if (x > 1) break a; n++; continue a } else n = 9; return n",
            1,
        ),
        ("if (0) var { a } = { a: 1 }; else var [a] = [2]; return a", 2),
        ("'use strict'\nconst { a } = { a: 3 }\nreturn a", 3),
        ("let i = 0\nconst { a } = { a: 3 }\ni++\n;[i] = [a]\nreturn i", 3),
        ("switch (1) { case 1: const { a } = { a: 4 }; return a }", 4),
        ("a: { const [x] = [5]; if (x) break a; return 0 } return 5", 5),
        ("do this.x ??= 6; while (!this.x) return this.x", 6),
        ("const o = { f: () => this.y ?? 7, get g() { return [...'abc'].length } }; return o.f() + o.g - 3", 7),
        ("class A { #a = [8][0]; b = this.#a; static { this.c = [0].length - 1 } } return new A().b + A.c", 8),
        ("const f = async () => await [9][0], g = () => `${[1].length}`; return await f() * g()", 9),
    ] {
        for language in [Language::Javascript, Language::Typescript] {
            let result = exec(&house, language, code).await;
            assert_eq!(result["value"], expected, "{code}: {result}");
        }
    }
}

/// A person is told the line of a call that needs an answer: no name of a function is taken for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_of_a_function_is_not_taken_for_the_line_of_a_call() {
    use pincer_store::Approvals;
    let house = house();
    for name in
        ["x (cell.js:99:1)", "x (cell.js:99:1)\\n    at y", "x\\n    at z (cell.js:99:1)\\n    at y", "cell.js:99:1"]
    {
        let code = format!(
            "const f = async () => tools.ask({{}});\nObject.defineProperty(f, 'name', {{ value: '{name}' }});\nawait f()"
        );
        let waiting = house.exec(&code).await;
        let question = waiting["pendingToolCalls"][0]["approvalId"].as_str().unwrap_or_else(|| panic!("{waiting}"));
        let request = pincer_tools::ApprovalRequest::of(&house.store.approval(&question.into()).await.unwrap());
        assert_eq!(request.line, Some(1), "{name:?}");
    }
}
