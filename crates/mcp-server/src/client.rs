//! The clients that are there, and what they are told without having asked.

use pincer_runtime::Scope;
use rmcp::RoleServer;
use rmcp::model::ServerNotification;
use rmcp::service::Peer;
use tokio::sync::mpsc::{Sender, channel};

/// Notices that wait for a client that does not listen. What comes after them is lost to it.
const WAITING: usize = 256;

/// A client that is there.
#[derive(Clone)]
pub(crate) struct Client {
    /// The number of its connection.
    pub number: u64,
    /// The rights of its user.
    pub scope: Scope,
    peer: Peer<RoleServer>,
    notices: Sender<ServerNotification>,
}

impl Client {
    pub(crate) fn new(number: u64, scope: Scope, peer: Peer<RoleServer>) -> Self {
        let (notices, mut waiting) = channel(WAITING);
        let to = peer.clone();
        tokio::spawn(async move {
            while let Some(notice) = waiting.recv().await {
                if to.send_notification(notice).await.is_err() {
                    return;
                }
            }
        });
        Self { number, scope, peer, notices }
    }

    pub(crate) fn is_there(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    /// Tells it something when it listens. Whoever tells does not wait: one client must not hold up the others.
    pub(crate) fn tell(&self, notice: ServerNotification) {
        let _ = self.notices.try_send(notice);
    }
}
