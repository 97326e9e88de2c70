//! Connections and sessions over HTTP: how many there may be, for how long, and whose place a new one gets.

use std::time::Duration;

use crate::common::house;
use crate::common::web::{TOKENS, Web, call, hello, listen, settings};
use pincer_mcp_server::{Bounds, HttpSettings, Surface};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const HALF: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ";
/// A time that no test lives to see.
const NEVER: Duration = Duration::from_secs(600);
const BOUNDS: Bounds = Bounds { connections: 8, per_address: 8, head: NEVER, stall: NEVER };

fn bounded(bounds: Bounds) -> HttpSettings {
    HttpSettings { bounds, ..settings(&[]) }
}

async fn connect(web: &Web, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(web.address.parse().unwrap()).await.unwrap()
}

async fn half_open(web: &Web) -> TcpStream {
    let mut stream = connect(web, "127.0.0.1").await;
    stream.write_all(HALF.as_bytes()).await.unwrap();
    stream
}

/// A request that is never answered: its connection is busy. The head of the answer has come.
async fn busy(web: &Web, session: &str, from: &str) -> TcpStream {
    let mut stream = connect(web, from).await;
    let head = "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25";
    stream.write_all(format!("{head}\r\nMcp-Session-Id: {session}\r\n\r\n").as_bytes()).await.unwrap();
    let mut piece = [0; 1024];
    let count = stream.read(&mut piece).await.unwrap();
    assert!(piece[..count].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&piece[..count]));
    stream
}

/// Until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    // Closing with something unread is a reset.
    let _ = stream.read_to_end(&mut read).await;
    String::from_utf8_lossy(&read).into_owned()
}

/// A session without a token.
async fn session(web: &Web) -> String {
    let answered = web.post("", &hello()).await;
    answered.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {answered:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_keep_nobody_out() {
    let house = house(Surface::Code);
    let web = listen(&house, bounded(BOUNDS)).await;
    let mut half = Vec::new();
    for _ in 0..40 {
        half.push(half_open(&web).await);
    }
    session(&web).await;
    // All but the newest have lost their places.
    half.truncate(32);
    for stream in half {
        assert_eq!(rest(stream).await, "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_connections_stay_and_others_are_told_to_come_again() {
    let house = house(Surface::Code);
    let web = listen(&house, bounded(Bounds { connections: 3, per_address: 2, ..BOUNDS })).await;
    let one = session(&web).await;
    let other = session(&web).await;
    let first = busy(&web, &one, "127.0.0.1").await;
    let second = busy(&web, &other, "127.0.0.1").await;
    let refused = rest(connect(&web, "127.0.0.1").await).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("Retry-After: 1\r\n"), "{refused}");
    let body = refused.split_once("\r\n\r\n").unwrap().1;
    assert!(refused.contains(&format!("Content-Length: {}\r\n", body.len())), "{refused}");
    // Another address has a share of its own, but there is an end to all together.
    let _third = connect(&web, "127.0.0.2").await;
    let fourth = connect(&web, "127.0.0.2").await;
    let mut newest = connect(&web, "127.0.0.2").await;
    assert_eq!(rest(fourth).await, "", "it was idle, and the newest one needed its place");
    newest.write_all(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(rest(newest).await.starts_with("HTTP/1.1 404 "));
    drop((first, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_sends_no_head_in_time_is_closed() {
    let house = house(Surface::Code);
    let web = listen(&house, bounded(Bounds { head: Duration::from_millis(100), ..BOUNDS })).await;
    rest(half_open(&web).await).await;
    // The same between two requests.
    let mut kept = connect(&web, "127.0.0.1").await;
    kept.write_all(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    assert!(rest(kept).await.starts_with("HTTP/1.1 404 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_is_given_up() {
    let house = house(Surface::Code);
    let bounds = Bounds { connections: 1, stall: Duration::from_millis(100), ..BOUNDS };
    let web = listen(&house, bounded(bounds)).await;
    let id = session(&web).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: {id}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{list}",
        list.len()
    );
    let mut greedy = connect(&web, "127.0.0.1").await;
    // More answers than fit anywhere. The server closes in the middle of it.
    while greedy.write_all(request.as_bytes()).await.is_ok() {}
    session(&web).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_nobody_ends_make_room_for_new_ones() {
    const MOST: usize = 256;
    let house = house(Surface::Code);
    let web = listen(&house, settings(&TOKENS)).await;
    let lists = async |token: &str, id: &str| {
        let head = format!("Authorization: Bearer {token}\r\nMcp-Session-Id: {id}\r\n");
        web.post(&head, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await.status
    };
    let first = web.session("token-of-ann").await;
    let used = web.session("token-of-ann").await;
    let of_bob = web.session("token-of-bob").await;
    // Something is under way in this one.
    let working = web.session("token-of-ann").await;
    let head = format!("Authorization: Bearer token-of-ann\r\nMcp-Session-Id: {working}\r\n");
    let long = call(2, "exec", json!({ "code": "await new Promise((go) => setTimeout(go, 5000)); return 42" }));
    let answer = web.post(&head, &long);
    let others = async {
        for _ in 0..MOST - 2 {
            web.session("token-of-ann").await;
            assert_eq!(lists("token-of-ann", &used).await, 200);
        }
        assert_eq!(lists("token-of-ann", &first).await, 404);
        assert_eq!(lists("token-of-ann", &used).await, 200);
        assert_eq!(lists("token-of-bob", &of_bob).await, 200);
    };
    let (answered, ()) = tokio::join!(answer, others);
    assert!(answered.body.contains("42"), "{answered:?}");
}
