//! The events of one run in this process: numbered, passed on, and stored with the entries that show them.
//!
//! Nothing is passed on before it is stored, except for what is only on its way: pieces of a reply, reports of tools. Those are stored
//! later as a whole, with the commit that follows them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_sessions::Message;
use pincer_store::{AgentRunId, Entry, Millis, SessionKey};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use crate::event::{AgentEvent, Happening, StoredEvent, Stream};
use crate::liveness::activity::Activity;
use crate::replies::visible;

/// The events that wait for a reader at most. One that is slower catches up from the store.
const MOST_WAITING: usize = 512;

/// The events of one run.
pub(crate) struct Feed {
    run: AgentRunId,
    session: SessionKey,
    state: Mutex<State>,
    /// Nothing once the run has left this process.
    readers: Mutex<Option<broadcast::Sender<Arc<AgentEvent>>>>,
    /// One commit at a time: the numbers of its events follow those of the one before.
    turn: tokio::sync::Mutex<()>,
    activity: Activity,
}

#[derive(Default)]
struct State {
    generation: u32,
    /// The last number that is stored.
    stored: u32,
    /// The last number that was passed on.
    last: u32,
    is_committing: bool,
    /// What happened during a commit: it is numbered after those of the commit.
    held: Vec<(Happening, Millis)>,
    /// What was passed on since the last commit, with pieces put together.
    unstored: Vec<AgentEvent>,
}

/// Events that are part of a commit.
pub(crate) struct Prepared {
    events: Vec<AgentEvent>,
    /// All that is stored with the commit.
    pub stored: Arc<str>,
    pub last: u32,
}

impl Feed {
    pub(crate) fn new(run: AgentRunId, session: SessionKey, generation: u32, stored: u32) -> Self {
        let state = State { generation, stored, last: stored, ..State::default() };
        let (readers, _) = broadcast::channel(MOST_WAITING);
        let readers = Mutex::new(Some(readers));
        let (state, turn, activity) = (Mutex::new(state), tokio::sync::Mutex::new(()), Activity::default());
        Self { run, session, state, readers, turn, activity }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the run does at the moment.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Returns the generation of its events.
    pub(crate) fn generation(&self) -> u32 {
        self.lock().generation
    }

    /// Waits for the commits before this one.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Passes on something that is only on its way.
    pub(crate) fn tell(&self, happening: Happening, now: Millis) {
        let mut state = self.lock();
        if state.is_committing {
            state.held.push((happening, now));
            return;
        }
        self.publish(&mut state, happening, now);
    }

    fn publish(&self, state: &mut State, happening: Happening, now: Millis) {
        state.last += 1;
        let event = self.numbered(state, state.last, happening, now);
        collect(&mut state.unstored, &event);
        self.send(event);
    }

    fn lock_readers(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<AgentEvent>>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, event: AgentEvent) {
        self.activity.told(&event);
        if let Some(readers) = &*self.lock_readers() {
            // Without readers it is nobody's.
            let _ = readers.send(Arc::new(event));
        }
    }

    /// Tells the readers that the run has left this process. A tool may keep what it reports to for longer.
    pub(crate) fn close(&self) {
        self.lock_readers().take();
    }

    fn numbered(&self, state: &State, seq: u32, happening: Happening, ts: Millis) -> AgentEvent {
        let Happening { stream, data } = happening;
        let (run_id, session_key) = (self.run.clone(), self.session.clone());
        AgentEvent { run_id, seq, from_seq: None, generation: state.generation, stream, ts, session_key, data }
    }

    /// Numbers the events of a commit. They are passed on once it is done.
    pub(crate) fn prepare(&self, happenings: Vec<Happening>, now: Millis) -> Prepared {
        let mut state = self.lock();
        state.is_committing = true;
        let first = state.last + 1;
        let events: Vec<AgentEvent> = happenings
            .into_iter()
            .zip(first..)
            .map(|(happening, seq)| self.numbered(&state, seq, happening, now))
            .collect();
        let last = state.last + events.len() as u32;
        let stored = stored(state.stored, state.unstored.iter().chain(&events));
        Prepared { events, stored: stored.into(), last }
    }

    /// The commit is done.
    pub(crate) fn committed(&self, prepared: Prepared) {
        let mut state = self.lock();
        (state.stored, state.last, state.is_committing) = (prepared.last, prepared.last, false);
        state.unstored.clear();
        for event in prepared.events {
            self.send(event);
        }
        self.publish_held(&mut state);
    }

    /// The commit failed: its events have not happened.
    pub(crate) fn failed(&self) {
        let mut state = self.lock();
        state.is_committing = false;
        self.publish_held(&mut state);
    }

    fn publish_held(&self, state: &mut State) {
        for (happening, at) in std::mem::take(&mut state.held) {
            self.publish(state, happening, at);
        }
    }

    /// Returns what was passed on and is not stored, and a receiver of what follows. Nothing once the run has left this process.
    pub(crate) fn join(&self) -> Option<(Vec<AgentEvent>, broadcast::Receiver<Arc<AgentEvent>>)> {
        let state = self.lock();
        let readers = self.lock_readers().as_ref()?.subscribe();
        Some((state.unstored.clone(), readers))
    }
}

/// Adds an event to those that wait to be stored. A piece is put together with the pieces before it.
fn collect(unstored: &mut Vec<AgentEvent>, event: &AgentEvent) {
    let is_piece = |other: &AgentEvent| match event.stream {
        Stream::Assistant | Stream::Thinking => other.stream == event.stream,
        Stream::Tool => {
            event.phase() == "update"
                && other.stream == Stream::Tool
                && other.phase() == "update"
                && other.text("toolCallId") == event.text("toolCallId")
        }
        Stream::CommandOutput => {
            other.stream == Stream::CommandOutput && other.text("toolCallId") == event.text("toolCallId")
        }
        Stream::Lifecycle | Stream::Approval | Stream::Block | Stream::Compaction => false,
    };
    let Some(at) = unstored.iter().rposition(is_piece) else {
        unstored.push(event.clone());
        return;
    };
    // It comes last: all numbers before it are then accounted for.
    let before = unstored.remove(at);
    let mut whole = event.clone();
    whole.from_seq = Some(before.from_seq.unwrap_or(before.seq));
    if let (Stream::Assistant | Stream::Thinking, Some(text)) = (event.stream, event.data.get("text").cloned()) {
        whole.data.insert("delta".into(), text);
        whole.data.insert("replace".into(), Value::Bool(true));
    }
    unstored.push(whole);
}

/// Returns events as they are stored: without texts and results, which are in the entry that they are stored with.
fn stored<'e>(after: u32, events: impl Iterator<Item = &'e AgentEvent>) -> String {
    let mut last = after;
    let mut kept = Vec::new();
    for event in events {
        if matches!((event.stream, event.phase()), (Stream::Tool, "update"))
            || matches!(event.stream, Stream::CommandOutput | Stream::Block)
        {
            continue;
        }
        let left_out: &[&str] = match event.stream {
            Stream::Assistant | Stream::Thinking => &["text", "delta", "replace"],
            Stream::Tool => &["result"],
            _ => &[],
        };
        let data: Map<String, Value> = event
            .data
            .iter()
            .filter(|(name, _)| !left_out.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let from = (event.seq > last + 1).then_some(last + 1);
        last = event.seq;
        kept.push(StoredEvent {
            seq: event.seq,
            from,
            generation: event.generation,
            stream: event.stream,
            ts: event.ts,
            data,
        });
    }
    serde_json::to_string(&kept).unwrap_or_else(|_| "[]".into())
}

/// Returns the events that are stored with an entry, with the texts that belong to them.
pub(crate) fn replayed(entry: &Entry, run: &AgentRunId, session: &SessionKey) -> Vec<AgentEvent> {
    let Some(stored) = entry.events.as_deref() else { return Vec::new() };
    let events: Vec<StoredEvent> = match serde_json::from_str(stored) {
        Ok(events) => events,
        Err(error) => {
            tracing::warn!(run = %run, "stored events cannot be read and are left out: {error}");
            return Vec::new();
        }
    };
    let message = Message::parse(&entry.body).ok();
    let text_of = |kind: &str| {
        let blocks = message.iter().flat_map(|message| &message.content).filter(|block| block.kind == kind);
        let texts = blocks.filter_map(|block| if kind == "text" { block.text.clone() } else { block.thinking.clone() });
        texts.collect::<String>()
    };
    events
        .into_iter()
        .map(|event| {
            let StoredEvent { seq, from, generation, stream, ts, mut data } = event;
            match stream {
                Stream::Assistant | Stream::Thinking => {
                    let text = match stream {
                        // The reply that is stored with it does not count.
                        Stream::Assistant if data.contains_key("reason") => String::new(),
                        Stream::Assistant => visible(&text_of("text")).to_owned(),
                        _ => text_of("thinking"),
                    };
                    data.insert("text".into(), text.clone().into());
                    data.insert("delta".into(), text.into());
                    data.insert("replace".into(), true.into());
                }
                Stream::Tool if data.get("phase").and_then(Value::as_str) == Some("result") => {
                    let is_own = data.get("toolCallId").and_then(Value::as_str) == entry.call.as_deref();
                    if let Some(message) = message.as_ref().filter(|_| is_own) {
                        data.insert("result".into(), crate::record::shown_result(message));
                    }
                }
                _ => {}
            }
            let (run_id, session_key) = (run.clone(), session.clone());
            AgentEvent { run_id, seq, from_seq: from, generation, stream, ts, session_key, data }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn feed() -> Feed {
        Feed::new("ar_1".into(), "main".into(), 1, 0)
    }

    fn piece(text: &str, delta: &str) -> Happening {
        Happening::new(Stream::Assistant, json!({ "text": text, "delta": delta }))
    }

    #[test]
    fn pieces_are_stored_as_one_and_numbers_have_no_gap() {
        let feed = feed();
        let (_, mut reader) = feed.join().expect("open");
        feed.tell(piece("a", "a"), 1);
        feed.tell(Happening::tool(json!({ "phase": "update", "toolCallId": "c" })), 2);
        feed.tell(piece("ab", "b"), 3);
        let prepared = feed.prepare(vec![Happening::lifecycle(json!({ "phase": "end" }))], 4);
        // Happens while the commit is made.
        feed.tell(piece("x", "x"), 5);
        assert_eq!(prepared.last, 4);
        let events: Vec<StoredEvent> = serde_json::from_str(&prepared.stored).expect("events");
        let seen: Vec<_> = events.iter().map(|event| (event.stream, event.from, event.seq)).collect();
        assert_eq!(seen, [(Stream::Assistant, Some(1), 3), (Stream::Lifecycle, None, 4)]);
        feed.committed(prepared);
        let numbers: Vec<u32> = std::iter::from_fn(|| reader.try_recv().ok()).map(|event| event.seq).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        let (unstored, _) = feed.join().expect("open");
        assert_eq!(unstored.iter().map(|event| event.seq).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn events_of_a_commit_that_failed_have_not_happened() {
        let feed = feed();
        let (_, mut reader) = feed.join().expect("open");
        feed.prepare(vec![Happening::lifecycle(json!({ "phase": "end" }))], 1);
        feed.tell(piece("a", "a"), 2);
        feed.failed();
        assert_eq!(reader.try_recv().map(|event| (event.seq, event.stream)).ok(), Some((1, Stream::Assistant)));
        assert!(reader.try_recv().is_err());
    }
}
