//! Bytes travel as the script says.

use std::io::Read as _;

use pincer_scripted::{Cut, End, Format, Message, Recorded, Reply, Script, Server, Wire};
use serde_json::json;

use crate::client::{Next, ask, begin, server, streamed};

fn message() -> Message {
    Message::new().thinking("Hm, ä.", "s").text("Grüße 🦀").call("exec", json!({ "code": "\"\\ü\n\"" }))
}

fn serve(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(replies.into_iter().fold(Script::new(), Script::reply)).unwrap()
}

#[tokio::test]
async fn every_cut_gives_the_same_bytes() {
    for format in Format::ALL {
        let plain = ask(&serve([message().into()]), format, &streamed()).await;
        assert_eq!(plain.chunks.len(), plain.events().len(), "one chunk per event");
        let length = plain.bytes().len();
        for size in [1, 2, 3, 7, length] {
            let wire = Wire::cut_every(size.try_into().unwrap());
            let cut = ask(&serve([Reply::from(message()).wire(wire)]), format, &streamed()).await;
            assert_eq!(cut.text(), plain.text());
            assert_eq!(cut.chunks.len(), length.div_ceil(size), "chunks of {size}");
        }
        let wire = Wire { cut: Cut::At(vec![20, 7]), ..Wire::default() };
        let cut = ask(&serve([Reply::from(message()).wire(wire)]), format, &streamed()).await;
        assert_eq!(cut.chunks.iter().map(Vec::len).collect::<Vec<_>>(), [7, 13, length - 20]);
        assert_eq!(cut.text(), plain.text());
    }
}

#[tokio::test]
async fn a_stalled_answer_stays_open_until_the_client_leaves() {
    let server = serve([Reply::from(message()).wire(Wire::stall_after(3))]);
    let mut answer = begin(&server, Format::Messages, &streamed()).await;
    for _ in 0..3 {
        assert!(matches!(answer.next().await, Next::Chunk(_)));
    }
    server.stalled(0).await;
    drop(answer);
    assert_eq!(server.ended(0).await, End::Left);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_headers_is_noticed() {
    let server = server("{ replies: [{ parts: [], wire: { headersAfterMs: 3600000 } }] }");
    let mut stream = tokio::net::TcpStream::connect(server.url().strip_prefix("http://").unwrap()).await.unwrap();
    let request = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    server.request(0).await;
    drop(stream);
    assert_eq!(server.ended(0).await, End::Left);
}

#[tokio::test]
async fn a_truncated_answer_loses_no_byte_before_its_end() {
    let plain = ask(&serve([message().into()]), Format::Chat, &streamed()).await.bytes();
    for length in [0, 1, 120, plain.len() - 1, plain.len() + 1] {
        let server = serve([Reply::from(message()).wire(Wire::truncate_after(length))]);
        let whole = ask(&server, Format::Chat, &streamed()).await;
        assert_eq!(whole.end, Next::Broken, "{length}");
        assert_eq!(whole.bytes(), plain[..length.min(plain.len())], "{length}");
        assert_eq!(server.ended(0).await, End::Truncated);
    }
}

#[tokio::test]
async fn a_whole_answer_is_noted_as_sent() {
    let server = serve([message().into()]);
    assert_eq!(ask(&server, Format::Chat, &json!({})).await.end, Next::End);
    assert_eq!(server.ended(0).await, End::Sent);
}

#[tokio::test]
async fn raw_bytes_pings_and_line_ends_are_put_between_events() {
    let script = |wire: &str| format!("{{ replies: [{{ parts: [{{ text: 'Hi' }}], wire: {wire}, repeat: true }}] }}");
    let with_inserts =
        server(&script(r#"{ insert: [{ at: 1, raw: "data: {not json\n\n" }, { at: 99, raw: ": late\n" }] }"#));
    let whole = ask(&with_inserts, Format::Messages, &streamed()).await;
    assert_eq!(whole.events()[1], (String::new(), "{not json".to_owned()));
    assert!(whole.text().ends_with("\n\n: late\n"));

    let with_pings = server(&script("{ pings: true }"));
    let names = |whole: &crate::client::Whole| whole.events().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let pinged = names(&ask(&with_pings, Format::Messages, &streamed()).await);
    assert_eq!(pinged[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(pinged.last().unwrap(), "message_stop");
    assert!(ask(&with_pings, Format::Chat, &streamed()).await.text().contains("\n\n: ping\n\ndata:"));

    for (line_end, end) in [(r"\r\n", "\r\n"), (r"\r", "\r")] {
        let whole = ask(&server(&script(&format!("{{ lineEnd: '{line_end}' }}"))), Format::Chat, &streamed()).await;
        assert!(whole.text().ends_with(&format!("data: [DONE]{end}{end}")));
        assert_eq!(
            whole.text().matches('\n').count(),
            if end == "\r" { 0 } else { whole.text().matches('\r').count() }
        );
    }

    let without_end = server(&script("{ omitDone: true }"));
    assert_ne!(ask(&without_end, Format::Chat, &streamed()).await.events().last().unwrap().1, "[DONE]");
    assert_eq!(names(&ask(&without_end, Format::Messages, &streamed()).await).last().unwrap(), "message_delta");
    let last = names(&ask(&without_end, Format::Responses, &streamed()).await).pop().unwrap();
    assert_eq!(last, "response.output_item.done");
}

#[tokio::test]
async fn a_compressed_stream_can_be_read_event_by_event() {
    let plain = ask(&serve([message().into()]), Format::Messages, &streamed()).await;
    let wire = Wire { gzip: true, ..Wire::default() };
    let packed = ask(&serve([Reply::from(message()).wire(wire)]), Format::Messages, &streamed()).await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.bytes()[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain.text());
    let mut first = vec![0; plain.chunks[0].len()];
    flate2::read::GzDecoder::new(&packed.chunks[0][..]).read_exact(&mut first).unwrap();
    assert_eq!(first, plain.chunks[0]);
}

#[tokio::test]
async fn slow_chunks_all_arrive() {
    let script = "{ replies: [{ parts: [{ text: 'one two three' }], wire: { everyMs: 1, headersAfterMs: 1 } }] }";
    let whole = ask(&server(script), Format::Chat, &streamed()).await;
    assert_eq!((whole.chunks.len(), whole.end), (7, Next::End));
}

#[tokio::test]
async fn a_recorded_exchange_is_replayed_byte_for_byte() {
    let body = "event: odd\r\ndata: {\"half\": \"ü";
    let recorded = Recorded::new(203, body).into();
    let reply = |reply: Reply| reply.header("Content-Type", "text/event-stream").header("content-length", "5");
    let server = serve([reply(recorded), Reply::from(Recorded::new(418, "")).wire(Wire::truncate_after(0))]);
    let whole = ask(&server, Format::Responses, &streamed()).await;
    assert_eq!((whole.status, whole.text(), whole.end), (203, body.to_owned(), Next::End));
    assert_eq!(whole.headers["content-type"], "text/event-stream");
    assert!(!whole.headers.contains_key("x-request-id"));
    assert_eq!(ask(&server, Format::Chat, &json!({})).await.status, 418);

    let script = r#"{ replies: [{ recorded: { headers: { "x-a": "b" }, body: "grüße", cuts: [3] } }] }"#;
    let whole = ask(&crate::client::server(script), Format::Chat, &json!({})).await;
    assert_eq!(whole.chunks, ["grüße".as_bytes()[..3].to_vec(), "grüße".as_bytes()[3..].to_vec()]);
    assert_eq!(whole.headers["x-a"], "b");
}
