//! What servers tell without being asked, passed on to clients.
#![expect(deprecated, reason = "servers of today send logs, whatever comes later")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, Weak};

use pincer_mcp::{Notice, Told};
use pincer_runtime::Scope;
use rmcp::RoleServer;
use rmcp::model::{
    LoggingMessageNotification, LoggingMessageNotificationParam, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification as Notification,
};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::broadcast;

use crate::client::Client;
use crate::face::Face;

/// Who wants to know when which resource changes.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<BTreeMap<String, Vec<Subscriber>>>);

/// A connection, by its number.
type Subscriber = (u64, Peer<RoleServer>);

impl Subscriptions {
    /// Whether it is the first for this resource.
    pub(crate) fn add(&self, uri: &str, connection: u64, peer: Peer<RoleServer>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = all.entry(uri.to_owned()).or_default();
        theirs.retain(|(other, peer)| *other != connection && !peer.is_transport_closed());
        theirs.push((connection, peer));
        theirs.len() == 1
    }

    /// Whether it was the last for this resource.
    pub(crate) fn remove(&self, uri: &str, connection: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(theirs) = all.get_mut(uri) else { return false };
        theirs.retain(|(other, peer)| *other != connection && !peer.is_transport_closed());
        let last = theirs.is_empty();
        if last {
            all.remove(uri);
        }
        last
    }

    /// The connections that have subscribed.
    fn of(&self, uri: &str) -> Vec<u64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uri).into_iter().flatten().map(|(connection, _)| *connection).collect()
    }
}

/// Passes notices on for as long as the face is there.
pub(crate) async fn pass_on(face: Weak<Face>, mut notices: broadcast::Receiver<Notice>) {
    loop {
        let notice = match notices.recv().await {
            Ok(notice) => notice,
            Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => return,
        };
        let Some(face) = face.upgrade() else { return };
        let mut clients = face.clients();
        clients.retain(|client| face.may_hear_of(&client.scope, &notice.server));
        if clients.is_empty() {
            continue;
        }
        match notice.told {
            // Told when the list of tools has been read anew.
            Told::ToolsChanged => {}
            Told::ResourcesChanged => {
                let told =
                    |client: &Client| client.tell(Notification::ResourceListChangedNotification(Default::default()));
                clients.iter().for_each(told);
            }
            Told::PromptsChanged => {
                let told =
                    |client: &Client| client.tell(Notification::PromptListChangedNotification(Default::default()));
                clients.iter().for_each(told);
            }
            Told::ResourceUpdated(uri) => {
                let to = face.subscriptions.of(&uri);
                let notice = ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri));
                for client in clients.iter().filter(|client| to.contains(&client.number)) {
                    client.tell(Notification::ResourceUpdatedNotification(notice.clone()));
                }
            }
            Told::Log(line) => {
                let Ok(params) = serde_json::from_value::<LoggingMessageNotificationParam>(line) else { continue };
                // Nobody can say whose call a line is about: with several users there it would be told to the wrong one.
                if clients.iter().all(|client| client.scope.principal() == clients[0].scope.principal()) {
                    let line = LoggingMessageNotification::new(params);
                    clients
                        .iter()
                        .for_each(|client| client.tell(Notification::LoggingMessageNotification(line.clone())));
                }
            }
        }
    }
}

impl Face {
    /// Passes on what a client of the latest revision has asked to hear, until it does not want to any more.
    pub(crate) async fn listened(&self, scope: &Scope, context: &SubscriptionContext) {
        let (mut notices, mut shown) = (self.parts.runtime.servers().listen(), self.shown.subscribe());
        let sink = context.sink();
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        for server in self.servers(scope) {
            for uri in &uris {
                let _ = server.subscribe(uri).await;
            }
        }
        loop {
            let notice = tokio::select! {
                () = context.cancelled() => return,
                changed = shown.changed() => match changed {
                    Ok(()) => Some(Told::ToolsChanged),
                    Err(_) => return,
                },
                notice = notices.recv() => match notice {
                    Ok(notice) if self.may_hear_of(scope, &notice.server) => Some(notice.told),
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => None,
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            };
            // What was not asked for is not accepted, and that is no matter.
            let _ = match notice {
                Some(Told::ToolsChanged) => sink.notify_tool_list_changed().await,
                Some(Told::ResourcesChanged) => sink.notify_resource_list_changed().await,
                Some(Told::PromptsChanged) => sink.notify_prompt_list_changed().await,
                Some(Told::ResourceUpdated(uri)) => sink.notify_resource_updated(uri).await,
                Some(Told::Log(_)) | None => Ok(()),
            };
        }
    }

    /// Returns whether a user may have anything of a server. Of one that is denied the user hears nothing.
    fn may_hear_of(&self, scope: &Scope, server: &str) -> bool {
        self.servers(scope).any(|known| known.name() == server)
    }
}
