//! Every way of a text to a model or to a person leads past the hooks: messages that join a run or gave way, turns that are silent, replies
//! that are cut off or revised.

use pincer_agent::{Request, Status};
use pincer_hooks::HookError;
use pincer_hooks::events::*;
use pincer_store::{Route, Sessions};
use pincer_tools::hooks::{BeforeToolCall, BeforeVerdict, Hook};
use pincer_tools::{Matcher, Plugin};
use serde_json::Value;

use crate::compaction::{counted, in_order};
use crate::hooks::{Log, hook, observe, seen, sent};
use crate::world::{FILES, USER, World, calls, conversation, text, world};

fn withholds_secrets(world: &World) {
    hook(world, |event: &BeforeMessageWrite| {
        let block = event.message.to_string().contains("SECRET").then_some(true);
        Ok(MessageWriteAnswer { block, message: None })
    });
}

fn by(sender: &str, text: &str) -> Request {
    Request { sender: Some(sender.into()), ..Request::new(text) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_is_asked_about_a_message_that_would_join_a_run_and_what_it_blocks_reaches_no_model() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One."), text("Three.")]), "");
    hook(&world, |event: &BeforeAgentRun| {
        let outcome = if event.prompt.contains("BAD") { RunOutcome::Block } else { RunOutcome::Pass };
        Ok(RunAnswer { outcome, ..RunAnswer::default() })
    });
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let second = world.send("BAD words").await;
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&first).await.text(), "One.");
    assert_eq!(world.outcome(&second).await.error_kind.as_deref(), Some("blocked"));
    assert_eq!(world.ask("third").await.status, Status::Ok);
    let all: String = (0..world.server.requests().len()).flat_map(|request| sent(&world, request)).collect();
    assert!(all.contains("third") && all.contains("user: [withheld by a hook]") && !all.contains("BAD"), "{all}");
    let store = world.agent.runtime().store();
    let session = store.current_session(USER, &world.key()).await.unwrap().unwrap();
    let context = store.context(&session.id).await.unwrap();
    assert!(context.iter().all(|entry| !entry.body.contains("BAD")), "it is on a branch of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_see_all_messages_that_became_one_run() {
    let queue = "messages: { queue: { mode: 'collect', debounceMs: 0 } }";
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One."), text("Two.")]), queue);
    let log: Log<String> = Log::default();
    let (replies, gate) = (Log::clone(&log), Log::clone(&log));
    hook(&world, move |event: &BeforeAgentReply| {
        replies.lock().unwrap().push(event.cleaned_body.clone());
        Ok(ReplyAnswer::default())
    });
    hook(&world, move |event: &BeforeAgentRun| {
        gate.lock().unwrap().push(event.prompt.clone());
        Ok(RunAnswer::default())
    });
    let first = world.send("Begin.").await;
    world.busy(1).await;
    world.send("ping").await;
    let last = world.send("please cancel my order").await;
    world.gate.add_permits(1);
    world.outcome(&first).await;
    world.outcome(&last).await;
    let both = "ping\n\nplease cancel my order";
    assert_eq!(seen(&log), ["Begin.", "Begin.", both, both]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_gave_way_is_told_only_to_a_run_with_its_rights_and_past_the_hook() {
    let queue = "messages: { queue: { mode: 'followup', cap: 1, drop: 'summarize' } }";
    let replies = [calls(&[("gate", 1)]), text("One."), text("Two."), text("Three.")];
    let world = world(&conversation(&replies), queue);
    withholds_secrets(&world);
    world.submit(by("ann", "Begin.")).await;
    world.busy(1).await;
    world.submit(by("ben", "please wipe the disk")).await;
    world.submit(by("ann", "my SECRET code")).await;
    let last = world.submit(by("ann", "go on")).await;
    world.gate.add_permits(1);
    world.outcome(&last).await;
    let told = sent(&world, 2).join("\n");
    assert!(told.contains("- [withheld by a hook]") && told.contains("go on"), "{told}");
    assert!(!told.contains("wipe") && !told.contains("SECRET"), "{told}");
    // The next run of its sender is told of it.
    let bens = world.submit(by("ben", "Hello?")).await;
    world.outcome(&bens).await;
    assert!(sent(&world, 3).join("\n").contains("- please wipe the disk"), "{:?}", sent(&world, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_a_reply_that_was_stopped_is_told_as_it_was_written() {
    let reply = "{ parts: [{ text: 'The SECRET is out. And there is more to say.' }], wire: { stallAfter: 3 } }";
    let world = world(&conversation(&[reply.into()]), "");
    withholds_secrets(&world);
    let run = world.send("Begin.").await;
    world.server.stalled(0).await;
    let mut events = world.agent.events(USER, &run, 1).await.expect("events");
    while let Some(event) = events.next().await.expect("an event") {
        if event.text("text").contains("SECRET") {
            break;
        }
    }
    world.ask("/stop").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.text(), "[withheld by a hook]", "{outcome:?}");
}

const NOTES: &str = "agents: { defaults: { model: 'scripted/narrow' } }, tools: { allow: ['openclaw:core:write', 'openclaw:core:read'] }, \
                     approvals: { rules: [{ match: 'write', decision: 'ask' }] }";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_silent_turn_is_told_and_nobody_is_asked_for_it() {
    let note = "{ parts: [{ call: { id: 'w', name: 'write', arguments: { path: 'memory/a.md', content: 'x' } } }, \
                 { call: { id: 'r', name: 'read', arguments: { path: 'nope.md' } } }] }";
    let replies =
        [counted("One.", 5_000), note.into(), counted("NO_REPLY", 5_200), counted("NO_REPLY", 5_500), text("Bye.")];
    let world = world(&in_order(&replies), &format!("{NOTES} {FILES}"));
    world.ask("apple").await;
    let run = world.submit(Request { verbose: Some(pincer_agent::Verbose::Full), ..Request::new("pear") }).await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.approvals.len()), (Status::Ok, 0), "{outcome:?}");
    assert!(outcome.result.payloads.is_empty(), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_for_a_summary_is_told_like_any_other() {
    let narrow = crate::compaction::NARROW;
    let word = "word ".repeat(400);
    let replies = [text("One."), text("Two."), text("Three."), text("Fruit."), text("Four.")];
    let world = world(&in_order(&replies), narrow);
    let inputs = observe(&world, |event: &LlmInput| Value::from(event.history_messages.clone()).to_string());
    let outputs = observe(&world, |event: &LlmOutput| event.assistant_texts.concat());
    for fruit in ["apple", "pear", "plum"] {
        world.ask(&format!("{fruit} {word}")).await;
    }
    world.ask("/compact").await;
    world.agent.close().await;
    let (inputs, outputs) = (seen(&inputs), seen(&outputs));
    assert_eq!((inputs.len(), inputs.len()), (world.server.requests().len(), outputs.len()));
    assert_eq!(outputs.last().unwrap(), "Fruit.");
    assert!(inputs.last().unwrap().contains("apple"), "{inputs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_about_tools_know_for_whom_a_call_is_made() {
    let world =
        world(&conversation(&[calls(&[("mark", 1)]), text("Done.")]), "channels: { irc: { allowFrom: ['ann'] } },");
    let log: Log<Value> = Log::default();
    let kept = Log::clone(&log);
    let hook = pincer_hooks::FnHook(move |event: &BeforeToolCall| -> Result<BeforeVerdict, HookError> {
        kept.lock().unwrap().push(serde_json::to_value(event).unwrap());
        Ok(BeforeVerdict::default())
    });
    let hook = Hook {
        name: "of the test".into(),
        matcher: Matcher::default(),
        priority: 0,
        timeout: std::time::Duration::from_secs(20),
        hook: std::sync::Arc::new(hook),
    };
    let plugin = Plugin { id: "watching".into(), hooks: vec![hook], ..Plugin::default() };
    world.agent.runtime().door().register(plugin).expect("registered");
    let route = Route { channel: "irc".into(), to: "ann".into(), ..Route::default() };
    let request = Request { channel: Some("irc".into()), route: Some(route), ..by("irc:ann", "Do it.") };
    let run = world.submit(request).await;
    world.outcome(&run).await;
    let event = seen(&log).remove(0);
    let of = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
    assert_eq!((of("sessionKey"), of("runId")), (world.key().to_string(), run.to_string()), "{event}");
    assert_eq!((of("channelId"), of("senderId")), ("irc".to_owned(), "irc:ann".to_owned()), "{event}");
}
