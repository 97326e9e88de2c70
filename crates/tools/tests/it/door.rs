//! The way of a call through the door.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{call, echo, entry, house};
use pincer_store::{CallState, Claim, Journal, NewRun, Repeat, RunId, RunState, Runs, Safety};
use pincer_tools::{
    BoxFuture, Call, Context, Door, Effect, ErrorCode, EventKind, FnTool, Json, Payload, RegisterError, RunOwner, Tool,
    ToolCall, ToolError,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[tokio::test]
async fn a_call_goes_through() {
    let house = house(|door| door);
    let outcome = house.call("openclaw:core:echo", json!({ "text": "hi" })).await;
    assert_eq!((outcome.effect, outcome.value()), (Effect::Done, Ok(json!({ "text": "hi" }))));
    let kinds: Vec<String> = house
        .events
        .lock()
        .unwrap()
        .iter()
        .map(|event| serde_json::to_value(&event.what).unwrap()["type"].to_string())
        .collect();
    assert_eq!(kinds, ["\"start\"", "\"end\""]);
}

#[tokio::test]
async fn a_denied_tool_and_one_that_does_not_exist_cannot_be_told_apart() {
    let house = house(|door| door);
    let denied = house.error("openclaw:core:hidden", json!({ "text": "x" })).await;
    let absent = house.error("openclaw:core:absent", json!({ "text": "x" })).await;
    assert_eq!((denied.code, absent.code), (ErrorCode::UnknownTool, ErrorCode::UnknownTool));
    assert_eq!(denied.message.replace("hidden", "X"), absent.message.replace("absent", "X"));
    // Not even with a wrong input, or by a near name.
    assert_eq!(house.error("openclaw:core:hidden", json!({})).await.code, ErrorCode::UnknownTool);
    assert!(!house.error("hiden", json!({})).await.message.contains("hidden"));
}

#[tokio::test]
async fn a_wrong_input_is_told_with_what_was_expected() {
    let house = house(|door| door);
    let error = house.error("openclaw:core:echo", json!({ "txet": "hi", "times": "no" })).await;
    assert_eq!(error.code, ErrorCode::InvalidInput);
    for part in [
        "Invalid arguments for tool \"openclaw:core:echo\"",
        "\"text\" is a required property",
        "Did you mean: text?",
        "Expected input: { text: string; times?: number }",
    ] {
        assert!(error.message.contains(part), "{part} is not in {}", error.message);
    }
    assert!(
        house.error("openclaw:core:echo", json!({ "text": "x".repeat(1 << 20), "y": 1 })).await.message.len() < 2000
    );
}

#[tokio::test]
async fn a_value_that_is_not_what_the_tool_declares_is_refused_though_it_was_done() {
    let house = house(|door| {
        let mut strict = entry("openclaw:core:strict");
        strict.output_schema = Some(json!({ "type": "number" }));
        door.tool(strict, echo()).expect("registered")
    });
    let outcome = house.call("strict", json!({ "text": "x" })).await;
    assert_eq!((outcome.result.expect_err("refused").code, outcome.effect), (ErrorCode::InvalidOutput, Effect::Done));
}

#[tokio::test]
async fn a_value_of_a_hostile_shape_is_refused_by_its_count_as_text_and_as_a_tree() {
    let zeros = format!("[{}0]", "0,".repeat(1_000_000));
    assert!(Json::parse(zeros.as_str()).is_err(), "no tool could return this as text");
    let house = house(|door| {
        let tool = FnTool(move |_: ToolCall| {
            let value = serde_json::from_str::<Value>(&zeros).map_err(|error| ToolError::unknown(error.to_string()));
            async move { value }
        });
        door.tool(entry("openclaw:core:zeros"), Arc::new(tool)).expect("registered")
    });
    let outcome = house.call("zeros", json!({ "text": "x" })).await;
    let error = outcome.result.expect_err("refused");
    assert_eq!((error.code, outcome.effect), (ErrorCode::InvalidOutput, Effect::Done));
    let told = "openclaw:core:zeros returned a value made of more than 1000000 values and keys: ask it for less";
    assert_eq!(error.message, told);
}

#[tokio::test]
async fn an_input_that_is_text_is_what_its_tool_gets_whatever_its_size() {
    let house = house(|door| door);
    // The second is not kept as a tree while the call waits.
    for text in ["short".to_owned(), "long ".repeat(20_000)] {
        let input = json!({ "text": text });
        let call = Call { input: Json::of(&input).expect("JSON").into(), ..crate::common::call("echo", Value::Null) };
        let outcome = house.door.call(&house.scope, &Context::default(), call, Arc::new(())).await;
        assert_eq!(outcome.value(), Ok(input));
    }
    let wrong = Call { input: Json::parse("[1]").expect("JSON").into(), ..crate::common::call("echo", Value::Null) };
    let outcome = house.door.call(&house.scope, &Context::default(), wrong, Arc::new(())).await;
    assert_eq!(outcome.value().expect_err("refused").code, ErrorCode::InvalidInput);
}

/// Waits until it is told, and notes whether it was dropped before its end.
struct Waits {
    started: Arc<Notify>,
    dropped: Arc<AtomicBool>,
    limit: Option<Duration>,
}

struct SetOnDrop(Arc<AtomicBool>);
impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Tool for Waits {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        let (started, guard) = (Arc::clone(&self.started), SetOnDrop(Arc::clone(&self.dropped)));
        Box::pin(async move {
            let _guard = guard;
            call.updates.update(json!({ "started": true, "token": "sk-abcdefgh12345678" }));
            started.notify_one();
            std::future::pending().await
        })
    }
    fn timeout(&self) -> Option<Duration> {
        self.limit
    }
}

#[tokio::test]
async fn an_abort_reaches_the_running_tool_and_is_told_as_one() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let waits = Arc::new(Waits { started: started.clone(), dropped: dropped.clone(), limit: None });
    let house = house(|door| door.tool(entry("openclaw:core:waits"), waits).expect("registered"));
    let context = Context::default();
    let (outcome, ()) = tokio::join!(house.call_as(&context, "waits", json!({ "text": "x" })), async {
        started.notified().await;
        context.abort.cancel();
    });
    assert_eq!((outcome.result.expect_err("aborted").code, outcome.effect), (ErrorCode::Aborted, Effect::Unknown));
    // The task is dropped by the runtime soon after.
    while !dropped.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let updates: Vec<Value> = house
        .events
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::Update { update } => Some(update.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(updates, [json!({ "started": true, "token": "[redacted]" })]);
    let before = house.call_as(&context, "openclaw:core:echo", json!({ "text": "x" })).await;
    assert_eq!((before.result.expect_err("aborted").code, before.effect), (ErrorCode::Aborted, Effect::None));
}

#[tokio::test]
async fn a_tool_that_hangs_is_ended_by_its_timeout() {
    let waits = |limit| Arc::new(Waits { started: Arc::default(), dropped: Arc::default(), limit: Some(limit) });
    let house = house(|door| {
        let mut looks = entry("openclaw:core:looks");
        looks.flags.read_only = true;
        let door = door.tool(entry("openclaw:core:waits"), waits(Duration::from_millis(20))).expect("registered");
        door.tool(looks, waits(Duration::from_millis(20))).expect("registered")
    });
    let outcome = house.call("waits", json!({ "text": "x" })).await;
    let error = outcome.result.expect_err("ended");
    assert_eq!((error.code, outcome.effect), (ErrorCode::Timeout, Effect::Unknown));
    assert!(error.message.contains("20 ms"));
    assert_eq!(house.call("looks", json!({ "text": "x" })).await.effect, Effect::None);
}

#[tokio::test]
async fn a_tool_that_fails_or_breaks_down_harms_its_call_only() {
    let house = house(|door| {
        let fails = FnTool(|_: ToolCall| async { Err::<Value, _>(ToolError::unknown("the disk is full")) });
        async fn breaks(_: ToolCall) -> Result<Value, ToolError> {
            panic!("a bug")
        }
        let door = door.tool(entry("openclaw:core:fails"), Arc::new(fails)).expect("registered");
        door.tool(entry("openclaw:core:breaks"), Arc::new(FnTool(breaks))).expect("registered")
    });
    let outcome = house.call("fails", json!({ "text": "x" })).await;
    let error = outcome.result.expect_err("failed");
    assert_eq!(
        (error.code, error.message.as_str(), outcome.effect),
        (ErrorCode::ToolFailed, "the disk is full", Effect::Unknown)
    );
    assert!(house.error("breaks", json!({ "text": "x" })).await.message.contains("bug of the tool"));
    assert!(house.call("echo", json!({ "text": "x" })).await.result.is_ok());
}

#[tokio::test]
async fn sequential_tools_run_one_at_a_time() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (running_, most_) = (running.clone(), most.clone());
    let house = house(move |door| {
        let mut one = entry("openclaw:core:one");
        one.flags.sequential = true;
        let tool = FnTool(move |call: ToolCall| {
            let (running, most) = (running_.clone(), most_.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<Value, ToolError>(call.input)
            }
        });
        door.tool(one, Arc::new(tool)).expect("registered")
    });
    let calls = (0..10).map(|i| house.call("one", json!({ "text": i.to_string() })));
    let mut set = Vec::new();
    for call in calls {
        set.push(call);
    }
    for outcome in futures_join(set).await {
        assert!(outcome.result.is_ok());
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// Polls all of them together.
async fn futures_join<F: std::future::Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut all = true;
        for (future, done) in &mut pinned {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => all = false,
                }
            }
        }
        if all { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    pinned.into_iter().map(|(_, done)| done.unwrap()).collect()
}

#[tokio::test]
async fn a_sequential_tool_that_calls_another_does_not_wait_for_itself() {
    type Shared = Arc<Mutex<Option<(Arc<Door>, Arc<pincer_tools::RunCatalog>)>>>;
    let shared: Shared = Arc::default();
    let inner = shared.clone();
    let made = house(move |door| {
        let mut outer = entry("openclaw:core:outer");
        outer.flags.sequential = true;
        let tool = FnTool(move |tool_call: ToolCall| {
            let (door, scope) = inner.lock().unwrap().clone().expect("set");
            async move {
                let call = call("openclaw:core:outer", json!({ "text": "inner" }));
                let outcome = door.call(&scope, &tool_call.context, call, Arc::new(())).await;
                Ok::<Value, ToolError>(json!(outcome.result.expect_err("refused").code))
            }
        });
        door.tool(outer, Arc::new(tool)).expect("registered")
    });
    *shared.lock().unwrap() = Some((made.door.clone(), made.scope.clone()));
    let outcome = made.call("outer", json!({ "text": "x" })).await;
    assert_eq!(outcome.value(), Ok(json!("reentrant")));
    let nested =
        made.events.lock().unwrap().iter().any(|event| event.parent.as_ref().is_some_and(|parent| *parent == "call-1"));
    assert!(nested, "the nested call does not name its parent");
}

#[tokio::test]
async fn calls_of_a_run_are_journalled_with_two_rows_and_what_cannot_be_noted_is_not_done() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let house = house(move |door| {
        let mut looks = entry("openclaw:core:looks");
        looks.flags.read_only = true;
        let tool = FnTool(move |call: ToolCall| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<Value, ToolError>(call.input) }
        });
        door.tool(looks, Arc::new(tool)).expect("registered")
    });
    let (id, session, user) = (RunId::from("cm_1"), "s".into(), "me".into());
    let run = NewRun {
        id: id.clone(),
        session,
        user,
        agent_run: None,
        created_at: 0,
        key: None,
        tools: None,
        recorded: None,
    };
    let claim = Claim { owner: "p".into(), safety: Safety::Process };
    let fence = house.store.create_run(run, claim.clone(), None, Safety::Process).await.expect("made");
    let run = RunOwner::new(id.clone(), "p".into(), fence, Safety::Process);
    let context = Context { run: Some(run), ..Context::default() };
    assert!(house.call_as(&context, "looks", json!({ "text": "x" })).await.result.is_ok());
    let calls = house.store.calls(&id).await.expect("read");
    assert_eq!((calls.len(), calls[0].state, calls[0].repeat), (1, CallState::Settled, Repeat::Pure));
    assert_eq!(calls[0].outcome.as_deref(), Some(r#"{"ok":{"text":"x"}}"#));
    // Without a checkpoint, what may change something is not done.
    let outcome = house.call_as(&context, "echo", json!({ "text": "x" })).await;
    assert_eq!((outcome.result.expect_err("not covered").code, outcome.effect), (ErrorCode::Store, Effect::None));
    // Another process owns the run now: nothing happens, and the tool is not touched.
    let other = Claim { owner: "other".into(), ..claim };
    house.store.claim_run(&id, (RunState::Running, fence), other).await.expect("claimed");
    let outcome = house.call_as(&context, "looks", json!({ "text": "y" })).await;
    assert_eq!((outcome.result.expect_err("refused").code, outcome.effect), (ErrorCode::Aborted, Effect::None));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn tools_with_bad_schemas_or_the_same_id_are_refused() {
    let mut bad = entry("openclaw:core:bad");
    bad.input_schema = json!({ "type": "nonsense" });
    assert!(matches!(Door::builder().tool(bad, echo()), Err(RegisterError::Schema { which: "input", .. })));
    let mut bad = entry("openclaw:core:bad");
    bad.output_schema = Some(json!({ "type": 5 }));
    assert!(matches!(Door::builder().tool(bad, echo()), Err(RegisterError::Schema { which: "output", .. })));
    let twice = Door::builder()
        .tool(entry("openclaw:core:a"), echo())
        .and_then(|door| door.tool(entry("openclaw:core:a"), echo()));
    assert!(matches!(twice, Err(RegisterError::Twice(_))));
}
