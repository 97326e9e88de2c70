//! The `message` tool in the runs of an agent.

use pincer_channels::Receipt;
use pincer_store::{DeliverySource, DeliveryState};
use serde_json::{Value, json};

use crate::world::{USER, World, from, text, within};

fn call(arguments: &Value) -> String {
    format!("{{ parts: [{{ call: {{ id: 'c1', name: 'message', arguments: {arguments} }} }}] }}")
}

/// Has the model make this call, and returns what came of it.
async fn made(world: &World, id: &str) -> Value {
    let Receipt::Accepted { run, .. } = world.fake.receives(from("ann", id, "Go.")).await else { panic!("not taken") };
    within(world.agent.outcome(USER, &run)).await.unwrap();
    let requests = world.server.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    messages.iter().rfind(|message| message["role"] == "tool").unwrap()["content"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_goes_to_the_conversation_of_its_run_before_the_answer() {
    let world = World::new(&[call(&json!({ "action": "send", "text": "One moment." })), text("Done.")]);
    let result = made(&world, "m1").await;
    assert!(result.to_string().contains("sent"), "{result}");
    assert_eq!(world.fake.texts(2).await, ["One moment.", "Done."]);
    let all = world.deliveries().await;
    let by_tool = all.iter().find(|delivery| delivery.source == DeliverySource::Tool).unwrap();
    assert_eq!((by_tool.route.to.as_str(), by_tool.state), ("ann", DeliveryState::Sent));
    let texts = world.agent.sent_texts(USER, by_tool.run.as_ref().unwrap()).await.unwrap();
    assert_eq!(texts.iter().map(|sent| sent.text.as_str()).collect::<Vec<_>>(), ["One moment."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_to_the_conversation_is_not_answered_again() {
    let replies = [call(&json!({ "text": "It is done." })), text("It is  done."), text("Next.")];
    let world = World::new(&replies);
    made(&world, "m1").await;
    world.fake.receives(from("ann", "m2", "And now?")).await;
    assert_eq!(world.fake.texts(2).await, ["It is done.", "Next."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_text_that_was_sent_no_failed_call_is_told() {
    let fails = call(&json!({ "to": "ben", "text": "Hello." }));
    let sends = call(&json!({ "text": "I could not reach ben." }));
    let silence = text("NO_REPLY");
    let world = World::new(&[sends, fails.clone(), silence.clone(), text("Next."), fails, silence]);
    for id in ["m1", "m2", "m3"] {
        made(&world, id).await;
    }
    let told = world.fake.texts(3).await;
    assert_eq!(told[..2], ["I could not reach ben.", "Next."]);
    assert!(told[2].starts_with("message failed: "), "without such a text it is told: {told:?}");
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_goes_to_other_places_only_if_the_config_allows_it() {
    let to = |to: &str| call(&json!({ "to": to, "text": "Hello." }));
    let replies = [to("#lounge"), text("Done."), to("ben"), text("Done.")];
    let world = World::with(&replies, "allowFrom: ['ann'], allowTo: ['#lounge']", "");
    let result = made(&world, "m1").await;
    assert!(result.to_string().contains("#lounge"), "{result}");
    let result = made(&world, "m2").await;
    assert!(result.to_string().contains("does not allow sending to ben"), "{result}");
    let mut places: Vec<(String, String)> =
        world.fake.sent(3).await.into_iter().map(|sent| (sent.route.to, sent.text)).collect();
    places.sort();
    let expected = [("#lounge", "Hello."), ("ann", "Done."), ("ann", "Done.")];
    assert_eq!(places, expected.map(|(to, text)| (to.to_owned(), text.to_owned())));
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_made_again_after_a_crash_sends_once() {
    let world = World::new(&[call(&json!({ "text": "One moment." })), text("Done.")]);
    world.fake.shut();
    world.fake.receives(from("ann", "m1", "Go.")).await;
    // The text is stored, and the call waits for it to be sent.
    world.fake.begun(1).await;
    let dead = world.dies().await;
    let next = dead.another(4000);
    assert_eq!(next.fake.texts(2).await, ["One moment.", "Done."]);
    let all = next.deliveries().await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(next.server.requests().len(), 2, "the reply with the call was stored");
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_is_there_in_runs_of_agents_only() {
    let world = World::new(&[]);
    let runtime = world.agent.runtime();
    let request = pincer_runtime::ScopeRequest::new(pincer_runtime::Principal::new(USER), "main");
    let has_it = |audience| {
        let scope = runtime.scope(&pincer_runtime::ScopeRequest { audience, ..request.clone() }).unwrap();
        runtime.tools(&scope).catalog().iter().any(|entry| entry.id.to_string() == "openclaw:core:message")
    };
    use pincer_runtime::Audience::{AgentRun, Client, Operator};
    assert_eq!([AgentRun, Operator, Client].map(has_it), [true, false, false]);
    world.ends().await;
}
