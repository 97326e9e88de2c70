//! A session in the hands of a run: every commit proves the fence, and the events of the run are stored with it.

use std::sync::Arc;
use std::time::Duration;

use pincer_sessions::new_entry_id;
use pincer_store::{
    AgentRunId, AgentRunState, Attach, Clock, Committed, EntryKind, Fence, NewDelivery, NewEntry, RunChange, Safety,
    SessionCommit, SessionId, Sessions, StoreError, Totals,
};
use pincer_store_sqlite::SqliteStore;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::event::Happening;
use crate::feed::Feed;
use crate::frame::FrameSlot;

/// How soon a commit that the store did not take is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A session in the hands of a run.
pub(crate) struct Lane {
    pub store: Arc<SqliteStore>,
    pub session: SessionId,
    pub fence: Fence,
    pub run: AgentRunId,
    pub feed: Arc<Feed>,
    /// The frame of the latest request, which the next commit stores.
    pub frame: FrameSlot,
    /// The reason why the store does not take a step, shared by all runs of the process.
    pub trouble: watch::Sender<Option<String>>,
}

/// What a run stores in one step.
#[derive(Default)]
pub(crate) struct Step {
    pub entries: Vec<NewEntry>,
    pub happenings: Vec<Happening>,
    pub totals: Totals,
    /// How the run stands from now on, if that changes.
    pub state: Option<AgentRunState>,
    pub detail: Option<Arc<str>>,
    pub result: Option<Arc<str>>,
    /// The figures of the run that are summed later, as JSON.
    pub figures: Option<Arc<str>>,
    /// The questions and calls that the run waits for.
    pub awaits: Vec<String>,
    /// The list of skills in the session's instructions from now on.
    pub skills: Option<Arc<str>>,
    /// The tools whose schemas are shown beside the list of the others from now on.
    pub shown_tools: Option<Arc<str>>,
    /// The workspace that has begun.
    pub begun: Option<String>,
    /// Changes of other runs.
    pub others: Vec<RunChange>,
    /// The first entry that a model is sent from now on.
    pub context_from: Option<u32>,
    /// Texts for channels.
    pub deliveries: Vec<NewDelivery>,
    pub release: bool,
    pub synced: bool,
}

/// The run is no longer in the hands of this process.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Another process has it, or the session is gone.
    Fenced(StoreError),
    /// The store took nothing until the run was stopped.
    Unstored(StoreError),
    /// The store does not take a step of the run, however often it is tried. The run has to end.
    Refused(StoreError),
}

impl Lane {
    /// Returns an entry of this run at the end of the branch.
    pub(crate) fn entry(&self, kind: EntryKind, body: String) -> NewEntry {
        entry(&self.run, kind, body, self.store.now())
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> pincer_store::Millis {
        self.store.now()
    }

    /// Returns a note that no model is sent.
    pub(crate) fn note(&self, kind: &str, data: &Value) -> NewEntry {
        note(&self.run, kind, data, self.store.now())
    }

    /// Stores a step, and tries until the store takes it or `stop` says that it has been long enough. A step that the store will
    /// never take is tried once. Its events are passed on once it is stored.
    pub(crate) async fn commit(&self, step: Step, stop: &CancellationToken) -> Result<Committed, Lost> {
        let _turn = self.feed.turn().await;
        let now = self.store.now();
        let Step {
            mut entries,
            happenings,
            totals,
            state,
            detail,
            result,
            figures,
            awaits,
            skills,
            shown_tools,
            begun,
            others,
            deliveries,
            ..
        } = step;
        let (context_from, release, synced) = (step.context_from, step.release, step.synced);
        let prepared = self.feed.prepare(happenings, now);
        if let Some(first) = entries.first_mut() {
            first.events = Some(Arc::clone(&prepared.stored));
        }
        let change = RunChange {
            last_event: Some(prepared.last),
            detail,
            result,
            figures,
            awaits,
            ..RunChange::new(self.run.clone(), state.unwrap_or(AgentRunState::Running))
        };
        let id = entries.first().map(|entry| entry.id.clone());
        // The idle time of a session begins with the last message that joined, or with the end of a run.
        let interacted_at = (release || !others.is_empty()).then_some(now);
        let runs = others.into_iter().chain([change]).collect();
        let commit = SessionCommit {
            entries,
            context_from,
            totals,
            runs,
            release,
            interacted_at,
            skills,
            shown_tools,
            frame: self.frame.next(),
            begun_workspace: begun,
            deliveries,
            now,
            ..SessionCommit::default()
        };
        let safety = if synced { Safety::Power } else { Safety::Process };
        let mut pause = FIRST_PAUSE;
        loop {
            let is_last = stop.is_cancelled();
            let error = match self.store.commit_session(&self.session, self.fence, commit.clone(), safety).await {
                Ok(committed) => {
                    self.feed.committed(prepared);
                    self.frame.stored(commit.frame);
                    self.trouble.send_if_modified(|trouble| trouble.take().is_some());
                    return Ok(committed);
                }
                Err(error) => error,
            };
            // An earlier attempt may have been stored all the same.
            let is_there = error.may_be_stored() || matches!(error, StoreError::Exists { .. });
            if let (true, Some(id)) = (is_there, &id)
                && let Ok(Some(entry)) = self.store.entry_named(&self.session, id.as_str()).await
            {
                self.feed.committed(prepared);
                self.frame.stored(commit.frame);
                return Ok(Committed { first: entry.position, leaf: Some(entry.position) });
            }
            match &error {
                StoreError::SessionFenced { .. } | StoreError::Missing { .. } | StoreError::Exists { .. } => {
                    self.feed.failed();
                    return Err(Lost::Fenced(error));
                }
                _ if error.is_final() => {
                    self.feed.failed();
                    return Err(Lost::Refused(error));
                }
                _ if is_last => {
                    self.feed.failed();
                    return Err(Lost::Unstored(error));
                }
                _ => tell_trouble(&self.trouble, &error),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Tells why the store takes nothing, once for as long as the reason stays the same: steps are tried again several times a second.
pub(crate) fn tell_trouble(trouble: &watch::Sender<Option<String>>, error: &StoreError) {
    let reason = Some(error.to_string());
    let is_new = trouble.send_if_modified(|told| {
        let is_new = *told != reason;
        *told = reason;
        is_new
    });
    if is_new {
        tracing::warn!("the store does not take the steps of runs, and they are tried again: {error}");
    }
}

/// Returns an entry of a run at the end of the branch.
pub(crate) fn entry(run: &AgentRunId, kind: EntryKind, body: String, at: pincer_store::Millis) -> NewEntry {
    NewEntry {
        id: new_entry_id(),
        attach: Attach::Leaf,
        kind,
        run: Some(run.clone()),
        call: None,
        body: body.into(),
        events: None,
        at,
    }
}

/// Returns a note of a run that no model is sent.
pub(crate) fn note(run: &AgentRunId, kind: &str, data: &Value, at: pincer_store::Millis) -> NewEntry {
    entry(run, EntryKind::Custom, json!({ "customType": kind, "data": data }).to_string(), at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_stays_is_told_once() {
        let (trouble, mut told) = watch::channel(None);
        let full = StoreError::Missing { what: "room", id: "a".into() };
        tell_trouble(&trouble, &full);
        assert!(told.has_changed().expect("open") && told.borrow_and_update().is_some());
        tell_trouble(&trouble, &full);
        assert!(!told.has_changed().expect("open"));
        tell_trouble(&trouble, &StoreError::Missing { what: "file", id: "a".into() });
        assert!(told.has_changed().expect("open"));
    }
}
