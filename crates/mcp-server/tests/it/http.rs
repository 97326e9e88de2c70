//! Clients over HTTP: who may connect, from where, and whose is what.

use std::time::Duration;

use crate::common::person::{Client, Person, Reply, decides};
use crate::common::web::{TOKENS, call, hello, listen, settings};
use crate::common::{House, Plan, house, planned, program};
use pincer_mcp_server::{HttpError, HttpServer, HttpSettings, Surface};
use pincer_store::RunState;
use serde_json::{Value, json};

#[tokio::test]
async fn nobody_listens_where_anybody_could_come_in() {
    let bind = async |address: &str, tokens: &[(&str, &str)]| {
        HttpServer::bind(HttpSettings { address: address.parse().unwrap(), ..settings(tokens) }).await.err()
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:127.0.0.1]:0"] {
        assert!(matches!(bind(address, &[]).await, Some(HttpError::Open(_))), "{address}");
    }
    assert!(bind("127.0.0.1:0", &[]).await.is_none());
    assert!(bind("0.0.0.0:0", &TOKENS).await.is_none());
    for empty in ["", "  "] {
        let refused = bind("127.0.0.1:0", &[("ann", "x"), ("bob", empty)]).await;
        assert!(matches!(refused, Some(HttpError::EmptyToken(name)) if name == "bob"));
    }
    let refused = bind("127.0.0.1:0", &[("ann", "x"), ("bob", "x")]).await;
    assert!(matches!(refused, Some(HttpError::SameToken(..))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_say_who_they_are_is_told_how() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    for head in [
        "",
        "Authorization: Bearer wrong\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer token-of-ann2\r\n",
        "Authorization: Bearer token-of-an\r\n",
        "Authorization: Basic token-of-ann\r\n",
        "Authorization: token-of-ann\r\n",
        "X-Authorization: Bearer token-of-ann\r\n",
    ] {
        for method in ["POST", "GET", "DELETE", "PUT"] {
            let refused = web.request(method, head, &hello().to_string(), "").await;
            assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")), "{method} {head}");
        }
    }
    assert_eq!(web.post("authorization: bearer  token-of-ann\r\n", &hello()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_hosts_and_pages_are_refused_unless_they_are_allowed() {
    let house = house(Surface::Code);
    let open = listen(&house, settings(&[])).await;
    let named = HttpSettings {
        allowed_hosts: vec!["pincer.example".into()],
        allowed_origins: vec!["https://app.example:443".into()],
        ..settings(&[])
    };
    let named = listen(&house, named).await;
    for (head, at_open, at_named) in [
        ("Host: 127.0.0.1\r\n", 200, 200),
        ("Host: localhost:1234\r\n", 200, 200),
        ("Host: evil.example\r\n", 403, 403),
        ("Host: 127.0.0.1.evil.example\r\n", 403, 403),
        ("Host: localhost@evil.example\r\n", 403, 403),
        ("Host: pincer.example\r\n", 403, 200),
        ("Host: 127.0.0.1\r\nOrigin: http://localhost:3000\r\n", 200, 200),
        ("Host: 127.0.0.1\r\nOrigin: https://evil.example\r\n", 403, 403),
        ("Host: 127.0.0.1\r\nOrigin: http://localhost.evil.example\r\n", 403, 403),
        ("Host: 127.0.0.1\r\nOrigin: null\r\n", 403, 403),
        ("Host: 127.0.0.1\r\nOrigin: https://app.example\r\n", 403, 200),
        ("Host: 127.0.0.1\r\nOrigin: http://app.example\r\n", 403, 403),
        ("Host: 127.0.0.1\r\nOrigin: https://app.example:8443\r\n", 403, 403),
    ] {
        assert_eq!(open.post(head, &hello()).await.status, at_open, "{head}");
        assert_eq!(named.post(head, &hello()).await.status, at_named, "{head}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_too_large_or_no_request_is_refused() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let ann = "Authorization: Bearer token-of-ann\r\n";
    let long = call(1, "exec", json!({ "code": "x".repeat(5 << 20) }));
    assert_eq!(web.post(ann, &long).await.status, 413);
    // Small enough, and of a shape that would take thirty times as much as a tree.
    let many = call(1, "exec", json!({ "code": vec![0; 1_000_000] }));
    assert_eq!(web.post(ann, &many).await.status, 413);
    // Who may not come in does not get to send that much either.
    assert_eq!(web.post("", &long).await.status, 401);
    for body in ["", "{", "[]", "{\"jsonrpc\":\"2.0\"}", "null"] {
        let refused = web.request("POST", ann, body, "").await;
        assert!((400..500).contains(&refused.status), "{body}: {refused:?}");
    }
    let without = web.post(ann, &call(1, "exec", json!({ "code": "return 1" }))).await;
    assert!((400..500).contains(&without.status), "{without:?}");
    assert_eq!(web.request("PUT", ann, "", "").await.status, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_its_users_from_any_connection_and_nobody_elses() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let ann = web.connect(Person::plain(), Some("token-of-ann")).await;
    let bob = web.connect(Person::who_answers([decides("allow")]), Some("token-of-bob")).await;
    let waiting = ann.exec("await yield_control(); return await tools.ask({ of: 'ann' })").await;
    for _ in 0..2 {
        let refused = bob.wait(&waiting).await;
        assert_eq!((&refused["code"], &refused["status"]), (&json!("invalid_input"), &json!("failed")), "{refused}");
        assert!(refused["error"].as_str().unwrap().contains("different caller"), "{refused}");
    }
    // Nor is anybody else asked, or told of it.
    let again = web.connect(Person::plain(), Some("token-of-ann")).await;
    let asked = again.wait(&waiting).await;
    assert_eq!(asked["pendingToolCalls"][0]["approvalId"], json!(house.question().id));
    assert_eq!(bob.wait(&asked).await["status"], "failed");
    assert!(bob.heard().await.is_empty());
    let asking = web.connect(Person::who_answers([decides("allow")]), Some("token-of-ann")).await;
    assert_eq!(asking.wait(&waiting).await["value"], json!({ "of": "ann" }));
    // Without tokens, all are one.
    let open = listen(&house, settings(&[])).await;
    let waiting = open.connect(Person::plain(), None).await.exec("await yield_control(); return 1").await;
    assert_eq!(open.connect(Person::plain(), None).await.wait(&waiting).await["value"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_nothing_to_another_user() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let session = web.session("token-of-ann").await;
    let with = |token: &str| format!("Authorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n");
    let (ann, bob) = (with("token-of-ann"), with("token-of-bob"));
    // Ann is asked something, and Bob has her session's id.
    let exec = call(5, "exec", json!({ "code": "return await tools.ask({})" })).to_string();
    let asked = web.request("POST", &ann, &exec, "elicitation/create").await;
    let line = asked.body.lines().find(|line| line.contains("elicitation/create")).unwrap();
    let question: Value = serde_json::from_str(line.trim_start_matches("data:").trim()).unwrap();
    let says = json!({ "action": "accept", "content": { "decision": "allow" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": says });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    for message in [&answer, &cancel, &call(6, "exec", json!({ "code": "return 1" })), &hello()] {
        assert_eq!(web.post(&bob, message).await.status, 404, "{message}");
    }
    for head in [bob.clone(), format!("{bob}Last-Event-ID: 0\r\n"), format!("{bob}Last-Event-ID: 0/0\r\n")] {
        assert_eq!(web.request("GET", &head, "", "\n\n").await.status, 404, "{head}");
    }
    // There is nothing of his to end, and hers goes on.
    web.request("DELETE", &bob, "", "").await;
    let run = house.runs()[0].clone();
    assert_eq!(house.state(&run), RunState::Running, "nobody but Ann has said anything");
    // She can, and the program goes on.
    assert_eq!(web.post(&ann, &answer).await.status, 202);
    house.until(&run, RunState::Completed).await;
    assert!((200..300).contains(&web.request("DELETE", &ann, "", "").await.status));
    assert_eq!(web.post(&ann, &exec_one()).await.status, 404, "it is over");
}

fn exec_one() -> Value {
    call(9, "exec", json!({ "code": "return 1" }))
}

/// `fixture`, in front of several users.
fn shared(surface: Surface) -> House {
    let mut plan = Plan::new(surface);
    plan.servers = vec![("fixture", program("mcp-fixture", "stdio"))];
    planned(plan)
}

/// Over a pipe a question does not say with which call it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_server_is_asked_of_nobody_if_it_may_be_for_another_user() {
    let house = shared(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let say = || Reply::Say(json!({ "action": "accept", "content": { "username": "a", "email": "b" } }));
    let ann = web.connect(Person::who_answers([say(), say()]), Some("token-of-ann")).await;
    let bob = web.connect(Person::who_answers([say()]), Some("token-of-bob")).await;
    let asks = "return (await MCP.fixture.testElicitation({ message: 'Who?' })).content[0].text";
    assert!(ann.exec(asks).await["value"].as_str().unwrap().contains("action=accept"), "while she is alone");
    ann.hears("elicitation/create").await;
    {
        // His call is under way when the one behind it is done.
        let slow = bob.exec(
            "const slow = MCP.fixture.testSlow({ ms: 600000 }); await MCP.fixture.testSimpleText({});
             await tools.gate({ name: 'slow' }); return await slow",
        );
        tokio::pin!(slow);
        tokio::select! { done = &mut slow => panic!("{done:?}"), () = house.gates.pass("slow begun") => {} }
        let both = async {
            tokio::select! { done = &mut slow => panic!("{done:?}"), said = ann.exec(asks) => said }
        };
        assert!(both.await["value"].as_str().unwrap().contains("action=decline"));
    }
    for listener in [&ann, &bob] {
        let heard = listener.heard().await;
        assert!(heard.iter().all(|(method, _)| method != "elicitation/create"), "{heard:?}");
    }
    house.servers.end().await;
}

/// Waits until the stream is there on which a client hears what belongs to no request: it asks for it in its own time.
async fn listens(client: &Client) {
    let soon = Duration::from_millis(100);
    while tokio::time::timeout(soon, client.hears("notifications/prompts/list_changed")).await.is_err() {
        client.call("test_trigger_prompt_change", json!({})).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_line_that_may_be_about_somebody_elses_call_is_not_told() {
    let house = shared(Surface::Direct);
    let web = listen(&house, settings(&TOKENS)).await;
    let ann = web.connect(Person::plain(), Some("token-of-ann")).await;
    listens(&ann).await;
    ann.call("test_tool_with_logging", json!({})).await.unwrap();
    for _ in 0..3 {
        ann.hears("notifications/message").await;
    }
    let bob = web.connect(Person::plain(), Some("token-of-bob")).await;
    listens(&bob).await;
    ann.call("test_tool_with_logging", json!({})).await.unwrap();
    ann.call("test_trigger_resource_change", json!({})).await.unwrap();
    for listener in [&ann, &bob] {
        listener.hears("notifications/resources/list_changed").await;
        let heard = listener.heard().await;
        assert!(heard.iter().all(|(method, _)| method != "notifications/message"), "{heard:?}");
    }
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_behind_http_is_asked_on_the_stream_of_the_request() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let client = web.connect(Person::who_answers([decides("allow")]), Some("token-of-ann")).await;
    assert_eq!(client.exec("return await tools.ask({ a: 1 })").await["value"], json!({ "a": 1 }));
    client.hears("elicitation/create").await;
    let newest = Person::who_can(json!({ "elicitation": { "form": {} } })).of_the_newest_revision();
    let newest = web.connect(newest, Some("token-of-bob")).await;
    assert_eq!(newest.exec("return await tools.ask({ b: 1 })").await["status"], "waiting");
    let heard = newest.heard().await;
    assert!(heard.iter().all(|(method, _)| method == "notifications/progress"), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_up_loses_nothing_in_a_session_and_takes_the_request_back_without_one() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let session = web.session("token-of-ann").await;
    let head = format!("Authorization: Bearer token-of-ann\r\nMcp-Session-Id: {session}\r\n");
    let code = json!({ "code": "return await tools.gate({ name: 'slow' })" });
    let begun = web.request("POST", &head, &call(5, "exec", code).to_string(), "id:").await;
    assert_eq!(begun.status, 200);
    house.gates.pass("slow begun").await;
    house.gates.open("slow");
    house.until(&house.runs()[0], RunState::Completed).await;

    let newest = web.connect(Person::plain().of_the_newest_revision(), Some("token-of-ann")).await;
    {
        let going = newest.exec("return await tools.hang({})");
        tokio::select! { done = going => panic!("{done}"), () = house.gates.pass("hangs") => {} }
    }
    newest.leave().await;
    house.gates.pass("aborted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_leaves_its_clients_and_listens_no_more() {
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let client = web.connect(Person::plain(), Some("token-of-ann")).await;
    let going = client.call("exec", json!({ "code": "return await tools.gate({ name: 'never' })" }));
    tokio::select! { done = going => panic!("{done:?}"), () = house.gates.pass("never begun") => {} }
    house.runtime.suspend().await;
    house.end.cancel();
    let address = web.address.clone();
    tokio::time::timeout(crate::common::NEVER, web.serving).await.expect("it ends").unwrap();
    assert!(tokio::net::TcpStream::connect(&address).await.is_err());
}
