//! Many principals, agents and sessions in one runtime: rights that agree, and nothing of one that is another's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pincer_codemode::{CodeModeResult, ExecInput, WaitInput};
use pincer_config::{Config, Loaded, parse};
use pincer_runtime::{
    Audience, BuiltIn, EngineStart, Observer, Principal, Runtime, RuntimeOptions, Scope, ScopeRequest,
};
use pincer_store::{RunState, Runs};
use pincer_testkit::house::{House, Plan, program};
use pincer_testkit::tools::{Gates, echo, entry, gate};
use pincer_tools::{Call, Event, EventKind};
use serde_json::{Value, json};

fn config(text: &str) -> Config {
    parse(text, &|_| None).unwrap().config
}

fn request(user: &str) -> ScopeRequest {
    ScopeRequest::new(Principal::new(user), "main")
}

/// Returns the names of the tools of a scope.
fn tools(runtime: &Runtime, scope: &Scope) -> Vec<String> {
    runtime.tools(scope).catalog().iter().map(|entry| entry.id.name().to_owned()).collect()
}

fn house(text: &str) -> House {
    let tools = vec![("openclaw:core:echo", echo()), ("plugin:shop:stock", echo())];
    Plan { config: config(text), ..Plan::default() }.tools(tools).open()
}

async fn value(house: &House, scope: &Scope, code: &str) -> Value {
    let result = house.runtime.exec(scope, ExecInput::javascript(code)).await;
    let CodeModeResult::Completed(done) = result else { panic!("{code}: {result:?}") };
    done.value.to().unwrap()
}

#[tokio::test]
async fn each_caller_has_the_tools_that_its_own_rules_leave() {
    let house = house(
        "{ tools: { bySender: { ann: { deny: ['stock'] } }, sandbox: { tools: { deny: ['echo'] } } },
          agents: { writer: { tools: { allow: ['echo'] } } } }",
    );
    let anybody = request("bob");
    let cases = [
        (anybody.clone(), vec!["echo", "stock"]),
        (ScopeRequest { principal: Principal::with_token("ann"), ..anybody.clone() }, vec!["echo"]),
        (ScopeRequest { principal: Principal::with_token("bob"), ..anybody.clone() }, vec!["echo", "stock"]),
        (ScopeRequest { agent: Some("writer".into()), ..anybody.clone() }, vec!["echo"]),
        (ScopeRequest { sandboxed: true, ..anybody.clone() }, vec!["stock"]),
        // The config says nothing of tools for all, so a client has no built-in ones.
        (ScopeRequest { audience: Audience::Client, ..anybody.clone() }, vec!["stock"]),
    ];
    for (request, expected) in cases {
        let scope = house.runtime.scope(&request).unwrap();
        assert_eq!(tools(&house.runtime, &scope), expected, "{request:?}");
    }
}

#[tokio::test]
async fn tools_are_made_once_for_a_caller_until_the_door_changes() {
    let house = house("{}");
    let runtime = &house.runtime;
    let of = |user: &str| runtime.tools(&runtime.scope(&request(user)).unwrap());
    let before = of("ann");
    assert!(Arc::ptr_eq(&before, &of("ann")));
    assert!(!Arc::ptr_eq(&before, &of("bob")));
    let scope = runtime.scope(&request("ann")).unwrap();
    let server = pincer_tools::Server {
        name: "files".into(),
        state: pincer_tools::ServerState::Available,
        tools: vec![(Arc::new(entry("mcp:files:read")), echo())],
    };
    runtime.door().set_server(server);
    assert_eq!(tools(runtime, &scope), ["read", "echo", "stock"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_one_caller_is_not_continued_by_another() {
    let house = house("{}");
    let (ann, bob) = (request("ann"), request("bob"));
    let elsewhere = ScopeRequest { session: "other".into(), ..ann.clone() };
    let scope = |request| house.runtime.scope(request).unwrap();
    let result = house.runtime.exec(&scope(&ann), ExecInput::javascript("await yield_control(); return 7")).await;
    let CodeModeResult::Waiting(waiting) = result else { panic!("{result:?}") };
    let input = WaitInput { run_id: waiting.run_id };
    for (request, why) in [(&bob, "different caller"), (&elsewhere, "different session")] {
        let refused = house.runtime.wait(&scope(request), &input).await;
        let CodeModeResult::Failed(failed) = refused else { panic!("{refused:?}") };
        assert!(failed.error.contains(why), "{}", failed.error);
        assert!(!house.runtime.belongs_to(&scope(request), &input.run_id).await);
    }
    let done = house.runtime.wait(&scope(&ann), &input).await;
    assert!(matches!(done, CodeModeResult::Completed(_)), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_has_the_tools_of_a_server_that_was_not_known_before() {
    let house = Plan::default().server("good", program("mcp-fixture", "stdio")).open();
    let scope = house.runtime.scope(&request("ann")).unwrap();
    assert!(house.runtime.tools(&scope).catalog().is_empty());
    let said = value(&house, &scope, "return (await MCP.good.testSimpleText({})).content[0].text").await;
    assert_eq!(said, "This is a simple text response for testing.");
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_scope_does_not_wait_for_servers() {
    let never = program("mcp-liar", "silent-init");
    let house = Plan::default().server("never", never).timeout_ms(60_000).open();
    let scope = house.runtime.scope(&request("ann")).unwrap();
    scope.abort().cancel();
    let result = house.runtime.exec(&scope, ExecInput::javascript("return MCP.never.echo({})")).await;
    let CodeModeResult::Failed(failed) = result else { panic!("{result:?}") };
    assert_eq!(failed.code, Some(pincer_codemode::ErrorCode::Aborted));
    // Another scope of the same caller is not.
    assert_eq!(value(&house, &scope.renewed(), "return 1").await, 1);
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_call_carries_the_identity_that_its_policy_was_made_for() {
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let told = Arc::clone(&seen);
    let plan = Plan {
        events: Some(Arc::new(move |event: &Event| told.lock().unwrap().push(event.clone()))),
        ..Plan::default()
    };
    let house = plan.tools(vec![("openclaw:core:echo", echo())]).open();
    let principal = Principal::with_token("ann").over("mcp");
    let scope = house.runtime.scope(&ScopeRequest::new(principal, "main")).unwrap();
    let call = Call { id: "call-1".into(), tool: "echo".into(), input: json!({ "a": 1 }).into(), ..Call::default() };
    assert_eq!(house.runtime.call(&scope, call).await.value().unwrap(), json!({ "a": 1 }));
    let seen = seen.lock().unwrap();
    let start = seen.iter().find(|event| matches!(event.what, EventKind::Start { .. })).unwrap();
    assert_eq!((start.session.as_str(), start.sender.as_deref()), ("main", Some("token:ann")));
}

#[tokio::test]
async fn a_call_needs_no_engine() {
    let directory = tempfile::tempdir().unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let notices = Arc::clone(&told);
    let options = RuntimeOptions {
        engine: EngineStart::WhenNeeded,
        built_in: BuiltIn::LeftOut,
        extend: Box::new(|door| door.tool(entry("openclaw:core:echo"), echo())),
        observer: Observer::new(move |notice| notices.lock().unwrap().push(notice.to_string())),
        ..RuntimeOptions::new(Loaded::default(), directory.path())
    };
    let runtime = Runtime::open(options).unwrap();
    let scope = runtime.scope(&request("ann")).unwrap();
    let call = Call { id: "call-1".into(), tool: "echo".into(), input: json!({}).into(), ..Call::default() };
    runtime.call(&scope, call).await.value().unwrap();
    runtime.shutdown(Duration::ZERO).await;
    assert_eq!(*told.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_suspends_programs_and_ends_their_calls() {
    let gates = Gates::default();
    let house = Plan::default().tools(vec![("openclaw:core:gate", gate(&gates))]).open();
    let runtime = Arc::clone(&house.runtime);
    let scope = runtime.scope(&request("ann")).unwrap();
    let going = tokio::spawn(async move {
        runtime.exec(&scope, ExecInput::javascript("return await tools.gate({ name: 'x' })")).await
    });
    gates.pass("x begun").await;
    house.runtime.shutdown(Duration::from_millis(10)).await;
    let result = going.await.unwrap();
    let CodeModeResult::Waiting(waiting) = result else { panic!("{result:?}") };
    assert_eq!(house.runtime.store().run(&waiting.run_id).wait().unwrap().state, RunState::Waiting);
    assert!(!house.runtime.is_busy());
}
