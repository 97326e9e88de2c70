//! A channel of a plugin: started again when its process falls.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pincer_plugins::{ChannelFailure, ChannelLine, ChannelListener, ManifestChannel, NotReceived, PluginProcess};
use pincer_store::Route;
use pincer_tools::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::channel::{Capabilities, Outgoing, SendError, TypingNotice};
use crate::{Channel, ChannelsError, Inbox, Receipt, Received};

/// The pause before a channel is started again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A channel that was there for so long begins with the first pause again.
const STABLE: Duration = Duration::from_secs(60);
/// The longest that a notice that an answer is being written may take.
const TYPING: Duration = Duration::from_secs(10);

/// A channel of a plugin.
pub struct PluginChannel {
    name: String,
    declared: ManifestChannel,
    process: Arc<PluginProcess>,
    config: Map<String, Value>,
    /// Where it may keep files.
    directory: PathBuf,
    line: RwLock<Option<Arc<ChannelLine>>>,
}

impl PluginChannel {
    /// Returns the channel `name` of the config, which a plugin declares so. It may keep files in `directory`.
    pub fn new(
        name: &str,
        declared: ManifestChannel,
        process: Arc<PluginProcess>,
        config: Map<String, Value>,
        directory: PathBuf,
    ) -> Self {
        Self { name: name.to_owned(), declared, process, config, directory, line: RwLock::new(None) }
    }

    fn line(&self) -> Option<Arc<ChannelLine>> {
        self.line.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_line(&self, line: Option<Arc<ChannelLine>>) {
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = line;
    }

    async fn go(&self, inbox: Inbox, stop: CancellationToken) -> Result<(), ChannelsError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let (begin, has_begun) = watch::channel(false);
            let listener: Arc<dyn ChannelListener> = Arc::new(Listener { inbox: inbox.clone(), has_begun });
            let params = json!({ "kind": self.declared.name, "config": self.config, "stateDir": self.directory });
            let started = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                started = self.process.start_channel(&self.name, params, listener) => started,
            };
            let began = Instant::now();
            match started {
                Ok(line) => {
                    let line = Arc::new(line);
                    self.set_line(Some(Arc::clone(&line)));
                    inbox.started().await;
                    begin.send_replace(true);
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {
                            line.stop().await;
                            return Ok(());
                        }
                        why = line.over() => inbox.down(why),
                    }
                    self.set_line(None);
                }
                Err(ChannelFailure::Refused { message, is_permanent: true, .. }) => {
                    return Err(ChannelsError::Refused { name: self.name.clone(), reason: message });
                }
                Err(_) if self.process.is_replaced() => {
                    let (name, plugin) = (self.name.clone(), self.process.id().to_owned());
                    return Err(ChannelsError::Replaced { name, plugin });
                }
                Err(failure) => inbox.down(failure.to_string()),
            }
            if began.elapsed() > STABLE {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn sent(&self, outgoing: Outgoing) -> Result<Option<String>, SendError> {
        let Some(line) = self.line() else {
            return Err(SendError::passing(format!("the channel {} is not started", self.name)));
        };
        let mut params = placed(&outgoing.route);
        params["id"] = outgoing.id().into();
        params["text"] = outgoing.text.into();
        params["replyTo"] = outgoing.reply_to.into();
        let answer = line.request("channel/send", params, self.capabilities().send_timeout).await;
        let answer = answer.map_err(|failure| match failure {
            ChannelFailure::NotMade(reason) | ChannelFailure::Unknown(reason) => SendError::passing(reason),
            ChannelFailure::Refused { message, is_permanent: true, .. } => SendError::Permanent { reason: message },
            ChannelFailure::Refused { message, retry_after, .. } => SendError::Passing { reason: message, retry_after },
        })?;
        Ok(answer.get("messageId").and_then(Value::as_str).map(str::to_owned))
    }
}

impl Channel for PluginChannel {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::from(&self.declared.capabilities)
    }

    fn run(&self, inbox: Inbox, stop: CancellationToken) -> BoxFuture<'_, Result<(), ChannelsError>> {
        Box::pin(self.go(inbox, stop))
    }

    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Option<String>, SendError>> {
        Box::pin(self.sent(outgoing))
    }

    fn typing(&self, route: Route, notice: TypingNotice) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(line) = self.line() else { return };
            let mut params = placed(&route);
            params["typing"] = (notice == TypingNotice::Begin).into();
            // A notice that is lost does no harm.
            let _ = line.request("channel/typing", params, TYPING).await;
        })
    }
}

fn placed(route: &Route) -> Value {
    json!({ "to": route.to, "account": route.account, "thread": route.thread })
}

/// Hears what the process tells of one channel.
struct Listener {
    inbox: Inbox,
    /// Whether its start was told. A process may say that it is connected in the same breath as that it has started.
    has_begun: watch::Receiver<bool>,
}

impl ChannelListener for Listener {
    fn received(&self, message: Value) -> BoxFuture<'_, Result<Value, NotReceived>> {
        Box::pin(async move {
            let message: Received = serde_json::from_value(message).map_err(|error| NotReceived {
                message: format!("the message cannot be read: {error}"),
                may_retry: false,
            })?;
            match self.inbox.receive(message).await {
                Ok(Receipt::Accepted { run, is_repeated }) => {
                    Ok(json!({ "accepted": true, "runId": run, "repeated": is_repeated }))
                }
                Ok(Receipt::Ignored { reason }) => Ok(json!({ "accepted": false, "reason": reason })),
                Err(refused) => Err(NotReceived { message: refused.reason, may_retry: refused.may_retry }),
            }
        })
    }

    fn state(&self, state: Value) {
        let (inbox, mut has_begun) = (self.inbox.clone(), self.has_begun.clone());
        match state.get("state").and_then(Value::as_str) {
            Some("up") => {
                tokio::spawn(async move {
                    if has_begun.wait_for(|has_begun| *has_begun).await.is_ok() {
                        inbox.up().await;
                    }
                });
            }
            _ => inbox.down(state.get("detail").and_then(Value::as_str).unwrap_or("it does not say why")),
        }
    }
}
