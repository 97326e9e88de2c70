//! The engine's own sanity: some hundred small expressions and the values they must have, from `ecmascript.txt`.
//!
//! The expected values are those of other engines (and of the standard where those are older), not recorded from this one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{finish, start};
use pincer_sandbox::TurnEnd;

#[test]
fn expressions_have_the_values_that_the_standard_gives_them() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("../ecmascript.txt").lines() {
        let (expression, expected) = line.rsplit_once(" ⇒ ").expect("a line of the form `expression ⇒ value`");
        count += 1;
        let got = match finish(start(&format!("return ({expression})"))).end {
            TurnEnd::Value(Some(value)) => value.to_string(),
            TurnEnd::Value(None) => "undefined".into(),
            other => format!("{other:?}"),
        };
        if got != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  got      {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 300, "only {count} expressions");
}
