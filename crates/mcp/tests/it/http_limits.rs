//! Servers that say too much, too slowly, or too often.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common_oauth::{
    MIB, Served, answer, begun, connect, refused, refused_within, remote, response, serve, state, streamable, tools,
};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use futures_util::stream;
use serde_json::{Value, json as value};

/// A body that goes on for as long as somebody reads it, or `most` pieces of a MiB.
fn endless(begins: &'static str, most: usize, sent: Arc<AtomicUsize>) -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(begins.as_bytes().to_vec())]);
    let rest = stream::unfold(sent, move |sent| async move {
        (sent.fetch_add(1, Ordering::SeqCst) < most).then(|| (Ok(vec![b'x'; MIB]), sent))
    });
    Body::from_stream(futures_util::StreamExt::chain(first, rest))
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_refused_before_it_fills_the_memory() {
    const PIECES: usize = 200;
    let kinds = [
        (
            "application/json",
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":\"",
            "answered with more than 16 MiB, which is refused",
        ),
        ("text/event-stream", "id: 1\n\ndata: ", "sent an event of more than 16 MiB, which is refused"),
    ];
    for (kind, begins, expected) in kinds {
        let sent = Arc::new(AtomicUsize::new(0));
        // At the beginning, and later.
        let count = Arc::clone(&sent);
        let huge = move || response(200, &[("content-type", kind)], endless(begins, PIECES, Arc::clone(&count)));
        let at_once = {
            let huge = huge.clone();
            answer(move |_| huge()).await
        };
        let later = begun(move |_| huge()).await;
        for server in [at_once, later] {
            sent.store(0, Ordering::SeqCst);
            assert_eq!(refused(&streamable(&server.origin)).await, expected);
            assert!(sent.load(Ordering::SeqCst) < 64, "{} MiB were sent", sent.load(Ordering::SeqCst));
        }
    }
}

#[tokio::test]
async fn a_size_that_is_told_is_believed() {
    let length = (50 * MIB).to_string();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = answer(move |_| {
        let headers = [("content-type", "application/json"), ("content-length", length.as_str())];
        response(200, &headers, endless("", 50, Arc::clone(&count)))
    })
    .await;
    assert_eq!(refused(&streamable(&server.origin)).await, "answered with more than 16 MiB, which is refused");
}

/// A server with sessions, the first of which it forgets, and a stream of its own.
async fn with_stream(stream: impl Fn() -> Response<Body> + Clone + Send + Sync + 'static) -> Served {
    let made = Arc::new(AtomicUsize::new(0));
    let router = Router::new().fallback(move |request: Request<Body>| {
        let (stream, made) = (stream.clone(), Arc::clone(&made));
        async move {
            if request.method() == "GET" {
                return stream();
            }
            let session = request.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
            let body = axum::body::to_bytes(request.into_body(), MIB).await.unwrap();
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => value!({
                    "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "n", "version": "1" },
                }),
                // It is forgotten.
                Some("tools/list") if session.as_deref() == Some("s1") => return response(404, &[], ""),
                Some("tools/list") => value!({ "tools": [] }),
                _ => return response(202, &[], ""),
            };
            let id = format!("s{}", made.fetch_add(1, Ordering::SeqCst) + 1);
            let answer = value!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
            response(200, &[("content-type", "application/json"), ("mcp-session-id", &id)], answer)
        }
    });
    serve(router).await
}

#[tokio::test]
async fn a_session_that_the_server_has_forgotten_is_begun_anew() {
    let server = with_stream(|| response(405, &[], "")).await;
    let (_state, logins) = state();
    assert!(tools(&remote(&server.origin), &logins).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_with_too_large_an_event_is_not_asked_for_again() {
    let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let (end, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let server = with_stream(move || {
        ask.send(()).unwrap();
        // Told when whoever reads it has gone.
        let told = Told(end.clone());
        let pieces = endless("retry: 0\n\ndata: ", 200, Arc::default()).into_data_stream();
        let pieces = futures_util::StreamExt::map(pieces, move |piece| (piece, &told).0);
        response(200, &[("content-type", "text/event-stream")], Body::from_stream(pieces))
    })
    .await;
    let (_state, logins) = state();
    let _client = connect(&remote(&server.origin), &logins).await.unwrap();
    asked.recv().await.unwrap();
    ended.recv().await.unwrap();
    // That nothing happens can only be waited for. It would happen after 200 ms.
    assert!(tokio::time::timeout(Duration::from_millis(600), asked.recv()).await.is_err());
}

#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_asked_for_without_a_pause() {
    let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let server = with_stream(move || {
        ask.send(std::time::Instant::now()).unwrap();
        response(200, &[("content-type", "text/event-stream")], "retry: 0\n\n")
    })
    .await;
    let (_state, logins) = state();
    let _client = connect(&remote(&server.origin), &logins).await.unwrap();
    let first = asked.recv().await.unwrap();
    let mut last = first;
    for _ in 0..3 {
        last = asked.recv().await.unwrap();
    }
    assert!(last - first > Duration::from_millis(400), "{:?}", last - first);
}

struct Told(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn a_server_that_drips_is_given_up_and_so_is_its_connection() {
    for kind in ["application/json", "text/event-stream"] {
        let (end, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let server = answer(move |_| {
            let told = Told(end.clone());
            let drops = stream::unfold(told, |told| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Some((Ok::<_, std::io::Error>(b" ".to_vec()), told))
            });
            response(200, &[("content-type", kind)], Body::from_stream(drops))
        })
        .await;
        refused_within(&streamable(&server.origin), Duration::from_millis(100)).await;
        // rmcp's worker would read on forever.
        ended.recv().await.unwrap();
    }
}
