//! Conversations that are compacted: after an overflow in each wire format, before a request that would be too long, and because the
//! user wants it.

use std::sync::{Arc, Mutex};

use pincer_agent::{AgentEvent, Request, Status, Stream};
use pincer_hooks::HookError;
use pincer_hooks::events::{AfterCompaction, BeforeAgentRun, BeforeCompaction, RunAnswer, RunOutcome};
use pincer_sessions::new_session_id;
use pincer_store::{Clock, EntryKind, EntryPage, NewSession, Session, SessionKey, Sessions};
use serde_json::{Value, json};

use crate::hooks::{hook, observe};
use crate::world::{KEY, USER, World, calls, text, within, world};

/// A script whose replies come one after the other, from a provider that refuses calls without results.
pub(crate) fn in_order(replies: &[String]) -> String {
    format!("{{ strict: true, replies: [{}] }}", replies.join(", "))
}

/// A reply for which the provider counts so many tokens.
pub(crate) fn counted(said: &str, input: u64) -> String {
    format!("{{ parts: [{{ text: {said:?} }}], usage: {{ input: {input}, output: 10 }} }}")
}

pub(crate) const NARROW: &str =
    "agents: { defaults: { model: 'scripted/narrow', compaction: { memoryFlush: { enabled: false } } } }";
const CHAT: &str = "{ status: 400, error: { code: 'context_length_exceeded', message: \"This model's maximum context length is 8600 tokens. \
                    However, your messages resulted in 9000 tokens.\" } }";
const MESSAGES: &str = "{ status: 400, error: { type: 'invalid_request_error', message: 'prompt is too long: 9000 tokens > 8600 maximum' } }";
/// The overflow comes when a part of the reply has been shown.
const RESPONSES: &str = "{ parts: [{ text: 'I begin to say something long.' }], streamError: { after: 7, code: 'context_length_exceeded', \
                         message: 'Your input exceeds the context window of this model.', form: 'failed' } }";

pub(crate) async fn session(world: &World) -> Session {
    world.agent.runtime().store().current_session(USER, &world.key()).await.unwrap().expect("a session")
}

/// The phases of the compactions of a run, with what the last one says.
pub(crate) fn compactions(events: &[AgentEvent]) -> Vec<Value> {
    let own = events.iter().filter(|event| event.stream == Stream::Compaction);
    own.map(|event| Value::Object(event.data.clone())).collect()
}

/// All texts of the n-th request, in one.
pub(crate) fn sent(world: &World, request: usize) -> String {
    let body = &world.server.requests()[request].body;
    if body["messages"].is_null() { body["input"].to_string() } else { body["messages"].to_string() }
}

/// A session with two long messages in it, and their answers.
async fn long_conversation(world: &World, model: &str, words: usize) {
    for (number, word) in [(1, "apple"), (2, "pear")] {
        let message = format!("{word} {number}: {}", "word ".repeat(words));
        let run = world.submit(Request { model: Some(model.into()), ..Request::new(message) }).await;
        assert_eq!(world.outcome(&run).await.status, Status::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overflow_is_answered_after_a_compaction_in_every_format() {
    for (model, overflow) in
        [("scripted/scripted", CHAT), ("messages/scripted", MESSAGES), ("responses/scripted", RESPONSES)]
    {
        let replies =
            [text("One."), text("Two."), overflow.into(), text("They spoke of fruit."), text("Three."), text("Four.")];
        let world = world(&in_order(&replies), "");
        long_conversation(&world, model, 2_000).await;
        let ask = async |said: &str| {
            let run = world.submit(Request { model: Some(model.into()), ..Request::new(said) }).await;
            let events = world.events(&run, 1).await;
            (world.outcome(&run).await, events)
        };
        let (outcome, events) = ask(&format!("And now? {}", "well ".repeat(2_400))).await;
        assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Three.".to_owned()), "{model}: {outcome:?}");
        let told = compactions(&events);
        assert_eq!(
            told,
            [
                json!({ "phase": "start", "trigger": "overflow" }),
                json!({ "phase": "end", "completed": true, "willRetry": true })
            ],
            "{model}"
        );
        // The overflow may come late: text that was shown until then is void.
        let shown: Vec<&AgentEvent> = events.iter().filter(|event| event.stream == Stream::Assistant).collect();
        if overflow == RESPONSES {
            let void = shown.iter().rposition(|event| event.text("text").is_empty()).expect("a void reply");
            assert_eq!(shown[void].data["replace"], true);
            assert!(shown[void + 1..].iter().all(|event| "Three.".starts_with(event.text("text"))), "{shown:?}");
        } else {
            assert!(shown.iter().all(|event| "Three.".starts_with(event.text("text"))), "{model}: {shown:?}");
        }
        let requests = world.server.requests();
        let summary = &requests[3].body;
        assert!(summary["tools"].as_array().is_none_or(Vec::is_empty), "{model}: a summary needs no tools");
        assert!(sent(&world, 3).contains("apple 1") && !sent(&world, 3).contains("And now?"), "{model}");
        let again = sent(&world, 4);
        assert!(again.contains("They spoke of fruit.") && again.contains("And now?"), "{model}: {again}");
        assert!(!again.contains("apple 1") && !again.contains("something long"), "{model}: {again}");
        assert!(again.len() < sent(&world, 2).len() / 2, "{model}");
        assert_eq!(session(&world).await.totals.compactions, 1);
        // The next message goes on from there.
        assert_eq!(ask("Sure?").await.0.text(), "Four.");
        let last = sent(&world, 5);
        assert!(last.contains("They spoke of fruit.") && last.contains("Three.") && last.contains("Sure?"), "{last}");
        assert_eq!(world.server.complaints(), Vec::<String>::new(), "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_would_be_too_long_is_compacted_before_it_is_sent() {
    let replies = [counted("One.", 3_000), counted("Two.", 7_000), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    world.ask(&format!("apple {}", "word ".repeat(2_000))).await;
    world.ask(&format!("pear {}", "word ".repeat(1_000))).await;
    let run = world.send("And now?").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.text(), "Three.", "{outcome:?}");
    let told = compactions(&world.events(&run, 1).await);
    assert_eq!(told[0], json!({ "phase": "start", "trigger": "threshold" }));
    assert_eq!(told[1], json!({ "phase": "end", "completed": true, "willRetry": false }));
    assert!(sent(&world, 2).contains("apple") && sent(&world, 3).contains("Fruit."));
    assert!(sent(&world, 3).contains("And now?") && !sent(&world, 3).contains("apple"));
    assert_eq!(outcome.result.telemetry.model_calls, 2, "the summary is counted");
    let tools = outcome.result.telemetry.tools.expect("telemetry");
    let first = tools.tools.bytes + tools.prompt.bytes;
    assert!(
        tools.requests == 2 && tools.sent.bytes > first && tools.sent.bytes < 2 * first,
        "without tools: {tools:?}"
    );
    assert_eq!(tools.sent, tools.direct_sent, "it carries the same with any surface");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_provider_counts_decides_however_short_the_texts_look() {
    let replies = [counted("One.", 3_000), counted("Two.", 7_000), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    world.ask("apple").await;
    world.ask("pear").await;
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    let again = sent(&world, 3);
    assert!(again.contains("Fruit.") && !again.contains("apple"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_stay_with_their_results_and_nothing_of_an_answer_is_told_twice() {
    let show = |id: &str, input: u64| {
        let call = format!("{{ call: {{ id: '{id}', name: 'show', arguments: {{ bytes: 9000 }} }} }}");
        format!("{{ parts: [{{ text: 'I look at {id}.' }}, {call}], usage: {{ input: {input}, output: 10 }} }}")
    };
    let (first, more) = (text("Much was looked at."), text("More was looked at."));
    let replies = [show("a", 1_000), show("b", 4_500), first, show("c", 4_500), more, text("Done.")];
    let world = world(&in_order(&replies), NARROW);
    let run = world.send("Look three times.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    let texts: Vec<&str> = outcome.result.payloads.iter().map(|payload| payload.text.as_str()).collect();
    assert_eq!(texts, ["I look at a.", "I look at b.", "I look at c.", "Done."]);
    assert_eq!(world.server.complaints(), Vec::<String>::new(), "every call has its result in every request");
    let last = sent(&world, 5);
    assert!(last.contains("The request that is being worked on") && last.contains("Look three times."), "{last}");
    // All of it stays readable, and each result follows its call.
    let entries = world.entries().await;
    assert_eq!(entries.iter().filter(|entry| *entry == "compaction").count(), 2, "{entries:?}");
    for id in ["a", "b", "c"] {
        assert!(entries.contains(&format!("result {id}")), "{entries:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_in_a_message_compacts_with_the_wishes_of_the_user() {
    // The provider counts less than is estimated.
    let replies = [text("One."), counted("Two.", 60), text("Fruit, and names."), text("Three."), text("The same.")];
    let world = world(&in_order(&replies), NARROW);
    long_conversation(&world, "scripted/narrow", 500).await;
    let run = world.send("/compact keep the names").await;
    let outcome = world.outcome(&run).await;
    let numbers: Vec<u64> =
        outcome.text().split(|letter: char| !letter.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[0] > numbers[1], "both are counted alike: {}", outcome.text());
    assert!(outcome.status == Status::Ok && outcome.text().contains("compacted"), "{outcome:?}");
    assert!(sent(&world, 2).contains("keep the names"));
    let told = compactions(&world.events(&run, 1).await);
    assert_eq!((told.len(), &told[0]["trigger"]), (2, &json!("manual")));
    assert!(world.ask("/status").await.text().contains("1 compaction;"));
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    let again = sent(&world, 3);
    assert!(again.contains("Fruit, and names.") && !again.contains("/compact") && !again.contains("apple"), "{again}");
    // The last turn stays, so there is nothing more to do.
    assert!(world.ask("/compact").await.text().contains("is compacted"));
    let nothing = world.ask("/compact").await;
    assert!(nothing.text().contains("nothing to compact"), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_has_nothing_to_compact_and_no_model_is_asked() {
    let world = world(&in_order(&[text("One.")]), NARROW);
    let outcome = world.ask("/compact").await;
    assert_eq!((outcome.status, world.server.requests().len()), (Status::Ok, 0));
    assert!(outcome.text().contains("nothing to compact yet: the conversation has no messages"), "{outcome:?}");
    assert_eq!(world.ask("Hello.").await.text(), "One.");
    let text = world.ask("/compact").await.text();
    assert!(text.contains("2 messages") && text.contains("the latest turn stays"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_conversation_is_left_as_it_is_and_the_user_is_told_how_much_that_is() {
    // A provider may count a lot for its own instructions: that makes no conversation longer.
    let world = world(&in_order(&[counted("One.", 3_000), counted("Two.", 3_100), text("Three.")]), NARROW);
    world.ask("apple").await;
    world.ask("pear").await;
    let before = world.entries().await;
    let run = world.send("/compact keep all").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Ok);
    let text = outcome.text();
    for word in ["nothing to compact yet", "4 messages of about ", "2 messages of about ", "all of it stays as it is"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!((world.server.requests().len(), session(&world).await.totals.compactions), (2, 0));
    assert_eq!(compactions(&world.events(&run, 1).await), Vec::<Value>::new(), "nothing is told of a summary");
    assert!(world.entries().await.starts_with(&before), "all of it is there, and nothing in its place");
    assert!(!world.entries().await.contains(&"compaction".to_owned()));
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    assert!(sent(&world, 2).contains("apple") && sent(&world, 2).contains("pear"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_not_shorter_is_not_taken_and_the_user_is_told() {
    let long = counted(&"fruit ".repeat(1_500), 1_400);
    let world = world(&in_order(&[text("One."), text("Two."), long, text("Three.")]), NARROW);
    long_conversation(&world, "scripted/narrow", 500).await;
    let spent = session(&world).await.totals;
    let run = world.send("/compact").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    assert!(outcome.text().starts_with("The conversation stays as it is"), "{outcome:?}");
    let told = compactions(&world.events(&run, 1).await);
    assert_eq!((&told[1]["completed"], &told[1]["reason"]), (&json!(false), &json!("its summary is not shorter")));
    let now = session(&world).await.totals;
    assert_eq!(now.compactions, 0);
    assert_eq!(now.output, spent.output + 10, "the model wrote it all the same");
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    assert!(sent(&world, 3).contains("apple") && !sent(&world, 3).contains("fruit"), "{}", sent(&world, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_of_runs_is_asked_before_a_conversation_is_sent_for_its_summary() {
    let replies = [text("One."), text("Two."), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    hook(&world, move |event: &BeforeAgentRun| {
        kept.lock().unwrap().push(event.prompt.clone());
        if event.prompt.starts_with("/compact") {
            assert!(event.system_prompt.contains("summaries of conversations"), "{event:?}");
            assert!(serde_json::to_string(&event.messages).unwrap().contains("apple 1"), "{event:?}");
        }
        match event.prompt.as_str() {
            "/compact block" => Ok(RunAnswer {
                outcome: RunOutcome::Block,
                reason: Some("a secret reason".into()),
                message: Some("Not this conversation.".into()),
            }),
            "/compact fail" => Err(HookError::Answer("nonsense".into())),
            _ => Ok(RunAnswer::default()),
        }
    });
    // Nothing is sent for a conversation without an older part.
    assert!(world.ask("/compact block").await.text().contains("nothing to compact"));
    assert_eq!(asked.lock().unwrap().len(), 0);
    long_conversation(&world, "scripted/narrow", 500).await;
    let blocked = world.ask("/compact block").await;
    assert_eq!((blocked.status, blocked.error.as_deref()), (Status::Error, Some("Not this conversation.")));
    assert_eq!(blocked.error_kind.as_deref(), Some("blocked"));
    assert!(!serde_json::to_string(&blocked).unwrap().contains("secret"));
    let failed = world.ask("/compact fail").await;
    assert!(failed.error.as_deref().is_some_and(|error| error.contains("blocked")), "{failed:?}");
    assert_eq!((world.server.requests().len(), session(&world).await.totals.compactions), (2, 0), "no model was asked");
    assert!(world.ask("/compact").await.text().contains("is compacted"));
    assert_eq!(asked.lock().unwrap().iter().filter(|prompt| prompt.starts_with("/compact")).count(), 3);
    assert!(!sent(&world, 2).contains("withheld"), "nothing of the conversation was blocked: {}", sent(&world, 2));
    assert_eq!(world.ask("And now?").await.text(), "Three.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_within_a_run_is_part_of_what_the_gate_let_through() {
    let replies = [counted("One.", 3_000), counted("Two.", 7_000), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    hook(&world, move |event: &BeforeAgentRun| {
        kept.lock().unwrap().push(event.prompt.clone());
        Ok(RunAnswer::default())
    });
    for message in ["apple", "pear", "And now?"] {
        world.ask(message).await;
    }
    assert_eq!(session(&world).await.totals.compactions, 1);
    assert_eq!(*asked.lock().unwrap(), ["apple", "pear", "And now?"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_comes_after_the_run_that_waits_for_a_person() {
    let replies = [text("One."), text("Two."), calls(&[("mark", 1)]), text("Marked."), text("Fruit.")];
    let rules = format!("{NARROW}, approvals: {{ rules: [{{ match: 'plugin:test:mark', decision: 'ask' }}] }}");
    let world = world(&in_order(&replies), &rules);
    long_conversation(&world, "scripted/narrow", 500).await;
    let run = world.send("Mark it.").await;
    let waiting = world.outcome(&run).await;
    assert_eq!(waiting.status, Status::Waiting);
    let compact = world.send("/compact").await;
    assert_eq!(session(&world).await.totals.compactions, 0);
    world.agent.answer(&waiting.approvals[0].approval_id, pincer_tools::Answer::AllowOnce, "tom").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Marked.");
    assert!(world.outcome(&compact).await.text().contains("compacted"));
    assert_eq!(world.effects.all(), ["mark 1"]);
    assert_eq!(world.server.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_session_is_forked_on_both_sides_of_it_and_read_by_another_process() {
    let replies =
        [text("One."), text("Two."), text("Fruit."), text("Three."), text("Four."), text("Five."), text("Six.")];
    let world = world(&in_order(&replies), NARROW);
    long_conversation(&world, "scripted/narrow", 500).await;
    world.ask("/compact").await;
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    world.dies().await;
    let other = world.another();
    assert_eq!(other.ask("Still?").await.text(), "Four.");
    let after = sent(&other, 4);
    assert!(after.contains("Fruit.") && after.contains("And now?") && !after.contains("apple"), "{after}");
    let store = other.agent.runtime().store();
    let source = session(&other).await;
    let entries = store.entries(&source.id, EntryPage { after: 0, limit: 100 }).await.unwrap();
    let compaction = entries.iter().find(|entry| entry.kind == EntryKind::Compaction).unwrap();
    let fork = async |key: &str, at: u32| {
        let new = NewSession {
            id: new_session_id(),
            user: USER.into(),
            key: key.into(),
            agent: None,
            label: None,
            parent: Some(source.id.clone()),
            created_at: store.now(),
        };
        store.fork_session(&source.id, at, new).await.unwrap();
        let key: SessionKey = key.into();
        let run = other.agent.submit(USER, &key, Request::new("Forked?"), None).await.unwrap().run_id;
        within(other.agent.outcome(USER, &run)).await.unwrap().text()
    };
    assert_eq!(fork("after", source.leaf.unwrap()).await, "Five.");
    let forked = sent(&other, 5);
    assert!(forked.contains("Fruit.") && forked.contains("Still?") && !forked.contains("apple"), "{forked}");
    assert_eq!(fork("before", compaction.parent.unwrap()).await, "Six.");
    let forked = sent(&other, 6);
    assert!(!forked.contains("Fruit.") && forked.contains("apple") && forked.contains("pear"), "{forked}");
    assert_eq!(other.key().as_str(), KEY);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_told_before_and_after() {
    let replies = [counted("One.", 3_000), counted("Two.", 7_000), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    let before = observe(&world, |event: &BeforeCompaction| {
        assert_eq!(event.context.session_key, KEY);
        (event.message_count, event.compacting_count, event.token_count)
    });
    let after = observe(&world, |event: &AfterCompaction| {
        assert!(event.context.session_id.is_some() && event.context.run_id.is_some());
        (event.message_count, event.compacted_count, event.token_count)
    });
    world.ask("apple").await;
    world.ask("pear").await;
    assert_eq!(world.ask("And now?").await.text(), "Three.");
    world.agent.close().await;
    let (before, after) = (before.lock().unwrap().clone(), after.lock().unwrap().clone());
    let [(messages, compacting, Some(tokens))] = before[..] else { panic!("{before:?}") };
    assert!(messages == 5 && (1..5).contains(&compacting) && tokens > 7_000, "{before:?}");
    let [(left, compacted, Some(less))] = after[..] else { panic!("{after:?}") };
    assert_eq!((left, compacted), (messages - compacting + 1, compacting));
    assert!(less < tokens, "{after:?}");
}
