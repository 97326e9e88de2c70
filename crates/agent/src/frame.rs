//! The frame in which a model is sent the conversation: its instructions, its tools, and what is asked of it. A frame is stored with the
//! commit that follows its first request, and again when it changes. So a trajectory shows what was really sent, and no commit is added.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pincer_model::{Request, Target, Tool};
use pincer_store::{AgentRunId, NewFrame};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::event::shortened;

/// The most bytes of instructions that are stored, and of tools. What is beyond that is named, so that the loss can be seen.
const MOST_SYSTEM: usize = 512 << 10;
const MOST_TOOLS: usize = 512 << 10;

/// The frame of the latest request of a run, on its way into the store.
#[derive(Default)]
pub(crate) struct FrameSlot(Mutex<Slot>);

#[derive(Default)]
struct Slot {
    next: Option<NewFrame>,
    stored: Option<NewFrame>,
}

impl FrameSlot {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the next commit store a frame, unless the last one stored it.
    pub(crate) fn put(&self, frame: NewFrame) {
        let mut slot = self.lock();
        slot.next = (slot.stored.as_ref() != Some(&frame)).then_some(frame);
    }

    /// Returns the frame that a commit is to store.
    pub(crate) fn next(&self) -> Option<NewFrame> {
        self.lock().next.clone()
    }

    /// Notes that a commit has stored a frame.
    pub(crate) fn stored(&self, frame: Option<NewFrame>) {
        let Some(frame) = frame else { return };
        let mut slot = self.lock();
        if slot.next.as_ref() == Some(&frame) {
            slot.next = None;
        }
        slot.stored = Some(frame);
    }
}

/// Returns the frame of a request. `surface` is the word for the way in which the model reaches its tools.
pub(crate) fn frame(run: &AgentRunId, target: Option<&Target>, request: &Request, surface: &str) -> NewFrame {
    let body = json!({ "system": system(&request.system), "tools": tools(&request.tools) }).to_string();
    let detail = json!({
        "suffix": request.suffix.as_deref().map(|text| shortened(text, MOST_SYSTEM)),
        "provider": target.map(|target| target.provider.id.as_str()),
        "model": target.map(|target| target.model.id.as_str()),
        "api": target.map(|target| target.provider.api.name()),
        "thinking": request.thinking.name(),
        "surface": surface,
    });
    NewFrame {
        digest: Sha256::digest(body.as_bytes()).to_vec(),
        body: body.into(),
        detail: detail.to_string().into(),
        run: run.clone(),
    }
}

/// Returns instructions, as many as are stored.
fn system(parts: &[String]) -> Vec<String> {
    let mut left = MOST_SYSTEM;
    let kept = parts.iter().map(|part| {
        let text = shortened(part, left);
        left = left.saturating_sub(part.len());
        text
    });
    kept.collect()
}

/// Returns tools as the model is sent them. Those for which there is no room have their names only.
fn tools(tools: &[Tool]) -> Vec<Value> {
    let mut left = MOST_TOOLS;
    let kept = tools.iter().map(|Tool { name, description, parameters }| {
        let tool = json!({ "name": name, "description": description, "parameters": parameters });
        let bytes = tool.to_string().len();
        if bytes > left {
            return json!({ "name": name, "leftOut": true, "bytes": bytes });
        }
        left -= bytes;
        tool
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(system: &str, tool: &str) -> Request {
        let parameters = json!({ "type": "object" });
        let tool = Tool { name: "exec".into(), description: tool.into(), parameters };
        Request { system: vec![system.into()], tools: vec![tool], ..Request::default() }
    }

    fn framed(request: &Request) -> NewFrame {
        frame(&"ar_1".into(), None, request, "codeMode")
    }

    #[test]
    fn a_frame_is_stored_once_until_it_changes() {
        let slot = FrameSlot::default();
        let (one, other) = (framed(&asking("a", "b")), framed(&asking("a", "c")));
        assert_ne!(one.digest, other.digest);
        slot.put(one.clone());
        assert_eq!(slot.next().as_ref(), Some(&one), "it waits for a commit");
        slot.stored(slot.next());
        slot.put(one.clone());
        assert_eq!(slot.next(), None);
        slot.put(other.clone());
        assert_eq!(slot.next(), Some(other));
        slot.put(one);
        assert_eq!(slot.next(), None, "the one that was not stored is forgotten");
    }

    #[test]
    fn a_frame_is_bounded() {
        let mut request = asking(&"x".repeat(MOST_SYSTEM), &"y".repeat(MOST_TOOLS));
        request.system.push("more".into());
        request.tools.extend(asking("", "small").tools);
        let body: Value = serde_json::from_str(&framed(&request).body).expect("JSON");
        assert!(body.to_string().len() < MOST_SYSTEM + 1000, "{}", body.to_string().len());
        assert_eq!(body["system"][1], "… [4 more bytes]");
        assert_eq!((&body["tools"][0]["leftOut"], &body["tools"][1]["description"]), (&json!(true), &json!("small")));
    }
}
