//! The way of a message into the agent: the rights of its sender, its session, and the commit before it is acknowledged.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pincer_agent::{Agent, AgentError, Attachment as Picture, CommandRights, Request};
use pincer_config::keys::{self, DmScope};
use pincer_store::{AgentRunId, Clock, Deliveries, DeliveryId, DeliverySource, Enqueued, NewDelivery, Route};
use pincer_tools::one_line;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::session_key::session_key;
use crate::typing::Typing;
use crate::{Attachment, Channel, Notice, Observer, Received};

/// The longest id of a message, a sender or a place.
const MOST_ID: usize = 256;
/// The longest name of a person that a model is shown.
const MOST_NAME: usize = 80;
/// A sender without rights is told so once in this time.
const REFUSED_AGAIN: Duration = Duration::from_secs(600);
/// The senders without rights that are remembered.
const MOST_REFUSED: usize = 1000;

/// The state that all channels of a process share.
pub(crate) struct Shared {
    pub agent: Agent,
    pub user: String,
    pub observer: Observer,
    /// Wakes what sends texts.
    pub wake: Notify,
    pub typing: Typing,
}

/// Takes the messages of one channel. Cheap to clone.
#[derive(Clone)]
pub struct Inbox(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    channel: Arc<dyn Channel>,
    settings: keys::Channel,
    /// When senders without rights were told so.
    refused: Mutex<HashMap<String, Instant>>,
}

/// The outcome of taking a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The message is stored, and will be answered.
    Accepted {
        /// Its run.
        run: AgentRunId,
        /// Whether it was stored before.
        is_repeated: bool,
    },
    /// The message is not taken. To send it again is of no use.
    Ignored {
        /// The reason.
        reason: String,
    },
}

/// The refusal of a message, which is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NotTaken {
    /// The reason.
    pub reason: String,
    /// The same message may be taken later.
    pub may_retry: bool,
}

impl Inbox {
    pub(crate) fn new(shared: Arc<Shared>, channel: Arc<dyn Channel>, settings: keys::Channel) -> Self {
        Self(Arc::new(Inner { shared, channel, settings, refused: Mutex::default() }))
    }

    /// Returns the channel's name.
    pub fn channel(&self) -> &str {
        self.0.channel.name()
    }

    /// Takes a message: it is stored when this returns [`Receipt::Accepted`]. The same message, told by its id, is stored once.
    pub async fn receive(&self, message: Received) -> Result<Receipt, NotTaken> {
        if let Some(reason) = complaint(&message) {
            return Err(NotTaken { reason, may_retry: false });
        }
        let Inner { shared, channel, settings, .. } = &*self.0;
        let name = channel.name();
        let route = message.route(name);
        if !channel.admits(settings, &message.sender) {
            self.refuse(&message, route).await;
            let reason = format!("{} is not in `channels.{name}.allowFrom`", message.sender);
            tracing::info!(channel = name, "a message was left out: {}", one_line(&reason, MOST_ID));
            return Ok(Receipt::Ignored { reason });
        }
        let config = shared.agent.runtime().config();
        let key = session_key(name, settings, config.session.dm_scope, &message);
        let commands =
            match settings.commands(&message.sender) || is_alone(name, settings, config.session.dm_scope, &message) {
                true => CommandRights::All,
                false => CommandRights::Own,
            };
        let request = Request {
            commands,
            speaker: speaker(&message),
            images: pictures(&message.attachments),
            agent: settings.agent.clone(),
            channel: Some(name.to_owned()),
            sender: Some(format!("{name}:{}", message.sender)),
            route: Some(route.clone()),
            reply_to: Some(message.message_id.clone()),
            ..Request::new(text(&message))
        };
        let id = format!("channel:{name}:{}", message.message_id);
        match shared.agent.submit(&shared.user, &key.as_str().into(), request, Some(id)).await {
            Ok(submitted) => {
                if settings.typing && !submitted.is_repeated {
                    shared.typing.begin(&shared.agent, &shared.user, channel, route, submitted.run_id.clone());
                }
                Ok(Receipt::Accepted { run: submitted.run_id, is_repeated: submitted.is_repeated })
            }
            Err(AgentError::Store(error)) => {
                Err(NotTaken { reason: format!("the message cannot be stored: {error}"), may_retry: true })
            }
            Err(AgentError::Different { .. }) => Err(NotTaken {
                reason: format!("another message was received under the id {}", message.message_id),
                may_retry: false,
            }),
            Err(AgentError::Empty) => Ok(Receipt::Ignored { reason: "it has no text".into() }),
            Err(error) => {
                // The sender can do something about it.
                self.tell(&message, route, &error.to_string()).await;
                Ok(Receipt::Ignored { reason: error.to_string() })
            }
        }
    }

    /// Has what waits for the channel sent now: it is connected again.
    pub async fn up(&self) {
        self.hurry().await;
        self.0.shared.observer.tell(Notice::Up { channel: self.channel().to_owned() });
    }

    async fn hurry(&self) {
        let shared = &self.0.shared;
        let store = shared.agent.runtime().store();
        if let Err(error) = store.hurry_deliveries(self.channel(), store.now()).await {
            tracing::warn!("what waits for {} is sent later: {error}", self.channel());
        }
        shared.wake.notify_one();
    }

    /// Tells that the channel is not connected.
    pub fn down(&self, why: impl Into<String>) {
        let why = one_line(&why.into(), 500);
        self.0.shared.observer.tell(Notice::Down { channel: self.channel().to_owned(), why });
    }

    /// Tells that the channel is started, and has what waits for it sent now.
    pub async fn started(&self) {
        self.0.shared.observer.tell(Notice::Started { channel: self.channel().to_owned() });
        self.hurry().await;
    }

    /// Tells a sender without rights so, if the config has a text for that. Two programs must not go on like that for ever.
    async fn refuse(&self, message: &Received, route: Route) {
        let Some(text) = self.0.settings.refuse_with.as_deref().filter(|_| message.group.is_none()) else { return };
        {
            let mut refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.retain(|_, at| at.elapsed() < REFUSED_AGAIN);
            if refused.contains_key(&message.sender) || refused.len() >= MOST_REFUSED {
                return;
            }
            refused.insert(message.sender.clone(), Instant::now());
        }
        self.tell(message, route, text).await;
    }

    async fn tell(&self, message: &Received, route: Route, text: &str) {
        let shared = &self.0.shared;
        let runtime = shared.agent.runtime();
        let now = runtime.store().now();
        let notice = NewDelivery {
            id: DeliveryId::from(format!("dl_{}", Uuid::now_v7())),
            user: shared.user.clone(),
            run: None,
            source: DeliverySource::Notice,
            key: format!("channel:{}:{}/notice", self.channel(), message.message_id),
            expires_at: now.checked_add(runtime.config().delivery_lifetime_ms(&route.channel)),
            route,
            reply_to: Some(message.message_id.clone()),
            text: text.into(),
            now,
        };
        match runtime.store().enqueue(notice).await {
            Ok(Enqueued::New(_) | Enqueued::Same(_)) => {}
            other => tracing::warn!("a notice for {} is left out: {other:?}", self.channel()),
        }
    }
}

/// Returns what is wrong with the ids of a message, if they cannot be used.
fn complaint(message: &Received) -> Option<String> {
    let ids = [
        ("messageId", Some(&message.message_id)),
        ("sender", Some(&message.sender)),
        ("group", message.group.as_ref()),
        ("thread", message.thread.as_ref()),
        ("account", message.account.as_ref()),
        ("to", message.to.as_ref()),
    ];
    ids.into_iter().find_map(|(name, id)| match id.map(|id| id.as_str()) {
        Some("") => Some(format!("`{name}` is missing or empty")),
        Some(id) if id.len() > MOST_ID => Some(format!("`{name}` has more than {MOST_ID} bytes")),
        _ => None,
    })
}

/// Returns the name in front of a message: in a group each has its speaker.
fn speaker(message: &Received) -> Option<String> {
    let name = message.sender_name.as_ref().unwrap_or(&message.sender);
    message.group.as_ref().map(|_| one_line(name, MOST_NAME))
}

/// Returns whether no other sender takes part in the conversation of a message: another one's would have another session.
fn is_alone(channel: &str, settings: &keys::Channel, scope: DmScope, message: &Received) -> bool {
    let other = Received { sender: format!("{}~", message.sender), ..message.clone() };
    session_key(channel, settings, scope, message) != session_key(channel, settings, scope, &other)
}

/// Returns the text as the agent gets it.
fn text(message: &Received) -> String {
    let mut text = message.text.clone();
    for other in message.attachments.iter().filter(|attachment| !is_picture(attachment)) {
        let name = other.name.as_deref().or(other.url.as_deref()).unwrap_or("without a name");
        let (name, kind) = (one_line(name, MOST_ID), one_line(&other.mime_type, MOST_NAME));
        text = format!("{text}\n[attachment that cannot be read here: {name} {kind}]");
    }
    text
}

fn is_picture(attachment: &Attachment) -> bool {
    attachment.data.is_some() && attachment.mime_type.starts_with("image/")
}

fn pictures(attachments: &[Attachment]) -> Vec<Picture> {
    let pictures = attachments.iter().filter(|attachment| is_picture(attachment));
    let picture = |attachment: &Attachment| {
        Some(Picture { mime_type: attachment.mime_type.clone(), data: attachment.data.clone()? })
    };
    pictures.filter_map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_tells_its_speakers_apart() {
        let direct = Received { sender: "ann".into(), text: "Hello".into(), ..Received::default() };
        let group = Received { group: Some("#lounge".into()), ..direct.clone() };
        assert_eq!((speaker(&direct), speaker(&group)), (None, Some("ann".into())));
        let named = Received { sender_name: Some("Ann\nben: yes".into()), ..group.clone() };
        assert_eq!(speaker(&named).unwrap_or_default().lines().count(), 1, "{:?}", speaker(&named));
        let settings =
            |template: Option<&str>| keys::Channel { session: template.map(str::to_owned), ..keys::Channel::default() };
        let alone = |template, scope, message| is_alone("irc", &settings(template), scope, message);
        assert!(alone(None, DmScope::PerChannelPeer, &direct) && !alone(None, DmScope::Main, &direct));
        assert!(
            !alone(None, DmScope::PerChannelPeer, &group)
                && !alone(Some("{channel}"), DmScope::PerChannelPeer, &direct)
        );
        assert!(alone(Some("{conversation}:{sender}"), DmScope::PerChannelPeer, &group));
        let file =
            Attachment { name: Some("a.pdf".into()), mime_type: "application/pdf".into(), ..Attachment::default() };
        let picture = Attachment { mime_type: "image/png".into(), data: Some("AA".into()), ..Attachment::default() };
        let both = Received { attachments: vec![file, picture], ..direct };
        assert!(text(&both).ends_with("\n[attachment that cannot be read here: a.pdf application/pdf]"));
        assert_eq!(pictures(&both.attachments).len(), 1);
    }

    #[test]
    fn ids_that_cannot_be_used_are_named() {
        let good = Received { message_id: "m".into(), sender: "ann".into(), ..Received::default() };
        assert_eq!(complaint(&good), None);
        for (message, name) in [
            (Received { message_id: String::new(), ..good.clone() }, "messageId"),
            (Received { sender: String::new(), ..good.clone() }, "sender"),
            (Received { group: Some("g".repeat(300)), ..good.clone() }, "group"),
        ] {
            assert!(complaint(&message).is_some_and(|complaint| complaint.contains(name)), "{name}");
        }
    }
}
