//! Replies as the user is told of them: silence, thoughts, blocks, calls and failures.

use pincer_agent::{PayloadKind, Reasoning, Request, Status, Stream, Verbose};

use crate::world::{USER, World, calls, conversation, text, within, world};

/// A reply that comes in small pieces.
fn in_pieces(text: &str) -> String {
    format!("{{ parts: [{{ text: {text:?} }}], pieces: 3, wire: {{ everyMs: 1 }} }}")
}

async fn told(world: &World, request: Request) -> (pincer_agent::RunOutcome, Vec<(Stream, String)>) {
    let run = world.submit(request).await;
    let events = world.events(&run, 1).await;
    let texts = events.iter().map(|event| {
        let piece = if event.stream == Stream::Block { event.text("text") } else { event.text("delta") };
        (event.stream, piece.to_owned())
    });
    (world.outcome(&run).await, texts.collect())
}

fn of(told: &[(Stream, String)], stream: Stream) -> Vec<&str> {
    told.iter().filter(|(of, _)| *of == stream).map(|(_, text)| text.as_str()).collect()
}

fn payloads(outcome: &pincer_agent::RunOutcome) -> Vec<(PayloadKind, bool, &str)> {
    outcome.result.payloads.iter().map(|payload| (payload.kind, payload.is_error, payload.text.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_answer_is_told_nowhere_and_a_silent_word_at_the_end_never_shows() {
    let world = world(&conversation(&[in_pieces("NO_REPLY"), in_pieces("It is done. NO_REPLY")]), "");
    let (outcome, events) = told(&world, Request::new("Hi")).await;
    assert_eq!((outcome.status, outcome.result.payloads.len()), (Status::Ok, 0));
    assert!(of(&events, Stream::Assistant).is_empty(), "{events:?}");
    assert_eq!(world.entries().await[1], "assistant: NO_REPLY", "the model reads what it said");

    let run = world.send("Hi again").await;
    let live = world.events(&run, 1).await;
    let texts: String =
        live.iter().filter(|event| event.stream == Stream::Assistant).map(|event| event.text("delta")).collect();
    assert_eq!(texts.trim(), "It is done.");
    assert_eq!(world.outcome(&run).await.text(), "It is done.");
    let again = world.events(&run, 1).await;
    assert!(again.iter().all(|event| !event.text("text").contains("NO_")), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_are_a_stream_or_a_part_of_the_answer_or_nowhere() {
    let thinks = "{ parts: [{ thinking: 'Let me see.' }, { text: 'Yes.' }] }".to_owned();
    let world = world(&conversation(&[thinks.clone(), thinks.clone(), thinks.clone(), thinks]), "");
    let with =
        |reasoning| Request { reasoning: Some(reasoning), model: Some("messages/m".into()), ..Request::new("Hi") };
    let (outcome, events) = told(&world, with(Reasoning::Stream)).await;
    assert_eq!(of(&events, Stream::Thinking).concat(), "Let me see.");
    assert_eq!(payloads(&outcome), [(PayloadKind::Text, false, "Yes.")]);
    let (outcome, _) = told(&world, with(Reasoning::On)).await;
    assert_eq!(payloads(&outcome), [(PayloadKind::Thinking, false, "Let me see."), (PayloadKind::Text, false, "Yes.")]);
    assert_eq!(outcome.text(), "Yes.");
    let (outcome, events) = told(&world, with(Reasoning::Off)).await;
    assert!(of(&events, Stream::Thinking).is_empty() && outcome.result.payloads.len() == 1);
    // The session's own setting.
    world.send("/reasoning on").await;
    let (outcome, _) = told(&world, Request { model: Some("messages/m".into()), ..Request::new("Hi") }).await;
    assert_eq!(outcome.result.payloads.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_part_of_the_answer_if_wished_for_and_stay_so_after_a_wait() {
    let script = conversation(&[calls(&[("look", 1)]), calls(&[("mark", 2)]), text("Done.")]);
    let world = world(&script, "approvals: { rules: [{ match: 'mark', decision: 'ask' }] },");
    let run = world.submit(Request { verbose: Some(Verbose::On), ..Request::new("Do it.") }).await;
    let waiting = world.outcome(&run).await;
    let approval = waiting.approvals[0].approval_id.clone();
    world.dies().await;
    let later = world.another();
    later.agent.engage(USER, &later.key());
    later.agent.answer(&approval, pincer_tools::Answer::AllowOnce, "me").await.expect("answered");
    within(later.agent.wait(USER, &run, std::time::Duration::from_secs(60))).await.expect("ended");
    let outcome = later.outcome(&run).await;
    assert_eq!(
        payloads(&outcome),
        [
            (PayloadKind::Tool, false, "look (done): {\"did\":1}"),
            (PayloadKind::Tool, false, "mark (done): {\"did\":2}"),
            (PayloadKind::Text, false, "Done."),
        ]
    );
    assert_eq!(outcome.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_is_told_if_nothing_else_is() {
    let world = world(
        &conversation(&[
            calls(&[("fail", 1)]),
            text("NO_REPLY"),
            calls(&[("fail", 2)]),
            calls(&[("mark", 3)]),
            text("NO_REPLY"),
        ]),
        "",
    );
    let outcome = world.ask("Do it.").await;
    assert_eq!(payloads(&outcome), [(PayloadKind::Text, true, "fail failed: it is broken")]);
    let outcome = world.ask("Do it otherwise.").await;
    assert!(outcome.result.payloads.is_empty(), "a later call worked: {outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_told_in_blocks_that_keep_code_fences_whole() {
    let reply = format!(
        "{}\n\n```rust\n{}```\n\n{}",
        "A sentence of some length. ".repeat(8),
        "let x = 1;\n".repeat(6),
        "The end. ".repeat(20)
    );
    let config = "agents: { defaults: { model: 'scripted/scripted', blockStreamingDefault: 'on', \
                  blockStreamingChunk: { minChars: 60, maxChars: 240, breakPreference: 'paragraph' } } },";
    let world = world(&conversation(&[in_pieces(&reply), in_pieces(&reply)]), config);
    let (outcome, events) = told(&world, Request::new("Hi")).await;
    let blocks = of(&events, Stream::Block);
    assert!(blocks.len() > 2, "{blocks:?}");
    let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(folded(&blocks.join("\n")), folded(&reply));
    assert!(blocks.iter().all(|block| block.matches("```").count() % 2 == 0), "{blocks:?}");
    assert_eq!(folded(&outcome.text()), folded(&reply));
}

const BLOCKS: &str = "One one one.\n\nTwo two two.\n\nThree three.\n\nFour four.";

/// A world that cuts replies into blocks, with these settings besides.
fn in_blocks(replies: &[String], more: &str) -> World {
    let config = format!(
        "agents: {{ defaults: {{ model: 'scripted/scripted', blockStreamingDefault: 'on', \
         blockStreamingChunk: {{ minChars: 5, maxChars: 40, breakPreference: 'paragraph' }}, {more} }} }},"
    );
    world(&conversation(replies), &config)
}

/// The events of a reply after a call, all of them as they happen: blocks are not stored.
async fn seen(more: &str) -> (pincer_agent::RunOutcome, Vec<(Stream, String)>) {
    let world = in_blocks(&[calls(&[("gate", 1)]), in_pieces(BLOCKS)], more);
    let run = world.send("Hi").await;
    world.busy(1).await;
    let mut reader = world.agent.events(USER, &run, 1).await.expect("events");
    world.gate.add_permits(1);
    let mut events = Vec::new();
    while let Some(event) = within(reader.next()).await.expect("read") {
        events.push((event.stream, event.text("text").to_owned()));
    }
    (world.outcome(&run).await, events)
}

/// The first block of a reply that never ends.
async fn first_block(more: &str) -> String {
    let stalls = format!("{{ parts: [{{ text: {BLOCKS:?} }}], pieces: 3, wire: {{ stallAfter: 10 }} }}");
    let world = in_blocks(&[stalls], more);
    let run = world.send("Hi").await;
    let mut reader = world.agent.events(USER, &run, 1).await.expect("events");
    loop {
        let event = within(reader.next()).await.expect("read").expect("a block");
        if event.stream == Stream::Block {
            world.send("/stop").await;
            return event.text("text").to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_come_as_soon_as_they_are_complete_or_when_the_reply_has_ended() {
    assert_eq!(first_block("").await, "One one one.");
    assert_eq!(first_block("blockStreamingBreak: 'text_end'").await, "One one one.");
    let (outcome, events) = seen("blockStreamingBreak: 'message_end'").await;
    assert_eq!(outcome.text(), BLOCKS);
    let first = events.iter().position(|(of, _)| *of == Stream::Block).expect("a block");
    let last = events.iter().rposition(|(of, _)| *of == Stream::Assistant).expect("a text");
    assert!(first > last, "{events:?}");
    assert!(of(&events, Stream::Block).last().unwrap().ends_with("Four four."), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_blocks_wait_for_the_next_ones_until_they_are_large_enough_or_the_time_is_over() {
    let (one, two, three) = ("One one one.", "Two two two.", "Three three.");
    let halves = [format!("{one}\n\n{two}"), format!("{three}\n\nFour four.")];
    for (coalesce, expected) in [
        ("minChars: 0, idleMs: 60000", [one, two, three, "Four four."].map(str::to_owned).to_vec()),
        ("minChars: 20, idleMs: 60000", halves.to_vec()),
        ("minChars: 500, idleMs: 60000", vec![BLOCKS.to_owned()]),
    ] {
        let (outcome, events) = seen(&format!("blockStreamingCoalesce: {{ {coalesce} }}")).await;
        assert_eq!(
            (of(&events, Stream::Block), outcome.text()),
            (expected.iter().map(String::as_str).collect(), BLOCKS.into()),
            "{coalesce}"
        );
    }
    assert_eq!(first_block("blockStreamingCoalesce: { minChars: 500, idleMs: 10 }").await, one);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_say_that_a_hook_has_revised_a_reply_and_replay_it_as_void() {
    let answer = r#"{"action":"revise","retry":{"instruction":"Once more, please."}}"#;
    let config = format!("hooks: {{ before_agent_finalize: [{{ command: ['echo', '{answer}'] }}] }},");
    let world = world(&conversation(&[text("First."), text("Second.")]), &config);
    let run = world.send("Hi").await;
    let live = world.events(&run, 1).await;
    assert_eq!(world.outcome(&run).await.text(), "Second.");
    let replayed = world.events(&run, 1).await;
    for events in [live, replayed] {
        let revised: Vec<_> = events.iter().filter(|event| event.text("reason") == "revised").collect();
        assert_eq!(revised.len(), 1, "{events:?}");
        let said = (revised[0].text("text"), &revised[0].data["replace"]);
        assert_eq!(said, ("", &serde_json::json!(true)));
    }
}
