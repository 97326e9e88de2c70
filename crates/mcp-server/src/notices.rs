//! What servers tell without being asked, passed on to clients.
#![expect(deprecated, reason = "servers of today send logs, whatever comes later")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError, Weak};

use pincer_mcp::{Notice, Told};
use rmcp::RoleServer;
use rmcp::model::{
    LoggingMessageNotification, LoggingMessageNotificationParam, ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::Peer;
use tokio::sync::broadcast;

use crate::face::Face;

/// Who wants to know when which resource changes.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<BTreeMap<String, Vec<(u64, Peer<RoleServer>)>>>);

impl Subscriptions {
    /// Whether it is the first for this resource.
    pub fn add(&self, uri: &str, connection: u64, peer: Peer<RoleServer>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = all.entry(uri.to_owned()).or_default();
        theirs.retain(|(other, peer)| *other != connection && !peer.is_transport_closed());
        theirs.push((connection, peer));
        theirs.len() == 1
    }

    /// Whether it was the last for this resource.
    pub fn remove(&self, uri: &str, connection: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(theirs) = all.get_mut(uri) else { return false };
        theirs.retain(|(other, peer)| *other != connection && !peer.is_transport_closed());
        let last = theirs.is_empty();
        if last {
            all.remove(uri);
        }
        last
    }

    fn of(&self, uri: &str) -> Vec<Peer<RoleServer>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uri).into_iter().flatten().map(|(_, peer)| peer.clone()).collect()
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
        if !face.may_hear_of(&notice.server) {
            continue;
        }
        match notice.told {
            // Told when the list of tools has been read anew.
            Told::ToolsChanged => {}
            Told::ResourcesChanged => {
                for peer in face.peers() {
                    let _ = peer.notify_resource_list_changed().await;
                }
            }
            Told::PromptsChanged => {
                for peer in face.peers() {
                    let _ = peer.notify_prompt_list_changed().await;
                }
            }
            Told::ResourceUpdated(uri) => {
                for peer in face.subscriptions.of(&uri) {
                    let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.clone())).await;
                }
            }
            Told::Log(line) => {
                let Ok(params) = serde_json::from_value::<LoggingMessageNotificationParam>(line) else { continue };
                for peer in face.peers() {
                    let line = LoggingMessageNotification::new(params.clone());
                    let _ = peer.send_notification(ServerNotification::LoggingMessageNotification(line)).await;
                }
            }
        }
    }
}

impl Face {
    /// Whether clients may have anything of a server: of one that is denied they hear nothing.
    fn may_hear_of(&self, server: &str) -> bool {
        let owners: BTreeSet<String> = self.tools().catalog().iter().map(|entry| entry.id.owner().to_owned()).collect();
        owners.contains(server)
    }
}
