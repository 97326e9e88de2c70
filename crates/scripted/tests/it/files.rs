//! Scripts in files.

use std::error::Error as _;

use pincer_scripted::{Cut, Error, ErrorForm, Failure, Flaw, LineEnd, Message, Script, Server, StreamError, Wire};

/// The reason why a script is refused.
fn refusal(script: &str) -> String {
    let error = Script::parse(script).unwrap_err();
    error.source().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_file_says_the_same_as_rust() {
    let file = Script::parse(
        r#"{
          models: ["a", "b"],
          replies: [
            { status: 529, headers: { "Retry-After": "1" } },
            { parts: [{ text: "Hi" }], pieces: 2,
              streamError: { after: 1, form: "failed" },
              wire: { cut: 1, everyMs: 5, lineEnd: "\r\n", omitDone: true } , repeat: true },
          ],
        }"#,
    );
    let message = Message::new().text("Hi").pieces(2.try_into().unwrap());
    let message = message.stream_error(StreamError { after: 1, form: ErrorForm::Failed, ..StreamError::default() });
    let wire = Wire {
        cut: Cut::Every(1.try_into().unwrap()),
        every: std::time::Duration::from_millis(5),
        line_end: LineEnd::CrLf,
        omit_done: true,
        ..Wire::default()
    };
    let rust = Script::new()
        .models(["a", "b"])
        .reply(Failure::new(529).header("retry-after", "1"))
        .reply(pincer_scripted::Reply::from(message).wire(wire).repeat());
    assert_eq!(file.unwrap(), rust);
}

#[test]
fn contradictions_are_refused() {
    let reply = |reply: &str| refusal(&format!("{{ replies: [{{ {reply} }}] }}"));
    for (script, reason) in [
        ("", "it has none of `parts`"),
        ("parts: [], recorded: { body: '' }", "`parts` does not go with `recorded`"),
        ("parts: [], status: 500", "`parts` does not go with `error`"),
        ("status: 500, streamError: { after: 1 }", "`streamError` does not go with `error`"),
        ("status: 200", "status 200 is no error"),
        ("recorded: { status: 101, body: '' }", "status 101 cannot be sent"),
        ("recorded: { body: '' }, wire: { pings: true }", "`pings` does not go with `recorded`"),
        ("recorded: { body: '', cuts: [1] }, wire: { cut: 1 }", "`wire.cut` does not go with `recorded.cuts`"),
        ("parts: [], wire: { cut: 1, cuts: [2] }", "`wire.cut` does not go with `wire.cuts`"),
        (
            "parts: [], wire: { stallAfter: 1, truncateAfter: 2 }",
            "`wire.stallAfter` does not go with `wire.truncateAfter`",
        ),
        ("parts: [], headers: { 'a b': 'c' }", "the header `a b`"),
        ("parts: [{ text: 'a' }, {}]", "part 2 (counted from 1) must have exactly one"),
        ("parts: [{ text: 'a', signature: 'b' }]", "part 1"),
        ("parts: [{ text: 'a', refusal: 'b' }]", "part 1"),
        ("parts: [{ thinking: 'a', text: 'b' }]", "part 1"),
    ] {
        assert!(reply(script).starts_with(reason), "{script}: {}", reply(script));
    }
    let twice = "{ replies: [{ parts: [], repeat: true }, { parts: [] }] }";
    assert_eq!(refusal(twice), Flaw::RepeatedTooEarly.to_string());
}

#[test]
fn unknown_keys_and_values_are_refused() {
    for script in [
        "{",
        "{}",
        "{ replies: [], more: 1 }",
        "{ replies: [{ part: [] }] }",
        "{ replies: [{ parts: [{ txt: 'a' }] }] }",
        "{ replies: [{ parts: [], wire: { cut: 0 } }] }",
        "{ replies: [{ parts: [], wire: { lineEnd: ' ' } }] }",
        "{ replies: [{ parts: [], stop: 'never' }] }",
        "{ replies: [{ parts: [], usage: { inputs: 1 } }] }",
    ] {
        assert!(matches!(Script::parse(script), Err(Error::Parse(_))), "{script}");
    }
}

#[test]
fn a_script_made_in_rust_is_checked_when_a_server_starts() {
    let error = Server::start(Script::new().reply(Message::new()).reply(Failure::new(302))).unwrap_err();
    assert!(matches!(error, Error::Reply { reply: 2, flaw: Flaw::NoError(302) }), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Script::from_file("/nonexistent/script.json5").unwrap_err();
    assert_eq!(error.to_string(), "cannot read the script /nonexistent/script.json5");
}
