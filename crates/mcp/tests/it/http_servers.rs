//! What servers over HTTP do wrong, and what is said of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common_oauth::{
    CONNECT_TIMEOUT, MIB, address, answer, begun, connect, json, listener, notes, refused, remote, remote_at, response,
    serve, state, streamable, tools,
};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use pincer_mcp::{Address, Remote, Speaks};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use serde_json::json as value;

#[tokio::test]
async fn each_failure_says_what_it_is() {
    type Case = (u16, &'static [(&'static str, &'static str)], &'static str, &'static str);
    let cases: [Case; 10] = [
        (401, &[], "", "needs a login: run `pincer mcp login notes`"),
        (401, &[("www-authenticate", "Bearer")], "", "needs a login: run `pincer mcp login notes`"),
        (403, &[], "no\u{1b}[31m\n entry", "does not allow this (403 Forbidden): no [31m entry"),
        (404, &[], "<html>", "has nothing at its address (404 Not Found): check `url` of the config"),
        (400, &[], "bad", "answered 400 Bad Request: bad"),
        (429, &[("retry-after", "60")], "", "has had too many requests (429): it asks to wait for 60 seconds"),
        (500, &[], "the disk is\r\n full", "answered 500 Internal Server Error: the disk is full"),
        (502, &[], "<html><h1>nginx</h1>", "answered 502 Bad Gateway"),
        (
            200,
            &[("content-type", "text/html")],
            "hi",
            "answered with `text/html`, not with JSON or events: check `url` of the config",
        ),
        (200, &[("content-type", "application/json")], "{}", "answered with what is not an MCP message: "),
    ];
    for (status, headers, body, expected) in cases {
        let server = answer(move |_| response(status, headers, body)).await;
        let said = refused(&streamable(&server.origin)).await;
        assert!(said.starts_with(expected), "{status}: {said}");
        assert!(said.len() < 400 && !said.contains('\n'), "{said}");
    }
}

#[tokio::test]
async fn a_long_failure_is_cut() {
    let server = answer(|_| response(500, &[], "word ".repeat(1_000_000))).await;
    let said = refused(&streamable(&server.origin)).await;
    assert!(said.len() < 300 && said.ends_with('…'), "{said}");
}

#[tokio::test]
async fn an_error_of_the_protocol_is_shown_whatever_its_status() {
    for status in [200, 400, 500] {
        let server = answer(move |_| {
            let error = value!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32000, "message": "not now" } });
            response(status, &[("content-type", "application/json")], error.to_string())
        })
        .await;
        assert_eq!(refused(&address(&server.origin)).await, "answered with error -32000: not now");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_message_fails_its_request_at_once() {
    for (kind, body) in [("text/event-stream", "id: 1\ndata: {\"jsonrpc\":\n\n"), ("application/json", "{\"jsonrpc\":")]
    {
        let server = begun(move |_| response(200, &[("content-type", kind)], body)).await;
        let said = refused(&address(&server.origin)).await;
        assert!(said.contains("what is not an MCP message: EOF while parsing"), "{said}");
    }
}

#[tokio::test]
async fn a_token_of_the_config_that_is_refused_is_named() {
    let server = answer(|_| response(401, &[], "")).await;
    let mut there = address(&server.origin);
    there.token = Some("abc".into());
    assert_eq!(refused(&there).await, "refused the token: check `auth.token` of the config");
    there.token = None;
    there.headers.insert("authorization".into(), "Bearer abc".into());
    assert_eq!(refused(&there).await, "refused the header `Authorization`: check `headers` of the config");
}

#[tokio::test]
async fn connections_that_cannot_be_made_say_why() {
    let free = listener().await.local_addr().unwrap();
    let nobody = refused(&address(&format!("http://{free}/"))).await;
    assert_eq!(nobody, format!("refused the connection: nothing listens at {free}"));
    let unknown = refused(&address("http://nowhere.invalid/mcp")).await;
    assert_eq!(unknown, "cannot be reached: there is no address for nowhere.invalid");
    let server = answer(|_| response(200, &[], "")).await;
    let plain = refused(&address(&server.origin.replace("http:", "https:"))).await;
    assert!(plain.starts_with("does not speak TLS as it should: "), "{plain}");
}

#[tokio::test]
async fn short_waits_are_waited_for_and_the_request_is_sent_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = begun(move |message| {
        if count.fetch_add(1, Ordering::SeqCst) < 2 {
            return response(429, &[("retry-after", "0")], "");
        }
        json(&value!({ "jsonrpc": "2.0", "id": message["id"], "result": { "tools": [] } }))
    })
    .await;
    let (_state, logins) = state();
    assert!(tools(&remote(&server.origin), &logins).await.unwrap().is_empty());
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    // The third time is one too many.
    asked.store(0, Ordering::SeqCst);
    let count = Arc::clone(&asked);
    let server = begun(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        response(429, &[("retry-after", "0")], "")
    })
    .await;
    assert!(refused(&address(&server.origin)).await.starts_with("has had too many requests (429)"));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn redirects_to_another_origin_are_refused_and_nothing_goes_there() {
    let visits = Arc::new(Mutex::new(Vec::new()));
    let elsewhere = {
        let visits = Arc::clone(&visits);
        answer(move |request| {
            visits.lock().unwrap().push(format!("{:?}", request.headers()));
            response(200, &[], "")
        })
        .await
    };
    for status in [301, 302, 303, 307, 308] {
        let to = format!("{}/stolen?token=x", elsewhere.origin);
        let server = answer(move |_| response(status, &[("location", &to)], "")).await;
        for speaks in [Speaks::Either, Speaks::Streamable, Speaks::Events] {
            let mut there = Address { speaks, ..address(&server.origin) };
            there.token = Some("abcdef".into());
            there.headers.insert("x-key".into(), "geheim".into());
            let expected = format!(
                "redirects to {}/stolen, which is not followed: if it has moved, change `url` of the config",
                elsewhere.origin
            );
            assert_eq!(refused(&there).await, expected);
        }
    }
    assert_eq!(*visits.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn redirects_within_the_server_are_followed_if_they_keep_the_message() {
    let (_state, logins) = state();
    for (status, follows) in [(307, true), (308, true), (302, false)] {
        let router = Router::new().route_service("/new", notes()).fallback(move |request: Request<Body>| async move {
            assert_eq!(request.headers()["x-key"], "geheim");
            response(status, &[("location", "/new")], "")
        });
        let server = serve(router).await;
        let mut there = streamable(&format!("{}/old", server.origin));
        there.headers.insert("x-key".into(), "geheim".into());
        let listed = tools(&remote_at(&there), &logins).await;
        assert_eq!(listed.is_ok(), follows, "{status}: {listed:?}");
    }
}

#[tokio::test]
async fn headers_of_the_config_are_with_every_request() {
    let router = Router::new().route_service("/mcp", notes()).layer(axum::middleware::from_fn(
        |request: Request<Body>, next: axum::middleware::Next| async move {
            match request.headers().get("x-key") {
                Some(_) => next.run(request).await,
                None => response(500, &[], "without the key"),
            }
        },
    ));
    let server = serve(router).await;
    let mut there = address(&format!("{}/mcp", server.origin));
    assert_eq!(refused(&there).await, "answered 500 Internal Server Error: without the key");
    there.headers.insert("X-Key".into(), "geheim".into());
    let (_state, logins) = state();
    assert_eq!(tools(&remote_at(&there), &logins).await.unwrap(), ["read"]);
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let check = |change: fn(&mut Address), expected: &str| {
        let mut there = address("https://example.com/mcp");
        change(&mut there);
        let error = Remote::new("notes", &there, CONNECT_TIMEOUT).err().unwrap().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(|s| s.url = String::new(), "mcp.servers.notes.url is not an address: ");
    check(|s| s.url = "ftp://x/".into(), "mcp.servers.notes.url must be an http or https address");
    check(|s| s.url = "https://me:pw@x/".into(), "mcp.servers.notes.url has a user name or a password in it");
    check(
        |s| drop(s.headers.insert("x y".into(), "1".into())),
        "mcp.servers.notes.headers: `x y` is not the name of a header",
    );
    check(
        |s| drop(s.headers.insert("Mcp-Session-Id".into(), "1".into())),
        "mcp.servers.notes.headers: `Mcp-Session-Id` is set by the protocol itself",
    );
    check(
        |s| drop(s.headers.insert("x-key".into(), "a\nb".into())),
        "mcp.servers.notes.headers: `x-key` has a value with characters that no header can carry",
    );
    check(|s| s.token = Some("a\nb".into()), "mcp.servers.notes.auth.token has characters");
    check(
        |s| {
            s.token = Some("a".into());
            s.headers.insert("Authorization".into(), "b".into());
        },
        "mcp.servers.notes has both",
    );
}

#[tokio::test]
async fn failures_do_not_repeat_what_the_config_keeps_secret() {
    let server = answer(|request| {
        let headers = format!("{:?} {:?}", request.headers().get("authorization"), request.headers().get("x-key"));
        response(500, &[], headers)
    })
    .await;
    let mut there = streamable(&server.origin);
    there.token = Some("abcdef".into());
    there.headers.insert("x-key".into(), "Basic geheim".into());
    let said = refused(&there).await;
    assert!(said.contains("Bearer …") && !said.contains("abcdef") && !said.contains("geheim"), "{said}");
}

#[tokio::test]
async fn a_first_call_waits_for_the_stream_on_which_it_may_be_asked() {
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&order);
    let router = Router::new().fallback(move |request: Request<Body>| {
        let heard = Arc::clone(&heard);
        async move {
            if request.method() == "GET" {
                tokio::time::sleep(Duration::from_millis(150)).await;
                heard.lock().unwrap().push("stream".into());
                let stream = Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>());
                return response(200, &[("content-type", "text/event-stream")], stream);
            }
            let body = axum::body::to_bytes(request.into_body(), MIB).await.unwrap();
            let message: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            heard.lock().unwrap().push(method.clone());
            let result = match method.as_str() {
                "initialize" => value!({
                    "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "n", "version": "1" },
                }),
                _ => value!({ "content": [] }),
            };
            let answer = value!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            let kinds = [("content-type", "application/json"), ("mcp-session-id", "s")];
            if message.get("id").is_some() { response(200, &kinds, answer.to_string()) } else { response(202, &[], "") }
        }
    });
    let server = serve(router).await;
    let (_state, logins) = state();
    let client = connect(&remote(&server.origin), &logins).await.unwrap();
    let call = || ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("read")));
    client.send_request(call()).await.unwrap();
    client.send_request(call()).await.unwrap();
    let order = order.lock().unwrap().clone();
    assert_eq!(order, ["initialize", "notifications/initialized", "stream", "tools/call", "tools/call"]);
}
