//! TypeScript that does something at run time.

use crate::common::house;
use pincer_codemode::ExecInput;
use serde_json::{Value, json};

async fn check(code: &str, expected: Value) {
    let house = house();
    let result = house.mode.exec(&house.scope(), ExecInput::typescript(code)).await;
    let result = serde_json::to_value(result).unwrap();
    assert_eq!(result["value"], expected, "{code}: {result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_enums_are_names_however_they_are_written() {
    check("enum E { 'a' = 1, \"b\" = a + 1, c = b + a }\nreturn [E.a, E.b, E.c, E[3]]", json!([1, 2, 3, "c"])).await;
    check("enum E { ['a'] = 1, [`b`] = a + 1, c = b }\nreturn [E.a, E.b, E.c]", json!([1, 2, 2])).await;
    check("enum E { 'a-b' = 1, x }\nreturn [E['a-b'], E.x, E[1]]", json!([1, 2, "a-b"])).await;
    check("enum E { \"\\u0041\" = 1, \\u0042 = 2, C = A + B }\nreturn [E.A, E.B, E.C]", json!([1, 2, 3])).await;
    check("enum E { 'if' = 1, 'let', 'await', x }\nreturn [E.if, E.let, E.await, E.x]", json!([1, 2, 3, 4])).await;
    check("enum E { '' = 1, '1a' }\nreturn [E[''], E['1a']]", json!([1, 2])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enums_and_namespaces_of_one_name_are_one_object() {
    let both = "enum E { 'A' = 1, 'b-c' = 2 }\nnamespace E { export function f() { return A } export let n = 1 }";
    check(&format!("{both}\nreturn [E.A, E.f(), E.n, E[2]]"), json!([1, 1, 1, "b-c"])).await;
    check(&format!("{both}\nenum E {{ D = A + 4 }}\nreturn [E.D, E.f()]"), json!([5, 1])).await;
    check("namespace E { export const z = 5 }\nenum E { A = z, 'B' }\nreturn [E.A, E.B]", json!([5, 6])).await;
    let inner = "namespace X { export enum E { 'A' = 1 } export namespace E { export const g = () => A } }";
    check(&format!("{inner}\nreturn X.E.g()"), json!(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_have_no_way_back_to_their_names() {
    check(
        "const s = 'x';\nenum E { A = s as any, B = `${s}y`, C = 'a' + 1, D = typeof s as any, F = ('q'), G = B }\nreturn E",
        json!({ "A": "x", "B": "xy", "C": "a1", "D": "string", "F": "q", "G": "xy" }),
    )
    .await;
    check("enum E { A = 'x'.length, B = -1, C = +'3' }\nreturn [E[1], E[-1], E[3]]", json!(["A", "B", "C"])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halves_of_surrogate_pairs_in_names_stay_what_they_are() {
    let code = |name: &str| format!("enum E {{ {name} = 7 }}\nreturn [E['\\ud800'], E[7].charCodeAt(0), E[7].length]");
    for name in ["'\\ud800'", "['\\ud800']", "[`\\ud800`]"] {
        check(&code(name), json!([7, 0xd800, 1])).await;
    }
    check("enum E { '\\ufffd\\ud800' = 7 }\nreturn E[7] === '\\ufffd\\ud800'", json!(true)).await;
    check("enum E { '\u{fffd}d800' = 7 }\nreturn E[7] === '\\ufffd' + 'd800'", json!(true)).await;
}
