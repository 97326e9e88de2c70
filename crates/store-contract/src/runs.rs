//! What the traits promise about runs, snapshots and keys, written against the traits: another database must pass the same.
use pincer_store::{
    ApprovalState, CellPart, Checkpoint, Claim, Fence, Grant, GrantKind, NewRun, Park, Remembered, Room, RunId, RunKey,
    RunState, Safety, Share, StoreError, ToolSet,
};

use crate::words::*;
use crate::{Blocking, Fresh};

pub fn runs_are_made_listed_and_ended(fresh: &Fresh) {
    fresh.with_store(|store| {
        let new = |id, session| NewRun { agent_run: None, ..run(id, session) };
        let fence = store.create_run(&new("a", "one"), claim("p1"), None, SAFE).expect("made");
        let of_agent = NewRun { agent_run: Some("agent-1".into()), ..new("b", "two") };
        store.create_run(&of_agent, claim("p1"), None, SAFE).expect("made");
        let again = store.create_run(&new("a", "one"), claim("p2"), None, SAFE);
        assert!(matches!(again, Err(StoreError::Exists { what: "run", .. })));
        assert!(matches!(store.run("c"), Err(StoreError::Missing { what: "run", .. })));
        assert_eq!(store.run_result("a").expect("read"), None);
        store.finish_run("a", fence, RunState::Failed, "\"why\"", 20, SAFE).expect("changed");
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.session.as_str(), stored.owner.as_str()), (RunState::Failed, "one", "p1"));
        assert_eq!(store.run_result("a").expect("read").as_deref(), Some("\"why\""));
        assert_eq!(store.run("b").expect("there").agent_run.as_deref(), Some("agent-1"));
        let ids = |session| store.runs(session).expect("listed").into_iter().map(|run| run.id).collect::<Vec<_>>();
        assert_eq!((ids(None), ids(Some("two"))), (vec!["a".into(), "b".into()], vec!["b".into()]));
        let running = store.running().expect("listed").into_iter().map(|run| run.id).collect::<Vec<_>>();
        assert_eq!(running, ["b"]);
    });
}

pub fn a_run_can_be_made_with_its_first_checkpoint(fresh: &Fresh) {
    fresh.with_store(|store| {
        made_at(store, "a", "p", 3);
        let snapshot = store.snapshot("a").expect("read").expect("there");
        assert_eq!((snapshot.next, snapshot.parts, snapshot.image), (3, vec![b"cell".to_vec()], IMAGE.to_vec()));
        // A delta has nothing to be the difference to: neither half of it happens.
        let refused = store.create_run(&run("b", "s"), claim("p"), Some(&delta(1, b"d", 0)), SAFE);
        assert!(matches!(refused, Err(StoreError::Missing { .. })), "{refused:?}");
        assert!(store.run("b").is_err());
    });
}

pub fn only_one_takes_a_run_over_and_the_old_owner_can_change_nothing(fresh: &Fresh) {
    fresh.with_store(|store| {
        let old = made_at(store, "a", "p1", 9);
        let new = store.claim_run("a", (RunState::Running, old), claim("p2")).expect("claimed");
        assert!(new > old);
        fenced(store.claim_run("a", (RunState::Running, old), claim("p3")));
        fenced(finish(store, "a", old, RunState::Completed));
        fenced(store.park("a", old, &park(full(1, b"x"), None)));
        fenced(store.checkpoint("a", old, &full(1, b"x"), SAFE));
        fenced(store.let_wait("a", old, 100));
        fenced(store.set_tools("a", old, ToolSet { hash: b"h".into(), tools: "[]".into() }));
        for call in [effect(0), read_only(0), retiring(0), retiring(20)] {
            fenced(dispatch(store, "a", old, "p1", &call));
        }
        assert_eq!((store.run("a").expect("there").owner.as_str(), store.calls("a").expect("read").len()), ("p2", 0));
        assert_eq!(store.snapshot("a").expect("read").expect("there").next, 9);
        finish(store, "a", new, RunState::Completed).expect("the new owner may");
        // A process that has seen it run and finds its owner gone takes nothing over that has ended in between.
        fenced(store.claim_run("a", (RunState::Running, new), claim("p3")));
        fenced(finish(store, "a", new, RunState::Failed));
        assert_eq!(store.run("a").expect("there").state, RunState::Completed);
    });
}

pub fn every_claim_gets_a_new_proof_and_states_what_it_saw(fresh: &Fresh) {
    fresh.with_store(|store| {
        let first = made_at(store, "a", "p1", 1);
        // Also the owner itself, in each state.
        let second = store.claim_run("a", (RunState::Running, first), claim("p1")).expect("claimed");
        assert!(second > first);
        fenced(store.claim_run("a", (RunState::Running, first), claim("p1")));
        store.park("a", second, &park(full(1, b"x"), Some(100))).expect("parked");
        // Two waits that both saw it waiting, and one that saw it running before.
        fenced(store.claim_run("a", (RunState::Running, second), claim("p2")));
        let third = store.claim_run("a", (RunState::Waiting, second), claim("p1")).expect("claimed");
        assert!(third > second);
        fenced(store.claim_run("a", (RunState::Waiting, second), claim("p2")));
        // The right proof with the wrong state.
        fenced(store.claim_run("a", (RunState::Waiting, third), claim("p2")));
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.fence, stored.owner.as_str()), (RunState::Running, third, "p1"));
        let missing = store.claim_run("none", (RunState::Running, third), claim("p1"));
        assert!(matches!(missing, Err(StoreError::Missing { .. })));
    });
}

pub fn the_end_of_a_run_takes_its_proof_away(fresh: &Fresh) {
    type End = fn(Blocking<'_>, Fence);
    let ends: [(RunState, End); 4] = [
        (RunState::Completed, |store, fence| finish(store, "a", fence, RunState::Completed).expect("ended")),
        (RunState::Failed, |store, fence| finish(store, "a", fence, RunState::Failed).expect("ended")),
        (RunState::Aborted, |store, _| assert!(store.abort_run("a", 5).expect("aborted"))),
        (RunState::Expired, |store, fence| {
            store.park("a", fence, &park(full(9, b"x"), Some(100))).expect("parked");
            assert_eq!(store.expire_runs(100).expect("swept"), ["a"]);
        }),
    ];
    for (state, end) in ends {
        fresh.with_store(|store| {
            let fence = made_at(store, "a", "p", 9);
            end(store, fence);
            let ended = store.run("a").expect("there");
            assert_eq!(ended.state, state);
            assert!(ended.fence > fence);
            // Neither the proof it had nor the one it has now is good for anything.
            for fence in [fence, ended.fence] {
                for call in [effect(0), read_only(0), retiring(0), retiring(20)] {
                    fenced(dispatch(store, "a", fence, "p", &call));
                }
                for seen in [state, RunState::Running, RunState::Waiting] {
                    fenced(store.claim_run("a", (seen, fence), claim("p")));
                }
                fenced(store.checkpoint("a", fence, &full(9, b"x"), SAFE));
                fenced(store.park("a", fence, &park(full(9, b"x"), None)));
                fenced(finish(store, "a", fence, RunState::Failed));
                fenced(store.let_wait("a", fence, 100));
            }
            assert!(!store.abort_run("a", 9).expect("looked"));
            assert_eq!((store.run("a").expect("there"), store.snapshot("a").expect("read")), (ended, None));
            assert_eq!(store.calls("a").expect("read"), []);
        });
    }
}

pub fn a_parked_run_waits_and_its_snapshot_goes_with_it(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p");
        store.checkpoint("a", fence, &full(0, b"zero"), SAFE).expect("kept");
        assert_eq!(store.run("a").expect("there").state, RunState::Running);
        assert!(!store.run("a").expect("there").acknowledged);
        store.park("a", fence, &park(full(1, b"first"), Some(100))).expect("parked");
        // Only one that runs can be parked or checkpointed: what was acknowledged is not replaced.
        fenced(store.park("a", fence, &park(full(2, b"second"), Some(200))));
        fenced(store.checkpoint("a", fence, &full(2, b"second"), SAFE));
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.expires_at, stored.acknowledged), (RunState::Waiting, Some(100), true));
        assert_eq!(store.run_result("a").expect("read").as_deref(), Some("\"parked\""));
        assert_eq!(store.snapshot("a").expect("read").expect("there").parts, [b"first".to_vec()]);
        let overview = store.run_overview("a").expect("there");
        assert_eq!((overview.snapshot_bytes, overview.detail.as_deref()), (Some(5), Some("{}")));
        let fence = store.claim_run("a", (RunState::Waiting, fence), claim("p2")).expect("goes on");
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.expires_at, stored.acknowledged), (RunState::Running, None, true));
        assert!(store.snapshot("a").expect("read").is_some());
        finish(store, "a", fence, RunState::Completed).expect("ends");
        assert_eq!(store.snapshot("a").expect("read"), None);
    });
}

pub fn deltas_follow_the_whole_cell_in_order(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p");
        let put = |checkpoint: &Checkpoint| store.checkpoint("a", fence, checkpoint, SAFE);
        let missing = |result| assert!(matches!(result, Err(StoreError::Missing { .. })), "{result:?}");
        let stored = || {
            let snapshot = store.snapshot("a").expect("read").expect("there");
            let parts = snapshot.parts.iter().map(|part| String::from_utf8_lossy(part).into_owned());
            (snapshot.next, snapshot.detail, parts.collect::<Vec<_>>().join(" "))
        };
        missing(put(&delta(1, b"d1", 0)));
        assert_eq!(store.snapshot("a").expect("read"), None);
        put(&full(1, b"base")).expect("kept");
        missing(put(&delta(2, b"d1", 1)));
        put(&delta(2, b"d1", 0)).expect("kept");
        put(&delta(3, b"d2", 0)).expect("kept");
        put(&delta(4, b"d3", 0)).expect("kept");
        assert_eq!(stored(), (4, "{\"delta\":1}".into(), "base d1 d2 d3".into()));
        // One that contains the two before takes their places.
        put(&delta(5, b"d2+3", 2)).expect("kept");
        assert_eq!(stored(), (5, "{\"delta\":1}".into(), "base d1 d2+3".into()));
        missing(put(&delta(6, b"d", 3)));
        assert_eq!(stored().2, "base d1 d2+3");
        let overview = store.run_overview("a").expect("there");
        assert_eq!((overview.snapshot_bytes, overview.detail.as_deref()), (Some(10), Some("{\"delta\":1}")));
        // A whole one replaces them all.
        put(&full(6, b"again")).expect("kept");
        assert_eq!(stored(), (6, "{}".into(), "again".into()));
        put(&delta(7, b"d1", 0)).expect("kept");
        assert_eq!(stored(), (7, "{\"delta\":1}".into(), "again d1".into()));
        // A run can also wait with a delta; what it had is not lost.
        store.park("a", fence, &park(delta(8, b"d2", 0), None)).expect("parked");
        assert_eq!(stored(), (8, "{\"delta\":1}".into(), "again d1 d2".into()));
        assert!(store.abort_run("a", 1).expect("aborted"));
        assert_eq!(store.snapshot("a").expect("read"), None);
    });
}

pub fn a_run_whose_process_is_gone_waits_if_it_has_a_checkpoint(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p1");
        assert!(!store.let_wait("a", fence, 100).expect("asked"), "there is nothing to continue from");
        assert_eq!(store.run("a").expect("there").state, RunState::Running);
        store.checkpoint("a", fence, &full(1, b"x"), SAFE).expect("kept");
        assert!(store.let_wait("a", fence, 100).expect("asked"));
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.expires_at), (RunState::Waiting, Some(100)));
        assert!(stored.fence > fence, "its process may come back");
        fenced(dispatch(store, "a", fence, "p1", &effect(0)));
        fenced(store.let_wait("a", stored.fence, 200));
        store.claim_run("a", (RunState::Waiting, stored.fence), claim("p2")).expect("goes on");
    });
}

pub fn runs_that_wait_too_long_expire_and_cannot_be_continued(fresh: &Fresh) {
    fresh.with_store(|store| {
        for (id, expires_at) in [("a", Some(100)), ("b", Some(101)), ("c", None)] {
            let fence = made(store, id, "p");
            store.park(id, fence, &park(full(0, b"x"), expires_at)).expect("parked");
        }
        assert_eq!(store.expire_runs(100).expect("swept"), ["a"]);
        assert_eq!(store.expire_runs(100).expect("swept"), Vec::<RunId>::new());
        assert_eq!(
            (store.run("a").expect("there").state, store.snapshot("a").expect("read")),
            (RunState::Expired, None)
        );
        assert!(store.snapshot("b").expect("read").is_some() && store.snapshot("c").expect("read").is_some());
        // One that is continued has no such time.
        taken(store, "b", "p2");
        assert_eq!(store.expire_runs(1000).expect("swept"), Vec::<RunId>::new());
        // What has ended long ago is forgotten, with its calls and questions.
        store.ask(&question("q")).expect("asked");
        assert_eq!(store.forget_runs(100).expect("forgotten"), 0);
        assert!(store.approval("q").is_ok());
        assert_eq!(store.forget_runs(101).expect("forgotten"), 1);
        assert!(store.run("a").is_err() && store.run("b").is_ok() && store.approval("q").is_err());
    });
}

pub fn an_aborted_run_leaves_nothing_behind(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p");
        store.ask(&question("q")).expect("asked");
        let kind = GrantKind::Next { run: "a".into(), remaining: 3 };
        let grant =
            Grant { id: "g".into(), tool: "t".into(), fingerprint: None, user: Some("me".into()), kind, created_at: 0 };
        store.grant(&grant).expect("granted");
        store.park("a", fence, &park(full(1, b"x"), Some(100))).expect("parked");
        assert!(store.abort_run("a", 5).expect("aborted"));
        assert!(!store.abort_run("a", 5).expect("once"));
        assert_eq!(store.run("a").expect("there").state, RunState::Aborted);
        assert_eq!((store.snapshot("a").expect("read"), store.run_result("a").expect("read")), (None, None));
        assert_eq!(store.approval("q").expect("there").state, ApprovalState::Cancelled);
        assert_eq!(store.grants().expect("read").len(), 0);
        assert!(matches!(store.abort_run("nothing", 5), Err(StoreError::Missing { .. })));
    });
}

pub fn as_many_wait_as_may_and_the_others_are_told_who_does(fresh: &Fresh) {
    fresh.with_store(|store| {
        // Runs that only have checkpoints take no place.
        for id in ["r1", "r2", "r3", "r4", "r5"] {
            made_at(store, id, "p", 1);
        }
        let wait = |id: &str, session: &str| {
            let fence = store.create_run(&run(id, session), claim("p"), None, SAFE).expect("made");
            store.park(id, fence, &park(full(0, b"x"), None)).map(|()| fence)
        };
        wait("a", "one").expect("room");
        wait("b", "one").expect("room");
        wait("c", "one").expect("room");
        let error = wait("d", "one").expect_err("the session is full").to_string();
        assert!(error.contains("3 programs of the session one"), "{error}");
        assert_eq!(store.run("d").expect("there").state, RunState::Running);
        assert_eq!(store.snapshot("d").expect("read"), None, "neither half of it happened");
        wait("e", "two").expect("room");
        let error = wait("f", "two").expect_err("all is full").to_string();
        assert!(error.contains("4 programs ") && error.contains("the session one (3), the session two (1)"), "{error}");
        // One that is continued keeps its place, and needs no further one.
        let driven = taken(store, "a", "p2");
        wait("h", "one").expect_err("the session is still full");
        store.park("a", driven, &park(full(0, b"z"), None)).expect("room for itself");
        // One that ends gives its place back, aborted or finished.
        store.abort_run("b", 1).expect("aborted");
        wait("g", "two").expect("room again");
        let driven = taken(store, "c", "p2");
        wait("i", "two").expect_err("all is full");
        finish(store, "c", driven, RunState::Completed).expect("ended");
        wait("j", "two").expect("room again");
    });
}

pub fn the_right_to_be_suspended_is_had_until_the_end_and_shared_by_users(fresh: &Fresh) {
    fresh.with_store(|store| {
        // All users have the same session, as they do over HTTP.
        let room = Room { all: 4, of_user: 2, of_session: 3 };
        let begin = |id: &str, caller: &str| {
            let new = NewRun { user: caller.into(), ..run(id, "s") };
            store.create_run(&new, claim("p"), None, SAFE).expect("made")
        };
        let reserve = |id: &str, fence| store.reserve(id, fence, &room, SAFE);
        let (a, b, c) = (begin("a", "ann"), begin("b", "ann"), begin("c", "ann"));
        reserve("a", a).expect("room");
        reserve("a", a).expect("it has some already");
        reserve("b", b).expect("room");
        let refused = reserve("c", c).expect_err("ann has her share");
        assert!(refused.to_string().starts_with("2 programs of this user are suspended or can be"), "{refused}");
        assert!(matches!(refused, StoreError::NoRoom { share: Share::User, retry_after: 1000, .. }));
        // Another user has a share of their own, until all is full.
        for id in ["d", "e"] {
            reserve(id, begin(id, "bob")).expect("room");
        }
        let of_carl = begin("f", "carl");
        let refused = reserve("f", of_carl).expect_err("all is full");
        assert!(matches!(&refused, StoreError::NoRoom { share: Share::All, holders, .. } if holders.is_empty()));
        // With it, suspending needs no further room, however little there is by then.
        let none = Room { all: 0, of_user: 0, of_session: 0 };
        let until = store.now() + 60_000;
        store.park("a", a, &Park { room: none, ..park(full(0, b"x"), Some(until)) }).expect("it has room");
        let refused = reserve("c", c).expect_err("ann has her share");
        assert!(matches!(refused, StoreError::NoRoom { retry_after: 50_000..=60_000, .. }), "{refused:?}");
        // Ended in any way, it is free again.
        finish(store, "b", b, RunState::Completed).expect("ended");
        reserve("c", c).expect("room");
        store.abort_run("d", 1).expect("aborted");
        assert_eq!(store.expire_runs(until).expect("swept"), ["a"]);
        store.forget_runs(until + 1).expect("forgotten");
        reserve("f", of_carl).expect("room");
        assert!(matches!(reserve("b", b), Err(StoreError::Missing { .. } | StoreError::Fenced { .. })));
    });
}

pub fn images_are_kept_while_a_snapshot_needs_them(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, "a", "p");
        store.keep_image(&IMAGE, b"old").expect("kept");
        store.keep_image(&IMAGE, b"again").expect("kept once");
        store.keep_image(&[2; 32], b"current").expect("kept");
        store.keep_image(&[3; 32], b"unused").expect("kept");
        store.checkpoint("a", fence, &full(0, b"x"), SAFE).expect("kept");
        store.checkpoint("a", fence, &delta(0, b"x", 0), SAFE).expect("kept");
        assert_eq!(store.drop_unused_images(&[2; 32]).expect("dropped"), 1);
        assert_eq!(store.image(&IMAGE).expect("read").as_deref(), Some(&b"old"[..]));
        finish(store, "a", fence, RunState::Completed).expect("ends");
        assert_eq!(store.drop_unused_images(&[2; 32]).expect("dropped"), 1);
        assert_eq!((store.image(&IMAGE).expect("read"), store.image(&[2; 32]).expect("read").is_some()), (None, true));
    });
}

pub fn sets_of_tools_are_kept_while_a_run_needs_them(fresh: &Fresh) {
    fresh.with_store(|store| {
        let set = |hash: &[u8], tools: &str| ToolSet { hash: hash.into(), tools: tools.into() };
        let make = |id, tools| {
            let new = NewRun { tools: Some(tools), ..run(id, "s") };
            store.create_run(&new, claim("p"), None, SAFE).expect("made")
        };
        let of = |id: &str| (store.run(id).expect("there").tools, store.resumption(id).expect("read").tools);
        let (a, b) = (make("a", set(b"1", "[1]")), make("b", set(b"1", "[1]")));
        assert_eq!(of("a"), (Some(b"1".to_vec()), Some("[1]".into())));
        store.set_tools("a", a, set(b"2", "[2]")).expect("changed");
        assert_eq!(of("a"), (Some(b"2".to_vec()), Some("[2]".into())));
        finish(store, "b", b, RunState::Completed).expect("ended");
        assert_eq!(of("b").1.as_deref(), Some("[1]"), "it can still be looked at");
        assert_eq!(store.forget_runs(2).expect("forgotten"), 1);
        // A set that is still there is not written again.
        make("c", set(b"1", "[new]"));
        make("d", set(b"2", "[new]"));
        assert_eq!((of("c").1.as_deref(), of("d").1.as_deref()), (Some("[new]"), Some("[2]")));
        made(store, "e", "p");
        assert_eq!(of("e"), (None, None));
    });
}

pub fn a_key_begins_one_run_per_caller_and_session(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let key = Some(RunKey { key: "k".into(), program: b"program".into() });
        let new = |id, session| NewRun { key: key.clone(), ..run(id, session) };
        one.create_run(&new("a", "s"), claim("p1"), None, Safety::Power).expect("made");
        let again = two.create_run(&new("b", "s"), claim("p2"), None, Safety::Power);
        assert!(matches!(again, Err(StoreError::Exists { what: "run", .. })), "{again:?}");
        assert!(two.run("b").is_err());
        let of =
            |caller, session, key| two.run_with_key(caller, session, key).expect("read").map(|run| run.id.to_string());
        assert_eq!(of("me", "s", "k").as_deref(), Some("a"));
        let stored = two.run("a").expect("there").key;
        assert_eq!(stored, key);
        assert_eq!((of("you", "s", "k"), of("me", "other", "k"), of("me", "s", "other")), (None, None, None));
        two.create_run(&new("c", "other"), claim("p2"), None, SAFE).expect("another session");
        let other = NewRun { user: "you".into(), ..new("d", "s") };
        two.create_run(&other, claim("p2"), None, SAFE).expect("another caller");
        // Runs without a key are as many as there are.
        made(one, "e", "p1");
        made(one, "f", "p1");
        assert_eq!(one.run("e").expect("there").key, None);
        // A key holds for as long as its run is known.
        assert!(one.abort_run("a", 5).expect("aborted"));
        assert_eq!(of("me", "s", "k").as_deref(), Some("a"));
        assert_eq!(one.forget_runs(6).expect("forgotten"), 1);
        assert_eq!(of("me", "s", "k"), None);
        two.create_run(&new("b", "s"), claim("p2"), None, SAFE).expect("free again");
    });
}

pub fn an_idempotency_key_belongs_to_the_request_that_came_first(fresh: &Fresh) {
    fresh.with_store(|store| {
        assert_eq!(store.reserve_key("s", "k", b"one", 1).expect("asked"), Remembered::New);
        assert_eq!(store.reserve_key("s", "k", b"one", 2).expect("asked"), Remembered::Same(None));
        assert_eq!(store.reserve_key("s", "k", b"two", 2).expect("asked"), Remembered::Different);
        assert_eq!(store.reserve_key("other", "k", b"two", 5).expect("asked"), Remembered::New);
        store.answer_key("s", "k", "\"done\"").expect("answered");
        assert_eq!(store.reserve_key("s", "k", b"one", 3).expect("asked"), Remembered::Same(Some("\"done\"".into())));
        assert!(matches!(store.answer_key("s", "x", "1"), Err(StoreError::Missing { .. })));
        assert_eq!(store.forget_keys(5).expect("forgotten"), 1);
        assert_eq!(store.reserve_key("s", "k", b"two", 6).expect("asked"), Remembered::New);
    });
}

pub fn all_connections_go_by_one_clock(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let (first, second) = (one.now(), two.now());
        assert!((0..1000).contains(&(second - first)), "{first} {second}");
    });
}

/// Only a claim whose checkpoints are synced, and no process of another boot, may be sure of what a run did last.
pub fn a_run_of_this_boot_was_not_cut_off(fresh: &Fresh) {
    fresh.with_store(|store| {
        for safety in [Safety::Process, Safety::Power] {
            let id = format!("{safety:?}");
            store.create_run(&run(&id, "s"), Claim { owner: "p".into(), safety }, None, SAFE).expect("made");
            assert!(!store.run(&id).expect("there").power_cut);
        }
        let whole = CellPart::Full { image: IMAGE.into(), bytes: Vec::new() };
        let empty = Checkpoint { next: 0, cell: whole, detail: String::new(), recorded: None };
        store.create_run(&run("empty", "s"), claim("p"), Some(&empty), SAFE).expect("nothing is too small");
    });
}

pub fn the_open_programs_of_an_agents_run_are_listed(fresh: &Fresh) {
    fresh.with_store(|store| {
        let begin = |id: &str, agent_run: Option<&str>| {
            let new = NewRun { agent_run: agent_run.map(Into::into), ..run(id, "s") };
            store.create_run(&new, claim("p"), None, SAFE).expect("made")
        };
        begin("d", Some("ar_1"));
        let [done, parked, aborted] = ["c", "b", "a"].map(|id| begin(id, Some("ar_1")));
        begin("e", Some("ar_2"));
        begin("f", None);
        store.park("b", parked, &park(full(0, b"x"), Some(100))).expect("parked");
        assert_eq!(store.runs_of_agent("ar_1").expect("read"), ["a", "b", "c", "d"]);
        finish(store, "c", done, RunState::Completed).expect("ended");
        store.abort_run("a", 1).expect("aborted");
        fenced(finish(store, "a", aborted, RunState::Completed));
        assert_eq!(store.runs_of_agent("ar_1").expect("read"), ["b", "d"]);
        assert_eq!(store.expire_runs(100).expect("swept"), ["b"]);
        assert_eq!(store.runs_of_agent("ar_1").expect("read"), ["d"]);
        assert_eq!(store.runs_of_agent("none").expect("read"), Vec::<RunId>::new());
    });
}
