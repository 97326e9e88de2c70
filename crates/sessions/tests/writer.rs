//! One writer at a time, whichever process it is in.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use pincer_sessions::{AcquireError, Reentry, Writer, new_entry_id, new_session_id, remove_dead_drafts};
use pincer_store::{
    AgentRuns, Attach, EntryKind, Leases, NewAgentRun, NewEntry, NewSession, QueueLimit, Safety, SessionCommit,
    SessionKey, Sessions, StoreError, WhenFull,
};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use tempfile::TempDir;

const SOON: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(60);

struct Process {
    store: Arc<SqliteStore>,
    leases: FileLeases,
}

struct Place(TempDir);

impl Place {
    async fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let session = NewSession {
            id: new_session_id(),
            user: "me".into(),
            key: key(),
            agent: None,
            label: None,
            parent: None,
            created_at: 1,
        };
        place.process().store.create_session(session).await.unwrap();
        place
    }

    fn process(&self) -> Process {
        let store = Arc::new(SqliteStore::open(&self.0.path().join("pincer.db")).unwrap());
        Process { store, leases: FileLeases::new(self.0.path().join("owners")) }
    }
}

fn key() -> SessionKey {
    "main".into()
}

impl Process {
    async fn acquire(&self, timeout: Duration, reentry: Reentry) -> Result<Writer, AcquireError> {
        Writer::acquire(self.store.clone(), &self.leases, "me", &key(), timeout, reentry).await
    }
}

fn commit() -> SessionCommit {
    let entry = NewEntry {
        id: new_entry_id(),
        attach: Attach::Leaf,
        kind: EntryKind::Custom,
        run: None,
        call: None,
        body: "{}".into(),
        events: None,
        at: 2,
    };
    SessionCommit { entries: vec![entry], now: 2, ..SessionCommit::default() }
}

#[tokio::test]
async fn a_second_writer_is_told_that_the_session_is_busy() {
    let place = Place::new().await;
    let (one, two) = (place.process(), place.process());
    let first = one.acquire(SOON, Reentry::Refused).await.unwrap();
    for (process, whose) in [(&two, "another process"), (&one, "this process")] {
        let busy = process.acquire(SOON, Reentry::Refused).await.err().unwrap();
        assert!(matches!(busy, AcquireError::Busy { .. }));
        assert!(
            busy.to_string().starts_with("session busy: main is being written to by ")
                && busy.to_string().contains(whose),
            "{busy}"
        );
    }
    first.release().await.unwrap();
    two.acquire(LONG, Reentry::Refused).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_writer_within_another_must_ask_for_it() {
    let place = Place::new().await;
    let process = place.process();
    let outer = process.acquire(SOON, Reentry::Refused).await.unwrap();
    let inner = process.acquire(SOON, Reentry::Allowed).await.unwrap();
    inner.commit(commit(), Safety::Process).await.unwrap();
    inner.release().await.unwrap();
    outer.commit(commit(), Safety::Process).await.expect("the inner one has given up nothing");
    outer.release().await.unwrap();
}

#[tokio::test]
async fn the_writer_of_a_dead_process_is_followed_and_can_store_nothing() {
    let place = Place::new().await;
    let (dead, alive) = (place.process(), place.process());
    let old = dead.acquire(SOON, Reentry::Refused).await.unwrap();
    let waiting = alive.acquire(LONG, Reentry::Refused);
    // Dies while the other one waits for it.
    let (new, ()) = tokio::join!(waiting, async { dead.leases.release() });
    let mut new = new.unwrap();
    for refused in [
        old.commit(commit(), Safety::Process).await.err(),
        dead.store.reset_session(&old.session().id, old.fence(), new_session_id(), "reset", 3).await.err(),
        dead.store.delete_session(&old.session().id, old.fence()).await.err(),
    ] {
        assert!(matches!(refused, Some(StoreError::SessionFenced { .. })), "{refused:?}");
    }
    new.reset(new_session_id(), "reset").await.unwrap();
    new.commit(commit(), Safety::Process).await.unwrap();
    new.release().await.unwrap();
    let session = alive.store.current_session("me", &key()).await.unwrap().unwrap();
    assert_eq!((session.entries, session.owner), (1, None));
}

#[tokio::test]
async fn a_writer_that_is_dropped_gives_the_session_up() {
    let place = Place::new().await;
    let process = place.process();
    drop(process.acquire(SOON, Reentry::Refused).await.unwrap());
    process.acquire(LONG, Reentry::Refused).await.unwrap().delete().await.unwrap();
    let gone = process.acquire(SOON, Reentry::Refused).await.err().unwrap();
    assert!(matches!(gone, AcquireError::Missing(_)), "{gone}");
}

#[tokio::test]
async fn a_session_that_could_not_be_deleted_is_given_up() {
    let place = Place::new().await;
    let (process, other) = (place.process(), place.process());
    let writer = process.acquire(SOON, Reentry::Refused).await.unwrap();
    let message = NewAgentRun {
        delivery: None,
        id: "r".into(),
        user: "me".into(),
        session: key(),
        agent: None,
        new_session: new_session_id(),
        key: None,
        digest: Vec::new(),
        rank: 0,
        request: "{}".into(),
        brief: "{}".into(),
        answer: None,
        queue: QueueLimit { cap: 9, full: WhenFull::RefuseNew },
        now: 3,
    };
    other.store.accept_run(message).await.unwrap();
    let refused = writer.delete().await.err();
    assert!(matches!(refused, Some(StoreError::SessionBusy { .. })), "{refused:?}");
    other.acquire(LONG, Reentry::Refused).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn only_drafts_of_dead_processes_are_removed() {
    let place = Place::new().await;
    let (dead, alive) = (place.process(), place.process());
    for (process, id) in [(&dead, "left"), (&alive, "filled")] {
        let owner = process.leases.hold().await.unwrap();
        let draft = NewSession {
            id: id.into(),
            user: "me".into(),
            key: id.into(),
            agent: None,
            label: None,
            parent: None,
            created_at: 1,
        };
        let draft = process.store.draft_session(draft, &owner).await.unwrap();
        process.store.commit_session(&draft.id, draft.fence, commit(), Safety::Process).await.unwrap();
    }
    let third = place.process();
    let left = async || {
        let drafts = third.store.drafts().await.unwrap();
        drafts.into_iter().map(|draft| draft.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(remove_dead_drafts(&*third.store, &third.leases).await.unwrap(), 0);
    assert_eq!(left().await, ["left", "filled"]);
    dead.leases.release();
    assert_eq!(remove_dead_drafts(&*alive.store, &alive.leases).await.unwrap(), 1);
    assert_eq!(left().await, ["filled"]);
}
