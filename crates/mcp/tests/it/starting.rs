//! Servers that take long to start: the time of a call, or of a program, covers that too.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use crate::common::settings::launch;
use crate::common::{House, program, setup, within};
use pincer_mcp::{Directory, Health, ServerSettings};
use pincer_tools::{Effect, ServerState};
use serde_json::json;

/// Far from what these servers may take to start.
const SOON: Duration = Duration::from_secs(10);

fn health(house: &House, server: &str) -> Health {
    house.servers.get(server).unwrap().seen().health
}

/// A house with a server `late`, a shell in the directory of the house, whose calls may take so long.
fn late(script: &str, words: &[&str], call_timeout: Duration) -> House {
    let setup = setup().shell("late", script, words);
    let directory = Directory::Named(setup.path("."));
    let slow = |late: &mut ServerSettings| {
        launch(late).directory = directory;
        (late.connect_timeout, late.call_timeout) = (Duration::from_secs(60), call_timeout);
    };
    setup.with(slow).open()
}

/// A house with a liar that is not greeted for minutes.
fn silent(change: fn(&mut ServerSettings)) -> House {
    let setup = setup().liar("silent-init").with(|liar| liar.connect_timeout = Duration::from_secs(300));
    setup.with(change).open()
}

/// How the door has a server.
fn state(house: &House, server: &str) -> ServerState {
    house.door.servers().get(server).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_start_no_longer_than_a_call_may_take_and_the_start_goes_on() {
    let script = "[ -e slow ] && sleep 4; exec \"$@\"";
    let house = late(script, &[&program("mcp-fixture"), "stdio"], Duration::from_millis(300)).asked().await;
    house.servers.get("late").unwrap().end().await;
    std::fs::write(house.path("slow"), "").unwrap();
    let began = Instant::now();
    let outcome = house.call("mcp:late:test_simple_text", json!({})).await;
    let error = outcome.result.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(
        error.message,
        "the MCP server late is still starting: it was not there within 300 ms. Call it again, or raise its `timeoutMs`"
    );
    assert_eq!((outcome.effect, health(&house, "late")), (Effect::None, Health::Connecting));
    house.until(|house| health(house, "late") == Health::Up).await;
    house.text("mcp:late:test_simple_text", json!({})).await;
    assert_eq!(house.pids("late").len(), 2, "it was started once for both calls");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_call_is_what_its_start_has_left() {
    let script = "[ -e slow ] && sleep 3; exec \"$@\"";
    let house = late(script, &[&program("mcp-liar"), "silent"], Duration::from_secs(5)).asked().await;
    house.servers.get("late").unwrap().end().await;
    std::fs::write(house.path("slow"), "").unwrap();
    let began = Instant::now();
    let error = house.error("mcp:late:echo", json!({})).await;
    assert!(error.message.starts_with("the MCP server late did not answer within 5000 ms"), "{error}");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(4900) && took < Duration::from_millis(7500), "{took:?}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_waits_for_a_start_within_its_own_time() {
    let house = silent(|_| ());
    for (code, left_of_it) in
        [("return await MCP.liar.echo({})", 100), ("return await API.list('mcp')", 100), ("return 1", 1000)]
    {
        let began = Instant::now();
        let left = within(house.servers.ready_for(code, Duration::from_secs(1))).await;
        let took = began.elapsed();
        assert!(took < SOON, "{code}: {took:?}");
        assert_eq!(left, Duration::from_millis(left_of_it), "{code}");
    }
    assert_eq!(state(&house, "liar"), ServerState::Starting, "it is not down");
    assert!(house.servers.get("liar").unwrap().is_starting());
    house.is_unharmed().await;
    // Servers that are known take nothing.
    let left = house.servers.ready_for("MCP.good.testSimpleText()", SOON).await;
    assert!(left > SOON / 2, "{left:?}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_waited_for_as_long_as_a_call_of_it_may_take() {
    let house = silent(|liar| liar.call_timeout = Duration::from_millis(500));
    let began = Instant::now();
    within(house.servers.ready_with(house.servers.get("liar").unwrap())).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    within(house.servers.ready()).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    house.end().await;
}
