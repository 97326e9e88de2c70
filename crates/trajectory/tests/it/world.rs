//! A store with one session, and its bundle.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pincer_secrecy::Cleaner;
use pincer_store::{Attach, EntryKind, Fence, NewEntry, NewSession, Safety, Session, SessionCommit, Sessions};
use pincer_store_sqlite::SqliteStore;
use pincer_trajectory::{About, ExportError, Exported, Exporter, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct World {
    pub folder: TempDir,
    pub store: SqliteStore,
    pub fence: Fence,
    pub cleaner: Cleaner,
    pub about: About,
    pub stop: AtomicBool,
}

pub(crate) const ID: &str = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(&folder.path().join("pincer.db")).expect("a store");
        let session = NewSession {
            id: ID.into(),
            user: "me".into(),
            key: "main".into(),
            agent: None,
            label: None,
            parent: None,
            created_at: 1000,
        };
        let made = store.create_session(session).wait().expect("made");
        let claimed = store.claim_session(&made.id, made.fence, &"p".into(), SessionCommit::default());
        let fence = claimed.wait().expect("claimed");
        let about = About { version: "9.9".into(), system: "test".into(), ..About::default() };
        Self { folder, store, fence, cleaner: Cleaner::default(), about, stop: AtomicBool::new(false) }
    }

    pub(crate) fn commit(&self, commit: SessionCommit) {
        self.store.commit_session(&ID.into(), self.fence, commit, Safety::Process).wait().expect("stored");
    }

    pub(crate) fn add(&self, entries: impl IntoIterator<Item = NewEntry>) {
        self.commit(SessionCommit { entries: entries.into_iter().collect(), now: 5000, ..SessionCommit::default() });
    }

    pub(crate) fn session(&self) -> Session {
        self.store.session(&ID.into()).wait().expect("there")
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.folder.path().join("bundle")
    }

    pub(crate) fn try_export(&self, programs: Vec<Program>) -> Result<Exported, ExportError> {
        self.export_with(programs.into_iter().map(Ok).collect())
    }

    pub(crate) fn export_with(&self, programs: Vec<Result<Program, String>>) -> Result<Exported, ExportError> {
        let (session, World { store, cleaner, about, stop, .. }) = (self.session(), self);
        Exporter { store, session: &session, cleaner, about, stop }.export(&self.place(), programs)
    }

    pub(crate) fn export(&self) -> Exported {
        self.try_export(Vec::new()).expect("exported")
    }

    /// Returns the events of the bundle, and checks that they are numbered without a gap.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.file("events.jsonl");
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!((&event["seq"], &event["traceSchema"]), (&json!(seq), &json!("openclaw-trajectory")), "{event}");
        }
        events
    }

    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.place().join(name)).expect("a file")
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.file(name)).expect("JSON")
    }

    /// Changes the file of the store past the store.
    pub(crate) fn damage(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.folder.path().join("pincer.db")).expect("the file");
        assert!(connection.execute(sql, []).expect("changed") > 0, "{sql}");
    }
}

/// An entry at the end of the branch.
pub(crate) fn entry(id: &str, at: i64, kind: EntryKind, body: &Value) -> NewEntry {
    NewEntry {
        id: id.into(),
        attach: Attach::Leaf,
        kind,
        run: Some("ar_1".into()),
        call: None,
        body: body.to_string().into(),
        events: Some("[\"an event that is not read\"]".into()),
        at,
    }
}

pub(crate) fn said(id: &str, at: i64, message: &Value) -> NewEntry {
    entry(id, at, EntryKind::Message, &json!({ "message": message }))
}

pub(crate) fn user(id: &str, at: i64, text: &str) -> NewEntry {
    said(id, at, &json!({ "role": "user", "content": [{ "type": "text", "text": text }] }))
}

pub(crate) fn reply(id: &str, at: i64, content: &Value) -> NewEntry {
    let usage = json!({ "input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 20 });
    let message = json!({
        "role": "assistant", "content": content, "provider": "p", "model": "m", "api": "a", "usage": usage, "stopReason": "stop",
    });
    said(id, at, &message)
}

pub(crate) fn result(id: &str, at: i64, call: &str, text: &str, details: &Value) -> NewEntry {
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({
        "role": "toolResult", "toolCallId": call, "toolName": "exec", "content": content, "isError": false, "details": details,
    });
    NewEntry { call: Some(call.into()), ..said(id, at, &message) }
}

/// A call of a program that the reply at this position ran.
pub(crate) fn nested(id: &str, reply: u32, at: i64, call: &str, body: &Value) -> NewEntry {
    NewEntry { attach: Attach::Beside(reply), call: Some(call.into()), ..entry(id, at, EntryKind::NestedCall, body) }
}

pub(crate) fn note(id: &str, at: i64, kind: &str, data: &Value) -> NewEntry {
    entry(id, at, EntryKind::Custom, &json!({ "customType": kind, "data": data }))
}
