//! The silent turn before a compaction.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pincer_agent::{Request, Status, Stream};

use crate::compaction::{counted, in_order, sent};
use crate::world::{FILES, World, text, world};

const MODEL: &str = "agents: { defaults: { model: 'scripted/narrow' } }, tools: { allow: ['openclaw:core:write', 'openclaw:core:read'] }";
const NOTE: &str = "{ parts: [{ text: 'I note it.' }, { call: { id: 'w', name: 'write', arguments: { path: 'memory/notes.md', content: 'Apples.' } } }] }";

fn with_files(replies: &[String]) -> World {
    world(&in_order(replies), &format!("{MODEL} {FILES}"))
}

fn memory(world: &World) -> Option<String> {
    fs::read_to_string(world.directory.path().join("workspace/memory/notes.md")).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_writes_notes_before_a_compaction_and_no_person_is_told() {
    let replies = [
        counted("One.", 5_000),
        // In sight of the limit, which is at 6000.
        NOTE.into(),
        counted("NO_REPLY", 5_200),
        counted("Two.", 5_500),
        counted("Three.", 7_000),
        text("Fruit."),
        text("Four."),
    ];
    let world = with_files(&replies);
    world.ask("apple").await;
    let run = world.send("pear").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Two.".to_owned()), "{outcome:?}");
    assert_eq!(memory(&world).as_deref(), Some("Apples."), "{}", sent(&world, 2));
    let events = world.events(&run, 1).await;
    let told: Vec<&str> =
        events.iter().filter(|event| event.stream == Stream::Assistant).map(|event| event.text("text")).collect();
    assert!(told.iter().all(|text| "Two.".starts_with(text)), "{told:?}");
    // It stays in the transcript, and the model goes on with what the user asked.
    let entries = world.entries().await;
    assert!(entries.contains(&"assistant: NO_REPLY".to_owned()), "{entries:?}");
    assert!(sent(&world, 3).contains("pear") && sent(&world, 3).contains("Now go on"), "{}", sent(&world, 3));
    // Once between two compactions.
    assert_eq!(world.ask("plum").await.text(), "Three.");
    assert_eq!(world.ask("fig").await.text(), "Four.");
    assert_eq!(world.server.requests().len(), 7);
    assert_eq!(world.server.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_notes_without_a_way_to_write_them() {
    let replies = || [counted("One.", 5_000), counted("Two.", 5_500)];
    // No tools at all.
    let world = with_files(&replies());
    world.ask("apple").await;
    let run = world.submit(Request { disable_tools: true, ..Request::new("pear") }).await;
    assert_eq!(world.outcome(&run).await.text(), "Two.");
    // None that writes.
    let reading = MODEL.replace("'openclaw:core:write', ", "");
    let world = crate::world::world(&in_order(&replies()), &format!("{reading} {FILES}"));
    world.ask("apple").await;
    assert_eq!(world.ask("pear").await.text(), "Two.");
    // A workspace that only can be read.
    let world = with_files(&replies());
    let workspace = world.directory.path().join("workspace");
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o555)).unwrap();
    world.ask("apple").await;
    assert_eq!(world.ask("pear").await.text(), "Two.");
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_that_fail_do_not_fail_the_run() {
    for reply in [
        "{ parts: [] }",
        "{ status: 401, error: { message: 'no' } }",
        "{ status: 400, error: { code: 'context_length_exceeded', message: 'Too long.' } }",
    ] {
        let is_overflow = reply.contains("context_length");
        let mut replies = vec![counted("One.", 5_000), reply.into()];
        replies.extend(is_overflow.then(|| text("Fruit.")));
        replies.push(text("Two."));
        let world = with_files(&replies);
        world.ask("apple").await;
        let outcome = world.ask("pear").await;
        assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Two.".to_owned()), "{reply}: {outcome:?}");
    }
}
