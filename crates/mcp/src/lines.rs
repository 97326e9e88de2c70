//! The wire to a server that is a program: one JSON message per line, on its standard input and output.
//!
//! The SDK has such a transport too, but it drops what it cannot read without a word, so that a request waits for its answer
//! for ever. Here a message that is too long or broken fails the request it answers; results are kept as they were sent; and
//! progress is told on the spot, because the SDK would tell it in any order, and some of it behind the result.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pincer_json::{JsonError, has_too_many_nodes};
use rmcp::model::{
    ErrorData, JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, ProgressNotificationParam, RequestId,
    ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use crate::addressee::{EXCERPT, addressee};
use crate::inflight::InFlight;
use crate::limits::{MOST_MESSAGE_BYTES, MOST_UNREAD};
use crate::sealed;

/// What an error of ours in place of an answer has as its data: the server did not say it.
const OURS: &str = "pincer/wire";

type Message = RxJsonRpcMessage<RoleClient>;

/// One life of the wire.
pub(crate) struct Lines<R, W> {
    reader: BufReader<R>,
    line: Line,
    writer: Arc<AsyncMutex<Option<W>>>,
    /// Answers of ours that the server has not read.
    unread: Arc<AtomicUsize>,
    /// The handshake is the SDK's business; what comes after is taken as it is.
    greeted: bool,
    /// Progress that no caller has been told of yet.
    progress: Option<ProgressNotificationParam>,
    ends: Ends,
}

/// What is at the ends of the wire.
#[derive(Clone)]
pub(crate) struct Ends {
    pub notes: Arc<Notes>,
    /// The callers that are told of progress.
    pub in_flight: Arc<InFlight>,
    /// Cancelled when the wire is of no more use.
    pub closed: CancellationToken,
    /// How long the server may leave something unread that does not fit into the pipe.
    pub patience: Duration,
}

impl Ends {
    fn give_up(&self, wrong: String) {
        self.notes.set_wrong(wrong);
        self.closed.cancel();
    }
}

/// The reason why a line cannot be used, as a sentence that begins behind the server's name.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("sent a message of {total} bytes; {MOST_MESSAGE_BYTES} are the most: ask it for less")]
    TooLong { total: usize },
    #[error("{}", sealed::wrong(.0))]
    Json(JsonError),
    #[error("sent a message that is not JSON ({source}): {excerpt}")]
    NotJson { source: serde_json::Error, excerpt: String },
    #[error("sent an answer with neither a result nor an error")]
    NoOutcome,
}

/// Notes about the messages that came over the wire.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Said>);

#[derive(Default)]
struct Said {
    /// Why the wire was given up.
    wrong: Option<String>,
    /// The last line that was no message.
    noise: Option<String>,
}

impl Notes {
    pub(crate) fn wrong(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wrong.clone()
    }

    pub(crate) fn noise(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).noise.clone()
    }

    fn set_wrong(&self, wrong: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wrong.get_or_insert(wrong);
    }

    fn set_noise(&self, line: &[u8]) {
        let excerpt = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).noise = Some(excerpt);
    }
}

/// An answer that the server has not read.
struct Unread(Arc<AtomicUsize>);

impl Unread {
    fn one_more(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A line on its way in. It survives when the future that reads it is dropped.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    /// It is longer than it may be: these are its last bytes, and how many there were.
    over: Option<(Vec<u8>, usize)>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    pub(crate) fn new(reader: R, writer: W, ends: Ends) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            line: Line::default(),
            writer: Arc::new(AsyncMutex::new(Some(writer))),
            unread: Arc::default(),
            greeted: false,
            progress: None,
            ends,
        }
    }

    /// The next whole line is in `self.line`; `false` at the end.
    async fn next_line(&mut self) -> bool {
        loop {
            let buffer = match self.reader.fill_buf().await {
                Ok(buffer) if !buffer.is_empty() => buffer,
                _ => return false,
            };
            let (used, whole) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), false),
            };
            self.line.take(&buffer[..used]);
            self.reader.consume(used);
            if whole {
                return true;
            }
        }
    }

    /// Takes the line, and returns its message. `None` if it has none.
    fn message(&mut self) -> Result<Option<Message>, LineError> {
        let Line { bytes, over } = std::mem::take(&mut self.line);
        if let Some((tail, total)) = over {
            return failed_request(&bytes, &tail, LineError::TooLong { total }).map(Some);
        }
        let line = bytes.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let tail = &line[line.len().saturating_sub(EXCERPT)..];
        // Before it is parsed: a tree of any such message would take more memory than it may.
        if has_too_many_nodes(line) {
            return failed_request(line, tail, LineError::Json(JsonError::TooManyNodes)).map(Some);
        }
        if !self.greeted {
            return Ok(self.greeting(line));
        }
        match serde_json::from_slice::<Answer<'_>>(line) {
            Ok(Answer { id, result: Some(result), .. }) => {
                let result = sealed::seal(result.get());
                Ok(Some(Message::Response(JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result })))
            }
            Ok(Answer { id, error: Some(error), .. }) => {
                let error = lenient_error(error);
                Ok(Some(Message::Error(JsonRpcError { jsonrpc: JsonRpcVersion2_0, id: Some(id), error })))
            }
            Ok(Answer { id, .. }) => Ok(Some(failed(id, &LineError::NoOutcome))),
            // What was meant as a message and is none has an addressee.
            Err(error) if (error.is_syntax() || error.is_eof()) && contains(line, b"\"jsonrpc\"") => {
                let excerpt = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                failed_request(line, tail, LineError::NotJson { source: error, excerpt }).map(Some)
            }
            Err(_) => match serde_json::from_slice::<Message>(line) {
                Ok(Message::Notification(told)) => {
                    let ServerNotification::ProgressNotification(progress) = told.notification else {
                        return Ok(Some(Message::Notification(told)));
                    };
                    self.progress = Some(progress.params);
                    Ok(None)
                }
                Ok(message) => Ok(Some(message)),
                Err(_) => {
                    self.ends.notes.set_noise(line);
                    Ok(None)
                }
            },
        }
    }

    /// Returns the next message, or nothing for ever. The begin of a message survives when this is dropped.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if self.progress.is_some() {
                let _known = self.ends.in_flight.sending.lock().await;
                self.progress.take().into_iter().for_each(|progress| self.ends.in_flight.progress(progress));
            }
            if !self.next_line().await {
                return None;
            }
            match self.message() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(error) => {
                    self.ends.notes.set_wrong(error.to_string());
                    return None;
                }
            }
        }
    }

    fn greeting(&mut self, line: &[u8]) -> Option<Message> {
        match serde_json::from_slice::<Message>(line) {
            Ok(message) => {
                self.greeted |= matches!(message, Message::Response(_));
                Some(message)
            }
            Err(_) => {
                self.ends.notes.set_noise(line);
                None
            }
        }
    }
}

/// An answer, taken as it is.
#[derive(Deserialize)]
struct Answer<'a> {
    id: RequestId,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Value>,
    /// A request has one.
    #[serde(rename = "method", default)]
    _method: Option<Never>,
}

/// Nothing deserialises to this.
enum Never {}

impl<'de> Deserialize<'de> for Never {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("a request"))
    }
}

/// A result that is `null` is one.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Servers put all sorts of things there.
fn lenient_error(error: Value) -> ErrorData {
    match serde_json::from_value(error.clone()) {
        Ok(error) => error,
        Err(_) => ErrorData::internal_error(error.to_string(), None),
    }
}

impl Line {
    fn take(&mut self, part: &[u8]) {
        if let Some((tail, total)) = &mut self.over {
            *total += part.len();
            tail.extend_from_slice(&part[part.len().saturating_sub(EXCERPT)..]);
            tail.drain(..tail.len().saturating_sub(EXCERPT));
        } else if self.bytes.len() + part.len() > MOST_MESSAGE_BYTES {
            let total = self.bytes.len() + part.len();
            // The beginning is enough from now on.
            self.bytes.truncate(EXCERPT);
            self.bytes.shrink_to_fit();
            self.over = Some((part[part.len().saturating_sub(EXCERPT)..].to_vec(), total));
        } else {
            self.bytes.extend_from_slice(part);
        }
    }
}

/// Returns an error in place of an answer that cannot be used. If it is not known which request that answers, the wire is of no
/// more use.
fn failed_request(head: &[u8], tail: &[u8], error: LineError) -> Result<Message, LineError> {
    match addressee(head, tail) {
        Some(id) => Ok(failed(RequestId::Number(id), &error)),
        None => Err(error),
    }
}

fn failed(id: RequestId, error: &LineError) -> Message {
    let error = ErrorData::parse_error(error.to_string(), Some(OURS.into()));
    Message::Error(JsonRpcError { jsonrpc: JsonRpcVersion2_0, id: Some(id), error })
}

/// Returns whether the wire said this, in place of an answer that cannot be used.
pub(crate) fn is_ours(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data == OURS)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (writer, ends) = (Arc::clone(&self.writer), self.ends.clone());
        let answer =
            matches!(message, TxJsonRpcMessage::<RoleClient>::Response(_) | TxJsonRpcMessage::<RoleClient>::Error(_));
        let unread = answer.then(|| Unread::one_more(&self.unread));
        if unread.as_ref().is_some_and(|unread| unread.count() > MOST_UNREAD) {
            ends.give_up("asks and does not read the answers".into());
        }
        async move {
            let _unread = unread;
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let written = async {
                let mut writer = writer.lock().await;
                let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                // The time of this message: those that wait behind it have their own.
                let written = tokio::time::timeout(ends.patience, async {
                    writer.write_all(&line).await?;
                    writer.flush().await
                });
                written.await.unwrap_or_else(|_| {
                    ends.give_up("reads no more of what it is sent".into());
                    Err(io::ErrorKind::TimedOut.into())
                })
            };
            tokio::select! {
                biased;
                () = ends.closed.cancelled() => Err(io::ErrorKind::NotConnected.into()),
                written = written => written,
            }
        }
    }

    async fn receive(&mut self) -> Option<Message> {
        let closed = self.ends.closed.clone();
        let message = tokio::select! {
            biased;
            () = closed.cancelled() => None,
            message = self.next() => message,
        };
        if message.is_none() {
            // A task that still writes to it would do so for ever.
            closed.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.ends.closed.cancel();
        self.writer.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message, its result opened.
    fn shown(message: Message) -> String {
        match message {
            Message::Response(JsonRpcResponse { id, result, .. }) => {
                let result =
                    sealed::open(result).map_or_else(|wrong| format!("{wrong:?}"), |result| result.to_string());
                format!(r#"{{"id":{id},"result":{result}}}"#)
            }
            other => serde_json::to_string(&other).unwrap_or_default(),
        }
    }

    async fn received(text: &str) -> (Vec<String>, Option<String>) {
        let notes = Arc::new(Notes::default());
        let (in_flight, closed) = (Arc::default(), CancellationToken::new());
        let ends = Ends { notes: Arc::clone(&notes), in_flight, closed, patience: Duration::from_secs(60) };
        let mut lines = Lines::new(text.as_bytes(), tokio::io::sink(), ends);
        lines.greeted = true;
        let mut found = Vec::new();
        while let Some(message) = lines.receive().await {
            found.push(shown(message));
        }
        (found, notes.wrong())
    }

    #[tokio::test]
    async fn results_are_kept_as_they_were_sent_and_noise_is_passed_over() {
        let sent = concat!(
            "server is up\n{ pretty: 'print' }\n{\"level\":\"info\"}\n\n",
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"hologram","x":1}],"extra":null}}"#,
            "\r\n",
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":"high","message":5}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":3,"result":null}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":4}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            "\nincomplete",
        );
        let (found, wrong) = received(sent).await;
        assert_eq!(wrong, None);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].contains(r#""content":[{"type":"hologram","x":1}],"extra":null"#), "{}", found[0]);
        assert!(found[1].contains("high"), "{}", found[1]);
        assert!(found[2].contains(r#""result":null"#), "{}", found[2]);
        assert!(found[3].contains(r#""id":4"#) && found[3].contains("neither"), "{}", found[3]);
        assert!(found[4].contains("list_changed"), "{}", found[4]);
    }

    #[tokio::test]
    async fn a_message_that_is_broken_or_too_long_fails_its_own_request() {
        let huge = format!(r#"{{"jsonrpc":"2.0","id":8,"result":"{}"}}"#, "x".repeat(MOST_MESSAGE_BYTES));
        let sent = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\n{huge}\n{{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":1}}\n"
        );
        let (found, wrong) = received(&sent).await;
        assert_eq!((found.len(), wrong), (3, None), "{found:?}");
        assert!(found[0].contains(r#""id":7"#) && found[0].contains("not JSON"), "{}", found[0]);
        assert!(found[1].contains(r#""id":8"#) && found[1].contains("are the most"), "{}", found[1]);
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        let (found, wrong) = received(&format!("{{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{deep}}}\n")).await;
        assert!(wrong.is_none() && found[0].contains("nested deeper than 100 levels"), "{found:?}");
        // A tree of this message, of any kind, would take 32 MB.
        for hostile in ["\"result\":[", "\"error\":[", "\"method\":\"x\",\"params\":["] {
            let zeros = format!("{{\"jsonrpc\":\"2.0\",\"id\":6,{hostile}{}0]}}\n", "0,".repeat(1_000_000));
            let (found, wrong) = received(&zeros).await;
            let told = "sent a message made of more than 1000000 values and keys: ask it for less";
            assert!(wrong.is_none() && found[0].contains(r#""id":6"#) && found[0].contains(told), "{found:?}");
        }
        let (found, wrong) =
            received("{\"jsonrpc\":\"2.0\",\"result\":{\n{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":1}\n").await;
        assert!(found.is_empty() && wrong.is_some_and(|wrong| wrong.contains("not JSON")));
    }
}
