//! Old servers: one stream of events, and posts beside it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common_oauth::authority::Authority;
use crate::common_oauth::{
    Served, address, answer, list, listener, refused_within, remote, remote_at, response, serve_at, state, streamable,
    tools,
};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::routing::{get, post};
use futures_util::stream;
use pincer_mcp::{Address, Logins, Remote, Speaks, Wire, explain_call, login};
use rmcp::ServiceExt;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How an old server does what it does.
#[derive(Clone)]
struct Old {
    /// What it says where messages go; `{origin}` is its own.
    endpoint: &'static str,
    /// What it does when it is asked for its tools.
    at_list: AtList,
    /// What it wants in `Authorization`.
    wants: Option<Arc<Mutex<String>>>,
}

#[derive(Clone, Copy, PartialEq)]
enum AtList {
    Answers,
    Ends,
    SaysTooMuch,
    Refuses,
}

impl Default for Old {
    fn default() -> Self {
        Self { endpoint: "/messages?session=1", at_list: AtList::Answers, wants: None }
    }
}

impl Old {
    async fn serve(self) -> Served {
        let listener = listener().await;
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let stream: Arc<Mutex<Option<UnboundedSender<String>>>> = Arc::default();
        let (opening, posting) = (Arc::clone(&stream), stream);
        let (old, endpoint) = (self.clone(), self.endpoint.replace("{origin}", &origin));
        let opened = move |request: Request<Body>| {
            let (events, endpoint, allowed) = (Arc::clone(&opening), endpoint.clone(), old.allows(&request));
            async move {
                if !allowed {
                    return response(401, &[], "");
                }
                let (send, receive) = unbounded_channel();
                send.send(format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n")).unwrap();
                *events.lock().unwrap() = Some(send);
                response(200, &[("content-type", "text/event-stream; charset=utf-8")], body(receive))
            }
        };
        let posted = move |request: Request<Body>| {
            let (events, old, allowed) = (Arc::clone(&posting), self.clone(), self.allows(&request));
            async move {
                if !allowed {
                    return response(401, &[], "");
                }
                assert_eq!(request.uri().query(), Some("session=1"));
                let message: Value =
                    serde_json::from_slice(&to_bytes(request.into_body(), 1 << 20).await.unwrap()).unwrap();
                let mut stream = events.lock().unwrap();
                let say = |text: String| drop(stream.as_ref().unwrap().send(text));
                match (message["method"].as_str(), old.at_list) {
                    (Some("initialize"), _) => say(event(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": {
                        "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                        "serverInfo": { "name": "old", "version": "1" },
                    } }))),
                    (Some("tools/list"), AtList::Answers) => {
                        let tools = json!([{ "name": "read", "inputSchema": { "type": "object" } }]);
                        say("event: ping\ndata: x\n\ndata: not json\n\n".into());
                        say(event(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "tools": tools } })));
                    }
                    (Some("tools/list"), AtList::Ends) => *stream = None,
                    (Some("tools/list"), AtList::SaysTooMuch) => say(format!("data: {}", "x".repeat(17 << 20))),
                    (Some("tools/list"), AtList::Refuses) => return response(500, &[], "no paper"),
                    _ => {}
                }
                response(202, &[], "Accepted")
            }
        };
        let router = Router::new().route("/sse", get(opened)).route("/messages", post(posted));
        serve_at(listener, router)
    }

    fn allows(&self, request: &Request<Body>) -> bool {
        let header = request.headers().get("authorization").map(|value| value.to_str().unwrap());
        self.wants.as_ref().is_none_or(|wants| header == Some(&format!("Bearer {}", wants.lock().unwrap())))
    }
}

fn event(value: &Value) -> String {
    format!("event: message\ndata: {value}\n\n")
}

fn body(receive: UnboundedReceiver<String>) -> Body {
    let pieces = stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (Ok::<_, std::io::Error>(piece), receive))
    });
    Body::from_stream(pieces)
}

fn old(origin: &str) -> Remote {
    remote_at(&events(&format!("{origin}/sse")))
}

fn events(url: &str) -> Address {
    Address { speaks: Speaks::Events, ..address(url) }
}

async fn listed(old: Old) -> Result<Vec<String>, String> {
    let (server, (_state, logins)) = (old.serve().await, state());
    tools(&self::old(&server.origin), &logins).await
}

#[tokio::test]
async fn an_old_server_can_be_used() {
    for endpoint in ["/messages?session=1", "messages?session=1", "{origin}/messages?session=1"] {
        assert_eq!(listed(Old { endpoint, ..Old::default() }).await.unwrap(), ["read"], "{endpoint}");
    }
}

#[tokio::test]
async fn a_server_of_unknown_kind_is_taken_for_an_old_one_when_it_answers_like_one() {
    let (server, (_state, logins)) = (Old::default().serve().await, state());
    // Its router answers 405 to a post.
    assert_eq!(tools(&remote(&format!("{}/sse", server.origin)), &logins).await.unwrap(), ["read"]);
    // Unless it is said not to be.
    let streamable = streamable(&format!("{}/sse", server.origin));
    let error = tools(&remote_at(&streamable), &logins).await.unwrap_err();
    assert_eq!(error, "answered 405 Method Not Allowed");
}

#[tokio::test]
async fn an_old_server_is_found_though_something_newer_was_asked_first() {
    let (server, (_state, logins)) = (Old::default().serve().await, state());
    let wire = Wire::to(&remote(&format!("{}/sse", server.origin)), Some(&logins)).await.unwrap();
    let newest = ProtocolVersion::V_2026_07_28;
    let mode = ClientLifecycleMode::Auto { preferred_versions: vec![newest], legacy_version: None };
    let client = ().serve_with_lifecycle(wire, mode).await.unwrap();
    assert_eq!(list(&client).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_no_server_at_all_is_told_by_its_first_answer() {
    let (_state, logins) = state();
    let nothing = answer(|_| response(404, &[], "")).await;
    let error = tools(&remote(&nothing.origin), &logins).await.unwrap_err();
    assert_eq!(error, "has nothing at its address (404 Not Found): check `url` of the config");
    let page = answer(|request| match request.method().as_str() {
        "GET" => response(200, &[("content-type", "text/html")], "hello"),
        _ => response(400, &[], "what?"),
    })
    .await;
    let error = tools(&remote(&page.origin), &logins).await.unwrap_err();
    assert_eq!(error, "answered 400 Bad Request: what?");
}

#[tokio::test]
async fn refusals_are_no_sign_of_an_old_server() {
    let (_state, logins) = state();
    for status in [401, 403, 429, 500] {
        let looks = Arc::new(Mutex::new(0));
        let count = Arc::clone(&looks);
        let server = answer(move |request| {
            if request.method() == "GET" {
                *count.lock().unwrap() += 1;
            }
            response(status, &[("retry-after", "60")], "")
        })
        .await;
        tools(&remote(&server.origin), &logins).await.unwrap_err();
        assert_eq!(*looks.lock().unwrap(), 0, "{status}");
    }
}

#[tokio::test]
async fn messages_go_to_no_other_origin() {
    let elsewhere = answer(|_| panic!("nothing may come here")).await;
    let endpoint: &'static str = format!("{}/messages?session=1", elsewhere.origin).leak();
    let error = listed(Old { endpoint, ..Old::default() }).await.unwrap_err();
    let to = endpoint.trim_end_matches("?session=1");
    assert_eq!(error, format!("wants messages to be sent to {to}, which is not its own origin; that is refused"));
}

#[tokio::test]
async fn a_connection_ends_with_its_stream() {
    let (server, (_state, logins)) = (Old { at_list: AtList::Ends, ..Old::default() }.serve().await, state());
    let wire = Wire::to(&old(&server.origin), Some(&logins)).await.unwrap();
    let trouble = wire.trouble();
    let client = ().serve(wire).await.unwrap();
    let error = list(&client).await.unwrap_err();
    assert_eq!(explain_call(&error, &trouble), "ended its stream of events");
    client.waiting().await.unwrap();
}

#[tokio::test]
async fn failures_of_old_servers_say_what_they_are() {
    let too_much = listed(Old { at_list: AtList::SaysTooMuch, ..Old::default() }).await.unwrap_err();
    assert_eq!(too_much, "sent an event of more than 16 MiB, which is refused");
    let refused = listed(Old { at_list: AtList::Refuses, ..Old::default() }).await.unwrap_err();
    assert_eq!(refused, "answered 500 Internal Server Error: no paper");
    let (_state, logins) = state();
    let cases: [(u16, &str, &str, &str); 4] = [
        (200, "text/html", "hi", "answered with `text/html`, not with events: check `url` of the config"),
        (200, "text/event-stream", "data: x\n\n", "did not say where it wants messages to be sent"),
        (404, "text/html", "", "has nothing at its address (404 Not Found): check `url` of the config"),
        (401, "text/html", "", "needs a login: run `pincer mcp login notes`"),
    ];
    for (status, kind, body, expected) in cases {
        let (kind, body): (&'static str, &'static str) = (kind, body);
        let server = answer(move |_| response(status, &[("content-type", kind)], body)).await;
        assert_eq!(tools(&old(&server.origin), &logins).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn a_server_that_names_no_endpoint_is_not_waited_for_forever() {
    let server = answer(|_| {
        let (send, receive) = unbounded_channel();
        // Never dropped: the stream stays open.
        std::mem::forget(send);
        response(200, &[("content-type", "text/event-stream")], body(receive))
    })
    .await;
    let old = events(&format!("{}/sse", server.origin));
    assert_eq!(refused_within(&old, Duration::from_millis(100)).await, "did not answer within 100 ms");
}

/// Has a login that is for `url`, with the tokens of `authority`.
async fn login_for(url: &str, authority: &Authority, logins: &Logins, state: &std::path::Path) {
    let browse = |url: &str| {
        let url = url.to_owned();
        tokio::spawn(async move { reqwest::get(url).await.unwrap() });
    };
    login(&remote(&authority.url()), logins, browse).await.unwrap();
    let file = state.join("mcp-auth/notes.json");
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    stored["url"] = url.into();
    std::fs::write(file, stored.to_string()).unwrap();
}

#[tokio::test]
async fn logins_are_for_old_servers_too_and_are_renewed_between_messages() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let wants = Arc::new(Mutex::new(String::new()));
    let server = Old { wants: Some(Arc::clone(&wants)), ..Old::default() }.serve().await;
    let remote = old(&server.origin);
    login_for(&format!("{}/sse", server.origin), &authority, &logins, state.path()).await;
    *wants.lock().unwrap() = authority.book().access[0].clone();
    let client = ().serve(Wire::to(&remote, Some(&logins)).await.unwrap()).await.unwrap();
    // From now on only the next token is good.
    *wants.lock().unwrap() = "access-secret-4".into();
    let tools = tokio::time::timeout(Duration::from_secs(10), list(&client)).await.unwrap().unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(authority.refreshes(), 1);
}
