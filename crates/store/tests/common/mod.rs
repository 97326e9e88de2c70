//! Short words for what the tests of the store are made of.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use pincer_store::{
    Approvals, CellPart, Checkpoint, Claim, Clock, Cover, Fence, Grants, IdempotencyKeys, Journal, Listings, Millis,
    NewApproval, NewCall, NewRun, Park, Permission, Repeat, Room, RunState, Runs, Safety, Snapshots, SqliteStore,
    StoreError, Upkeep,
};
use tempfile::TempDir;

/// Everything a store must do.
pub trait Store: Runs + Listings + Upkeep + Snapshots + Journal + Approvals + Grants + IdempotencyKeys + Clock {}
impl<T: Runs + Listings + Upkeep + Snapshots + Journal + Approvals + Grants + IdempotencyKeys + Clock> Store for T {}

pub const SAFE: Safety = Safety::Process;

/// The image of all cells here.
pub const IMAGE: [u8; 32] = [1; 32];

pub fn with_store(test: impl FnOnce(&dyn Store)) {
    let directory: TempDir = tempfile::tempdir().expect("a directory");
    test(&SqliteStore::open(&directory.path().join("pincer.db")).expect("a store"));
}

/// Two connections to one store, as two processes have them.
pub fn with_two(test: impl FnOnce(&dyn Store, &dyn Store)) {
    let directory: TempDir = tempfile::tempdir().expect("a directory");
    let open = || SqliteStore::open(&directory.path().join("pincer.db")).expect("a store");
    test(&open(), &open());
}

pub fn run<'a>(id: &'a str, session: &'a str) -> NewRun<'a> {
    NewRun { id, session, caller: "me", agent_run: None, created_at: 10, key: None, tools: None }
}

pub fn claim(owner: &str) -> Claim<'_> {
    Claim { owner, safety: SAFE }
}

pub fn full(next: u32, bytes: &[u8]) -> Checkpoint<'_> {
    Checkpoint { next, cell: CellPart::Full { image: &IMAGE, bytes }, detail: "{}" }
}

pub fn delta(next: u32, bytes: &[u8], replaces: u32) -> Checkpoint<'_> {
    Checkpoint { next, cell: CellPart::Delta { bytes, replaces }, detail: "{\"delta\":1}" }
}

pub fn park<'a>(checkpoint: Checkpoint<'a>, expires_at: Option<Millis>) -> Park<'a> {
    Park { checkpoint, result: "\"parked\"", expires_at, room: Room { all: 4, of_user: 4, of_session: 3 } }
}

/// A call that may change something.
pub fn effect(seq: u32) -> NewCall<'static> {
    NewCall {
        seq,
        tool: "openclaw:core:exec",
        input: "{\"p\":1}",
        repeat: Repeat::Unknown,
        cover: Cover::Checkpoint,
        permission: Permission::Free,
    }
}

/// A call that changes nothing.
pub fn read_only(seq: u32) -> NewCall<'static> {
    NewCall { tool: "openclaw:core:read", repeat: Repeat::Pure, cover: Cover::None, ..effect(seq) }
}

/// A call that ends the use of a checkpoint that does not cover it.
pub fn retiring(seq: u32) -> NewCall<'static> {
    NewCall { cover: Cover::Retire, ..effect(seq) }
}

/// A question about call 0 of the run `a`.
pub fn question(id: &str) -> NewApproval<'_> {
    NewApproval {
        id,
        run: Some("a"),
        session: "s",
        user: Some("me"),
        tool: "openclaw:core:exec",
        seq: Some(0),
        digest: b"digest",
        fingerprint: Some(b"print"),
        request: "{}",
        created_at: 0,
        expires_at: Some(1000),
    }
}

/// Makes a run without a checkpoint.
pub fn made(store: &dyn Store, id: &str, owner: &str) -> Fence {
    store.create_run(&run(id, "s"), claim(owner), None, SAFE.into()).expect("made")
}

/// Makes a run with a checkpoint.
pub fn made_at(store: &dyn Store, id: &str, owner: &str, next: u32) -> Fence {
    store.create_run(&run(id, "s"), claim(owner), Some(&full(next, b"cell")), SAFE.into()).expect("made")
}

/// Claims a run as it stands.
pub fn taken(store: &dyn Store, id: &str, owner: &str) -> Fence {
    let seen = store.run(id).expect("there");
    store.claim_run(id, (seen.state, seen.fence), claim(owner)).expect("claimed")
}

pub fn dispatch(store: &dyn Store, id: &str, fence: Fence, owner: &str, call: &NewCall<'_>) -> Result<(), StoreError> {
    store.dispatch(id, fence, owner, call, SAFE.into())
}

pub fn settle(store: &dyn Store, id: &str, owner: &str, seq: u32, outcome: &str) -> Result<bool, StoreError> {
    store.settle(id, owner, seq, outcome, 7, SAFE.into())
}

pub fn finish(store: &dyn Store, id: &str, fence: Fence, state: RunState) -> Result<(), StoreError> {
    store.finish_run(id, fence, state, "{}", 1, SAFE.into())
}

pub fn fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
}

pub fn not_covered<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::NotCovered { .. })), "{result:?}");
}

pub fn not_permitted<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::NotPermitted { .. })), "{result:?}");
}
