//! Recorded programs that run again: the same way, without tools, and told where they take another.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::common::{House, echo, engine, entry, house, house_with};
use pincer_catalog::{Catalog, Flags, Policy};
use pincer_codemode::{
    CodeMode, CodeModeResult, ExecInput, Guest, Recording, RecordingError, Replay, ReplayOptions, RunScope, RunTools,
    Settings, Step, WaitInput, What, replay,
};
use pincer_sandbox::{Engine, Options};
use pincer_store::{Approvals, Clock, Journal, RecordedRuns, RunId, RunState, Runs, Safety};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_testkit::faulty::FaultyStore;
use pincer_tools::{
    Answer, Arguments, Context, Door, FnTool, Namespace, NamespaceFunction, NamespacePart, NamespaceSource, Plugin,
    Server, ServerState, ToolCall, ToolError,
};
use serde_json::{Value, json};

/// An engine of its own: the programs of other tests have turns that wait for each other.
fn replayer() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let cache_dir = Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache"));
    ENGINE.get_or_init(|| Engine::load(Options { cache_dir, ..Options::default() }).unwrap())
}

/// The latest run.
async fn latest(house: &House) -> RunId {
    house.store.runs(None).await.unwrap().pop().expect("a run").id
}

async fn recording(house: &House) -> Recording {
    Recording::read(&*house.store, &latest(house).await).await.unwrap()
}

fn again(recording: &Recording) -> Replay {
    replay(replayer(), recording, &ReplayOptions::default()).unwrap()
}

/// The same for a program that may not end.
fn again_briefly(recording: &Recording) -> Replay {
    let turn_time = Some(Duration::from_millis(300));
    replay(replayer(), recording, &ReplayOptions { turn_time, ..ReplayOptions::default() }).unwrap()
}

/// Replays the latest run, which must take the same way to its end, also from a file.
async fn same(house: &House, what: &str) -> Vec<Step> {
    let recording = recording(house).await;
    let done = again(&recording);
    assert!(done.is_same() && done.ends_here.is_none() && done.warnings.is_empty(), "{what}: {done:#?}");
    let read = Recording::parse(&recording.to_text()).unwrap();
    assert_eq!(json!(again(&read)), json!(done), "{what}: from a file");
    done.steps
}

/// The value or failure at the end of some steps.
fn end(steps: &[Step]) -> String {
    match &steps.last().expect("a step").what {
        What::Ended { how } => how.clone(),
        other => panic!("{other:?}"),
    }
}

fn difference(done: &Replay) -> String {
    let found = done.difference.as_ref().unwrap_or_else(|| panic!("it is the same: {done:#?}"));
    format!("step {}, line {:?}: expected {}, found {}", found.step, found.line, found.expected, found.found)
}

/// An MCP server, a namespace and tools.
fn full_house() -> House {
    let house = house();
    let says = || {
        Arc::new(FnTool(|call: ToolCall| async move {
            Ok::<_, ToolError>(json!({ "structuredContent": call.input, "content": [] }))
        }))
    };
    let mut issue = pincer_catalog::Entry::new("mcp:git-hub:create_issue".parse().unwrap(), "Creates");
    issue.input_schema = json!({ "type": "object", "properties": { "title": { "type": "string" }, "labels": { "type": "array", "default": ["new"] } }, "required": ["title"] });
    let image = Arc::new(FnTool(|_: ToolCall| async move {
        Ok::<_, ToolError>(json!({ "content": [{ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }] }))
    }));
    let picture = pincer_catalog::Entry::new("mcp:git-hub:picture".parse().unwrap(), "Draws");
    house.door.set_server(Server {
        name: "git-hub".into(),
        state: ServerState::Available,
        tools: vec![(issue.into(), says()), (picture.into(), image)],
    });
    let list = NamespacePart::Tool(NamespaceFunction {
        tool: "list".into(),
        arguments: Arguments::Named(vec!["a".into(), "b".into()]),
    });
    let orders = Namespace {
        id: "orders".into(),
        global: "Orders".into(),
        description: None,
        prompt: None,
        required_tools: vec!["list".into()],
        scope: NamespaceSource::Fixed(NamespacePart::Object(BTreeMap::from([("list".to_owned(), list)]))),
    };
    let tool = (entry("plugin:shop:list", Flags { trusted: true, ..Flags::default() }), echo());
    let plugin = Plugin { tools: vec![tool], namespaces: vec![orders], ..Plugin::new("shop") };
    house.door.register(plugin).unwrap();
    house
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_take_the_same_way_again() {
    for (code, steps) in [
        ("await tools.count({}); return 5", 2),
        ("await tools.count({}); return [Math.random(), Date.now(), new Date().toISOString()]", 2),
        ("await tools.echo({ r: Math.random(), t: Date.now() }); text(Math.random()); return Math.random()", 3),
        (
            "const until = Date.now() + 3; let n = 0; while (Date.now() < until) n++; await tools.count({ n }); return n",
            2,
        ),
        ("const all = await Promise.all([1, 2, 3].map((i) => tools.echo({ i }))); return all.map((it) => it.i)", 4),
        (
            "const first = await Promise.race([tools.echo({ i: 1 }), tools.look({ i: 2 }), new Promise((d) => setTimeout(() => d('late'), 1))]); await tools.count({ first }); return first",
            5,
        ),
        (
            "for (let i = 0; i < 20; i++) await new Promise((d) => setTimeout(d, i % 3)); await tools.count({}); return Date.now()",
            22,
        ),
        ("const t = setTimeout(() => text('never'), 10000); await tools.count({}); clearTimeout(t); return 1", 3),
        ("try { await tools.fail({}) } catch (e) { return [e.name, e.message, e.effect, e.toolId, e.code] }", 2),
        ("await tools.fail({})", 2),
        ("await tools.count({}); null.x", 2),
        ("await tools.count({}); await new Promise(() => {})", 2),
        ("await tools.count({}); Promise.reject(new Error('unhandled')); await tools.count({})", 3),
        (
            "await tools.count({}); text('a'); json({ b: 1 }); console.log('c'); await tools.count({}); text('d'); return 1",
            5,
        ),
        (
            "const found = await tools.search('echo', { limit: 3 }); const it = await tools.describe(found[0].id); await tools.count({}); return [found, it]",
            4,
        ),
        ("try { await tools.describe('nothing') } catch (e) { await tools.count({}); return e.message }", 3),
        ("await tools.call('openclaw:core:count', {}); return ALL_TOOLS.map((it) => it.id)", 2),
        ("return [await Orders.list(1, 2), Object.keys(namespaces)]", 2),
        (
            "const made = await MCP.gitHub.create_issue?.({ title: 'x' }) ?? await MCP.gitHub.createIssue({ title: 'x' }); return [made, unwrap(made)]",
            2,
        ),
        (
            "const api = await MCP.gitHub.$api(); const files = await API.list(); const text = await API.read(files[0].path); await tools.count({}); return [api.header.length, files, text.length]",
            3,
        ),
        ("return await MCP.gitHub.picture({})", 2),
        ("try { await MCP.gitHub.createIssue({}) } catch (e) { await tools.count({}); return e.message }", 3),
        ("try { await tools.call('gone:x:y', {}) } catch (e) { await tools.count({}); return e.code }", 3),
        (
            "try { await tools.call('openclaw:core:hidden', {}) } catch (e) { await tools.count({}); return e.message }",
            3,
        ),
        (
            "await tools.count({}); const big = await tools.echo({ text: 'x'.repeat(300000) }); return big.text.length",
            3,
        ),
        (
            "const value = await tools.echo({ deep: [1e21, -0, 0.1, 'ü\\ud83d\\ude00', null, { z: 1, a: 2 }] }); await tools.echo(value); return value",
            3,
        ),
        ("let x: number = 1; await tools.count({ x } as any); return x", 2),
    ] {
        let house = full_house();
        let input = if code.starts_with("let x:") { ExecInput::typescript(code) } else { ExecInput::javascript(code) };
        let result = serde_json::to_value(house.mode.exec(&house.scope(), input).await).unwrap();
        let found = same(&house, code).await;
        assert_eq!(found.len(), steps, "{code}: {found:#?}");
        match result["status"].as_str() {
            Some("completed") => assert!(
                end(&found).starts_with("the value ") && result["value"].to_string().len() > 400
                    || end(&found) == format!("the value {}", result["value"]),
                "{code}: {found:#?}"
            ),
            _ => assert!(
                end(&found).contains("failure") || end(&found).contains("recorded as failed"),
                "{code}: {found:#?}"
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_tool_search_code_are_replayed_too() {
    let house = full_house();
    let scope = RunScope { guest: Guest::ToolSearch, ..house.scope() };
    let code = "const [hit] = await openclaw.tools.search('count'); const it = await openclaw.tools.describe(hit.id); console.log(it.id); return await openclaw.tools.call(hit.id, {})";
    let result = house.exec_in(&scope, code).await;
    assert_eq!(result["status"], "completed", "{result}");
    assert_eq!(same(&house, code).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_was_suspended_and_continued_elsewhere_has_one_recording() {
    let house = house();
    let scope = house.brief();
    let code = "const start = Date.now(); text('one'); const name = await tools.gate({ name: 'slow', start, r: Math.random() }); text('two');
        await yield_control('look'); const all = await tools.search('echo'); await tools.count({ r: Math.random() }); return [name, Date.now() - start > 0, all.length]";
    let waiting = house.exec_in(&scope, code).await;
    assert_eq!(waiting["status"], "waiting");
    // What is known so far can be replayed.
    let so_far = again(&recording(&house).await);
    assert!(so_far.is_same(), "{so_far:#?}");
    assert!(end(&so_far.steps).contains("the run is waiting"), "{so_far:#?}");
    house.gates.open("slow");
    let there = house.neighbour();
    let yielded = there.wait(&waiting).await;
    assert_eq!(yielded["reason"], "yield", "{yielded}");
    let done = there.neighbour().wait(&yielded).await;
    assert_eq!(done["status"], "completed", "{done}");
    let steps = same(&house, code).await;
    let suspended: Vec<_> = steps
        .iter()
        .filter_map(|step| match &step.what {
            What::Suspended { waits_for, ms } => Some((waits_for.clone(), ms.is_some())),
            _ => None,
        })
        .collect();
    let expected = [(vec!["openclaw:core:gate".to_owned()], true), (vec!["its caller, by its own wish".into()], true)];
    assert_eq!(suspended, expected, "{steps:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_waited_for_and_shown() {
    for (answer, value) in [(Answer::AllowOnce, "done"), (Answer::Deny, "denied")] {
        let house = house();
        let code = "try { await tools.ask({ x: 1 }); return 'done' } catch (e) { return e.code }";
        let waiting = house.exec(code).await;
        let question = house.store.pending_approvals().await.unwrap().remove(0);
        house.door.answer(&question.id, answer, "me").await.unwrap();
        let done = house.neighbour().wait(&waiting).await;
        assert_eq!(done["value"], value, "{done}");
        let steps = same(&house, code).await;
        let is_approval = |step: &Step| matches!(&step.what, What::Suspended { waits_for, .. } if waits_for == &["an approval of openclaw:core:ask"]);
        assert!(steps.iter().any(is_approval), "{steps:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_takes_another_way_is_told_where() {
    let house = house();
    let code = "const a = await tools.count({});\nconst b = await tools.echo({ a });\ntext('b');\nreturn b";
    house.exec(code).await;
    let recording = recording(&house).await;
    let other = |code: &str| {
        let options = ReplayOptions { code: Some(code.into()), ..ReplayOptions::default() };
        replay(replayer(), &recording, &options).unwrap()
    };
    for (from, to, told) in [
        (
            "{ a }",
            "{ a: 7 }",
            "step 2, line Some(2): expected openclaw:core:echo {\"a\":1} in line 2, found openclaw:core:echo {\"a\":7} in line 2",
        ),
        (
            "tools.echo",
            "tools.look",
            "step 2, line Some(2): expected openclaw:core:echo {\"a\":1} in line 2, found openclaw:core:look {\"a\":1} in line 2",
        ),
        (
            "return b",
            "await tools.count({ b }); return b",
            "step 4, line Some(4): expected the value {\"a\":1}, found openclaw:core:count {\"b\":{\"a\":1}} in line 4",
        ),
        (
            "const b = await tools.echo({ a });",
            "return 9;",
            "step 2, line Some(2): expected openclaw:core:echo {\"a\":1} in line 2, found the value 9",
        ),
        (
            "return b",
            "null.x",
            "step 4, line Some(4): expected the value {\"a\":1}, found the failure TypeError: cannot read property 'x' of null",
        ),
    ] {
        let done = other(&code.replace(from, to));
        assert!(!done.is_same());
        assert_eq!(difference(&done), told);
    }
    // Lines, what is printed and how often the clock is looked at may differ in another text.
    for fine in [code.replace("text('b')", "text('c')"), format!("Date.now();\n\n{code}")] {
        assert!(other(&fine).is_same(), "{:#?}", other(&fine));
    }
    // `until` stops it before.
    let options =
        ReplayOptions { until: Some(1), code: Some(code.replace("{ a }", "{ a: 7 }")), ..ReplayOptions::default() };
    let done = replay(replayer(), &recording, &options).unwrap();
    assert!(done.is_same() && done.ends_here.as_deref().unwrap().contains("after step 1"), "{done:#?}");
}

/// A change of a file.
type Change = Box<dyn FnOnce(&mut Value)>;

/// Changes a recording as its file has it.
fn tampered(recording: &Recording, change: impl FnOnce(&mut Value)) -> Result<Replay, RecordingError> {
    let mut file: Value = serde_json::from_str(&recording.to_text()).unwrap();
    change(&mut file);
    Recording::parse(&file.to_string()).map(|recording| again_briefly(&recording))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tampered_recording_is_noticed() {
    let house = house();
    house.exec("const a = await tools.count({}); const b = await tools.search('echo'); await tools.echo({ a, r: Math.random(), t: Date.now(), n: b.length, x: ALL_TOOLS.length }); text('x'); return [a, Math.random()]").await;
    let recording = recording(&house).await;
    assert!(again(&recording).is_same());
    let changes: Vec<(&str, Change)> = vec![
        ("an outcome", Box::new(|file| file["calls"][0]["outcome"] = json!({ "ok": 2 }))),
        ("the seed", Box::new(|file| file["program"]["seed"] = "0000000000000007".into())),
        (
            "the clock",
            Box::new(|file| {
                let turn = file["events"]
                    .as_array_mut()
                    .unwrap()
                    .iter_mut()
                    .find(|it| it["turn"].get("clock").is_some())
                    .unwrap();
                turn["turn"]["clock"][0][0] = 5.into();
            }),
        ),
        ("the order of turns", Box::new(|file| file["events"].as_array_mut().unwrap().swap(0, 1))),
        ("a turn", Box::new(|file| drop(file["events"].as_array_mut().unwrap().remove(1)))),
        ("a check", Box::new(|file| file["events"][0]["turn"]["requests"][0]["check"] = 0.into())),
        ("a line", Box::new(|file| file["events"][0]["turn"]["requests"][0]["line"] = 7.into())),
        ("the program", Box::new(|file| file["program"]["code"] = "return 1".into())),
        ("the texts", Box::new(|file| file["texts"] = json!({}))),
        ("the globals", Box::new(|file| file["program"]["globals"] = json!(["tools"]))),
        ("an answer", Box::new(|file| file["events"][1]["turn"]["answers"][0]["id"] = 99.into())),
        (
            "the end",
            Box::new(|file| {
                let last = file["events"].as_array_mut().unwrap().last_mut().unwrap();
                last["turn"]["end"] = json!({ "value": 0 });
            }),
        ),
        (
            "output",
            Box::new(|file| {
                let last = file["events"].as_array_mut().unwrap().last_mut().unwrap();
                last["turn"]["printed"] = 0.into();
            }),
        ),
    ];
    for (what, change) in changes {
        let done = tampered(&recording, change).unwrap();
        assert!(!done.is_same(), "{what}: {done:#?}");
    }
    // And what is not of the form.
    let refused = |change: fn(&mut Value)| tampered(&recording, change).unwrap_err().to_string();
    assert!(refused(|file| file["form"] = 2.into()).contains("form 2"));
    assert!(
        refused(|file| {
            file["form"] = 2.into();
            file["new"] = 1.into();
        })
        .contains("form 2")
    );
    assert!(refused(|file| file["program"]["form"] = 3.into()).contains("form 3"));
    assert!(refused(|file| file["events"][0] = json!({ "other": 1 })).contains("damaged"));
    assert!(Recording::parse("{").unwrap_err().to_string().contains("damaged"));
    let zeros = format!("[{}0]", "0,".repeat(pincer_sandbox::MAX_NODES));
    assert!(Recording::parse(&zeros).unwrap_err().to_string().contains("1000000 values"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_recording_ends_and_reaches_nothing() {
    let house = house();
    house.exec("await tools.count({}); return 1").await;
    let recording = recording(&house).await;
    for code in [
        "for (;;);",
        "for (;;) Date.now()",
        "const a = []; for (;;) a.push(new Array(1e5).fill(0))",
        "for (;;) text('x'.repeat(1e6))",
        "const f = () => f(); f()",
        "await tools.count({}); for (;;);",
        "for (let i = 0; i < 1e6; i++) tools.count({ i })",
    ] {
        let done = tampered(&recording, |file| {
            file["program"]["code"] = code.into();
            file["program"]["limits"]["memoryBytes"] = json!(8 << 20);
        });
        let done = done.unwrap();
        assert!(!done.is_same() && done.steps.len() < 10, "{code}: {done:#?}");
    }
    let huge = tampered(&recording, |file| {
        for limit in ["memoryBytes", "outputBytes", "valueBytes", "pendingRequests", "sourceBytes", "timeoutMs"] {
            file["program"]["limits"][limit] = json!(u64::MAX);
        }
    });
    assert!(huge.unwrap().is_same(), "limits are clamped");
    assert_eq!(house.count(), 1, "no tool is called");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_were_stopped_are_shown_up_to_there() {
    let house = house();
    for (code, told) in [
        ("await tools.count({}); text('here'); for (;;);", "deadline"),
        ("await tools.count({}); text('here'); const a = []; for (;;) a.push(new Array(1e5).fill(0))", "memory"),
        ("await tools.count({}); text('here'); for (;;) text('x'.repeat(10000))", "output"),
    ] {
        let mut scope = house.scope();
        if told == "deadline" {
            scope.settings = scope.settings.timeout_ms(400);
        }
        let result = house.exec_in(&scope, code).await;
        assert_eq!(result["status"], "failed", "{code}: {result}");
        let done = again(&recording(&house).await);
        assert!(done.is_same() && end(&done.steps).contains(told), "{code}: {done:#?}");
        let here = |step: &Step| matches!(&step.what, What::Printed { output } if json!(output)[0]["text"] == "here");
        assert!(done.steps.iter().any(here), "{code}: {done:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_was_aborted_while_it_waited_is_shown_up_to_there() {
    let house = house();
    let waiting = house.exec_in(&house.brief(), "text('a'); await tools.gate({ name: 'never' }); return 1").await;
    let run: RunId = waiting["runId"].as_str().unwrap().into();
    house.store.abort_run(&run, house.store.now()).await.unwrap();
    let done = again(&recording(&house).await);
    assert!(done.is_same() && end(&done.steps).contains("aborted"), "{done:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_goes_as_far_as_the_journal_does() {
    let house = house();
    let mut scope = house.scope();
    scope.settings.journal_bytes = 20_000;
    let code = "for (let i = 0; i < 40; i++) await tools.echo({ i, text: 'x'.repeat(1000) }); return 'done'";
    let result = house.exec_in(&scope, code).await;
    assert_eq!(result["value"], "done", "{result}");
    let done = again(&recording(&house).await);
    assert!(done.is_same(), "{done:#?}");
    assert!(done.ends_here.as_deref().unwrap().contains("is not kept any more"), "{done:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_recording_is_cut_and_says_so() {
    let house = house();
    let mut scope = house.scope();
    scope.settings = scope.settings.clone().timeout_ms(60_000);
    let code = "await tools.count({}); for (let i = 0; i < 5000; i++) await tools.search('nothing' + i); return 'done'";
    let result = house.exec_in(&scope, code).await;
    assert_eq!(result["value"], "done", "{result}");
    let recording = recording(&house).await;
    assert!(recording.to_text().len() < 3 << 20, "{}", recording.to_text().len());
    let done = again(&recording);
    assert!(done.is_same() && done.steps.len() > 1000, "{:?}", done.ends_here);
    assert!(done.ends_here.as_deref().unwrap().contains("more than is recorded"), "{:?}", done.ends_here);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redacted_values_are_told_and_what_was_there_cannot_be_found_out() {
    let house = house();
    let code = "const { key } = await tools.echo({ key: 'sk-' + 'secret' }); await tools.echo({ again: key }); return key.length";
    house.exec(code).await;
    fn redact(value: Value) -> Value {
        match value {
            Value::String(text) => text.replace("sk-secret", "[redacted]").into(),
            Value::Array(items) => items.into_iter().map(redact).collect(),
            Value::Object(members) => members.into_iter().map(|(key, value)| (key, redact(value))).collect(),
            other => other,
        }
    }
    let recording = recording(&house).await.redacted(&redact);
    assert!(recording.is_redacted() && !recording.to_text().contains("sk-secret"));
    let read = Recording::parse(&recording.to_text()).unwrap();
    let done = again(&read);
    assert!(done.warnings[0].contains("redacted"), "{done:#?}");
    // The calls are the same, and the length of the key is not.
    assert_eq!(done.difference.as_ref().map(|it| it.step), Some(3), "{done:#?}");
    let untouched = self::recording(&house).await.redacted(&|value| value);
    assert!(!untouched.is_redacted() && again(&untouched).is_same());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_an_earlier_version_is_refused() {
    let house = house();
    house.exec("await tools.count({}); return 1").await;
    let id = latest(&house).await;
    let file = rusqlite::Connection::open(house.store_file()).unwrap();
    file.execute("DELETE FROM recording", []).unwrap();
    let error = Recording::read(&*house.store, &id).await.unwrap_err().to_string();
    assert!(error.contains(id.as_str()) && error.contains("was not recorded"), "{error}");
    // A program without a stored run has no recording, and costs no commit.
    let before = house.store.runs(None).await.unwrap().len();
    house.exec("return ALL_TOOLS.length").await;
    assert_eq!(house.store.runs(None).await.unwrap().len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recordings_of_a_session_are_found() {
    let house = house();
    for _ in 0..2 {
        house.exec("await tools.count({}); return 1").await;
    }
    let of = RecordedRuns::OfSession { session: "main".into(), user: "me".into() };
    let runs = Recording::list(&*house.store, of).await.unwrap();
    assert_eq!(runs.len(), 2);
    let all = house.store.runs(None).await.unwrap();
    assert!(all.iter().all(|run| runs.contains(&run.id) && run.state == RunState::Completed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_are_not_stored_twice() {
    let house = house_with(|door| door);
    house.exec("const big = await tools.echo({ text: 'q'.repeat(50000) }); return big.text.length").await;
    let id = latest(&house).await;
    let calls = house.store.calls(&id).await.unwrap();
    assert!(calls[0].outcome.as_ref().unwrap().len() > 50_000);
    let recording = pincer_store::Recordings::recording(&*house.store, &id).await.unwrap();
    let bytes: usize = recording.parts.iter().map(String::len).sum();
    assert!(bytes < 3000, "{bytes}");
    assert!(recording.texts.iter().all(|shared| !shared.text.contains("qqqq")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recording_makes_no_commit_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let commits: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&commits);
    let store = SqliteStore::open(&directory.path().join("pincer.db")).unwrap();
    let store = Arc::new(FaultyStore::new(store).observed(Box::new(move |commit| {
        let synced = if commit.safety == Safety::Power { " synced" } else { "" };
        if commit.run.is_some() {
            noted.lock().unwrap().push(format!("{}{synced}", commit.method));
        }
    })));
    let trusted = Flags { trusted: true, ..Flags::default() };
    let door = Door::builder().tool(entry("openclaw:core:count", trusted), echo()).unwrap();
    let door = door.tool(entry("openclaw:core:look", Flags { read_only: true, ..trusted }), echo()).unwrap();
    let door = Arc::new(door.build(store.clone()));
    let leases = Arc::new(FileLeases::new(directory.path().join("owners")));
    let mode = CodeMode::new(engine().clone(), 4, Arc::clone(&door), store, leases);
    let context = Context { session: "main".into(), ..Context::default() };
    let tools = RunTools::new(&door, &Catalog::new(door.entries()).unwrap(), &Policy::open(), &context);
    let scope = RunScope::new(Arc::new(tools), Settings::default(), context).by("me");
    for (code, expected) in [
        ("return ALL_TOOLS.length", vec![]),
        ("await tools.look({}); return ALL_TOOLS.length", vec!["create_run", "dispatch", "settle", "finish_run"]),
        (
            "await tools.count({}); return Math.random()",
            vec!["create_run", "reserve", "dispatch", "settle", "finish_run"],
        ),
        (
            "for (let i = 0; i < 3; i++) await tools.count({ i, at: Date.now() }); return 1",
            vec![
                "create_run",
                "reserve",
                "dispatch",
                "settle",
                "checkpoint",
                "dispatch",
                "settle",
                "checkpoint",
                "dispatch",
                "settle",
                "finish_run",
            ],
        ),
    ] {
        let result = mode.exec(&scope, ExecInput::javascript(code)).await;
        assert!(matches!(result, CodeModeResult::Completed(_)), "{code}: {result:?}");
        assert_eq!(std::mem::take(&mut *commits.lock().unwrap()), expected, "{code}");
    }
    let result = mode.exec(&scope, ExecInput::javascript("await yield_control(); return 1")).await;
    let CodeModeResult::Waiting(waiting) = result else { panic!("{result:?}") };
    mode.wait(&scope, &WaitInput { run_id: waiting.run_id }).await;
    let expected = ["create_run", "park synced", "claim_run", "finish_run synced"];
    assert_eq!(*commits.lock().unwrap(), expected);
}
