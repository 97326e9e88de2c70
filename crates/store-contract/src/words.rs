//! Short words for what the tests of a store are made of.

use std::sync::Arc;

use pincer_store::{
    CellPart, Checkpoint, Claim, Cover, Fence, Millis, NewApproval, NewCall, NewRun, Park, Permission, Repeat, Room,
    RunState, Safety, StoreError,
};

use crate::Blocking;

pub const SAFE: Safety = Safety::Process;

/// The image of all cells here.
pub const IMAGE: [u8; 32] = [1; 32];

pub fn run(id: &str, session: &str) -> NewRun {
    NewRun {
        id: id.into(),
        session: session.into(),
        user: "me".into(),
        agent_run: None,
        created_at: 10,
        key: None,
        tools: None,
        recorded: None,
    }
}

pub fn claim(owner: &str) -> Claim {
    Claim { owner: owner.into(), safety: SAFE }
}

pub fn full(next: u32, bytes: &[u8]) -> Checkpoint {
    let cell = CellPart::Full { image: IMAGE.into(), bytes: bytes.into() };
    Checkpoint { next, cell, detail: "{}".into(), recorded: None }
}

pub fn delta(next: u32, bytes: &[u8], replaces: u32) -> Checkpoint {
    Checkpoint {
        next,
        cell: CellPart::Delta { bytes: bytes.into(), replaces },
        detail: "{\"delta\":1}".into(),
        recorded: None,
    }
}

pub fn park(checkpoint: Checkpoint, expires_at: Option<Millis>) -> Park {
    Park { checkpoint, result: "\"parked\"".into(), expires_at, room: Room { all: 4, of_user: 4, of_session: 3 } }
}

/// A call that may change something.
pub fn effect(seq: u32) -> NewCall {
    NewCall {
        seq,
        tool: "openclaw:core:exec".into(),
        input: Arc::new("{\"p\":1}".into()),
        repeat: Repeat::Unknown,
        cover: Cover::Checkpoint,
        permission: Permission::Free,
        line: Some(seq + 1),
        at: i64::from(seq),
    }
}

/// A call that changes nothing.
pub fn read_only(seq: u32) -> NewCall {
    NewCall { tool: "openclaw:core:read".into(), repeat: Repeat::Pure, cover: Cover::None, ..effect(seq) }
}

/// A call that ends the use of a checkpoint that does not cover it.
pub fn retiring(seq: u32) -> NewCall {
    NewCall { cover: Cover::Retire, ..effect(seq) }
}

/// A question about call 0 of the run `a`.
pub fn question(id: &str) -> NewApproval {
    NewApproval {
        id: id.into(),
        run: Some("a".into()),
        session: "s".into(),
        user: Some("me".into()),
        tool: "openclaw:core:exec".into(),
        seq: Some(0),
        digest: b"digest".into(),
        fingerprint: Some(b"print".into()),
        request: "{}".into(),
        created_at: 0,
        expires_at: Some(1000),
    }
}

/// Makes a run without a checkpoint.
pub fn made(store: Blocking<'_>, id: &str, owner: &str) -> Fence {
    store.create_run(&run(id, "s"), claim(owner), None, SAFE).expect("made")
}

/// Makes a run with a checkpoint.
pub fn made_at(store: Blocking<'_>, id: &str, owner: &str, next: u32) -> Fence {
    store.create_run(&run(id, "s"), claim(owner), Some(&full(next, b"cell")), SAFE).expect("made")
}

/// Claims a run as it stands.
pub fn taken(store: Blocking<'_>, id: &str, owner: &str) -> Fence {
    let seen = store.run(id).expect("there");
    store.claim_run(id, (seen.state, seen.fence), claim(owner)).expect("claimed")
}

pub fn dispatch(store: Blocking<'_>, id: &str, fence: Fence, owner: &str, call: &NewCall) -> Result<(), StoreError> {
    store.dispatch(id, fence, owner, call, SAFE)
}

pub fn settle(store: Blocking<'_>, id: &str, owner: &str, seq: u32, outcome: &str) -> Result<bool, StoreError> {
    store.settle(id, owner, seq, outcome, 7, SAFE)
}

pub fn finish(store: Blocking<'_>, id: &str, fence: Fence, state: RunState) -> Result<(), StoreError> {
    store.finish_run(id, fence, state, "{}", 1, SAFE)
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
