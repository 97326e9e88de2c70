//! Providers that never stop: each is refused by kind, and the memory that it takes is bounded. A program of its own: it counts what
//! the process has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use pincer_model::{
    Api, Debug, ErrorKind, Keys, Message, ModelError, Models, Plan, Profile, Provider, Request, Target,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Far less than any of them sends, and more than a reply may have.
const MOST_MEMORY: usize = 96 << 20;

/// Serves one answer: a head, then the same piece for ever, or as often as it says.
async fn endless(head: &'static str, before: Vec<u8>, piece: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 65_536];
        let _ = socket.read(&mut request).await;
        let _ = socket.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes()).await;
        let _ = socket.write_all(&before).await;
        while socket.write_all(&piece).await.is_ok() {}
    });
    format!("http://{address}")
}

async fn asked(api: Api, url: &str) -> ModelError {
    let provider = Provider {
        id: "p".into(),
        base_url: url.parse().unwrap(),
        api,
        headers: BTreeMap::new(),
        timeout: None,
        models: Vec::new(),
    };
    let keys = Keys::new(BTreeMap::from([("p".to_owned(), vec![Profile { id: "p".into(), find: None }])]));
    let models = Models::new(keys, Debug::default(), None);
    let plan = Plan { attempts: 1, ..Plan::new(Target::new(&Arc::new(provider), "m")) };
    let mut reply = models.ask(plan, Request { messages: vec![Message::user("Hello.")], ..Request::default() });
    loop {
        match reply.next().await.expect("it never ends well") {
            // As a caller does that has no use for it.
            Ok(event) => drop(event),
            Err(error) => return error,
        }
    }
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";

/// The beginning of a reply, and what repeats for ever.
fn floods(api: Api) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let long = "x".repeat(60_000);
    let event = |json: String| format!("data: {json}\n\n").into_bytes();
    let (start, text, call, arguments) = match api {
        Api::ChatCompletions => (
            event("{\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}".into()),
            event(format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{long}\"}}}}]}}")),
            event("{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"exec\",\"arguments\":\"{}\"}}]}}]}".into()),
            event(format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"exec\",\"arguments\":\"{long}\"}}}}]}}}}]}}")),
        ),
        Api::Responses => (
            event("{\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}".into()),
            event(format!("{{\"type\":\"response.output_text.delta\",\"item_id\":\"a\",\"output_index\":0,\"delta\":\"{long}\"}}")),
            event("{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"exec\",\"arguments\":\"{}\"}}".into()),
            event(format!("{{\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"a\",\"delta\":\"{long}\"}}")),
        ),
        Api::Messages => (
            event("{\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}".into()),
            event(format!("{{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"{long}\"}}}}")),
            event("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"exec\",\"input\":{}}}".into()),
            [
                event("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"exec\",\"input\":{}}}".into()),
                event(format!("{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{long}\"}}}}")),
            ].concat(),
        ),
    };
    let kept = match api {
        Api::ChatCompletions => {
            event(format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"reasoning_details\":[{{\"data\":\"{long}\"}}]}}}}]}}"))
        }
        Api::Responses => event(format!("{{\"type\":\"response.output_item.added\",\"item\":{{\"type\":\"program\",\"code\":\"{long}\"}}}}")),
        Api::Messages => [
            event("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}".into()),
            event(format!("{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"signature_delta\",\"signature\":\"{long}\"}}}}")),
        ]
        .concat(),
    };
    vec![
        ("what is to be sent back, without end", start.clone(), kept),
        ("text without end", start.clone(), text),
        ("calls without end", start.clone(), call),
        ("arguments that never close", start.clone(), arguments),
        ("an event without end", [start.clone(), b"data: ".to_vec()].concat(), long.clone().into_bytes()),
        ("a line without end", Vec::new(), long.into_bytes()),
        ("nothing but comments", start, format!(": {}\n", "x".repeat(8000)).into_bytes()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_never_ends_is_refused_and_takes_little_memory() {
    for api in Api::ALL {
        for (what, before, piece) in floods(api) {
            let url = endless(EVENTS, before, piece).await;
            let error = asked(api, &url).await;
            assert_eq!((error.kind, error.retry.is_right()), (ErrorKind::TooLarge, false), "{api:?} {what}: {error}");
        }
        // The body of an error is read to a bound, and its message shortened.
        let url = endless("HTTP/1.1 500 Oh\r\ncontent-type: text/plain", Vec::new(), vec![b'y'; 60_000]).await;
        let error = asked(api, &url).await;
        assert!(error.kind == ErrorKind::Overloaded && error.message.len() < 1000, "{api:?}: {}", error.message.len());
    }
    // Few bytes of text, much memory as a tree.
    let tree =
        format!("data: {{\"type\":\"message_start\",\"message\":{{\"x\":[{}0]}}}}\n\n", "{\"a\":0},".repeat(1_900_000));
    let error = asked(Api::Messages, &endless(EVENTS, tree.into_bytes(), b": \n".to_vec()).await).await;
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    // Gigabytes of zeros in a few megabytes.
    let bomb = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![b'0'; 1 << 20];
        std::io::Write::write_all(&mut encoder, b"data: ").unwrap();
        for _ in 0..512 {
            std::io::Write::write_all(&mut encoder, &zeros).unwrap();
        }
        encoder.finish().unwrap()
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip";
    let error = asked(Api::Messages, &endless(head, bomb, vec![0]).await).await;
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    let peak = pincer_process::peak_bytes_of(std::process::id());
    assert!(peak > 0 && peak < MOST_MEMORY, "{} MiB", peak >> 20);
}
