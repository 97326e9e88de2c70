//! Replies: work that goes on when they are dropped, and news of other processes.

use std::sync::Arc;
use std::time::Duration;

use pincer_store::{ApprovalState, CallState, Decision, RunEnd, RunState};

use crate::words::*;
use crate::{Blocking, Fresh};

pub fn what_was_asked_for_is_stored_when_the_reply_is_dropped(fresh: &Fresh) {
    let open = fresh.open();
    let (store, other) = (open(), open());
    let id = "a".into();
    let fence = store.create_run(run("a", "s"), claim("p"), Some(full(9, b"cell")), SAFE).wait().expect("made");
    // Large and small, synced and not, one after the other: none is waited for.
    drop(store.dispatch(&id, fence, &"p".into(), effect(0), SAFE));
    drop(store.settle(&id, &"p".into(), 0, Arc::new("1".repeat(1 << 20)), 7, SAFE));
    drop(store.dispatch(&id, fence, &"p".into(), effect(1), SAFE));
    drop(store.ask(question("q")));
    drop(store.resolve(&"q".into(), Decision::Deny, Vec::new(), "me", 1));
    drop(store.checkpoint(&id, fence, full(9, &vec![7; 1 << 20]), SAFE));
    drop(store.finish_run(&id, fence, RunEnd::new(RunState::Completed, "{}"), 1, SAFE));
    drop(store);
    let other = Blocking(&*other);
    let states: Vec<CallState> = other.calls("a").expect("read").iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Settled, CallState::Dispatched]);
    assert_eq!(other.approval("q").expect("there").state, ApprovalState::Denied);
    assert_eq!(other.run("a").expect("there").state, RunState::Completed);
}

/// A run is read as it is at one moment: snapshot and calls belong together while another process changes both.
pub fn a_run_is_resumed_from_one_moment(fresh: &Fresh) {
    const ROUNDS: u32 = 200;
    let open = fresh.open();
    let (store, other) = (open(), open());
    let fence = made_at(Blocking(&*store), "a", "p", 0);
    std::thread::scope(|scope| {
        let (store, other) = (&*store, &*other);
        scope.spawn(move || {
            let store = Blocking(store);
            for seq in 0..ROUNDS {
                store.checkpoint("a", fence, &full(seq + 1, b"cell"), SAFE).expect("kept");
                dispatch(store, "a", fence, "p", &effect(seq)).expect("covered");
            }
        });
        loop {
            let resumed = Blocking(other).resumption("a").expect("read");
            let (next, calls) = (resumed.snapshot.expect("there").next, resumed.calls.len() as u32);
            assert!(calls == next || calls + 1 == next, "{calls} calls and the next number {next}");
            if calls == ROUNDS {
                return;
            }
        }
    });
}

pub fn changes_of_another_process_are_noticed(fresh: &Fresh) {
    let open = fresh.open();
    let (one, two) = (open(), open());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut watch = one.watch(Duration::from_millis(1));
        for id in ["a", "b", "c"] {
            two.create_run(run(id, "s"), claim("p"), None, SAFE).await.expect("made");
            watch.changed().await;
        }
        // A change from before the last look is not missed either.
        two.create_run(run("d", "s"), claim("p"), None, SAFE).await.expect("made");
        tokio::time::sleep(Duration::from_millis(5)).await;
        watch.changed().await;
    });
}
