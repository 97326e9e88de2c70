//! Processes that die, and two that live on one store.

use pincer_store::{Deliveries, DeliveryState};

use crate::world::{World, from, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_text_whose_process_died_is_sent_by_the_next_one_under_the_same_id() {
    let world = World::new(&[]);
    world.fake.shut();
    world.stores("one", "ann", "Hello.").await;
    world.fake.begun(1).await;
    let dead = world.dies().await;
    let next = dead.another(4000);
    let sent = next.fake.sent(1).await;
    assert_eq!((sent.len(), sent[0].id().as_str()), (1, "dl_one/0"));
    let delivery = next.settled("dl_one").await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Sent, 2));
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_a_living_process_sends_is_left_to_it() {
    let world = World::new(&[]);
    world.fake.shut();
    world.stores("one", "ann", "Hello.").await;
    world.fake.begun(1).await;
    let other = world.another(4000);
    // The other process has looked when it has sent this.
    other.stores("two", "ben", "To Ben.").await;
    let by_other = async {
        while world.store().delivery(&"dl_two".into()).await.unwrap().owner.is_none() {
            if world.store().delivery(&"dl_two".into()).await.unwrap().state == DeliveryState::Sent {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    crate::world::within(by_other).await;
    world.fake.gate.add_permits(2);
    assert_eq!(world.settled("dl_one").await.attempts, 1);
    world.settled("dl_two").await;
    let by_other = other.fake.texts(0).await;
    assert!(!by_other.contains(&"Hello.".to_owned()), "{by_other:?}");
    other.ends().await;
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_text_goes_on_behind_the_part_that_was_sent() {
    let world = World::new(&[]);
    let dead = world.dies().await;
    let first = dead.another(100);
    first.fake.shut();
    let paragraphs = ["a", "b", "c"].map(|letter| letter.repeat(80));
    first.stores("long", "ann", &paragraphs.join("\n\n")).await;
    first.fake.begun(1).await;
    first.fake.gate.add_permits(1);
    first.fake.begun(2).await;
    assert_eq!(first.fake.texts(1).await, [paragraphs[0].clone()]);
    let dead = first.dies().await;
    let next = dead.another(100);
    let sent = next.fake.sent(2).await;
    assert_eq!(sent.iter().map(|part| part.text.as_str()).collect::<Vec<_>>(), paragraphs[1..]);
    assert_eq!((sent[0].offset, sent[1].offset), (82, 164));
    assert_eq!(next.settled("dl_long").await.state, DeliveryState::Sent);
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_process_died_is_answered_by_the_next_one() {
    let stalls = "{ parts: [{ text: 'never' }], wire: { headersAfterMs: 600000 } }".to_owned();
    let world = World::new(&[stalls, text("Here I am.")]);
    world.fake.receives(from("ann", "m1", "Hi.")).await;
    crate::world::within(async {
        while world.server.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let dead = world.dies().await;
    let next = dead.another(4000);
    assert_eq!(next.fake.texts(1).await, ["Here I am."]);
    let sent = next.fake.sent(1).await.remove(0);
    assert_eq!((sent.route.to.as_str(), sent.reply_to.as_deref()), ("ann", Some("m1")));
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_finishes_what_it_is_sending() {
    let world = World::new(&[]);
    world.fake.shut();
    world.stores("one", "ann", "Hello.").await;
    world.fake.begun(1).await;
    world.stop.cancel();
    world.fake.gate.add_permits(1);
    assert_eq!(world.settled("dl_one").await.state, DeliveryState::Sent);
    world.ends().await;
}
