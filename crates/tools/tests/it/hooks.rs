//! Hooks: the rules by which what they say is merged, one by one, and that a broken one is a shut gate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{House, house};
use pincer_tools::hooks::{
    AfterToolCall, BeforeToolCall, BeforeVerdict, CommandHook, External, FnHook, Handle, Hook, HookError, Nothing,
    Observer, PersistHook,
};
use pincer_tools::{DoorBuilder, ErrorCode, FnTool, Matcher, ToolCall, ToolError};
use serde_json::{Value, json};

fn hook(name: &str, priority: i32, hook: impl Handle<BeforeToolCall> + 'static) -> Hook {
    let matcher = Matcher::default();
    Hook { name: name.into(), matcher, priority, timeout: Duration::from_secs(20), hook: Arc::new(hook) }
}

fn says(verdict: Value) -> impl Handle<BeforeToolCall> {
    let verdict: BeforeVerdict = serde_json::from_value(verdict).expect("a verdict");
    FnHook(move |_: &BeforeToolCall| Ok(verdict.clone()))
}

/// Appends its name to the text, and to `log`.
fn appends(name: &'static str, log: &Arc<Mutex<Vec<&'static str>>>) -> impl Handle<BeforeToolCall> + use<> {
    let log = Arc::clone(log);
    FnHook(move |event: &BeforeToolCall| {
        log.lock().unwrap().push(name);
        let text = format!("{}{name}", event.params["text"].as_str().unwrap_or_default());
        Ok(BeforeVerdict { params: Some(json!({ "text": text })), ..BeforeVerdict::default() })
    })
}

fn with(hooks: Vec<Hook>) -> House {
    house(|door| hooks.into_iter().fold(door, DoorBuilder::hook))
}

async fn echoed(house: &House) -> Value {
    house.call("openclaw:core:echo", json!({ "text": "" })).await.value().expect("a value")["text"].clone()
}

async fn blocked(house: &House) -> String {
    let error = house.error("openclaw:core:echo", json!({ "text": "" })).await;
    assert_eq!(error.code, ErrorCode::Blocked, "{error}");
    error.message
}

#[tokio::test]
async fn higher_priority_comes_first_and_each_sees_what_the_one_before_made() {
    let log = Arc::default();
    let house = with(vec![
        hook("b", 1, appends("b", &log)),
        hook("a", 5, appends("a", &log)),
        hook("c", 1, appends("c", &log)),
    ]);
    assert_eq!(echoed(&house).await, "abc");
    assert_eq!(*log.lock().unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_block_ends_the_matter() {
    let log = Arc::default();
    let house = with(vec![
        hook("gate", 5, says(json!({ "block": true, "blockReason": "not today" }))),
        hook("late", 1, appends("late", &log)),
        hook("lifts", 0, says(json!({ "block": false }))),
    ]);
    assert_eq!(blocked(&house).await, "blocked by the hook gate: not today");
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn block_false_says_nothing() {
    let house =
        with(vec![hook("lifts", 9, says(json!({ "block": false }))), hook("gate", 1, says(json!({ "block": true })))]);
    assert_eq!(blocked(&house).await, "blocked by the hook gate: it gave no reason");
    assert_eq!(echoed(&with(vec![hook("lifts", 9, says(json!({ "block": false })))])).await, "");
}

#[tokio::test]
async fn what_hooks_make_of_an_input_must_fit() {
    let house = with(vec![hook("breaks", 1, says(json!({ "params": { "text": 5 } })))]);
    assert!(blocked(&house).await.contains("the hooks changed the input"));
}

#[tokio::test]
async fn a_hook_is_asked_about_what_it_matches_and_a_bare_name_means_servers_too() {
    let gate = |names: &[&str]| Hook {
        matcher: Matcher::parse("hooks", names).expect("valid"),
        ..hook("gate", 1, says(json!({ "block": true })))
    };
    let calls = |house: House| async move {
        let echo = house.call("openclaw:core:echo", json!({ "text": "" })).await.result.is_ok();
        (echo, house.call("mcp:files:read", json!({ "text": "" })).await.result.is_ok())
    };
    assert_eq!(calls(with(vec![gate(&["echo"])])).await, (false, true));
    assert_eq!(calls(with(vec![gate(&["read"])])).await, (true, false));
    assert_eq!(calls(with(vec![gate(&["mcp:*"])])).await, (true, false));
    assert_eq!(calls(with(vec![gate(&[])])).await, (false, false));
}

#[tokio::test]
async fn a_hook_that_cannot_answer_blocks() {
    let fails = FnHook(|_: &BeforeToolCall| Err(HookError::Answer("nonsense".into())));
    assert!(blocked(&with(vec![hook("broken", 1, fails)])).await.contains("the hook broken could not be asked"));
    struct Never;
    impl Handle<BeforeToolCall> for Never {
        fn handle<'a>(
            &'a self,
            _: &'a BeforeToolCall,
        ) -> pincer_tools::BoxFuture<'a, Result<BeforeVerdict, HookError>> {
            Box::pin(std::future::pending())
        }
    }
    let never = Hook { timeout: Duration::from_millis(20), ..hook("slow", 1, Never) };
    assert_eq!(blocked(&with(vec![never])).await, "the hook slow did not answer within 20 ms, so the call is blocked");
}

#[tokio::test]
async fn observers_are_told_what_came_of_a_call_and_can_hold_nothing_up() {
    struct Never;
    impl Handle<AfterToolCall> for Never {
        fn handle<'a>(&'a self, _: &'a AfterToolCall) -> pincer_tools::BoxFuture<'a, Result<Nothing, HookError>> {
            Box::pin(std::future::pending())
        }
    }
    let log: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let told = log.clone();
    let house = house(move |door| {
        let observer = |names: &[&str], millis, hook: Arc<dyn Handle<AfterToolCall>>| Observer {
            matcher: Matcher::parse("hooks", names).expect("valid"),
            timeout: Duration::from_millis(millis),
            hook,
        };
        let note = FnHook(move |event: &AfterToolCall| {
            told.lock().unwrap().push((event.tool_id.clone(), event.result.is_some()));
            Ok(Nothing {})
        });
        door.observer(observer(&[], 10, Arc::new(Never))).observer(observer(&["echo"], 20_000, Arc::new(note)))
    });
    house.call("openclaw:core:echo", json!({ "text": "x" })).await.result.expect("a value");
    house.call("openclaw:core:echo", json!({})).await.result.expect_err("a wrong input");
    house.call("mcp:files:read", json!({ "text": "x" })).await.result.expect("a value");
    let echo = "openclaw:core:echo".to_owned();
    assert_eq!(*log.lock().unwrap(), [(echo.clone(), true), (echo, false)]);
}

fn command(words: &[&str]) -> External<BeforeToolCall> {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    External::new(Arc::new(CommandHook { command, is_in_the_open: false }))
}

fn shell(script: &str) -> External<BeforeToolCall> {
    command(&["sh", "-c", script])
}

#[tokio::test]
async fn a_command_gets_the_event_and_gives_a_verdict() {
    let house = with(vec![
        hook("silent", 3, shell("exit 0")),
        hook("deaf", 2, shell("printf '{}'")),
        hook(
            "reads",
            1,
            shell(r#"grep -q '"toolId":"openclaw:core:echo"' && printf '{"params":{"text":"from the hook"}}'"#),
        ),
    ]);
    assert_eq!(echoed(&house).await, "from the hook");
}

#[tokio::test]
async fn a_command_that_fails_in_any_way_blocks() {
    for (script, says) in [
        ("echo why >&2; exit 3", "exit status: 3: why"),
        ("kill -9 $$", "signal: 9"),
        ("echo not json", "its answer cannot be read"),
        (r#"echo '{"blok":true}'"#, "it has the key \"blok\""),
        (r#"echo '{"outcome":"block"}'"#, "may have `params`, `block`"),
        ("echo '[]'", "it is a list instead of an object"),
        (r#"echo '[null,true]'"#, "it is a list instead of an object"),
        ("echo 1", "it is a number"),
        (r#"echo '"block"'"#, "it is a text"),
        (r#"echo '{"requireApproval":["x"]}'"#, "invalid type: sequence"),
        (r#"echo '{"requireApproval":{"titel":"x"}}'"#, "unknown field `titel`"),
        (r#"echo '{"block":"yes"}'"#, "invalid type"),
        ("head -c 2000000 /dev/zero | tr '\\0' ' '; echo '{}'", "more than 1048576 bytes"),
    ] {
        let message = blocked(&with(vec![hook("command", 1, shell(script))])).await;
        assert!(message.contains(says), "{script}: {message}");
    }
    let missing = command(&["/no/such/program"]);
    let missing = blocked(&with(vec![hook("missing", 1, missing)])).await;
    assert!(missing.contains("cannot be started: \"/no/such/program\": No such file"), "{missing}");
    let empty = command(&[]);
    assert!(blocked(&with(vec![hook("empty", 1, empty)])).await.contains("it has no command"));
    let slow = Hook { timeout: Duration::from_millis(50), ..hook("slow", 1, shell("sleep 600")) };
    assert!(blocked(&with(vec![slow])).await.contains("did not answer within 50 ms"));
}

#[tokio::test]
async fn a_panic_of_a_hook_is_a_failure_of_that_hook() {
    let broken = FnHook(|_: &BeforeToolCall| -> Result<BeforeVerdict, HookError> { panic!("a bug of the hook") });
    assert!(blocked(&with(vec![hook("broken", 1, broken)])).await.contains("it broke down"));
}

/// A hook that puts a text in place of that of a result.
fn writes(names: &[&str], priority: i32, change: fn(&str) -> String) -> PersistHook {
    let hook = FnHook(move |event: &pincer_tools::hooks::events::ToolResultPersist| {
        let mut message = event.message.clone();
        let text = message["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        message["content"][0]["text"] = change(&text).into();
        Ok(pincer_tools::hooks::events::ToolResultAnswer { message: Some(message) })
    });
    let matcher = Matcher::parse("hooks", names).expect("valid");
    PersistHook { matcher, hook: pincer_hooks::Hook::new("writes", hook).priority(priority) }
}

#[tokio::test]
async fn a_result_is_passed_on_as_the_hooks_have_it_stored() {
    let house = house(|door| {
        door.persisting(writes(&["echo"], 1, |text| format!("{text}, twice")))
            .persisting(writes(&["echo"], 2, |text| text.replace("secret", "***")))
            .persisting(writes(&["read"], 3, |_| "never".into()))
    });
    let outcome = house.call("openclaw:core:echo", json!({ "text": "a secret" })).await;
    let value = outcome.value().expect("a value").to_string();
    assert!(value.contains("a ***") && !value.contains("secret") && !value.contains("never"), "{value}");
}

/// A hook that answers with this message.
fn answers(message: Value) -> PersistHook {
    let hook = FnHook(move |_: &pincer_tools::hooks::events::ToolResultPersist| {
        Ok(pincer_tools::hooks::events::ToolResultAnswer { message: Some(message.clone()) })
    });
    PersistHook { matcher: Matcher::default(), hook: pincer_hooks::Hook::new("answers", hook) }
}

#[tokio::test]
async fn a_failed_call_stays_one_unless_a_hook_says_otherwise() {
    let failing = |message: Value| {
        house(move |door| {
            let fails = FnTool(|_: ToolCall| async { Err::<Value, _>(ToolError::before("a secret reason")) });
            let door = door.tool(crate::common::entry("plugin:test:fails"), Arc::new(fails)).expect("registered");
            door.persisting(answers(message))
        })
    };
    let redacted = json!([{ "type": "text", "text": "redacted" }]);
    for message in [json!({ "content": redacted }), json!({ "content": "redacted", "isError": true })] {
        let error = failing(message.clone()).error("plugin:test:fails", json!({ "text": "" })).await;
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::ToolFailed, "redacted"), "{message}");
    }
    let house = failing(json!({ "content": redacted, "isError": false }));
    let outcome = house.call("plugin:test:fails", json!({ "text": "" })).await;
    assert_eq!(outcome.value().expect("a value"), "redacted");
}

#[tokio::test]
async fn a_result_stays_as_it_is_if_the_answer_of_a_hook_has_no_content_that_can_be_read() {
    let picture = json!([{ "type": "image", "mimeType": "image/png", "data": "AA==" }]);
    for message in [
        json!("x"),
        json!({}),
        json!({ "content": null }),
        json!({ "content": ["x"] }),
        json!({ "content": picture }),
        json!({ "content": "x", "isError": 1 }),
    ] {
        let house = house(|door| door.persisting(answers(message.clone())));
        let outcome = house.call("openclaw:core:echo", json!({ "text": "as it was" })).await;
        assert!(outcome.value().expect("a value").to_string().contains("as it was"), "{message}");
    }
}

#[tokio::test]
async fn the_parts_of_a_result_stay_parts() {
    let given = |message: Value| async move {
        let house = house(move |door| {
            let shows = FnTool(|_: ToolCall| async {
                Ok::<_, ToolError>(
                    json!({ "content": [{ "type": "text", "text": "a" }], "structuredContent": { "a": 1 } }),
                )
            });
            let door = door.tool(crate::common::entry("mcp:files:show"), Arc::new(shows)).expect("registered");
            door.persisting(answers(message))
        });
        house.call("mcp:files:show", json!({ "text": "" })).await.value().expect("a value").clone()
    };
    let picture = json!([{ "type": "image", "mimeType": "image/png", "data": "AA==" }]);
    assert_eq!(given(json!({ "content": "b" })).await, json!({ "content": [{ "type": "text", "text": "b" }] }));
    assert_eq!(given(json!({ "content": picture })).await, json!({ "content": picture }));
}
