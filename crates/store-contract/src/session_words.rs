//! Short words for what the tests of sessions are made of.

use pincer_store::{
    Accepted, AgentRun, AgentRunState, Attach, Entry, EntryKind, EntryPage, Fence, NewAgentRun, NewEntry, NewSession,
    QueueLimit, RunChange, SessionCommit, StoreError, WhenFull,
};

use crate::Blocking;

pub const ALL: EntryPage = EntryPage { after: 0, limit: u32::MAX };

/// A session of the user `me`.
pub fn session(id: &str, key: &str) -> NewSession {
    NewSession {
        id: id.into(),
        user: "me".into(),
        key: key.into(),
        agent: Some("main".into()),
        label: None,
        parent: None,
        created_at: 10,
    }
}

/// A message at the leaf.
pub fn message(id: &str) -> NewEntry {
    NewEntry {
        id: id.into(),
        attach: Attach::Leaf,
        kind: EntryKind::Message,
        run: None,
        call: None,
        body: format!("{{\"message\":\"{id}\"}}").into(),
        events: None,
        at: 20,
    }
}

pub fn at(id: &str, attach: Attach) -> NewEntry {
    NewEntry { attach, ..message(id) }
}

/// A call that a program made, of the reply at this position.
pub fn nested(id: &str, reply: u32) -> NewEntry {
    NewEntry { kind: EntryKind::NestedCall, call: Some("call".into()), ..at(id, Attach::Beside(reply)) }
}

/// A summary of what came before this entry.
pub fn compaction(id: &str, kept: &str) -> NewEntry {
    let body = format!("{{\"summary\":\"short\",\"firstKeptEntryId\":\"{kept}\"}}");
    NewEntry { kind: EntryKind::Compaction, body: body.into(), ..message(id) }
}

pub fn storing(entries: impl IntoIterator<Item = NewEntry>) -> SessionCommit {
    SessionCommit { entries: entries.into_iter().collect(), now: 100, ..SessionCommit::default() }
}

pub fn changing(changes: impl IntoIterator<Item = RunChange>) -> SessionCommit {
    SessionCommit { runs: changes.into_iter().collect(), now: 100, ..SessionCommit::default() }
}

pub fn release() -> SessionCommit {
    SessionCommit { release: true, ..storing([]) }
}

pub fn change(run: &str, state: AgentRunState) -> RunChange {
    RunChange::new(run.into(), state)
}

/// Makes a session of `me` that `p` writes to.
pub fn held(store: Blocking<'_>, id: &str, key: &str) -> Fence {
    let made = store.create_session(&session(id, key)).expect("made");
    store.claim_session(id, made.fence, "p", &storing([])).expect("claimed")
}

/// Takes the session of `me` that a key means now.
pub fn held_now(store: Blocking<'_>, key: &str) -> (String, Fence) {
    let found = store.current_session("me", key).expect("read").expect("there");
    let fence = store.claim_session(found.id.as_str(), found.fence, "p", &storing([])).expect("claimed");
    (found.id.to_string(), fence)
}

pub fn commit(store: Blocking<'_>, id: &str, fence: Fence, entries: impl IntoIterator<Item = NewEntry>) {
    store.commit_session(id, fence, &storing(entries)).expect("stored");
}

/// Changes one run of a session.
pub fn turn(store: Blocking<'_>, session: &str, fence: Fence, run: &str, state: AgentRunState) {
    store.commit_session(session, fence, &changing([change(run, state)])).expect("changed");
}

/// A message of `me` for a session, without a key.
pub fn incoming(id: &str, session: &str) -> NewAgentRun {
    NewAgentRun {
        id: id.into(),
        user: "me".into(),
        session: session.into(),
        agent: Some("main".into()),
        new_session: format!("ses_of_{id}").into(),
        key: None,
        digest: b"digest".into(),
        rank: 0,
        request: "{}".into(),
        brief: format!("brief {id}").into(),
        answer: None,
        delivery: None,
        queue: QueueLimit { cap: 100, full: WhenFull::RefuseNew },
        now: 50,
    }
}

/// Accepts a message that is new.
pub fn accepted(store: Blocking<'_>, run: &NewAgentRun) -> AgentRun {
    match store.accept_run(run).expect("asked") {
        Accepted::New { run, .. } => run,
        other => panic!("{other:?}"),
    }
}

pub fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

pub fn context(store: Blocking<'_>, id: &str) -> String {
    ids(&store.context(id).expect("read")).join(" ")
}

/// The ids of all entries of a session, each with the position of its parent.
pub fn tree(store: Blocking<'_>, id: &str) -> String {
    let entries = store.entries(id, ALL).expect("read");
    let positions: Vec<u32> = entries.iter().map(|entry| entry.position).collect();
    assert_eq!(positions, (1..=entries.len() as u32).collect::<Vec<_>>());
    let of = |entry: &Entry| format!("{}:{}", entry.id, entry.parent.unwrap_or(0));
    entries.iter().map(of).collect::<Vec<_>>().join(" ")
}

pub fn session_fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::SessionFenced { .. })), "{result:?}");
}

pub fn missing<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Missing { .. })), "{result:?}");
}

pub fn exists<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Exists { .. })), "{result:?}");
}
