//! Servers that say too much: nobody pays for it but their own calls.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use crate::common::{Asked, House, Person, with_liar, within};
use pincer_tools::Context;
use serde_json::{Value, json};

async fn flooded() -> House {
    with_liar("flood").asked().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_passes_and_the_answer_behind_it_arrives() {
    let house = flooded().await;
    for kind in ["progress", "log", "changed", "updated"] {
        let tool = format!("mcp:liar:{kind}");
        let flood = house.text(&tool, json!({ "count": 100_000 }));
        let (said, ()) = tokio::join!(flood, house.is_unharmed());
        assert!(said.contains(kind), "{said}");
    }
    assert_eq!(house.pids("liar").len(), 1);
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_only_so_often_and_in_few_words() {
    let house = flooded().await;
    let person = Person::who(Asked::Thinks);
    let input = json!({ "count": 1000, "bytes": 100_000 });
    house.call_as(Context::default(), "mcp:liar:progress", input, person.clone()).await.result.unwrap();
    let updates = person.updates.lock().unwrap();
    let bytes: usize = updates.iter().map(|update| update.to_string().len()).sum();
    assert!(updates.len() >= 50 && bytes < 3_000_000, "{} updates, {bytes} bytes", updates.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_servers_notices_cost_another_nothing() {
    let house = flooded().await;
    let listed = |house: &House| house.servers.get("good").unwrap().seen().listing.unwrap().at;
    house.is_unharmed().await;
    let before = listed(&house);
    house.text("mcp:liar:log", json!({ "count": 20_000 })).await;
    house.is_unharmed().await;
    assert_eq!(listed(&house), before, "nobody asked it for its list again");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_always_changes_is_not_asked_for_all_the_time() {
    let house = with_liar("restless").asked().await;
    let server = house.servers.get("liar").unwrap();
    let mut seen = vec![server.seen().listing.unwrap().at];
    let began = Instant::now();
    // It goes on being followed, if not at every word.
    while seen.len() < 5 {
        let last = *seen.last().unwrap();
        house.until(|house| house.servers.get("liar").unwrap().seen().listing.unwrap().at > last).await;
        seen.push(server.seen().listing.unwrap().at);
    }
    assert!(began.elapsed() > Duration::from_secs(1), "five lists in {:?}", began.elapsed());
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_and_does_not_listen_is_given_up() {
    let house = flooded().await;
    let error = house.error("mcp:liar:ping", json!({ "count": 2_000_000 })).await;
    assert!(error.message.contains("the MCP server liar asks and does not read the answers"), "{error}");
    assert!(house.text("mcp:liar:ping", json!({ "count": 10 })).await.contains("ping"));
    assert_eq!(house.pids("liar").len(), 2);
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_are_short_whatever_the_server_says() {
    let house = flooded().await;
    let mut notices = house.servers.listen();
    for kind in ["log", "updated"] {
        house.text(&format!("mcp:liar:{kind}"), json!({ "count": 2, "bytes": 2_000_000 })).await;
    }
    house.text("mcp:liar:log", json!({ "count": 1, "bytes": 7 })).await;
    // What was said last says that all has been heard.
    loop {
        let notice = within(notices.recv()).await.unwrap();
        let told = format!("{:?}", notice.told);
        assert!(told.len() < 100_000, "{} bytes", told.len());
        if told.contains(r#""xxxxxxx""#) || told.contains(&Value::from("xxxxxxx").to_string()) {
            break;
        }
    }
    house.end().await;
}
