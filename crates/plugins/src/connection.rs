//! One life of a plugin's process: requests, answers, and what it does wrong.

use std::collections::{HashMap, HashSet, VecDeque};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pincer_process::Group;
use pincer_tools::UpdateSink;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::channel::{Ear, Listeners, deaf};
use crate::wire::{CHANNEL_STATE, Incoming, MOST_MESSAGE_BYTES, Outgoing, RECEIVED, RpcError, WireError, read};

/// The time that a process has to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(1);
/// The most bytes of its standard error that an error shows.
const STDERR_BYTES: usize = 2000;
const QUEUED_MESSAGES: usize = 64;

/// The reason why a request has no answer: the process is over, and this is what it did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub String);

/// A running process.
pub(crate) struct Connection {
    writer: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
    made: AtomicU64,
    end: CancellationToken,
    over: watch::Receiver<bool>,
}

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: HashMap<u64, Waiter>,
    /// Requests that were given up: their answers may still come.
    given_up: HashSet<u64>,
    broken: Option<Broken>,
}

struct Waiter {
    answer: oneshot::Sender<Result<Value, RpcError>>,
    updates: Option<Arc<dyn UpdateSink>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all requests without an answer.
    fn break_off(&self, why: String) {
        let mut state = self.lock();
        state.broken.get_or_insert(Broken(why));
        // A request that waits finds the other end gone, and then the reason.
        state.waiting.clear();
    }

    fn take(&self, message: Incoming, ear: Option<&Ear>) -> Result<(), WireError> {
        let mut state = self.lock();
        match message {
            Incoming::Received { id, params } => {
                drop(state);
                ear.ok_or_else(|| deaf(RECEIVED))?.received(id, params);
                Ok(())
            }
            Incoming::ChannelState { params } => {
                drop(state);
                ear.ok_or_else(|| deaf(CHANNEL_STATE))?.state(params);
                Ok(())
            }
            Incoming::Update { id, update } => {
                let updates = state.waiting.get(&id).and_then(|waiter| waiter.updates.clone());
                drop(state);
                if let Some(updates) = updates {
                    updates.update(update);
                }
                Ok(())
            }
            Incoming::Answer { id, result } => match state.waiting.remove(&id) {
                Some(waiter) => {
                    let _ = waiter.answer.send(result);
                    Ok(())
                }
                None if state.given_up.remove(&id) => Ok(()),
                None => Err(WireError::Unasked(id)),
            },
        }
    }
}

impl Connection {
    /// `listeners` are those of a plugin that has channels.
    pub(crate) fn new(mut group: Group, listeners: Option<Listeners>) -> Self {
        let shared = Arc::new(Shared::default());
        let (writer, messages) = mpsc::channel(QUEUED_MESSAGES);
        let (end, (tell, over)) = (CancellationToken::new(), watch::channel(false));
        if let Some(stdin) = group.child.stdin.take() {
            tokio::spawn(write_all(stdin, messages));
        }
        let ear = listeners.map(|listeners| Ear::new(listeners, writer.clone()));
        tokio::spawn(attend(group, Arc::clone(&shared), ear, end.clone(), tell));
        Self { writer, shared, made: AtomicU64::new(1), end, over }
    }

    /// Returns why it is over, if it is.
    pub(crate) fn broken(&self) -> Option<Broken> {
        self.shared.lock().broken.clone()
    }

    /// Makes a request and waits for its answer. If the future is dropped, the plugin is told that its answer is not needed any more.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Value,
        updates: Option<Arc<dyn UpdateSink>>,
    ) -> Result<Result<Value, RpcError>, Broken> {
        let id = self.made.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            state.waiting.insert(id, Waiter { answer, updates });
        }
        let _in_flight = InFlight { connection: self, id };
        // A failure to write shows as the end of the process, which says more.
        let _ = self.writer.send(Outgoing::request(id, method, params).line()).await;
        match answered.await {
            Ok(result) => Ok(result),
            Err(_) => Err(self.broken().unwrap_or_else(|| Broken("was lost".into()))),
        }
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let _ = self.writer.send(Outgoing::notification(method, params).line()).await;
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) {
        let _ = self.over.clone().wait_for(|over| *over).await;
    }

    /// Asks the process to end, and sees to it.
    pub(crate) async fn end(&self) {
        if self.broken().is_none() {
            let farewell = self.request("shutdown", Value::Null, None);
            let _ = tokio::time::timeout(FAREWELL, farewell).await;
        }
        self.end.cancel();
        self.over().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// A request that has no answer yet.
struct InFlight<'a> {
    connection: &'a Connection,
    id: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.shared.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.given_up.insert(self.id);
            drop(state);
            let cancel = Outgoing::notification("cancel", json!({ "id": self.id }));
            let _ = self.connection.writer.try_send(cancel.line());
        }
    }
}

async fn write_all(mut stdin: ChildStdin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        if stdin.write_all(&message).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Attends the process until it is over.
async fn attend(
    mut group: Group,
    shared: Arc<Shared>,
    ear: Option<Ear>,
    end: CancellationToken,
    over: watch::Sender<bool>,
) {
    let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let said = Arc::new(Mutex::new(VecDeque::new()));
    let listening = tokio::spawn(listen(stderr, Arc::clone(&said)));
    let why = tokio::select! {
        biased;
        () = end.cancelled() => "was ended".to_owned(),
        conversed = converse(stdout, &shared, ear.as_ref()) => match conversed {
            Err(error) => error.to_string(),
            Ok(()) => {
                // It has closed its output: it is about to end, or is of no more use.
                let status = tokio::time::timeout(FAREWELL, group.child.wait()).await;
                let _ = tokio::time::timeout(FAREWELL, listening).await;
                ended(status.ok().and_then(Result::ok), &said)
            }
        },
    };
    group.end().await;
    shared.break_off(why);
    let _ = over.send(true);
}

fn ended(status: Option<ExitStatus>, said: &Mutex<VecDeque<u8>>) -> String {
    let how = status.map_or_else(|| "closed its standard output".to_owned(), |status| format!("ended ({status})"));
    let said: Vec<u8> = said.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
    let said = String::from_utf8_lossy(&said);
    if said.trim().is_empty() { how } else { format!("{how} and said: {}", said.trim()) }
}

/// Reads messages until there are no more, or one cannot be used.
async fn converse(stdout: Option<ChildStdout>, shared: &Shared, ear: Option<&Ear>) -> Result<(), WireError> {
    let Some(stdout) = stdout else { return Ok(()) };
    let mut reader = BufReader::with_capacity(64 << 10, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match next_line(&mut reader, &mut line).await {
            Line::Whole if line.trim_ascii().is_empty() => {}
            Line::Whole => shared.take(read(&line)?, ear)?,
            Line::TooLong => return Err(WireError::TooLong),
            Line::End => return Ok(()),
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

async fn next_line(reader: &mut BufReader<impl AsyncRead + Unpin>, line: &mut Vec<u8>) -> Line {
    loop {
        let buffer = match reader.fill_buf().await {
            Ok(buffer) if !buffer.is_empty() => buffer,
            _ => return Line::End,
        };
        let (used, whole) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        if line.len() + used > MOST_MESSAGE_BYTES {
            return Line::TooLong;
        }
        line.extend_from_slice(&buffer[..used]);
        reader.consume(used);
        if whole {
            return Line::Whole;
        }
    }
}

/// Keeps the end of what it writes to standard error.
async fn listen(stderr: Option<ChildStderr>, said: Arc<Mutex<VecDeque<u8>>>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(&buffer[..count]);
        let over = said.len().saturating_sub(STDERR_BYTES);
        said.drain(..over);
    }
}
