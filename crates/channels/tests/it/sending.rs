//! Texts on their way out: in order, again until the channel takes them, and in parts.

use std::time::Duration;

use pincer_channels::{Notice, Receipt, SendError};
use pincer_store::{Clock, Deliveries, DeliveryState};

use crate::world::{World, from, text, within};

fn passing(reason: &str) -> Result<Option<String>, SendError> {
    Err(SendError::Passing { reason: reason.into(), retry_after: Some(Duration::ZERO) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_sent_again_until_the_channel_takes_it_and_those_behind_it_wait() {
    let world = World::new(&[]);
    world.fake.will([passing("the server is down"), passing("the server is down")]);
    world.stores("one", "ann", "First.").await;
    world.stores("two", "ann", "Second.").await;
    assert_eq!(world.fake.texts(2).await, ["First.", "Second."]);
    let first = world.settled("dl_one").await;
    assert_eq!((first.state, first.attempts, first.message_id.as_deref()), (DeliveryState::Sent, 3, Some("m")));
    assert_eq!(world.settled("dl_two").await.attempts, 1);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_down_holds_up_no_other_place() {
    let world = World::new(&[]);
    world.fake.shut();
    world.stores("one", "ann", "To Ann.").await;
    world.fake.begun(1).await;
    world.stores("two", "ben", "To Ben.").await;
    world.fake.begun(2).await;
    world.fake.gate.add_permits(2);
    let mut texts = world.fake.texts(2).await;
    texts.sort();
    assert_eq!(texts, ["To Ann.", "To Ben."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_no_attempt_can_deliver_fails_and_the_next_one_goes() {
    let world = World::new(&[]);
    world.fake.will([Err(SendError::Permanent { reason: "no such nick\nfor sure".into() })]);
    world.stores("one", "ann", "First.").await;
    world.stores("two", "ann", "Second.").await;
    assert_eq!(world.fake.texts(1).await, ["Second."]);
    let failed = world.settled("dl_one").await;
    assert_eq!((failed.state, failed.attempts), (DeliveryState::Failed, 1));
    let why = failed.error.unwrap();
    assert!(why.starts_with("no such nick") && !why.contains('\n'), "{why}");
    let told = world.notices.lock().unwrap().clone();
    assert!(told.iter().any(|notice| matches!(notice, Notice::NotDelivered { delivery, .. } if delivery == "dl_one")));
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_too_old_is_not_sent() {
    let world = World::new(&[]);
    let now = world.store().now();
    world.stores_until("old", "ann", "Too late.", Some(now)).await;
    let failed = world.settled("dl_old").await;
    assert_eq!(failed.state, DeliveryState::Failed);
    assert!(failed.error.unwrap().contains("in its time"));
    world.stores("new", "ann", "In time.").await;
    assert_eq!(world.fake.texts(1).await, ["In time."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_sent_when_the_channel_is_connected_again() {
    let world = World::new(&[]);
    let inbox = world.fake.inbox().await;
    // Left alone, it would wait for an hour.
    let retry_after = Some(Duration::from_secs(3600));
    world.fake.will([Err(SendError::Passing { reason: "the server is down".into(), retry_after })]);
    world.stores("one", "ann", "Hello.").await;
    while world.store().delivery(&"dl_one".into()).await.unwrap().error.is_none() {
        tokio::task::yield_now().await;
    }
    inbox.up().await;
    assert_eq!(world.fake.texts(1).await, ["Hello."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_text_is_not_sent() {
    let world = World::new(&[]);
    world.fake.shut();
    world.stores("one", "ann", "First.").await;
    world.fake.begun(1).await;
    world.stores("two", "ann", "Second.").await;
    assert!(world.store().cancel_delivery(&"dl_two".into(), "not wanted", 1).await.unwrap());
    world.stores("three", "ann", "Third.").await;
    world.fake.gate.add_permits(2);
    assert_eq!(world.fake.texts(2).await, ["First.", "Third."]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_and_its_answer_are_one_commit() {
    let world = World::new(&[text("Hello."), "{ status: 401, error: { message: 'No.' } }".into()]);
    world.fake.shut();
    world.fake.receives(from("ann", "m1", "Hi.")).await;
    world.fake.begun(1).await;
    let all = world.deliveries().await;
    assert_eq!((all.len(), all[0].text.as_str(), all[0].state), (1, "Hello.", DeliveryState::Pending));
    world.fake.gate.add_permits(10);
    world.fake.sent(1).await;
    // A failure is told too.
    world.fake.receives(from("ann", "m2", "Again.")).await;
    let told = world.fake.texts(2).await.remove(1);
    assert!(told.contains("No."), "{told}");
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_blocks_the_text_of_a_reply_is_sent_before_the_run_has_ended_and_only_once() {
    let asks = "{ parts: [{ text: 'One moment.' }, { call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }";
    let long = format!("{}\n\n{}", "First part. ".repeat(10).trim(), "Second part. ".repeat(10).trim());
    let blocks = "blockStreamingDefault: 'on', blockStreamingChunk: { minChars: 60, maxChars: 200 }";
    let world = World::with_agents(&[asks.to_owned(), text(&long)], blocks);
    let Receipt::Accepted { run, .. } = world.fake.receives(from("ann", "m1", "Remove it.")).await else {
        panic!("not taken")
    };
    // The run waits for a person, and its first text is there.
    assert_eq!(world.fake.texts(1).await, ["One moment."]);
    let outcome = within(world.agent.outcome(crate::world::USER, &run)).await.unwrap();
    assert_eq!(outcome.approvals.len(), 1);
    // Another process goes on with it, and knows what was told.
    let world = world.dies().await;
    let next = world.another(4000);
    let allow = pincer_tools::Answer::AllowOnce;
    next.agent.answer(&outcome.approvals[0].approval_id, allow, "a person").await.unwrap();
    let (first, second) = long.split_once("\n\n").unwrap();
    assert_eq!(next.fake.texts(2).await, [first, second]);
    let done = within(next.agent.outcome(crate::world::USER, &run)).await.unwrap();
    let payloads: Vec<_> = done.result.payloads.iter().map(|payload| payload.text.as_str()).collect();
    assert_eq!(payloads, ["One moment.", long.as_str()], "the answer of the run is whole");
    assert_eq!(next.deliveries().await.len(), 3);
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_for_a_channel_that_no_process_runs_fails_in_its_time() {
    let world = World::new(&[]);
    let dead = world.dies().await;
    // As another process stores it, for a channel that is gone.
    let new = pincer_store::NewDelivery {
        id: "dl_gone".into(),
        user: "me".into(),
        run: None,
        source: pincer_store::DeliverySource::Operator,
        key: "gone".into(),
        route: pincer_store::Route { channel: "gone".into(), to: "ann".into(), ..Default::default() },
        reply_to: None,
        text: "Hello.".into(),
        expires_at: Some(1),
        now: 1,
    };
    dead.store().enqueue(new).await.expect("stored");
    let next = dead.another(4000);
    let ended = next.settled("dl_gone").await;
    assert_eq!(
        (ended.state, ended.error.as_deref()),
        (DeliveryState::Failed, Some("it could not be sent in its time"))
    );
    within(async {
        let told = |notice: &Notice| matches!(notice, Notice::NotDelivered { channel, .. } if channel == "gone");
        while !next.notices.lock().unwrap().iter().any(told) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    next.ends().await;
}
