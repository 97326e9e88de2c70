//! The silent turn before a compaction.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    let tools = outcome.result.telemetry.tools.clone().expect("telemetry");
    assert_eq!((tools.requests, outcome.result.telemetry.model_calls), (3, 3), "those of the notes are counted");
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
async fn the_workspace_of_the_run_decides_whether_there_are_notes() {
    let boxed = MODEL.replace("model:", "sandbox: { mode: 'all' }, model:");
    assert_ne!(boxed, MODEL);
    let sandboxed = |replies: &[String]| world(&in_order(replies), &format!("{boxed} {FILES}"));
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // That of the config can only be read, and the session has one of its own.
    let world = sandboxed(&[counted("One.", 5_000), NOTE.into(), counted("NO_REPLY", 5_200), counted("Two.", 5_500)]);
    let usual = world.directory.path().join("workspace");
    set(&usual, 0o555);
    world.ask("apple").await;
    assert_eq!(world.ask("pear").await.text(), "Two.");
    set(&usual, 0o755);
    let own = fs::read_dir(world.directory.path().join("state/sandboxes")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(own.join("memory/notes.md")).unwrap(), "Apples.");
    assert_eq!(memory(&world), None);
    // The other way round: where the session's own is to be made, nothing can be written.
    let world = sandboxed(&[counted("One.", 5_000), counted("Two.", 5_500)]);
    let boxes = world.directory.path().join("state/sandboxes");
    fs::create_dir_all(&boxes).unwrap();
    set(&boxes, 0o555);
    world.ask("apple").await;
    assert_eq!(world.ask("pear").await.text(), "Two.");
    set(&boxes, 0o755);
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
