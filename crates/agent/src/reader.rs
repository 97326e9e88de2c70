//! Reads the events of a run: those that are stored, then those that happen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pincer_store::{AgentRun, AgentRunState, AgentRuns, ChangeWatch, Changes, EntryPage, Sessions, StoreError};
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::event::{AgentEvent, Happening};
use crate::feed::replayed;
use crate::inner::Inner;
use crate::outcome::{Status, of_ended};

/// How soon events of another process are noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// How many entries are read at a time.
const PAGE: u32 = 200;

/// The event from which a reader goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCursor {
    /// Its number.
    pub seq: u32,
    /// The generation of the last event that the reader has seen. With it, a reader that saw more than was stored before its run was taken
    /// over gets all of the new generation.
    pub generation: Option<u32>,
}

impl From<u32> for EventCursor {
    fn from(seq: u32) -> Self {
        Self { seq, generation: None }
    }
}

/// The events of a run, from a number on. They end with the run.
pub struct EventReader {
    agent: Arc<Inner>,
    run: AgentRun,
    /// The last entry that was read.
    after: u32,
    /// The number of the last event that was given out, and its generation.
    last: u32,
    generation: Option<u32>,
    ready: VecDeque<AgentEvent>,
    live: Option<broadcast::Receiver<Arc<AgentEvent>>>,
    changes: Box<dyn ChangeWatch>,
    /// The last event of the run is among those that are stored.
    is_end_stored: bool,
    is_over: bool,
}

impl EventReader {
    pub(crate) fn new(agent: Arc<Inner>, run: AgentRun, from: EventCursor) -> Self {
        let changes = agent.store.watch(LOOK_AGAIN);
        let after = run.first_entry.unwrap_or(1).saturating_sub(1);
        let (last, generation) = (from.seq.saturating_sub(1), from.generation);
        let (ready, live) = (VecDeque::new(), None);
        Self { agent, run, after, last, generation, ready, live, changes, is_end_stored: false, is_over: false }
    }

    /// Returns the next event. `None` after the last one of the run.
    pub async fn next(&mut self) -> Result<Option<AgentEvent>, StoreError> {
        loop {
            while let Some(mut event) = self.ready.pop_front() {
                if self.is_new(&event) {
                    // Reports that nothing was stored of have numbers too: this one stands for them.
                    if event.from_seq.unwrap_or(event.seq) > self.last + 1 && self.is_after(&event) {
                        event.from_seq = Some(self.last + 1);
                    }
                    (self.last, self.generation) = (event.seq, Some(event.generation));
                    self.is_over = event.is_terminal();
                    return Ok(Some(event));
                }
            }
            if self.is_over {
                return Ok(None);
            }
            let Some(live) = &mut self.live else {
                self.fill().await?;
                continue;
            };
            match live.recv().await {
                Ok(event) => self.ready.push_back(AgentEvent::clone(&event)),
                // Too slow, or the run has left this process: what was missed is stored.
                Err(RecvError::Lagged(_) | RecvError::Closed) => self.live = None,
            }
        }
    }

    fn is_after(&self, event: &AgentEvent) -> bool {
        self.last > 0 && event.seq > self.last && self.generation == Some(event.generation)
    }

    fn is_new(&self, event: &AgentEvent) -> bool {
        event.seq > self.last || self.generation.is_some_and(|generation| event.generation > generation)
    }

    /// Reads what is stored, and joins what happens here. Waits if there is nothing.
    async fn fill(&mut self) -> Result<(), StoreError> {
        let mut news = self.agent.news();
        news.mark_unchanged();
        self.run = self.agent.store.agent_run(&self.run.id).await?;
        // Joined before the store is read: nothing falls in between.
        let joined = self.agent.feed(&self.run.id).and_then(|feed| feed.join());
        if let Some(first) = self.run.first_entry {
            self.after = self.after.max(first.saturating_sub(1));
            self.read_stored().await?;
        }
        if let Some((unstored, live)) = joined {
            self.ready.extend(unstored);
            self.live = Some(live);
        }
        self.ready.retain({
            let (last, known) = (self.last, self.generation);
            move |event| event.seq > last || known.is_some_and(|generation| event.generation > generation)
        });
        if !self.ready.is_empty() || self.live.is_some() {
            return Ok(());
        }
        if self.run.state.is_final() {
            // A reader that comes from beyond the end has seen the last event.
            let terminal = self.terminal();
            match terminal.seq > self.last && !self.is_end_stored {
                true => self.ready.push_back(terminal),
                false => self.is_over = true,
            }
            return Ok(());
        }
        tokio::select! {
            _ = news.changed() => {}
            () = self.changes.changed() => {}
            () = tokio::time::sleep(LOOK_ANYWAY) => {}
        }
        Ok(())
    }

    async fn read_stored(&mut self) -> Result<(), StoreError> {
        loop {
            let page = EntryPage { after: self.after, limit: PAGE };
            let entries = self.agent.store.entries(&self.run.session, page).await?;
            for entry in &entries {
                self.after = entry.position;
                // An entry of a message that joined the run may carry events of the run.
                if entry.run.as_ref() == Some(&self.run.id) {
                    let events = replayed(entry, &self.run.id, &self.run.session_key);
                    self.is_end_stored |= events.iter().any(AgentEvent::is_terminal);
                    self.ready.extend(events);
                }
            }
            if entries.len() < PAGE as usize {
                return Ok(());
            }
        }
    }

    /// Returns the last event of a run that has stored none: it joined another, never began, or was ended from outside.
    fn terminal(&self) -> AgentEvent {
        let ended_at = self.run.ended_at;
        let data = match (self.run.state, of_ended(&self.run)) {
            (AgentRunState::Merged, _) => {
                json!({ "phase": "end", "endedAt": ended_at, "mergedInto": self.run.merged_into })
            }
            (_, Some(outcome)) if outcome.status == Status::Ok => json!({ "phase": "end", "endedAt": ended_at }),
            (AgentRunState::Aborted, _) => {
                json!({ "phase": "end", "endedAt": ended_at, "aborted": true, "stopReason": "aborted" })
            }
            (_, outcome) => {
                json!({ "phase": "error", "endedAt": ended_at, "error": outcome.and_then(|outcome| outcome.error) })
            }
        };
        let Happening { stream, data } = Happening::lifecycle(data);
        AgentEvent {
            run_id: self.run.id.clone(),
            seq: self.run.last_event + 1,
            from_seq: None,
            generation: self.run.generation.max(self.generation.unwrap_or(0)),
            stream,
            ts: ended_at.unwrap_or_default(),
            session_key: self.run.session_key.clone(),
            data,
        }
    }
}
