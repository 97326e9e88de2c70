//! Those who sit at clients: they are asked, they take things back, and they go.

use std::sync::Arc;
use std::time::Duration;

use crate::common::person::{Person, Reply, decides};
use crate::common::{Plan, house, planned, program};
use pincer_mcp_server::Surface;
use pincer_store::{ApprovalState, Approvals, Grants, RunState};
use pincer_tools::Answer;
use serde_json::{Value, json};

/// A program that calls `ask` as often as this, and says how often it was allowed.
fn asks(times: u32) -> String {
    format!(
        "let allowed = 0; for (let i = 0; i < {times}; i++) {{ try {{ await tools.ask({{ i }}); allowed++ }} catch (e) {{ \
         if (e.code !== 'denied') throw e }} }} return allowed"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_a_dialog_decides() {
    let say = |answer: Value| Reply::Say(answer);
    let cases: Vec<(&str, Vec<Reply>, u32, u64)> = vec![
        ("allow", vec![decides("allow")], 1, 1),
        ("deny", vec![decides("deny")], 1, 0),
        ("decline", vec![say(json!({ "action": "decline" }))], 1, 0),
        ("cancel", vec![say(json!({ "action": "cancel" }))], 1, 0),
        ("an answer that was not offered", vec![decides("allow everything")], 1, 0),
        ("accepted without an answer", vec![say(json!({ "action": "accept" }))], 1, 0),
        ("each is asked", vec![decides("allow"), decides("deny"), decides("allow")], 3, 2),
        ("so many are allowed at once", vec![decides("allow the next 10"), decides("deny")], 11, 10),
        ("always", vec![decides("always allow")], 30, 30),
    ];
    for (name, replies, times, allowed) in cases {
        let house = house(Surface::Code);
        let questions = replies.len();
        let client = house.connect(Person::who_answers(replies)).await;
        let done = client.exec(&asks(times)).await;
        assert_eq!((&done["status"], &done["value"]), (&json!("completed"), &json!(allowed)), "{name}: {done}");
        let heard = client.heard().await;
        let asked: Vec<&Value> =
            heard.iter().filter(|(method, _)| method == "elicitation/create").map(|(_, params)| params).collect();
        assert_eq!(asked.len(), questions, "{name}");
        assert!(asked[0]["message"].as_str().unwrap().contains("openclaw:core:ask {\"i\":0}"), "{name}: {asked:?}");
        assert_eq!(house.store.grants().await.unwrap().len(), usize::from(name == "always"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_cannot_ask_after_all_leaves_the_program_waiting() {
    let house = house(Surface::Code);
    let client = house.connect(Person::who_answers([Reply::Fail, decides("allow")])).await;
    let waiting = client.exec("return await tools.ask({ a: 1 })").await;
    assert_eq!((&waiting["status"], &waiting["pendingToolCalls"][0]["state"]), (&json!("waiting"), &json!("approval")));
    assert_eq!(waiting["pendingToolCalls"][0]["approvalId"], json!(house.question().id));
    // Whoever continues it is asked the question that is open.
    let done = client.wait(&waiting).await;
    assert_eq!(done["value"], json!({ "a": 1 }), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_dialogs_a_person_is_told_what_to_do_and_the_program_goes_on_when_they_have() {
    let house = house(Surface::Code);
    let client = house.connect(Person::plain()).await;
    let shown = client.call("exec", json!({ "code": "return await tools.ask({ a: 1 })" })).await.unwrap();
    let (waiting, question) = (&shown["structuredContent"], house.question());
    assert_eq!(waiting["pendingToolCalls"][0]["approvalId"], json!(question.id));
    let says = shown["content"][0]["text"].as_str().unwrap();
    assert!(says.contains(&format!("pincer approvals allow {}", question.id)), "{says}");
    assert!(says.contains(&format!("call wait with {{\"runId\": {}}}", waiting["runId"])), "{says}");
    assert_eq!(client.wait(waiting).await["status"], "waiting", "nobody has answered");
    assert!(house.door.answer(&question.id, Answer::AllowOnce, "a test").await.unwrap());
    assert_eq!(client.wait(waiting).await["value"], json!({ "a": 1 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_after_a_program_was_continued_is_asked_too() {
    let house = house(Surface::Code);
    let first = house.connect(Person::plain()).await;
    let waiting = first.exec("await yield_control(); return await tools.ask({ late: true })").await;
    let second = house.connect(Person::who_answers([decides("allow")])).await;
    assert_eq!(second.wait(&waiting).await["value"], json!({ "late": true }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_answered_elsewhere_is_taken_back() {
    let house = house(Surface::Code);
    let client = Arc::new(house.connect(Person::who_answers([Reply::Never, decides("allow")])).await);
    let running = {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.exec(&asks(2)).await })
    };
    client.hears("elicitation/create").await;
    house.door.answer(&house.question().id, Answer::AllowOnce, "a test").await.unwrap();
    client.hears("notifications/cancelled").await;
    // The next one is not behind it.
    assert_eq!(running.await.unwrap()["value"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_a_request_back_ends_the_program_and_its_tool() {
    let house = house(Surface::Code);
    let client = house.connect(Person::plain()).await;
    {
        let going = client.exec("await tools.hang({}); return 1");
        tokio::select! {
            done = going => panic!("{done}"),
            () = house.gates.pass("hangs") => {}
        }
    }
    house.gates.pass("aborted").await;
    house.until(&house.runs()[0], RunState::Aborted).await;
    // The connection is good for more.
    assert_eq!(client.exec("return 1").await["value"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_a_request_back_ends_a_program_that_waits_for_a_person() {
    let house = house(Surface::Code);
    let client = house.connect(Person::who_answers([Reply::Never])).await;
    let question = {
        let going = client.exec("return await tools.ask({})");
        let asked = async {
            client.hears("elicitation/create").await;
            house.question()
        };
        tokio::select! {
            done = going => panic!("{done}"),
            question = asked => question,
        }
    };
    house.until(&house.runs()[0], RunState::Aborted).await;
    assert_eq!(house.store.approval(&question.id).await.unwrap().state, ApprovalState::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_in_the_middle_loses_nothing() {
    let house = house(Surface::Code);
    let (ours, serving) = house.line(1 << 16);
    let (input, output) = tokio::io::split(ours);
    let mut raw = Raw::new(input, output);
    raw.hello().await;
    raw.send(&exec("const got = await tools.gate({ name: 'slow' }); await yield_control(); return got + '!'")).await;
    house.gates.pass("slow begun").await;
    drop(raw);
    serving.await.unwrap();
    let run = house.runs()[0].clone();
    assert_eq!(house.state(&run), RunState::Running);
    house.gates.open("slow");
    house.until(&run, RunState::Waiting).await;
    // That can be seen before it is on the disk, and a request that comes before then is told that it waits.
    while house.runtime.runs_here() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let back = house.connect(Person::plain()).await;
    assert_eq!(back.wait(&json!({ "runId": run })).await["value"], "slow!");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_suspends_what_it_runs() {
    let house = house(Surface::Code);
    let (ours, serving) = house.line(1 << 16);
    let (input, output) = tokio::io::split(ours);
    let mut raw = Raw::new(input, output);
    raw.hello().await;
    raw.send(&exec("return await tools.gate({ name: 'slow' })")).await;
    house.gates.pass("slow begun").await;
    house.end.cancel();
    serving.await.unwrap();
    house.runtime.suspend().await;
    house.until(&house.runs()[0], RunState::Waiting).await;
    drop(raw);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_servers_reach_the_person_with_the_name_of_the_server() {
    let mut plan = Plan::new(Surface::Code);
    plan.servers = vec![("fixture", program("mcp-fixture", "stdio"))];
    let house = planned(plan);
    let answer = json!({ "action": "accept", "content": { "username": "ann", "email": "a@b.c" } });
    let client = house.connect(Person::who_answers([Reply::Say(answer.clone()), Reply::Say(answer)])).await;
    let code = "const ask = async () => (await MCP.fixture.testElicitation({ message: 'Who?' })).content[0].text;
        const first = await ask(); await yield_control(); return [first, await ask()]";
    let waiting = client.exec(code).await;
    assert_eq!(client.hears("elicitation/create").await["message"], "fixture: Who?");
    // Also after the program was continued.
    let said = "Elicitation completed: action=accept, content={\"username\":\"ann\",\"email\":\"a@b.c\"}";
    assert_eq!(client.wait(&waiting).await["value"], json!([said, said]));
    assert_eq!(client.hears("elicitation/create").await["message"], "fixture: Who?");
    // Programs have no model behind them.
    let refused = client.exec("return (await MCP.fixture.testSampling({ prompt: '?' })).isError").await;
    assert_eq!(refused["value"], true);
    house.servers.end().await;
}

fn exec(code: &str) -> Value {
    crate::common::web::call(1, "exec", json!({ "code": code }))
}

/// A client that is nothing but a pipe.
struct Raw<R, W> {
    _input: R,
    output: W,
}

impl<R: tokio::io::AsyncRead + Unpin, W: tokio::io::AsyncWrite + Unpin> Raw<R, W> {
    fn new(input: R, output: W) -> Self {
        Self { _input: input, output }
    }

    async fn send(&mut self, message: &Value) {
        use tokio::io::AsyncWriteExt;
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hello(&mut self) {
        self.send(&crate::common::web::hello()).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }
}
