//! Progress of a request, told in the client's own terms: one step for each thing that happens to a call within it.

use pincer_tools::{Event, EventKind};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde_json::Value;

/// Tells a client how its request goes, if it wants to know.
pub(crate) struct Progress {
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
    steps: f64,
}

impl Progress {
    pub(crate) fn new(token: Option<ProgressToken>, peer: Peer<RoleServer>) -> Self {
        Self { token, peer, steps: 0.0 }
    }

    /// Names the nested call, and how it stands.
    pub(crate) async fn tell(&mut self, event: &Event) {
        let Some(message) = message(event) else { return };
        self.step(None, Some(message)).await;
    }

    /// Passes on what a tool of a server told.
    pub(crate) async fn pass(&mut self, update: &Value) {
        let number = |key: &str| update.get(key).and_then(Value::as_f64);
        let message = update.get("message").and_then(Value::as_str).map(str::to_owned);
        match number("progress") {
            Some(progress) => {
                self.steps = progress;
                self.send(progress, number("total"), message).await;
            }
            None => self.step(number("total"), message.or_else(|| Some(update.to_string()))).await,
        }
    }

    async fn step(&mut self, total: Option<f64>, message: Option<String>) {
        self.steps += 1.0;
        self.send(self.steps, total, message).await;
    }

    async fn send(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        let Some(token) = self.token.clone() else { return };
        let mut told = ProgressNotificationParam::new(token, progress);
        (told.total, told.message) = (total, message);
        let _ = self.peer.notify_progress(told).await;
    }
}

fn message(event: &Event) -> Option<String> {
    let tool = &event.tool;
    match &event.what {
        EventKind::Start { .. } => Some(format!("{tool} …")),
        EventKind::Update { update } => {
            let text = update.get("message").or_else(|| update.get("text")).and_then(Value::as_str)?;
            Some(format!("{tool}: {}", pincer_catalog::shortened(text.trim(), 200)))
        }
        EventKind::ApprovalRequested { .. } => Some(format!("{tool} waits for an approval")),
        EventKind::ApprovalResolved { state, .. } => Some(format!("{tool}: {state}")),
        EventKind::End { error: None, duration_ms, .. } => Some(format!("{tool} done in {duration_ms} ms")),
        EventKind::End { error: Some(error), .. } => {
            Some(format!("{tool} failed: {}", pincer_catalog::shortened(&error.message, 200)))
        }
    }
}
