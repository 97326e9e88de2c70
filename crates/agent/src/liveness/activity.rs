//! The present work of a run of this process, as far as its liveness depends on it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pincer_store::Millis;

use crate::event::{AgentEvent, Stream};

/// The present work of a run.
#[derive(Default)]
pub(crate) struct Activity(Mutex<Doing>);

/// A look at an activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doing {
    /// When this process began with the run.
    pub began: Millis,
    /// When something was last seen of it.
    pub progressed_at: Millis,
    /// Whether it has its model and its tools.
    pub is_prepared: bool,
    /// Whether the model is asked.
    pub asks_model: bool,
    /// The requests to the model since something was last seen.
    pub requests: u32,
    /// The end of a pause that the provider has asked for.
    pub pause_until: Option<Millis>,
    /// The calls of tools that have no result.
    pub calls: BTreeSet<String>,
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, Doing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what it does at the moment.
    pub(crate) fn look(&self) -> Doing {
        self.lock().clone()
    }

    /// This process begins with the run.
    pub(crate) fn begin(&self, now: Millis) {
        *self.lock() = Doing { began: now, progressed_at: now, ..Doing::default() };
    }

    /// The run has its model and its tools.
    pub(crate) fn prepared(&self, now: Millis) {
        let mut doing = self.lock();
        (doing.is_prepared, doing.progressed_at) = (true, now);
    }

    /// The model is asked.
    pub(crate) fn asks(&self) {
        let mut doing = self.lock();
        doing.asks_model = true;
        doing.requests += 1;
    }

    /// The provider has asked for a pause until then.
    pub(crate) fn pauses(&self, until: Millis) {
        let mut doing = self.lock();
        doing.pause_until = Some(until);
        doing.requests += 1;
    }

    /// The model has said something.
    pub(crate) fn heard(&self, now: Millis) {
        let mut doing = self.lock();
        (doing.progressed_at, doing.requests, doing.pause_until) = (now, 0, None);
    }

    /// The model is no longer asked.
    pub(crate) fn answered(&self) {
        let mut doing = self.lock();
        (doing.asks_model, doing.pause_until) = (false, None);
    }

    /// Something was told of the run.
    pub(crate) fn told(&self, event: &AgentEvent) {
        let mut doing = self.lock();
        doing.progressed_at = doing.progressed_at.max(event.ts);
        let is_own_call = event.stream == Stream::Tool && !event.data.contains_key("parentToolCallId");
        match event.phase() {
            "start" if is_own_call => drop(doing.calls.insert(event.text("toolCallId").to_owned())),
            "result" if is_own_call => drop(doing.calls.remove(event.text("toolCallId"))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(stream: Stream, ts: Millis, data: serde_json::Value) -> AgentEvent {
        AgentEvent {
            run_id: "ar_1".into(),
            seq: 1,
            from_seq: None,
            generation: 1,
            stream,
            ts,
            session_key: "main".into(),
            data: data.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn calls_and_requests_are_open_until_something_is_heard_of_them() {
        let activity = Activity::default();
        activity.begin(10);
        activity.prepared(11);
        activity.asks();
        activity.pauses(500);
        let doing = activity.look();
        assert_eq!((doing.asks_model, doing.requests, doing.pause_until), (true, 2, Some(500)));
        assert_eq!(doing.progressed_at, 11, "asking is no progress");
        activity.heard(20);
        assert_eq!(activity.look().requests, 0);
        activity.answered();
        let call = |phase: &str, id: &str| json!({ "phase": phase, "toolCallId": id });
        activity.told(&event(Stream::Tool, 30, call("start", "a")));
        activity.told(&event(Stream::Tool, 31, call("start", "b")));
        let nested = json!({ "phase": "result", "toolCallId": "a", "parentToolCallId": "b" });
        activity.told(&event(Stream::Tool, 32, nested));
        activity.told(&event(Stream::Tool, 33, call("result", "b")));
        let doing = activity.look();
        assert_eq!((doing.calls.len(), doing.progressed_at, doing.asks_model), (1, 33, false));
    }
}
