//! What the traits promise about programs of agents: they stay while their run is open, and end with it.

use pincer_store::AgentRunState::{Done, Failed, Running, Waiting};
use pincer_store::{AgentRunState, Fence, NewRun, RunChange, RunState, SessionCommit};

use crate::session_words::*;
use crate::words::{SAFE, claim, finish, full, park, run};
use crate::{Blocking, Fresh};

const LATER: i64 = 1_000_000;

/// Makes a program of the run `r` of an agent.
fn program(store: Blocking<'_>, id: &str) -> Fence {
    let program = NewRun { agent_run: Some("r".into()), ..run(id, "main") };
    store.create_run(&program, claim("p"), Some(&full(0, b"cell")), SAFE).expect("made")
}

/// Begins the run `r`.
fn begun(store: Blocking<'_>) -> (String, Fence) {
    accepted(store, &incoming("r", "main"));
    let (session, fence) = held_now(store, "main");
    turn(store, &session, fence, "r", Running);
    (session, fence)
}

fn states(store: Blocking<'_>, ids: &[&str]) -> Vec<RunState> {
    ids.iter().map(|id| store.run(id).expect("there").state).collect()
}

pub fn a_program_of_an_open_run_neither_expires_nor_is_forgotten(fresh: &Fresh) {
    fresh.with_store(|store| {
        let (session, fence) = begun(store);
        let ended = program(store, "ended");
        finish(store, "ended", ended, RunState::Completed).expect("finished");
        let orphan = program(store, "orphan");
        assert!(store.let_wait("orphan", orphan, 500).expect("waits"));
        assert_eq!(store.next_due(10).expect("read"), None, "nothing is ever due of it");
        assert_eq!(store.expire_runs(LATER).expect("looked"), [""; 0]);
        assert_eq!(store.forget_runs(LATER).expect("looked"), 0);
        assert_eq!(states(store, &["ended", "orphan"]), [RunState::Completed, RunState::Waiting]);
        turn(store, &session, fence, "r", Done);
        assert_eq!(store.run("orphan").expect("there").state, RunState::Aborted);
        assert_eq!(store.forget_runs(LATER).expect("looked"), 2);
    });
}

pub fn programs_end_in_the_commit_that_ends_their_run(fresh: &Fresh) {
    fresh.with_store(|store| {
        let (session, fence) = begun(store);
        let parked = program(store, "parked");
        store.park("parked", parked, &park(full(0, b"cell"), Some(500))).expect("parked");
        let running = program(store, "running");
        turn(store, &session, fence, "r", Failed);
        assert_eq!(states(store, &["parked", "running"]), [RunState::Aborted; 2]);
        assert!(store.snapshot("parked").expect("read").is_none());
        assert!(finish(store, "running", running, RunState::Completed).is_err(), "its owner comes too late");
        assert_eq!(store.runs_of_agent("r").expect("read"), [""; 0]);
    });
}

pub fn the_time_of_programs_stands_still_while_no_process_works_on_their_run(fresh: &Fresh) {
    fresh.with_store(|store| {
        let (session, fence) = begun(store);
        let parked = program(store, "parked");
        store.park("parked", parked, &park(full(0, b"cell"), Some(500))).expect("parked");
        let expires_at = || store.run("parked").expect("there").expires_at;
        let claiming = |state: AgentRunState, generation, now| SessionCommit {
            runs: vec![RunChange { generation, ..change("r", state) }],
            now,
            ..storing([])
        };
        // The last commit was at 100. Another process takes the run over long after.
        store.claim_session(&session, fence, "q", &claiming(Running, Some(2), 10_100)).expect("claimed");
        assert_eq!(expires_at(), Some(10_500));
        let fence = store.session(&session).expect("there").fence;
        store.commit_session(&session, fence, &claiming(Waiting, None, 10_200)).expect("stored");
        assert_eq!(expires_at(), None);
        store.claim_session(&session, fence, "q", &claiming(Running, Some(3), 90_000)).expect("claimed");
        assert_eq!(expires_at(), Some(90_300), "300 were left when the run began to wait");
    });
}
