//! Answers of hooks that cannot be read.

use pincer_agent::Status;
use pincer_hooks::events::*;
use serde_json::json;
use tempfile::TempDir;

use crate::hooks::{hook, sent};
use crate::world::{conversation, text, world};

/// A command that answers with what stands in a file.
struct Answer(TempDir);

impl Answer {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self) -> String {
        self.0.path().join("answer").display().to_string()
    }

    fn is(&self, answer: &str) {
        std::fs::write(self.file(), answer).expect("written");
    }

    /// The settings of the command.
    fn hook(&self, more: &str) -> String {
        format!("[{{ command: ['cat', {:?}], {more} }}]", self.file())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_of_runs_is_shut_by_an_answer_that_it_does_not_understand() {
    let answer = Answer::new();
    let config = format!("hooks: {{ before_agent_run: {} }},", answer.hook(""));
    let world = world("{ replies: [{ parts: [{ text: 'Hello.' }], repeat: true }] }", &config);
    let nonsense =
        [r#"{"block":true}"#, r#"{"outcome":"pass","blocked":true}"#, "[]", r#"["block"]"#, "1", r#""block""#, "true"];
    for nonsense in nonsense {
        answer.is(nonsense);
        let outcome = world.ask("Hi").await;
        let error = outcome.error.unwrap_or_default();
        assert!(error.contains("so the run is blocked: its answer cannot be read"), "{nonsense}: {error}");
    }
    answer.is(r#"{"outcome":"block","message":""}"#);
    assert_eq!(world.ask("Hi").await.error.as_deref(), Some("blocked by the hook hooks.before_agent_run[0]"));
    assert!(world.server.requests().is_empty(), "no model was asked");
    for opinion in ["", "null", "{}", r#"{"outcome":"pass"}"#] {
        answer.is(opinion);
        assert_eq!(world.ask("Hi").await.status, Status::Ok, "{opinion}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_catches_a_failed_call_whose_error_a_hook_has_changed() {
    let answer = Answer::new();
    answer.is(r#"{"message":{"content":[{"type":"text","text":"redacted"}]}}"#);
    let code = "return await tools.fail({ n: 1 }).catch((error) => 'caught ' + error.message);";
    let script = conversation(&[
        format!("{{ parts: [{{ call: {{ id: 'c1', name: 'exec', arguments: {{ code: {code:?} }} }} }}] }}"),
        text("Done."),
    ]);
    let hooks = answer.hook("matcher: 'fail'");
    let world = world(&script, &format!("tools: {{ codeMode: true }}, hooks: {{ tool_result_persist: {hooks} }},"));
    world.ask("Do it.").await;
    let told = sent(&world, 1);
    assert!(told[3].contains("caught") && told[3].contains("redacted"), "{told:?}");
    let connection = rusqlite::Connection::open(world.directory.path().join("pincer.db")).expect("the store");
    let outcome: String = connection.query_row("SELECT outcome FROM call", [], |row| row.get(0)).expect("a call");
    assert!(
        outcome.contains("tool_failed") && outcome.contains("redacted") && !outcome.contains("broken"),
        "{outcome}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_stays_as_it_is_if_the_answer_has_no_content_that_can_be_read() {
    for nonsense in [json!("x"), json!({ "content": 1 }), json!({ "content": [{ "text": "x" }] })] {
        let world = world(&conversation(&[text("Hello.")]), "");
        hook(&world, move |_: &BeforeMessageWrite| {
            Ok(MessageWriteAnswer { block: None, message: Some(nonsense.clone()) })
        });
        world.ask("Hi").await;
        assert_eq!(world.entries().await, ["user: Hi", "assistant: Hello."]);
    }
}
