//! Hooks about texts that are sent.

use std::fs;
use std::time::Duration;

use pincer_channels::SendError;
use pincer_store::DeliveryState;
use serde_json::Value;
use tempfile::TempDir;

use crate::world::{World, within};

/// A world with commands that write what they are told to `asked` and `told`. The one that is asked says `answer`.
fn world(answer: &str) -> (World, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    fs::write(file("answer"), answer).unwrap();
    let asked = format!("cat >> {0}; echo >> {0}; cat {1}", file("asked"), file("answer"));
    let told = format!("cat >> {0}; echo >> {0}", file("told"));
    let config = serde_json::json!({
        "message_sending": [{ "command": ["sh", "-c", asked] }],
        "message_sent": [{ "command": ["sh", "-c", told] }],
    });
    (World::with(&[], "allowFrom: ['ann']", &format!("hooks: {config}")), directory)
}

async fn events(directory: &TempDir, name: &str, count: usize) -> Vec<Value> {
    within(async {
        loop {
            let text = fs::read_to_string(directory.path().join(name)).unwrap_or_default();
            let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            if events.len() >= count {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_changes_a_text_once_however_often_it_is_sent() {
    let (world, directory) = world(r#"{ "content": "Hello, dear Ann." }"#);
    let retry_after = Some(Duration::ZERO);
    world.fake.will([Err(SendError::Passing { reason: "down".into(), retry_after })]);
    world.stores("one", "ann", "Hello.").await;
    assert_eq!(world.fake.texts(1).await, ["Hello, dear Ann."]);
    let delivery = world.settled("dl_one").await;
    assert_eq!((delivery.attempts, delivery.original.as_deref()), (2, Some("Hello.")));
    let told = events(&directory, "told", 1).await;
    assert_eq!(
        (&told[0]["success"], &told[0]["content"], &told[0]["messageId"]),
        (&true.into(), &"Hello, dear Ann.".into(), &"m".into())
    );
    let asked = events(&directory, "asked", 1).await;
    assert_eq!((asked.len(), &asked[0]["to"], &asked[0]["channelId"]), (1, &"ann".into(), &"fake".into()));
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_cancels_a_text() {
    let (world, directory) = world(r#"{ "cancel": true, "cancelReason": "not at night" }"#);
    world.stores("one", "ann", "Hello.").await;
    let delivery = world.settled("dl_one").await;
    assert_eq!((delivery.state, delivery.error.as_deref()), (DeliveryState::Cancelled, Some("not at night")));
    let told = events(&directory, "told", 1).await;
    assert_eq!((&told[0]["success"], &told[0]["error"]), (&false.into(), &"not at night".into()));
    assert!(world.fake.texts(0).await.is_empty());
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_holds_nothing_up() {
    let (world, _directory) = world("no JSON");
    world.stores("one", "ann", "Hello.").await;
    assert_eq!(world.fake.texts(1).await, ["Hello."]);
    world.ends().await;
}
