//! From `write()` on the server's socket to our event.
//!
//! The server is a thread of this process that writes each event by itself and notes the moment: both ends read the same clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use pincer_model::Event;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::script::{ask, events, models};
use crate::cells::Outcome;
use crate::usage_bench::StreamFormat;

/// Words of the reply.
pub(super) const WORDS: usize = 100;
/// The pause before each event: longer than the way of the one before.
const PAUSE: Duration = Duration::from_millis(2);

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// An event on its way.
struct Written {
    at: Instant,
    /// The end of its chunk, counted from the beginning of the answer.
    end: usize,
    is_text: bool,
}

/// Measures the way of each word to our event.
pub(super) async fn to_event(format: StreamFormat, body: &[u8]) -> Outcome<Vec<Duration>> {
    let (address, server) = serve(format, body)?;
    // On a worker of the runtime, as everywhere: there the connection is read too.
    let came = tokio::spawn(async move {
        let mut reply = ask(format, &format!("http://{address}"), &models(None)).map_err(|error| error.to_string())?;
        let mut came = Vec::with_capacity(WORDS);
        while let Some(event) = reply.next().await {
            if let Event::Text(_) = event.map_err(|error| error.to_string())? {
                came.push(Instant::now());
            }
        }
        Ok::<_, String>(came)
    });
    let came = came.await??;
    let written: Vec<Instant> = joined(server)?.iter().filter(|event| event.is_text).map(|event| event.at).collect();
    if came.len() != written.len() || came.len() != WORDS {
        return Err(format!("{} words came of the {} that were sent", came.len(), written.len()).into());
    }
    Ok(came.into_iter().zip(written).map(|(came, at)| came - at).collect())
}

/// Measures the way of the same bytes to a `read()` that does nothing with them.
pub(super) async fn to_bare_read(format: StreamFormat, body: &[u8]) -> Outcome<Vec<Duration>> {
    let (address, server) = serve(format, body)?;
    let reads = tokio::spawn(async move {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").await?;
        let (mut buffer, mut read, mut reads) = (vec![0; 64 << 10], 0, Vec::new());
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok::<_, std::io::Error>(reads),
                more => {
                    read += more;
                    reads.push((read, Instant::now()));
                }
            }
        }
    });
    let reads = reads.await??;
    let came = |event: &Written| {
        let (_, came) = reads.iter().find(|(read, _)| *read >= event.end)?;
        Some(*came - event.at)
    };
    Ok(joined(server)?.iter().filter(|event| event.is_text).filter_map(came).collect())
}

type Serving = JoinHandle<std::io::Result<Vec<Written>>>;

/// Serves one request.
fn serve(format: StreamFormat, body: &[u8]) -> Outcome<(SocketAddr, Serving)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let chunk = |event: &[u8]| {
        let chunk = [format!("{:x}\r\n", event.len()).as_bytes(), event, b"\r\n"].concat();
        (chunk, is_text(format, event))
    };
    let chunks: Vec<(Vec<u8>, bool)> = events(body).into_iter().map(chunk).collect();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        take_request(&stream)?;
        stream.write_all(HEAD)?;
        let (mut written, mut end) = (Vec::with_capacity(chunks.len()), HEAD.len());
        for (chunk, is_text) in &chunks {
            thread::sleep(PAUSE);
            end += chunk.len();
            written.push(Written { at: Instant::now(), end, is_text: *is_text });
            stream.write_all(chunk)?;
        }
        stream.write_all(END)?;
        Ok(written)
    });
    Ok((address, server))
}

fn joined(server: Serving) -> Outcome<Vec<Written>> {
    Ok(server.join().map_err(|_| "the server panicked")??)
}

fn take_request(stream: &TcpStream) -> std::io::Result<()> {
    let (mut reader, mut length) = (BufReader::new(stream), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            return reader.read_exact(&mut vec![0; length]);
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
}

/// Returns whether an event of the provider has a word in it. That all are found is checked by their number.
fn is_text(format: StreamFormat, event: &[u8]) -> bool {
    let event = String::from_utf8_lossy(event);
    match format {
        StreamFormat::Chat => event.contains(r#""delta":{"content":""#) && !event.contains(r#""content":"""#),
        StreamFormat::Responses => event.contains(r#""type":"response.output_text.delta""#),
        StreamFormat::Messages => event.contains(r#""type":"text_delta""#),
    }
}
