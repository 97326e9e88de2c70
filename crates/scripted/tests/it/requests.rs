//! Requests are noted, compared with what the script expects, and answered with errors in the format's shape.

use pincer_scripted::{Expect, Failure, Format, Message, Reply, Script, Server, StreamError};
use serde_json::{Value, json};

use crate::client::{ask, send, server, streamed};

#[tokio::test]
async fn errors_have_the_shape_of_their_format() {
    let script = r#"{ replies: [{
      status: 429, headers: { "Retry-After": "3" },
      error: { type: "rate_limit_error", code: "slow_down", message: "Later." }, repeat: true,
    }] }"#;
    let server = server(script);
    let openai =
        json!({ "error": { "message": "Later.", "type": "rate_limit_error", "param": null, "code": "slow_down" } });
    for format in [Format::Chat, Format::Responses] {
        let whole = ask(&server, format, &streamed()).await;
        assert_eq!((whole.status, whole.json()), (429, openai.clone()));
        assert_eq!(
            (whole.headers["retry-after"].as_str(), whole.headers["content-type"].as_str()),
            ("3", "application/json")
        );
        assert!(whole.headers["x-request-id"].starts_with("req_"));
    }
    let whole = ask(&server, Format::Messages, &streamed()).await;
    let anthropic =
        json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "Later." }, "request_id": "req_3" });
    assert_eq!((whole.status, whole.json()), (429, anthropic));
    assert_eq!(whole.headers["request-id"], "req_3");
}

#[tokio::test]
async fn an_error_without_a_type_has_the_providers_usual_one() {
    for (status, openai, anthropic) in [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "invalid_request_error", "authentication_error"),
        (404, "invalid_request_error", "not_found_error"),
        (429, "requests", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (529, "server_error", "overloaded_error"),
    ] {
        let server = Server::start(Script::new().reply(Reply::from(Failure::new(status)).repeat())).unwrap();
        assert_eq!(ask(&server, Format::Chat, &json!({})).await.json()["error"]["type"], openai, "{status}");
        assert_eq!(ask(&server, Format::Messages, &json!({})).await.json()["error"]["type"], anthropic, "{status}");
    }
}

#[tokio::test]
async fn errors_come_in_the_middle_of_a_stream() {
    let script = |form: &str| {
        server(&format!(
            "{{ replies: [{{ parts: [{{ text: 'one two' }}], repeat: true,
               streamError: {{ after: 3, type: 'overloaded_error', message: 'Busy.', form: '{form}' }} }}] }}"
        ))
    };
    let last = async |server: &Server, format| {
        let whole = ask(server, format, &streamed()).await;
        assert_eq!((whole.status, whole.events().len()), (200, 4));
        (whole.events().pop().unwrap().0, whole.data().pop().unwrap())
    };
    let (name, chat) = last(&script("flat"), Format::Chat).await;
    assert_eq!(
        (name.as_str(), &chat["error"]["type"], &chat["error"]["message"]),
        ("", &json!("overloaded_error"), &json!("Busy."))
    );
    let (name, event) = last(&script("flat"), Format::Responses).await;
    let expected = json!({
        "type": "error", "code": "overloaded_error", "message": "Busy.", "param": null, "sequence_number": 3,
    });
    assert_eq!((name.as_str(), event), ("error", expected));
    let (name, event) = last(&script("nested"), Format::Responses).await;
    assert_eq!(
        (name.as_str(), &event["error"]["message"], &event["sequence_number"]),
        ("error", &json!("Busy."), &json!(3))
    );
    let (name, event) = last(&script("failed"), Format::Responses).await;
    assert_eq!((name.as_str(), &event["response"]["status"]), ("response.failed", &json!("failed")));
    assert_eq!(event["response"]["error"], json!({ "code": "server_error", "message": "Busy." }));
    let (name, event) = last(&script("flat"), Format::Messages).await;
    assert_eq!((name.as_str(), &event["error"]), ("error", &json!({ "type": "overloaded_error", "message": "Busy." })));
    assert_eq!(ask(&script("flat"), Format::Messages, &json!({})).await.status, 500);
}

#[tokio::test]
async fn an_error_after_more_events_than_there_are_comes_before_the_last() {
    let error = StreamError { after: 1000, ..StreamError::default() };
    let server = Server::start(Script::new().reply(Message::new().text("Hi").stream_error(error))).unwrap();
    let events = ask(&server, Format::Messages, &streamed()).await.events();
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[names.len() - 2..], ["message_delta", "error"]);
}

#[tokio::test]
async fn a_script_that_is_used_up_says_so() {
    let server = server("{ replies: [{ parts: [{ text: 'Hi' }] }] }");
    assert_eq!(server.unused(), 1);
    assert_eq!(ask(&server, Format::Chat, &json!({})).await.status, 200);
    assert_eq!(server.unused(), 0);
    let whole = ask(&server, Format::Chat, &json!({})).await;
    assert_eq!((whole.status, &whole.json()["error"]["code"]), (500, &json!("script_exhausted")));
    assert_eq!(whole.headers["x-should-retry"], "false");
    assert_eq!(server.complaints(), ["The script has no reply to request 2: it ends after 1."]);
}

#[tokio::test]
async fn a_request_that_is_not_as_expected_is_refused() {
    let tools = |names: &[&str]| json!([{ "type": "function", "function": { "name": names[0] } }, { "type": "function", "name": names[1] }, { "name": names[2] }]);
    let body = json!({ "tools": tools(&["exec", "wait", "third"]), "messages": [{ "content": "line\nbreak" }] });
    let check = async |expect: Expect, complaint: &str| {
        let server = Server::start(Script::new().reply(Reply::from(Message::new()).expect(expect))).unwrap();
        let whole =
            send(&server, "POST", Format::Chat.path(), &[("X-Key", "k")], &body.to_string()).await.whole().await;
        if complaint.is_empty() {
            assert_eq!((whole.status, server.complaints()), (200, Vec::new()));
        } else {
            assert_eq!((whole.status, &whole.json()["error"]["code"]), (400, &json!("script_mismatch")));
            assert_eq!(server.complaints(), [format!("Request 1 is not the one in the script: {complaint}.")]);
        }
    };
    let tools = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let header = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let none = Expect::default;
    check(none(), "").await;
    check(Expect { tools: tools(&["exec", "wait", "third"]), ..none() }, "").await;
    check(
        Expect { tools: tools(&["wait", "exec", "third"]), ..none() },
        r#"expected the tools ["wait", "exec", "third"], not ["exec", "wait", "third"]"#,
    )
    .await;
    check(Expect { contains: vec!["line\nb".into(), "break".into()], ..none() }, "").await;
    check(Expect { contains: vec!["gone".into()], ..none() }, r#"expected the text "gone" in the body"#).await;
    check(Expect { path: Some("/v1/chat/completions".into()), ..none() }, "").await;
    let other = Expect { path: Some("/v1/responses".into()), ..none() };
    check(other, "expected the path /v1/responses, not /v1/chat/completions").await;
    check(Expect { header: header("x-KEY", "k"), ..none() }, "").await;
    check(Expect { header: header("x-key", "no"), ..none() }, "expected the header `x-key: no`, not `k`").await;
    check(Expect { header: header("y", "z"), ..none() }, "expected the header `y: z`, which is missing").await;
}

#[tokio::test]
async fn requests_are_noted_as_they_were_sent() {
    let server = server("{ replies: [{ parts: [], repeat: true }] }");
    let text = "{ \"b\": 1,  \"a\": [\"ü\"] }";
    let path = format!("{}?beta=true", Format::Messages.path());
    send(&server, "POST", &path, &[("X-Api-Key", "secret")], text).await.whole().await;
    let request = server.request(0).await;
    assert_eq!(
        (request.method.as_str(), request.path.as_str(), request.query.as_str()),
        ("POST", "/v1/messages", "beta=true")
    );
    assert_eq!((request.text.as_str(), &request.body), (text, &json!({ "b": 1, "a": ["ü"] })));
    assert_eq!(request.header("x-API-key"), Some("secret"));
    assert_eq!(send(&server, "POST", Format::Chat.path(), &[], "{").await.whole().await.status, 400);
    assert_eq!((server.requests().len(), server.connections(), server.requests()[1].body.clone()), (2, 2, Value::Null));
}

#[tokio::test]
async fn models_are_listed_in_the_shape_of_the_client() {
    let server = Server::start(Script::new().models(["big", "small"])).unwrap();
    let get = async |path: &str, headers: &[(&str, &str)]| {
        let whole = send(&server, "GET", path, headers, "").await.whole().await;
        (whole.status, whole.json())
    };
    let anthropic = [("anthropic-version", "2023-06-01")];
    let (status, openai) = get("/v1/models", &[]).await;
    assert_eq!((status, &openai["object"], &openai["data"][1]["id"]), (200, &json!("list"), &json!("small")));
    assert_eq!(openai["data"][0]["object"], "model");
    let (_, list) = get("/v1/models?limit=5", &anthropic).await;
    assert_eq!(
        (&list["has_more"], &list["first_id"], &list["last_id"]),
        (&json!(false), &json!("big"), &json!("small"))
    );
    assert_eq!((&list["data"][0]["type"], &list["data"][0]["display_name"]), (&json!("model"), &json!("big")));
    assert_eq!(get("/v1/models/small", &anthropic).await.1["id"], "small");
    let (status, error) = get("/v1/models/none", &anthropic).await;
    assert_eq!((status, &error["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(get("/v1/other", &[]).await.1["error"]["message"], "GET /v1/other is not served here.");
}

#[tokio::test]
async fn a_dropped_server_closes_its_port_and_its_connections() {
    let server = server("{ replies: [{ parts: [{ text: 'Hi' }], wire: { stallAfter: 1 } }] }");
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mut answer = crate::client::begin(&server, Format::Chat, &streamed()).await;
    assert!(matches!(answer.next().await, crate::client::Next::Chunk(_)));
    drop(server);
    assert_eq!(answer.next().await, crate::client::Next::Broken);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_call_can_name_the_word_that_it_was_told() {
    let server = server(
        "{ replies: [{ take: { RUN: 'cm_', NONE: 'xx_' }, parts: [
             { call: { name: 'wait', arguments: { runId: '{RUN}', of: ['{RUN}!', '{NONE}'] } } }] }] }",
    );
    let body = json!({ "messages": [{ "content": "cm_old" }, { "content": "waiting: runId cm_0a-1, then" }] });
    let told = ask(&server, Format::Chat, &body).await.json();
    let arguments =
        told["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned();
    let arguments: Value = serde_json::from_str(&arguments).unwrap();
    assert_eq!(arguments, json!({ "runId": "cm_0a-1", "of": ["cm_0a-1!", "{NONE}"] }));
}
