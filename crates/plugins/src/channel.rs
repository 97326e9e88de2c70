//! The channels of a plugin: requests to its process, and messages from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pincer_tools::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::connection::Connection;
use crate::process::{Failure, PluginProcess};
use crate::wire::{RpcError, WireError, answer};

/// The messages of a plugin that wait to be stored. A plugin that sends more is told to send them again.
const MOST_WAITING: usize = 64;
/// The time that a plugin has to start a channel, or to stop it. It connects to its server afterwards.
const STARTING: Duration = Duration::from_secs(30);
const STOPPING: Duration = Duration::from_secs(2);

/// Takes what a channel of a plugin tells.
pub trait ChannelListener: Send + Sync {
    /// Takes a message. The answer is the plugin's acknowledgement: the message is stored.
    fn received(&self, message: Value) -> BoxFuture<'_, Result<Value, NotReceived>>;
    /// The channel is up or down. Must not block.
    fn state(&self, state: Value);
}

/// The refusal of a message from a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotReceived {
    /// The reason.
    pub message: String,
    /// The same message may be taken later.
    pub may_retry: bool,
}

/// The failure of a request to a channel.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChannelFailure {
    /// The process is not there: nothing was done.
    #[error("{0}")]
    NotMade(String),
    /// The process fell, or is late: it may have been done.
    #[error("{0}")]
    Unknown(String),
    /// The plugin says no.
    #[error("{message}")]
    Refused {
        /// The message of the plugin.
        message: String,
        /// Another attempt comes to the same.
        is_permanent: bool,
        /// The pause before another attempt, if the plugin names one.
        retry_after: Option<Duration>,
    },
}

impl From<Failure> for ChannelFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotMade(message) => Self::NotMade(message),
            Failure::Fell(message) => Self::Unknown(message),
            Failure::Refused(error) => Self::Refused {
                is_permanent: error.data.get("permanent").and_then(Value::as_bool).unwrap_or_default(),
                retry_after: error.data.get("retryAfterMs").and_then(Value::as_u64).map(Duration::from_millis),
                message: error.message,
            },
        }
    }
}

/// The channels that are started, by their names.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<String, Arc<dyn ChannelListener>>>>);

impl Listeners {
    fn set(&self, channel: &str, listener: Option<Arc<dyn ChannelListener>>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match listener {
            Some(listener) => listeners.insert(channel.to_owned(), listener),
            None => listeners.remove(channel),
        };
    }

    /// Returns the listener of the channel that a message names.
    fn of(&self, params: &Value) -> Option<Arc<dyn ChannelListener>> {
        let channel = params.get("channel").and_then(Value::as_str)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(channel).cloned()
    }
}

/// Hears what a process tells by itself, if its manifest declares a channel.
pub(crate) struct Ear {
    listeners: Listeners,
    writer: mpsc::Sender<Vec<u8>>,
    room: Arc<Semaphore>,
    /// The end of the last message of each conversation.
    last: Mutex<HashMap<String, oneshot::Receiver<()>>>,
}

impl Ear {
    pub(crate) fn new(listeners: Listeners, writer: mpsc::Sender<Vec<u8>>) -> Self {
        Self { listeners, writer, room: Arc::new(Semaphore::new(MOST_WAITING)), last: Mutex::default() }
    }

    /// Takes a message. Those of one conversation are stored one after the other, in the order in which they come; a command that takes
    /// its time holds up no other conversation.
    pub(crate) fn received(&self, id: Value, params: Value) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            let message = "too many messages wait to be stored".to_owned();
            // If it does not read either, it sends the message again for want of an answer.
            let _ = self.writer.try_send(answer(&id, Err(refusal(NotReceived { message, may_retry: true }))));
            return;
        };
        let (end, ended) = oneshot::channel();
        let before = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.len() > MOST_WAITING {
                last.retain(|_, ended| ended.try_recv() == Err(oneshot::error::TryRecvError::Empty));
            }
            last.insert(conversation(&params), ended)
        };
        let (listener, writer) = (self.listeners.of(&params), self.writer.clone());
        tokio::spawn(async move {
            if let Some(before) = before {
                // It never says anything: its other half is dropped.
                let _ = before.await;
            }
            let taken = match listener {
                Some(listener) => listener.received(params).await,
                None => Err(NotReceived { message: "this channel is not started here".into(), may_retry: false }),
            };
            let _ = writer.send(answer(&id, taken.map_err(refusal))).await;
            drop((end, room));
        });
    }

    pub(crate) fn state(&self, params: Value) {
        if let Some(listener) = self.listeners.of(&params) {
            listener.state(params);
        }
    }
}

/// Returns the conversation that a message belongs to.
fn conversation(params: &Value) -> String {
    let group = params.get("group").filter(|group| !group.is_null()).or(params.get("sender"));
    json!([params.get("channel"), params.get("account"), group, params.get("thread")]).to_string()
}

fn refusal(refused: NotReceived) -> RpcError {
    RpcError { code: -32000, message: refused.message, data: json!({ "retry": refused.may_retry }) }
}

/// Returns the error for a process that tells something by itself though its manifest declares no channel.
pub(crate) fn deaf(method: &str) -> WireError {
    WireError::Forbidden(method.to_owned())
}

/// One life of a started channel: it is over when its process is.
pub struct ChannelLine {
    connection: Arc<Connection>,
    listeners: Listeners,
    plugin: String,
    channel: String,
}

impl PluginProcess {
    /// Starts a channel, and the process if it does not run. `params` are those of `channel/start` besides the name.
    pub async fn start_channel(
        &self,
        channel: &str,
        mut params: Value,
        listener: Arc<dyn ChannelListener>,
    ) -> Result<ChannelLine, ChannelFailure> {
        let connection = self.connected().await?;
        self.listeners().set(channel, Some(listener));
        params["channel"] = channel.into();
        let line = ChannelLine {
            connection,
            listeners: self.listeners().clone(),
            plugin: self.id().to_owned(),
            channel: channel.to_owned(),
        };
        line.ask("channel/start", params, STARTING).await?;
        Ok(line)
    }
}

impl ChannelLine {
    /// Asks the process for something. Its name is added to `params`.
    pub async fn request(&self, method: &str, mut params: Value, within: Duration) -> Result<Value, ChannelFailure> {
        params["channel"] = self.channel.as_str().into();
        self.ask(method, params, within).await
    }

    async fn ask(&self, method: &str, params: Value, within: Duration) -> Result<Value, ChannelFailure> {
        let says = |what: &str| format!("the plugin {} {what}", self.plugin);
        if let Some(broken) = self.connection.broken() {
            return Err(ChannelFailure::NotMade(says(&broken.0)));
        }
        match tokio::time::timeout(within, self.connection.request(method, params, None)).await {
            Err(_) => {
                let late = format!("did not answer `{method}` within {} s", within.as_secs());
                Err(ChannelFailure::Unknown(says(&late)))
            }
            Ok(Err(broken)) => Err(ChannelFailure::Unknown(says(&broken.0))),
            Ok(Ok(Err(error))) => {
                let message = says(&format!("says: {}", error.message));
                Err(Failure::Refused(RpcError { message, ..error }).into())
            }
            Ok(Ok(Ok(value))) => Ok(value),
        }
    }

    /// Waits until the process is over. Returns why.
    pub async fn over(&self) -> String {
        self.connection.over().await;
        let why = self.connection.broken().map_or_else(|| "is gone".to_owned(), |broken| broken.0);
        format!("the plugin {} {why}", self.plugin)
    }

    /// Stops the channel. The process goes on: it may have tools.
    pub async fn stop(&self) {
        let _ = self.request("channel/stop", json!({}), STOPPING).await;
        self.listeners.set(&self.channel, None);
    }
}
