//! Servers that fall, hang, leave things behind, or have to be started again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::settings::{launch, variable};
use crate::common::{House, Setup, eventually, is_alive, is_private, kill, program, setup, with_liar, within};
use pincer_mcp::{Directory, Health, ServerSettings};
use pincer_tools::{Effect, ErrorCode, ServerState};
use serde_json::json;

const LAST_WORDS: &str = "mcp-liar: something terrible happened at line 42";

fn health(house: &House) -> Health {
    house.servers.get("liar").unwrap().seen().health
}

fn why(house: &House) -> String {
    match health(house) {
        Health::Down(why) => why,
        health => panic!("it is {health:?}"),
    }
}

/// A liar within a shell that does something around it.
fn within_shell(script: &str, mode: &str) -> Setup {
    setup().shell("liar", script, &[&program("mcp-liar"), mode])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_is_told_with_code_and_last_words_and_the_next_call_starts_it_again() {
    let house = with_liar("crash").asked().await;
    let outcome = house.call("mcp:liar:echo", json!({})).await;
    let error = outcome.result.unwrap_err();
    assert_eq!(
        error.message,
        format!("the MCP server liar ended (exit status: 7) and said: {LAST_WORDS}, in the middle of the call")
    );
    assert_eq!((error.code, outcome.effect), (ErrorCode::ToolFailed, Effect::Unknown));
    assert_eq!(house.tools("liar"), ["echo"], "what it has is known all the same");
    house.call("mcp:liar:echo", json!({})).await.result.unwrap_err();
    assert_eq!(house.pids("liar").len(), 2);
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_falls_again_and_again_is_left_alone_for_a_while() {
    let house = with_liar("crash").asked().await;
    for _ in 0..20 {
        let before = house.pids("liar").len();
        let outcome = house.call("mcp:liar:echo", json!({})).await;
        let error = outcome.result.unwrap_err();
        if error.message.contains("it is tried again in") {
            assert!(error.message.starts_with("the MCP server liar is down: it ended (exit status: 7)"), "{error}");
            assert!(error.message.contains(LAST_WORDS), "{error}");
            assert_eq!((outcome.effect, house.pids("liar").len()), (Effect::None, before), "nothing was done");
            house.is_unharmed().await;
            return house.end().await;
        }
    }
    panic!("it is started for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_start_is_down_with_a_reason_and_later_processes_do_not_wait_for_it() {
    let house = with_liar("crash-start").asked().await;
    assert_eq!(why(&house), format!("ended (exit status: 7) and said: {LAST_WORDS}"));
    assert_eq!(house.door.servers()["liar"], ServerState::Down(why(&house)));
    assert!(house.tools("liar").is_empty());
    assert!(is_private(&house.path("state/mcp/liar.down.json")), "it has the last words");
    house.is_unharmed().await;
    let house = house.reopened(|setup| setup.liar("crash-start")).await;
    within(house.servers.ready()).await;
    assert!(why(&house).contains(LAST_WORDS));
    assert_eq!(house.pids("liar").len(), 1, "nobody tried");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_server_that_no_longer_starts_tries_once_and_says_why() {
    let house = with_liar("bad-result").asked().await;
    let broken = house.path("broken");
    let script = format!("test -e {0} && exit 3; exec \"$@\"", broken.display());
    let again = |setup: Setup| setup.shell("liar", &script, &[&program("mcp-liar"), "bad-result"]);
    let house = house.reopened(again).await.asked().await;
    assert_eq!(house.text("mcp:liar:good", json!({})).await, "good");
    std::fs::write(&broken, "").unwrap();
    kill(*house.pids("liar").last().unwrap());
    house.until(|house| health(house) != Health::Up).await;
    let before = house.pids("liar").len();
    let outcome = house.call("mcp:liar:good", json!({})).await;
    assert_eq!(outcome.result.unwrap_err().message, "the MCP server liar is down: it ended (exit status: 3)");
    assert_eq!((outcome.effect, house.pids("liar").len()), (Effect::None, before + 1));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_the_greeting_is_down_when_the_time_is_over() {
    let house = setup().liar("silent-init").with(|liar| liar.connect_timeout = Duration::from_millis(300)).open();
    let house = house.asked().await;
    assert!(why(&house).starts_with("did not answer `initialize` within 300 ms"), "{}", why(&house));
    assert!(!is_alive(house.pids("liar")[0]), "it is not left behind");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_the_greeting_holds_up_neither_others_nor_the_end() {
    let house = setup().liar("silent-init").with(|liar| liar.connect_timeout = Duration::from_secs(600)).open();
    house.servers.warm_up();
    house.until(|house| !house.tools("good").is_empty()).await;
    eventually(|| house.pids("liar").len() == 1).await;
    house.is_unharmed().await;
    assert_eq!(health(&house), Health::Connecting);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_started_side_by_side() {
    let mut setup = setup();
    let gate = setup.path("gate");
    let names: Vec<String> = (0..20).map(|number| format!("slow-{number}")).collect();
    for name in &names {
        setup = setup.server(name, &[&program("mcp-liar"), "slow-start"]);
        setup = setup.with(|slow| variable(slow, "LIAR_UNTIL", gate.to_str().unwrap()));
    }
    let house = Arc::new(setup.open());
    let asking = tokio::spawn({
        let house = Arc::clone(&house);
        async move { within(house.servers.refresh_all()).await }
    });
    // All of them have been started, and none has answered: so nobody waits for another.
    eventually(|| names.iter().all(|name| house.pids(name).len() == 1)).await;
    assert!(names.iter().all(|name| house.tools(name).is_empty()));
    house.until(|house| !house.tools("good").is_empty()).await;
    house.is_unharmed().await;
    std::fs::write(&gate, "").unwrap();
    within(asking).await.unwrap();
    assert!(names.iter().all(|name| house.tools(name) == ["echo"]));
    let Ok(house) = Arc::try_unwrap(house) else { panic!("nobody else is in there") };
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_while_idle_is_started_again_by_the_next_call() {
    let house = with_liar("noise").asked().await;
    for life in 1..4 {
        kill(house.pids("liar")[life - 1]);
        house.until(|house| health(house) != Health::Up).await;
        assert!(why(&house).contains("signal: 9"), "{}", why(&house));
        assert!(house.text("mcp:liar:echo", json!({})).await.contains("echo"));
        assert_eq!(house.pids("liar").len(), life + 1);
        house.until(|house| health(house) == Health::Up).await;
    }
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_with_everything_it_has_started() {
    let children = "sleep 1000 & echo $! >> \"$0\"; setsid sleep 1000 & echo $! >> \"$0\"; exec \"$@\"";
    let house = within_shell(children, "noise").open().asked().await;
    assert!(house.text("mcp:liar:echo", json!({})).await.contains("echo"));
    let pids = house.pids("liar");
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_closes_its_output_and_lives_on_is_ended() {
    // What it says is passed on until it says farewell.
    let script = r#"exec 3<&0
        "$@" <&3 | {
            while IFS= read -r line; do
                case "$line" in *farewell*) break ;; esac
                printf '%s\n' "$line"
            done
            exec 1>&-
            sleep 1000
        } &
        exec 1>&-
        wait"#;
    let house = within_shell(script, "changing").open().asked().await;
    assert!(house.text("mcp:liar:old", json!({})).await.contains("old"));
    let outcome = house.call("mcp:liar:old", json!({ "text": "farewell" })).await;
    let error = outcome.result.unwrap_err();
    assert!(error.message.contains("the MCP server liar closed its standard output"), "{error}");
    assert_eq!(outcome.effect, Effect::Unknown);
    eventually(|| !is_alive(house.pids("liar")[0])).await;
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_keeps_the_pipes_does_not_hide_the_fall_of_its_parent() {
    let house = within_shell("sleep 1000 & echo $! >> \"$0\"; \"$@\"; exit 7", "crash").open().asked().await;
    let outcome = house.call("mcp:liar:echo", json!({})).await;
    let error = outcome.result.unwrap_err();
    assert!(error.message.starts_with("the MCP server liar ended (exit status: 7)"), "{error}");
    eventually(|| !house.pids("liar").iter().any(|pid| is_alive(*pid))).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_no_more_is_given_up() {
    let house = setup().liar("deaf").with(|liar| liar.call_timeout = Duration::from_millis(500)).open();
    let house = house.asked().await;
    // The first is read. The second does not fit into the pipe.
    for input in [json!({}), json!({ "text": "x".repeat(1 << 20) })] {
        let outcome = house.call("mcp:liar:echo", input).await;
        let error = outcome.result.unwrap_err();
        assert!(error.message.contains("the MCP server liar did not answer within 500 ms"), "{error}");
        assert_eq!(outcome.effect, Effect::Unknown);
    }
    house.until(|house| health(house) != Health::Up).await;
    assert!(why(&house).starts_with("reads no more of what it is sent"), "{}", why(&house));
    eventually(|| !is_alive(house.pids("liar")[0])).await;
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_server_is_private_and_does_not_grow_for_ever() {
    let flood = "head -c 40000000 /dev/zero | tr '\\0' x >&2; exec \"$@\"";
    let house = within_shell(flood, "crash").open().asked().await;
    let error = house.error("mcp:liar:echo", json!({})).await;
    assert!(error.message.contains(LAST_WORDS) && error.message.len() < 3000, "{} bytes", error.message.len());
    let file = house.path("state/logs/mcp/liar.log");
    assert!(is_private(&file));
    let bytes = std::fs::metadata(&file).unwrap().len();
    assert!(bytes <= 6 << 20, "{bytes} bytes");
    assert!(house.log("liar").contains(LAST_WORDS));
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_says_what_to_do() {
    let missing: fn(&mut ServerSettings) = |liar| launch(liar).command = "no-such-program-anywhere".into();
    let nowhere = |liar: &mut ServerSettings| launch(liar).directory = Directory::Named("/no/such/directory".into());
    for (change, told) in [
        (missing, "there is no program `no-such-program-anywhere`. Install it, or correct `command`"),
        (nowhere, "its directory /no/such/directory is not there"),
    ] {
        let house = setup().liar("noise").with(change).open().asked().await;
        assert!(why(&house).contains(told), "{}", why(&house));
        house.is_unharmed().await;
        house.end().await;
    }
}
