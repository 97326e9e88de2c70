//! What the journal promises: which calls may be dispatched, which settle, and in which order.
use std::sync::Arc;

use pincer_store::{
    CallState, Cover, Decision, Fence, Grant, GrantId, GrantKind, NewApproval, NewCall, Permission, Prune, Repeat,
    RunState, StoreError,
};

use crate::Fresh;
use crate::words::*;

pub fn calls_settle_once_and_in_an_order(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 3);
        for seq in 0..3 {
            dispatch(store, "a", fence, "p", &effect(seq)).expect("dispatched");
        }
        assert!(settle(store, "a", "p", 1, "\"first\"").expect("settled"));
        assert!(!settle(store, "a", "p", 1, "\"second\"").expect("known"));
        assert!(matches!(settle(store, "a", "p", 9, "1"), Err(StoreError::Missing { .. })));
        assert!(settle(store, "a", "p", 0, "\"later\"").expect("settled"));
        // A settled one is never dispatched again.
        for call in [effect(0), retiring(0), NewCall { cover: Cover::None, ..effect(0) }] {
            let again = dispatch(store, "a", fence, "p", &call);
            assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
        }
        let calls = store.calls("a").expect("read");
        let states: Vec<_> = calls.iter().map(|call| (call.state, call.outcome.as_deref())).collect();
        let (settled, dispatched) = (CallState::Settled, CallState::Dispatched);
        assert_eq!(states, [(settled, Some("\"later\"")), (settled, Some("\"first\"")), (dispatched, None)]);
        let order: Vec<_> = calls.iter().map(|call| (call.settled, call.settled_at)).collect();
        assert_eq!(order, [(Some(2), Some(7)), (Some(1), Some(7)), (None, None)]);
    });
}

pub fn a_call_keeps_its_line_and_the_time_when_it_was_last_made(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p1", 3);
        let of = |seq| {
            let call = store.call("a", seq).expect("read").expect("there");
            (call.line, call.dispatched_at, call.settled_at)
        };
        dispatch(store, "a", fence, "p1", &NewCall { line: Some(40), at: 100, ..effect(0) }).expect("dispatched");
        dispatch(store, "a", fence, "p1", &NewCall { line: None, at: 101, ..read_only(1) }).expect("dispatched");
        assert_eq!((of(0), of(1)), ((Some(40), Some(100), None), (None, Some(101), None)));
        // Another process makes it again.
        let newer = taken(store, "a", "p2");
        dispatch(store, "a", newer, "p2", &NewCall { line: Some(40), at: 200, ..effect(0) }).expect("taken over");
        assert_eq!(of(0), (Some(40), Some(200), None));
        assert!(settle(store, "a", "p2", 0, "1").expect("settled"));
        assert_eq!(of(0), (Some(40), Some(200), Some(7)));
    });
}

pub fn places_among_settled_calls_are_given_across_processes(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let fence = made_at(one, "a", "p1", 9);
        made_at(one, "b", "p1", 9);
        for seq in 0..6 {
            dispatch(one, "a", fence, "p1", &effect(seq)).expect("dispatched");
        }
        // Some are taken over by another process; both settle in turns.
        let newer = taken(two, "a", "p2");
        for seq in [1, 3, 5] {
            dispatch(two, "a", newer, "p2", &effect(seq)).expect("taken over");
        }
        for seq in [5, 0, 3, 4, 1, 2] {
            let (store, owner) = if seq % 2 == 0 { (one, "p1") } else { (two, "p2") };
            assert!(settle(store, "a", owner, seq, "1").expect("settled"));
        }
        let mut calls = one.calls("a").expect("read");
        calls.sort_by_key(|call| call.settled);
        let order: Vec<_> = calls.iter().map(|call| (call.seq, call.settled)).collect();
        assert_eq!(order, [(5, Some(1)), (0, Some(2)), (3, Some(3)), (4, Some(4)), (1, Some(5)), (2, Some(6))]);
        // Each run counts for itself.
        dispatch(two, "b", Fence(1), "p1", &effect(0)).expect("dispatched");
        assert!(settle(two, "b", "p1", 0, "1").expect("settled"));
        assert_eq!(two.calls("b").expect("read")[0].settled, Some(1));
    });
}

pub fn a_call_belongs_to_the_process_that_makes_it_even_when_the_run_has_another_owner(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p1", 3);
        for seq in 0..3 {
            dispatch(store, "a", fence, "p1", &effect(seq)).expect("dispatched");
        }
        let new = taken(store, "a", "p2");
        assert!(settle(store, "a", "p1", 0, "1").expect("it is still its call"));
        fenced(settle(store, "a", "p2", 1, "1"));
        // Taken over, with what it is called with now.
        let again = NewCall { input: Arc::new("{\"p\":2}".into()), ..effect(1) };
        dispatch(store, "a", new, "p2", &again).expect("taken over");
        let row = store.calls("a").expect("read").remove(1);
        assert_eq!((row.owner.as_str(), row.input.as_str(), row.state), ("p2", "{\"p\":2}", CallState::Dispatched));
        fenced(settle(store, "a", "p1", 1, "1"));
        assert!(settle(store, "a", "p2", 1, "2").expect("settled"));
        // Another tool under the same number is another call.
        let other = dispatch(store, "a", new, "p2", &NewCall { tool: "other".into(), ..effect(2) });
        assert!(matches!(other, Err(StoreError::Exists { .. })), "{other:?}");
        store.disown_calls("a", "p1").expect("given up");
        fenced(settle(store, "a", "p1", 2, "1"));
        let outcomes: Vec<_> = store.calls("a").expect("read").into_iter().map(|call| call.outcome).collect();
        assert_eq!(outcomes, [Some("1".to_owned()), Some("2".into()), None]);
    });
}

pub fn what_came_of_a_call_is_stored_after_the_end_of_its_run_too(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 1);
        dispatch(store, "a", fence, "p", &effect(0)).expect("dispatched");
        assert!(store.abort_run("a", 1).expect("aborted"));
        assert!(settle(store, "a", "p", 0, "1").expect("it happened"));
        assert_eq!(store.calls("a").expect("read")[0].state, CallState::Settled);
    });
}

pub fn a_call_with_an_effect_must_be_part_of_the_stored_checkpoint(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p");
        let put = |checkpoint| store.checkpoint("a", fence, &checkpoint, SAFE).expect("kept");
        // Without a checkpoint, only calls that change nothing, or that need none to be left.
        not_covered(dispatch(store, "a", fence, "p", &effect(0)));
        assert_eq!(store.calls("a").expect("read"), []);
        dispatch(store, "a", fence, "p", &read_only(0)).expect("it changes nothing");
        put(full(2, b"base"));
        dispatch(store, "a", fence, "p", &effect(1)).expect("covered");
        for idempotent in [Repeat::Idempotent, Repeat::Unknown] {
            not_covered(dispatch(store, "a", fence, "p", &NewCall { repeat: idempotent, ..effect(2) }));
        }
        dispatch(store, "a", fence, "p", &read_only(2)).expect("it changes nothing");
        // The latest delta is what counts.
        put(delta(4, b"d1", 0));
        dispatch(store, "a", fence, "p", &effect(3)).expect("covered");
        not_covered(dispatch(store, "a", fence, "p", &effect(4)));
        put(delta(6, b"d2", 1));
        dispatch(store, "a", fence, "p", &effect(5)).expect("covered");
        not_covered(dispatch(store, "a", fence, "p", &effect(6)));
        // The same for calls of a run that waits.
        store.park("a", fence, &park(full(7, b"x"), None)).expect("parked");
        dispatch(store, "a", fence, "p", &effect(6)).expect("covered");
        not_covered(dispatch(store, "a", fence, "p", &effect(7)));
        let seqs: Vec<_> = store.calls("a").expect("read").iter().map(|call| call.seq).collect();
        assert_eq!(seqs, [0, 1, 2, 3, 5, 6]);
    });
}

pub fn a_call_may_retire_the_checkpoint_that_does_not_cover_it(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 2);
        store.checkpoint("a", fence, &delta(3, b"d", 0), SAFE).expect("kept");
        dispatch(store, "a", fence, "p", &retiring(2)).expect("covered");
        assert_eq!(store.snapshot("a").expect("read").expect("still good").parts.len(), 2);
        dispatch(store, "a", fence, "p", &retiring(3)).expect("not covered");
        assert_eq!(store.snapshot("a").expect("read"), None);
        assert!(!store.let_wait("a", fence, 100).expect("asked"), "nothing is left to continue from");
        // And so on without one, with a new one, and past that.
        dispatch(store, "a", fence, "p", &retiring(4)).expect("there is none");
        not_covered(dispatch(store, "a", fence, "p", &effect(5)));
        let missing = store.checkpoint("a", fence, &delta(6, b"d", 0), SAFE);
        assert!(matches!(missing, Err(StoreError::Missing { .. })), "its deltas went with it: {missing:?}");
        store.checkpoint("a", fence, &full(6, b"x"), SAFE).expect("kept");
        dispatch(store, "a", fence, "p", &effect(5)).expect("covered");
        // One that is refused for another reason retires nothing.
        let refused = NewCall { permission: Permission::Answer("none".into()), ..retiring(9) };
        not_permitted(dispatch(store, "a", fence, "p", &refused));
        assert_eq!(store.snapshot("a").expect("read").expect("there").next, 6);
    });
}

/// What a caller was told stays true: the calls of a suspended program are all part of what was stored.
pub fn the_checkpoint_of_a_run_that_waits_is_not_retired(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p");
        store.park("a", fence, &park(full(2, b"x"), None)).expect("parked");
        dispatch(store, "a", fence, "p", &retiring(1)).expect("covered");
        not_covered(dispatch(store, "a", fence, "p", &retiring(2)));
        assert_eq!(store.snapshot("a").expect("read").expect("there").next, 2);
    });
}

/// The other way round: a checkpoint from before a call that was made since would let it be made again.
pub fn a_checkpoint_older_than_an_effect_is_refused(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 5);
        dispatch(store, "a", fence, "p", &effect(3)).expect("covered");
        dispatch(store, "a", fence, "p", &read_only(8)).expect("it changes nothing");
        let outdated = |result: Result<(), StoreError>| {
            assert!(matches!(result, Err(StoreError::Outdated { .. })), "{result:?}");
            assert_eq!(store.snapshot("a").expect("read").expect("there").next, 5);
        };
        outdated(store.checkpoint("a", fence, &full(3, b"x"), SAFE));
        outdated(store.checkpoint("a", fence, &delta(1, b"x", 0), SAFE));
        outdated(store.park("a", fence, &park(full(3, b"x"), None)));
        assert_eq!(store.run("a").expect("there").state, RunState::Running);
        store.checkpoint("a", fence, &full(4, b"x"), SAFE).expect("after all effects");
    });
}

pub fn an_answer_is_for_one_call_of_one_run(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 5);
        let other = made_at(store, "b", "p", 5);
        let asked = |seq| NewCall { permission: Permission::Answer("q".into()), ..effect(seq) };
        store.ask(&NewApproval { seq: Some(1), ..question("q") }).expect("asked");
        not_permitted(dispatch(store, "a", fence, "p", &asked(1)));
        store.resolve("q", Decision::Allow, &[], "me", 1).expect("answered");
        not_permitted(dispatch(store, "a", fence, "p", &asked(2)));
        not_permitted(dispatch(store, "b", other, "p", &asked(1)));
        assert_eq!(store.calls("a").expect("read"), []);
        dispatch(store, "a", fence, "p", &asked(1)).expect("allowed");
        // After a crash the same call finds its yes again.
        let newer = taken(store, "a", "p2");
        fenced(dispatch(store, "a", fence, "p", &asked(1)));
        dispatch(store, "a", newer, "p2", &asked(1)).expect("allowed");
        for (id, decision) in [("no", Decision::Deny), ("withdrawn", Decision::Cancel)] {
            store.ask(&NewApproval { seq: Some(3), ..question(id) }).expect("asked");
            store.resolve(id, decision, &[], "me", 1).expect("answered");
            let call = NewCall { permission: Permission::Answer(id.into()), ..effect(3) };
            not_permitted(dispatch(store, "a", newer, "p2", &call));
        }
    });
}

pub fn a_counted_grant_is_used_in_the_commit_of_the_call(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 5);
        let other = made_at(store, "b", "p", 5);
        let kind = GrantKind::Next { run: "a".into(), remaining: 2 };
        let grant =
            Grant { id: "g".into(), tool: "t".into(), fingerprint: None, user: Some("me".into()), kind, created_at: 0 };
        store.grant(&grant).expect("granted");
        let left = || match store.grants().expect("read").first().map(|grant| grant.kind.clone()) {
            Some(GrantKind::Next { remaining, .. }) => remaining,
            _ => 0,
        };
        let counted = |seq| NewCall { permission: Permission::Counted("g".into()), ..effect(seq) };
        // What is refused uses up nothing: not covered, another run, another proof, settled before.
        not_covered(dispatch(store, "a", fence, "p", &counted(5)));
        not_permitted(dispatch(store, "b", other, "p", &counted(0)));
        fenced(dispatch(store, "a", Fence(99), "p", &counted(0)));
        dispatch(store, "a", fence, "p", &effect(4)).expect("dispatched");
        settle(store, "a", "p", 4, "1").expect("settled");
        assert!(matches!(dispatch(store, "a", fence, "p", &counted(4)), Err(StoreError::Exists { .. })));
        assert_eq!(left(), 2);
        dispatch(store, "a", fence, "p", &counted(0)).expect("one");
        assert_eq!(left(), 1);
        dispatch(store, "a", fence, "p", &counted(1)).expect("two");
        assert_eq!(store.grants().expect("read"), [], "nothing is left of it");
        not_permitted(dispatch(store, "a", fence, "p", &counted(2)));
        assert_eq!(store.calls("a").expect("read").len(), 3);
    });
}

pub fn a_standing_grant_must_still_be_there(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 5);
        for id in ["g1", "g2"] {
            let kind = GrantKind::Always;
            store
                .grant(&Grant {
                    id: id.into(),
                    tool: "t".into(),
                    fingerprint: None,
                    user: Some("me".into()),
                    kind,
                    created_at: 0,
                })
                .expect("granted");
        }
        let grants: Vec<GrantId> = vec!["g1".into(), "g2".into()];
        let call = |seq| NewCall { permission: Permission::Standing(grants.clone()), ..effect(seq) };
        dispatch(store, "a", fence, "p", &call(0)).expect("allowed");
        dispatch(store, "a", fence, "p", &call(1)).expect("it is not used up");
        assert!(store.revoke("g2").expect("revoked"));
        not_permitted(dispatch(store, "a", fence, "p", &call(2)));
        assert_eq!(store.calls("a").expect("read").len(), 2);
    });
}

pub fn old_calls_are_forgotten_but_none_that_a_checkpoint_waits_for(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made_at(store, "a", "p", 8);
        let large = "x".repeat(1000);
        for seq in 0..10 {
            let call = if seq < 8 { effect(seq) } else { read_only(seq) };
            dispatch(store, "a", fence, "p", &call).expect("dispatched");
            if seq != 1 {
                settle(store, "a", "p", seq, &large).expect("settled");
            }
        }
        let outcomes = || -> Vec<(u32, Option<usize>)> {
            let calls = store.calls("a").expect("read");
            calls.into_iter().map(|call| (call.seq, call.outcome.map(|outcome| outcome.len()))).collect()
        };
        let before = outcomes();
        let prune = |fence, next, awaited: &[u32], keep| {
            store.prune_calls("a", fence, &Prune { next, awaited: awaited.into(), keep })
        };
        // A list that was made for another checkpoint is not good for this one.
        let outdated = prune(fence, Some(7), &[], 0);
        assert!(matches!(outdated, Err(StoreError::Outdated { .. })), "{outdated:?}");
        fenced(prune(Fence(9), Some(8), &[], 0));
        assert!(prune(fence, Some(8), &[], 100_000).expect("nothing to do") > 9000);
        assert_eq!(outcomes(), before);
        // Of the others, two have room; 1 has not settled, 3 is awaited.
        prune(fence, Some(8), &[3], 2500).expect("pruned");
        assert_eq!(outcomes(), [(1, None), (3, Some(1000)), (8, Some(1000)), (9, Some(1000))]);
        // A call that is not part of the checkpoint keeps its number: the next call gets another.
        let left = prune(fence, Some(8), &[3], 0).expect("pruned");
        assert_eq!(outcomes(), [(1, None), (3, Some(1000)), (8, Some(0)), (9, Some(0))]);
        assert!((1300..1600).contains(&left), "{left}");
        assert_eq!(store.call("a", 3).expect("read").expect("there").outcome.expect("kept").len(), 1000);
        assert_eq!(store.call("a", 2).expect("read"), None);
    });
}
