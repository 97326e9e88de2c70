//! What servers tell without being asked, for whoever listens.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast;

/// How many notices a slow listener can be behind before it misses some.
const KEPT: usize = 1024;

/// What a server tells without being asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Its tools are others.
    ToolsChanged,
    /// Its resources are others.
    ResourcesChanged,
    /// Its prompts are others.
    PromptsChanged,
    /// The resource with this URI has changed.
    ResourceUpdated(String),
    /// A line for its log, as the server sent it.
    Log(Value),
}

/// A notice of a server.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The server.
    pub server: Arc<str>,
    /// What it tells.
    pub told: Told,
}

/// Passes notices on to everybody who listens.
#[derive(Clone)]
pub(crate) struct Hub(broadcast::Sender<Notice>);

impl Default for Hub {
    fn default() -> Self {
        Self(broadcast::channel(KEPT).0)
    }
}

impl Hub {
    pub(crate) fn tell(&self, server: &str, told: Told) {
        // Nobody has to listen.
        let _ = self.0.send(Notice { server: server.into(), told });
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Notice> {
        self.0.subscribe()
    }
}
