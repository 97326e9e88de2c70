//! Compactions that fail or do not help: the session stays usable, and the user is told.

use pincer_agent::{ClientTool, Request, Status};
use serde_json::json;

use crate::compaction::{NARROW, compactions, counted, in_order, sent, session};
use crate::world::{FILES, USER, World, text, world};

const OVERFLOW: &str = "{ status: 400, error: { code: 'context_length_exceeded', message: 'Too long.' } }";

async fn filled(world: &World) {
    world.ask(&format!("apple {}", "word ".repeat(500))).await;
    world.ask(&format!("pear {}", "word ".repeat(500))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_stays_too_long_ends_the_run_and_keeps_the_session() {
    let again = || OVERFLOW.to_owned();
    let replies =
        [text("One."), text("Two."), again(), text("Fruit."), again(), text("Less fruit."), again(), text("Fine.")];
    let world = world(&in_order(&replies), "");
    filled(&world).await;
    let before = session(&world).await.id;
    let outcome = world.ask(&format!("And now? {}", "well ".repeat(800))).await;
    assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some("context_overflow")));
    let error = outcome.error.unwrap();
    assert!(error.contains("still too long") || error.contains("alone is too long"), "{error}");
    assert!(error.contains("/new") && error.contains("Too long"), "{error}");
    assert_eq!(session(&world).await.id, before, "the session keeps its key");
    // Only as many requests as help: the model is asked again with the next message.
    let requests = world.server.requests().len();
    assert!((5..=7).contains(&requests), "{requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_of_no_use_is_asked_for_again_and_then_a_list_stands_for_it() {
    for useless in [
        "{ parts: [{ text: ' ' }] }",
        "{ parts: [{ text: 'They spoke of' }], stop: 'length' }",
        "{ parts: [{ refusal: 'No.' }] }",
    ] {
        // The second one can be used.
        let replies = [counted("One.", 3_000), counted("Two.", 7_000), useless.into(), text("Fruit."), text("Three.")];
        let world = world(&in_order(&replies), NARROW);
        filled(&world).await;
        assert_eq!(world.ask("And now?").await.text(), "Three.", "{useless}");
        assert!(sent(&world, 4).contains("Fruit."));

        let replies = [counted("One.", 3_000), counted("Two.", 7_000), useless.into(), useless.into(), text("Three.")];
        let world = crate::world::world(&in_order(&replies), NARROW);
        filled(&world).await;
        let run = world.send("And now?").await;
        let outcome = world.outcome(&run).await;
        assert_eq!(outcome.status, Status::Ok, "{useless}: {outcome:?}");
        let texts: Vec<&str> = outcome.result.payloads.iter().map(|payload| payload.text.as_str()).collect();
        assert!(texts[0].contains("could not be summarized") && texts[1] == "Three.", "{texts:?}");
        let told = compactions(&world.events(&run, 1).await);
        assert_eq!(told[1]["completed"], true);
        assert!(told[1]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{told:?}");
        assert!(sent(&world, 4).contains("No summary could be written") && sent(&world, 4).contains("apple"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_not_shorter_gives_way_to_a_list_of_requests() {
    let long = text(&"fruit ".repeat(1_500));
    let replies = [counted("One.", 3_000), counted("Two.", 7_000), long.clone(), text("Three.")];
    let world = world(&in_order(&replies), NARROW);
    filled(&world).await;
    let outcome = world.ask("And now?").await;
    let texts: Vec<&str> = outcome.result.payloads.iter().map(|payload| payload.text.as_str()).collect();
    assert!(texts[0].contains("its summary was not shorter") && texts[1] == "Three.", "{texts:?}");
    assert!(sent(&world, 3).contains("No summary could be written") && !sent(&world, 3).contains("fruit"));

    // Nor is a list of a few words. The run goes on, since its requests fit, and does not have another summary written.
    let call =
        "{ parts: [{ call: { id: 'a', name: 'look', arguments: { n: 1 } } }], usage: { input: 7000, output: 10 } }";
    let replies = [counted("One.", 7_000), long, call.into(), text("Three.")];
    let world = crate::world::world(&in_order(&replies), NARROW);
    world.ask("apple").await;
    let run = world.send("And now?").await;
    assert_eq!(world.outcome(&run).await.text(), "Three.");
    let told = compactions(&world.events(&run, 1).await);
    assert_eq!((told.len(), &told[1]["completed"]), (2, &json!(false)), "{told:?}");
    assert!(sent(&world, 3).contains("apple") && session(&world).await.totals.compactions == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_shortened_without_a_summary_of_the_few_words_before_it() {
    // A request is repeated word for word in the summary of its turn, which would be no shorter than it.
    for message in ["Look.".to_owned(), format!("Look. {}", "word ".repeat(500))] {
        let call = "{ call: { id: 'a', name: 'show', arguments: { bytes: 9000 } } }";
        let show = format!("{{ parts: [{call}], usage: {{ input: 6500, output: 10 }} }}");
        let world = world(&in_order(&[show, text("Much.")]), NARROW);
        let outcome = world.ask(&message).await;
        assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Much.".to_owned()), "{outcome:?}");
        assert_eq!((world.server.requests().len(), session(&world).await.totals.compactions), (2, 1));
        let results = sent(&world, 1).len() - message.len();
        assert!(sent(&world, 1).contains("Look.") && results < 6_500, "{results}");
        assert_eq!(world.server.complaints(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_fails_changes_nothing() {
    let broken = "{ status: 401, error: { message: 'no' } }";
    let replies =
        [counted("One.", 3_000), counted("Two.", 7_000), broken.into(), counted("Three.", 7_100), text("Fruit.")];
    let world = world(&in_order(&replies), NARROW);
    filled(&world).await;
    let run = world.send("And now?").await;
    // It is into the reserve, but it fits, so the model is asked all the same.
    assert_eq!(world.outcome(&run).await.text(), "Three.");
    let told = compactions(&world.events(&run, 1).await);
    assert_eq!((&told[1]["completed"], &told[1]["willRetry"]), (&json!(false), &json!(false)));
    assert!(told[1]["reason"].as_str().unwrap().contains("401"), "{told:?}");
    assert_eq!(session(&world).await.totals.compactions, 0);
    assert!(sent(&world, 3).contains("apple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_window_holds_is_refused_before_it_is_sent() {
    let world = world(&in_order(&[text("One.")]), NARROW);
    let outcome = world.ask(&"word ".repeat(20_000)).await;
    assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some("context_overflow")));
    let error = outcome.error.unwrap();
    assert!(error.contains("8000") && error.contains("/new"), "{error}");
    assert_eq!(world.server.requests().len(), 0, "nothing was sent");
    assert!(world.ask("/status").await.text().contains("idle"));
}

/// A compaction cannot make instructions and tools shorter, and must not be tried for ever.
#[tokio::test(flavor = "multi_thread")]
async fn instructions_and_tools_that_fill_the_window_are_no_reason_to_compact_for_ever() {
    let config = format!("agents: {{ defaults: {{ model: 'scripted/narrow' }} }} {FILES}");
    for letters in (10_000..=40_000).step_by(2_000) {
        let script = "{ replies: [{ parts: [{ text: 'Hello there.' }], repeat: true }] }";
        let world = world(script, &config);
        // Each file may have 20,000 letters.
        for (name, letters) in [("AGENTS.md", letters / 2), ("MEMORY.md", letters / 2)] {
            let text = "Be kind. ".repeat(letters / 9);
            std::fs::write(world.directory.path().join("workspace").join(name), text).expect("written");
        }
        let mut ends = Vec::new();
        for message in ["One.", "Two."] {
            let outcome = world.ask(message).await;
            ends.push(outcome.status);
            match outcome.status {
                Status::Ok => assert_eq!(outcome.text(), "Hello there.", "{letters}"),
                _ => {
                    let error = outcome.error.unwrap_or_default();
                    assert!(error.contains("instructions and tools alone") && !error.contains("/new"), "{error}");
                }
            }
        }
        match letters {
            ..=14_000 => assert_eq!(ends, [Status::Ok, Status::Ok]),
            30_000.. => assert_eq!(ends, [Status::Error, Status::Error]),
            _ => {}
        }
        // Notes and a summary at most before each answer, twice if the first summary made no room.
        let requests = world.server.requests().len();
        assert!(requests <= 10, "{letters}: {requests}");
    }
}

/// A request that fits is not cut to make room for the notes about it.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_that_fits_reaches_the_model_whole() {
    let script = "{ replies: [{ parts: [{ text: 'Hello there.' }], repeat: true }] }";
    for earlier in [0, 1, 3] {
        let world = world(script, &format!("agents: {{ defaults: {{ model: 'scripted/narrow' }} }} {FILES}"));
        for _ in 0..earlier {
            world.ask(&"apple ".repeat(200)).await;
        }
        for words in [1_500, 2_000, 2_500] {
            let long = format!("begin {} end", (0..words).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" "));
            let outcome = world.ask(&long).await;
            let last = world.server.requests().len() - 1;
            match outcome.status {
                Status::Ok => assert!(sent(&world, last).contains(&long), "{earlier} {words}"),
                _ => {
                    assert!(outcome.error.is_some_and(|error| error.contains("alone is too long")), "{earlier} {words}")
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_compaction_an_overflow_is_told() {
    let off = "agents: { defaults: { model: 'scripted/narrow', compaction: { enabled: false } } }";
    let world = world(&in_order(&[counted("One.", 7_000), text("Two."), OVERFLOW.into(), text("Fruit.")]), off);
    filled(&world).await;
    let outcome = world.ask("And now?").await;
    assert_eq!(outcome.error_kind.as_deref(), Some("context_overflow"));
    assert_eq!(world.server.requests().len(), 3);
    assert!(world.ask("/compact").await.text().contains("compacted"), "the user may want it all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_again_and_again_after_a_compaction_ends_the_run() {
    let look = |id: &str| format!("{{ parts: [{{ call: {{ id: '{id}', name: 'look', arguments: {{ n: 1 }} }} }}] }}");
    let filling = [counted("One.", 3_000), counted("Two.", 7_000), text("Fruit.")];
    let replies: Vec<String> = filling.into_iter().chain([look("a"), look("b"), look("c"), text("Well.")]).collect();
    let world = world(&in_order(&replies), NARROW);
    filled(&world).await;
    let outcome = world.ask("And now?").await;
    assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some("compaction_loop_persisted")));
    assert!(outcome.error.unwrap().contains("/new"));
    assert_eq!(world.effects.all().len(), 3);
    assert_eq!(world.ask("Stop looking.").await.text(), "Well.", "the session stays usable");
    assert_eq!(world.server.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_too_large_for_another_model_are_shortened() {
    let show = "{ parts: [{ call: { id: 'a', name: 'show', arguments: { bytes: 60000 } } }] }";
    let world = world(&in_order(&[show.into(), text("Much."), text("Looked."), text("Yes.")]), NARROW);
    let run = world.submit(Request { model: Some("scripted/scripted".into()), ..Request::new("Look.") }).await;
    assert_eq!(world.outcome(&run).await.text(), "Much.");
    assert!(sent(&world, 1).len() > 60_000);
    // The model of the agent has a window of 8000.
    let outcome = world.ask("Sure?").await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    let last = world.server.requests().len() - 1;
    assert!(sent(&world, last).len() < 30_000, "{}", sent(&world, last).len());
    assert_eq!(world.server.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_longer_than_the_window_is_summarized_in_parts() {
    let replies = [
        text("One."),
        text("Two."),
        text("Part 1."),
        text("Part 2."),
        text("Part 3."),
        text("Part 4."),
        text("Three."),
    ];
    let world = world(&in_order(&replies), NARROW);
    let wide = async |said: String| {
        let run = world.submit(Request { model: Some("scripted/scripted".into()), ..Request::new(said) }).await;
        world.outcome(&run).await
    };
    wide(format!("apple {}", "word ".repeat(6_000))).await;
    wide(format!("pear {}", "word ".repeat(6_000))).await;
    let outcome = world.ask("And now?").await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    let requests = world.server.requests();
    let parts = requests.len() - 3;
    assert!(parts >= 3, "{parts}");
    for part in 2..requests.len() {
        assert!(sent(&world, part).len() < 4 * 8_000, "request {part} fits the window: {}", sent(&world, part).len());
    }
    assert!(sent(&world, 3).contains("Part 1."), "each part goes on from the summary before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_open_stays_in_sight() {
    let exec = "{ parts: [{ call: { id: 'x', name: 'exec', arguments: { code: \"await yield_control('later'); return 'x'.repeat(5)\" } } }] }";
    let look = "{ call: { id: 'b', name: 'exec', arguments: { code: 'return 5' } } }";
    let look = format!("{{ parts: [{look}], usage: {{ input: 7000, output: 10 }} }}");
    let replies = [text("One."), exec.into(), look, text("Fruit."), text("Done.")];
    let few = NARROW.replace("memoryFlush", "keepRecentTokens: 20, memoryFlush");
    let world = world(&in_order(&replies), &format!("{few}, tools: {{ codeMode: true }}"));
    world.ask(&format!("apple {}", "word ".repeat(2_000))).await;
    let outcome = world.ask("Go.").await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()), "{outcome:?}");
    assert_eq!(session(&world).await.totals.compactions, 1);
    for (number, request) in world.server.requests().iter().enumerate().skip(2) {
        let is_summary = request.body["tools"].as_array().is_none_or(Vec::is_empty);
        assert!(is_summary || request.text.contains("runId cm_"), "request {number}: {}", request.text);
    }
    assert_eq!(world.server.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_the_id_of_one_that_was_cut_off_is_a_call_of_its_own() {
    // Some models number their calls anew in each reply.
    let choose = |input: u64| {
        let call = "{ call: { id: 'call_0', name: 'choose', arguments: {} } }";
        format!("{{ parts: [{call}], usage: {{ input: {input}, output: 10 }} }}")
    };
    let look = "{ parts: [{ call: { id: 'call_1', name: 'look', arguments: { n: 1 } } }], usage: { input: 7000, output: 10 } }";
    let replies = [counted("One.", 3_000), choose(1_000), look.into(), text("Fruit."), choose(1_000), text("Both.")];
    let few = NARROW.replace("memoryFlush", "keepRecentTokens: 20, memoryFlush");
    let world = world(&format!("{{ replies: [{}] }}", replies.join(", ")), &few);
    world.ask(&format!("apple {}", "word ".repeat(500))).await;
    let parameters = json!({ "type": "object" });
    let tool = ClientTool { name: "choose".into(), description: "Chooses.".into(), parameters };
    let run = world.submit(Request { client_tools: vec![tool], ..Request::new("Choose twice.") }).await;
    let mut answered = Vec::new();
    let last = loop {
        let outcome = world.outcome(&run).await;
        if outcome.status != Status::Waiting {
            break outcome;
        }
        for call in &outcome.client_calls {
            assert!(!answered.contains(&call.call_id), "{call:?} has an answer");
            answered.push(call.call_id.clone());
            let said = Ok(json!(format!("choice {}", answered.len())));
            world.agent.answer_client(USER, &run, &call.call_id, said).await.expect("answered");
        }
    };
    assert_eq!((last.text(), answered.len()), ("Both.".to_owned(), 2), "{last:?}");
    assert!(sent(&world, 5).contains("choice 2"), "{}", sent(&world, 5));
    assert_eq!(session(&world).await.totals.compactions, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_whole_although_another_process_ends_the_run_after_a_compaction() {
    let look = |id: &str, input: u64| {
        let call = format!("{{ call: {{ id: '{id}', name: 'look', arguments: {{ n: 1 }} }} }}");
        format!("{{ parts: [{{ text: 'I look at {id}.' }}, {call}], usage: {{ input: {input}, output: 10 }} }}")
    };
    let gate = "{ parts: [{ text: 'I wait.' }, { call: { id: 'b', name: 'again', arguments: { n: 2 } } }] }";
    let world =
        world(&in_order(&[look("x", 1_000), look("y", 7_000), text("Fruit."), gate.into(), text("Done.")]), NARROW);
    let run = world.send("Do both.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    other.gate.add_permits(1);
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    let texts: Vec<&str> = outcome.result.payloads.iter().map(|payload| payload.text.as_str()).collect();
    assert_eq!(texts, ["I look at x.", "I look at y.", "I wait.", "Done."], "{outcome:?}");
    assert_eq!(session(&other).await.totals.compactions, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fallback_is_asked_instead_of_a_compaction() {
    let chain = "agents: { defaults: { model: { primary: 'scripted/scripted', fallbacks: ['messages/scripted'] } } }";
    let replies = [text("One."), text("Two."), OVERFLOW.into(), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), chain);
    filled(&world).await;
    let outcome = world.ask(&format!("And now? {}", "well ".repeat(800))).await;
    assert_eq!(outcome.text(), "Three.", "{outcome:?}");
    assert!(world.server.requests().iter().all(|request| request.path.ends_with("/chat/completions")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_the_window_cuts_off_before_it_says_anything_is_asked_for_again() {
    let full = "{ parts: [], stop: 'window' }";
    let replies = [text("One."), text("Two."), full.into(), text("Fruit."), text("Three.")];
    let world = world(&in_order(&replies), "agents: { defaults: { model: 'messages/scripted' } }");
    filled(&world).await;
    let outcome = world.ask(&format!("And now? {}", "well ".repeat(800))).await;
    assert_eq!(outcome.text(), "Three.", "{outcome:?}");
    assert_eq!(session(&world).await.totals.compactions, 1);
}
