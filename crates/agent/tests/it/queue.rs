//! Messages for a session that is busy.

use pincer_agent::{QueueMode, Request, Status};

use crate::world::{USER, World, calls, conversation, text, world};

fn queued(mode: QueueMode, text: &str) -> Request {
    Request { queue: Some(mode), ..Request::new(text) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_steers_the_run_that_goes_on() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("As you say.")]), "");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let second = world.send("No, the other one.").await;
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&first).await.text(), "As you say.");
    assert_eq!(world.outcome(&second).await.text(), "As you say.", "it became part of the first");
    assert_eq!(
        world.entries().await,
        ["user: Begin.", "assistant: call gate", "result c1", "user: No, the other one.", "assistant: As you say."]
    );
    let events = world.events(&second, 1).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].text("mergedInto"), first.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_order_that_have_not_begun_give_way_to_a_message() {
    let world = world(&conversation(&[calls(&[("slow", 1), ("slow", 2), ("look", 3)]), text("Ok.")]), "");
    let run = world.send("Begin.").await;
    world.busy(1).await;
    world.send("Stop after this one.").await;
    world.gate.add_permits(2);
    assert_eq!(world.outcome(&run).await.status, Status::Ok);
    assert_eq!(world.effects.all(), ["look 3", "slow 1"], "what runs beside them was begun with the first");
    let second = world.server.requests()[1].body["messages"].clone();
    assert_eq!(second[4]["content"], "Skipped to process an incoming message.");
    assert_eq!(second[6]["content"], "Stop after this one.", "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn followups_are_answered_one_by_one_and_collected_ones_together() {
    for (mode, answers, count) in
        [(QueueMode::Followup, ["Two.", "Three."], 4), (QueueMode::Collect, ["Two.", "Two."], 3)]
    {
        let script = conversation(&[calls(&[("gate", 1)]), text("One."), text("Two."), text("Three.")]);
        let world = world(&script, "messages: { queue: { debounceMs: 50 } }");
        let first = world.send("Begin.").await;
        world.busy(1).await;
        let second = world.submit(queued(mode, "b")).await;
        let third = world.submit(queued(mode, "c")).await;
        world.gate.add_permits(1);
        assert_eq!(world.outcome(&first).await.text(), "One.");
        let told = [world.outcome(&second).await.text(), world.outcome(&third).await.text()];
        assert_eq!(told, answers, "{mode:?}");
        assert_eq!(world.server.requests().len(), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_has_its_own_queue_mode_and_quiet_time() {
    // With the quiet time of all, none of the messages that are collected would ever be answered.
    let queue = "messages: { queue: { mode: 'followup', debounceMs: 600000, byChannel: { wire: 'collect' }, \
                 debounceMsByChannel: { wire: 50 } } }";
    for (channel, answers, count) in [("wire", ["Two.", "Two."], 3), ("irc", ["Two.", "Three."], 4)] {
        let script = conversation(&[calls(&[("gate", 1)]), text("One."), text("Two."), text("Three.")]);
        let world = world(&script, queue);
        let by = |text: &str| Request { channel: Some(channel.into()), ..Request::new(text) };
        let first = world.submit(by("a")).await;
        world.busy(1).await;
        let second = world.submit(by("b")).await;
        let third = world.submit(by("c")).await;
        world.gate.add_permits(1);
        assert_eq!(world.outcome(&first).await.text(), "One.");
        let told = [world.outcome(&second).await.text(), world.outcome(&third).await.text()];
        assert_eq!((told, world.server.requests().len()), (answers.map(str::to_owned), count), "{channel}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_run_and_comes_next() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("The new one."), text("The old one.")]), "");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let waiting = world.submit(queued(QueueMode::Followup, "later")).await;
    let third = world.submit(queued(QueueMode::Interrupt, "now")).await;
    let stopped = world.outcome(&first).await;
    assert_eq!((stopped.status, stopped.stop_reason.as_deref()), (Status::Error, Some("aborted")));
    assert_eq!(world.outcome(&third).await.text(), "The new one.");
    assert_eq!(world.outcome(&waiting).await.text(), "The old one.");
    assert_eq!(world.effects.all(), [""; 0]);
    let messages = world.server.requests()[1].body["messages"].to_string();
    assert!(messages.contains("aborted") || messages.contains("stopped"), "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_in_the_queue_is_told_or_refused() {
    let config = |drop: &str| format!("messages: {{ queue: {{ mode: 'followup', cap: 1, drop: '{drop}' }} }}");
    let script = conversation(&[calls(&[("gate", 1)]), text("One."), text("Two.")]);
    for drop in ["old", "new", "summarize"] {
        let world = world(&script, &config(drop));
        let first = world.send("Begin.").await;
        world.busy(1).await;
        let second = world.send("secret plan").await;
        let third = world.agent.submit(USER, &world.key(), Request::new("third"), None).await;
        world.gate.add_permits(1);
        assert_eq!(world.outcome(&first).await.status, Status::Ok);
        let told = |world: &World| world.server.requests()[2].body["messages"].to_string();
        match drop {
            "new" => {
                assert!(third.unwrap_err().to_string().contains("1 messages wait"));
                assert_eq!(world.outcome(&second).await.text(), "Two.");
            }
            _ => {
                let dropped = world.outcome(&second).await;
                assert!(dropped.error.unwrap().contains("gave way"));
                assert_eq!(world.outcome(&third.unwrap().run_id).await.text(), "Two.");
                assert_eq!(told(&world).contains("- secret plan"), drop == "summarize", "{drop}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_in_messages_are_obeyed() {
    let world = world(&conversation(&[text("One."), text("Two.")]), "");
    assert_eq!(world.ask("Hello.").await.text(), "One.");
    let status = world.ask("/status").await.text();
    assert!(status.contains("Session main: idle") && status.contains("scripted/scripted"), "{status}");
    assert!(world.ask("/think high").await.text().contains("Thinking is high"));
    assert!(world.ask("/queue collect").await.text().contains("collect"));
    assert!(world.ask("/stop").await.text().contains("Nothing was going on"));
    let wrong = world.agent.submit(USER, &world.key(), Request::new("/model nobody/x"), None).await;
    assert!(wrong.unwrap_err().to_string().contains("there is no provider `nobody`"));
    // A new conversation begins with the rest of the message: the script begins anew too.
    assert_eq!(world.ask("/new Hello again.").await.text(), "One.");
    assert_eq!(world.entries().await, ["user: Hello again.", "assistant: One."]);
    assert_eq!(world.server.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_reaches_the_tool_and_leaves_a_readable_transcript() {
    let world = world(&conversation(&[calls(&[("gate", 1), ("look", 2)]), text("Again.")]), "");
    let run = world.send("Begin.").await;
    world.busy(1).await;
    let began = std::time::Instant::now();
    assert!(world.ask("/stop").await.text().contains("Stopped"));
    let outcome = world.outcome(&run).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(outcome.stop_reason.as_deref(), Some("aborted"));
    assert_eq!(world.ask("And now?").await.text(), "Again.");
    let messages = world.server.requests()[1].body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool").count();
    assert_eq!(results, 2, "every call has a result");
}
