//! Answers of hooks that cannot be read, and texts that are written beside messages: summaries, and the words about one.

use std::sync::Arc;

use pincer_agent::Status;
use pincer_hooks::events::*;
use pincer_store::{EntryPage, Sessions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::compaction::{NARROW, in_order, session};
use crate::hooks::{Log, hook, seen, sent};
use crate::world::{World, conversation, text, world};

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

/// Everything in the session, as it is stored.
async fn stored(world: &World) -> String {
    let session = session(world).await;
    let page = EntryPage { after: 0, limit: 1_000 };
    let entries = world.agent.runtime().store().entries(&session.id, page).await.expect("read");
    entries.iter().map(|entry| entry.body.to_string()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_and_the_words_about_it_are_written_as_the_hooks_want_them() {
    let replies = [text("One."), text("Two."), text("The key is SECRET."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    let log: Log<(Value, String)> = Arc::default();
    let kept = Arc::clone(&log);
    hook(&world, move |event: &BeforeMessageWrite| {
        let text = event.message["content"][0]["text"].as_str().unwrap_or_default();
        kept.lock().unwrap().push((event.message["role"].clone(), text.chars().take(30).collect()));
        Ok(MessageWriteAnswer { block: None, message: Some(json!({ "content": text.replace("SECRET", "***") })) })
    });
    for word in ["apple", "pear"] {
        assert_eq!(world.ask(&format!("{word} {}", "word ".repeat(500))).await.status, Status::Ok);
    }
    let outcome = world.ask("/compact keep the SECRET too").await;
    assert!(outcome.text().contains("compacted"), "{outcome:?}");
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    let summarizing = sent(&world, 2).concat();
    assert!(summarizing.contains("keep the *** too") && !summarizing.contains("SECRET"), "{summarizing}");
    let after = sent(&world, 3).concat();
    assert!(after.contains("The key is ***.") && !after.contains("SECRET"), "{after}");
    let stored = stored(&world).await;
    assert!(stored.contains("The key is ***.") && stored.contains("keep the *** too"), "{stored}");
    assert!(!stored.contains("SECRET"), "{stored}");
    let asked = seen(&log);
    assert!(asked.contains(&(json!("compactionSummary"), "The key is SECRET.".into())), "{asked:?}");
    assert!(asked.contains(&(json!("user"), "keep the SECRET too".into())), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_a_hook_blocks_is_withheld() {
    let replies = [text("One."), text("Two."), text("The key is SECRET."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    hook(&world, |event: &BeforeMessageWrite| {
        let block = (event.message["role"] == "compactionSummary").then_some(true);
        Ok(MessageWriteAnswer { block, message: None })
    });
    for word in ["apple", "pear"] {
        world.ask(&format!("{word} {}", "word ".repeat(500))).await;
    }
    world.ask("/compact").await;
    world.ask("And now?").await;
    let after = sent(&world, 3).concat();
    assert!(after.contains("[withheld by a hook]") && !after.contains("SECRET"), "{after}");
}
