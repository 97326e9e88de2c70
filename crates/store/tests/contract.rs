//! What each trait promises, written against the traits: another database must pass the same.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_store::{
    ApprovalState, Approvals, CallState, Decision, Fence, GrantKind, Grants, IdempotencyKeys, Journal, Millis,
    NewApproval, NewCall, NewGrant, NewRun, Park, Remembered, Repeat, RunState, Runs, Safety, Snapshot, Snapshots,
    SqliteStore, StoreError,
};
use tempfile::TempDir;

/// Everything a store must do.
trait Store: Runs + Snapshots + Journal + Approvals + Grants + IdempotencyKeys {}
impl<T: Runs + Snapshots + Journal + Approvals + Grants + IdempotencyKeys> Store for T {}

fn with_store(test: impl FnOnce(&dyn Store)) {
    let directory: TempDir = tempfile::tempdir().expect("a directory");
    test(&SqliteStore::open(&directory.path().join("pincer.db")).expect("a store"));
}

fn run<'a>(id: &'a str, session: &'a str) -> NewRun<'a> {
    NewRun { id, session, caller: "me", agent_run: None, created_at: 10 }
}

fn snapshot(bytes: &[u8]) -> Snapshot {
    Snapshot { image: vec![1; 32], bytes: bytes.to_vec(), detail: "{}".into() }
}

fn park(snapshot: &Snapshot, expires_at: Option<Millis>) -> Park<'_> {
    Park { snapshot, result: "\"parked\"", expires_at, most: 4, most_of_session: 3 }
}

fn call(seq: u32) -> NewCall<'static> {
    NewCall { seq, tool: "openclaw:core:read", input: "{\"p\":1}", asked: b"", repeat: Repeat::Unknown }
}

fn question(id: &str) -> NewApproval<'_> {
    NewApproval {
        id,
        run: Some("a"),
        session: "s",
        tool: "openclaw:core:exec",
        digest: b"digest",
        request: "{}",
        created_at: 0,
        expires_at: Some(1000),
    }
}

const SAFE: Safety = Safety::Process;

fn fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
}

#[test]
fn runs_are_made_listed_and_ended() {
    with_store(|store| {
        let fence = store.create_run(&run("a", "one"), "p1").expect("made");
        store.create_run(&NewRun { agent_run: Some("agent-1"), ..run("b", "two") }, "p1").expect("made");
        assert!(matches!(store.create_run(&run("a", "one"), "p2"), Err(StoreError::Exists { what: "run", .. })));
        assert!(matches!(store.run("c"), Err(StoreError::Missing { what: "run", .. })));
        assert_eq!(store.run_result("a").expect("read"), None);
        store.finish_run("a", fence, RunState::Failed, "\"why\"", 20, SAFE).expect("changed");
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.session.as_str(), stored.owner.as_str()), (RunState::Failed, "one", "p1"));
        assert_eq!(store.run_result("a").expect("read").as_deref(), Some("\"why\""));
        assert_eq!(store.run("b").expect("there").agent_run.as_deref(), Some("agent-1"));
        let ids = |session| store.runs(session).expect("listed").into_iter().map(|run| run.id).collect::<Vec<_>>();
        assert_eq!((ids(None), ids(Some("two"))), (vec!["a".to_owned(), "b".into()], vec!["b".to_owned()]));
    });
}

#[test]
fn only_one_takes_a_run_over_and_the_old_owner_can_change_nothing() {
    with_store(|store| {
        let old = store.create_run(&run("a", "s"), "p1").expect("made");
        let new = store.claim_run("a", old, "p2").expect("claimed");
        assert!(new > old);
        fenced(store.claim_run("a", old, "p3"));
        fenced(store.finish_run("a", old, RunState::Completed, "{}", 1, SAFE));
        fenced(store.park("a", old, &park(&snapshot(b"x"), None)));
        fenced(store.checkpoint("a", old, &snapshot(b"x")));
        fenced(store.note_calls("a", old, "p1", &[call(0)], SAFE.into()));
        assert_eq!((store.run("a").expect("there").owner.as_str(), store.calls("a").expect("read").len()), ("p2", 0));
        store.finish_run("a", new, RunState::Completed, "{}", 1, SAFE).expect("the new owner may");
        // Who has seen it run and finds its process gone takes nothing over that has ended in between.
        fenced(store.claim_run("a", new, "p3"));
        fenced(store.finish_run("a", new, RunState::Failed, "{}", 2, SAFE));
        assert_eq!(store.run("a").expect("there").state, RunState::Completed);
    });
}

#[test]
fn a_parked_run_waits_and_its_snapshot_goes_with_it() {
    with_store(|store| {
        let fence = store.create_run(&run("a", "s"), "p").expect("made");
        store.checkpoint("a", fence, &snapshot(b"zero")).expect("kept");
        assert_eq!(store.run("a").expect("there").state, RunState::Running);
        store.park("a", fence, &park(&snapshot(b"first"), Some(100))).expect("parked");
        store.park("a", fence, &park(&snapshot(b"second"), Some(200))).expect("parked again");
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.expires_at), (RunState::Waiting, Some(200)));
        assert_eq!(store.run_result("a").expect("read").as_deref(), Some("\"parked\""));
        assert_eq!(store.snapshot("a").expect("read"), Some(snapshot(b"second")));
        let overview = store.run_overviews(Some("s")).expect("listed").remove(0);
        assert_eq!((overview.snapshot_bytes, overview.detail.as_deref()), (Some(6), Some("{}")));
        let fence = store.claim_run("a", fence, "p2").expect("goes on");
        let stored = store.run("a").expect("there");
        assert_eq!((stored.state, stored.expires_at), (RunState::Running, None));
        assert!(store.snapshot("a").expect("read").is_some());
        store.finish_run("a", fence, RunState::Completed, "{}", 1, SAFE).expect("ends");
        assert_eq!(store.snapshot("a").expect("read"), None);
    });
}

#[test]
fn runs_that_wait_too_long_expire_and_cannot_be_continued() {
    with_store(|store| {
        let fences: Vec<Fence> =
            ["a", "b", "c"].iter().map(|id| store.create_run(&run(id, "s"), "p").expect("made")).collect();
        store.park("a", fences[0], &park(&snapshot(b"x"), Some(100))).expect("parked");
        store.park("b", fences[1], &park(&snapshot(b"x"), Some(101))).expect("parked");
        store.park("c", fences[2], &park(&snapshot(b"x"), None)).expect("parked");
        assert_eq!(store.expire_runs(100).expect("swept"), ["a"]);
        assert_eq!(store.expire_runs(100).expect("swept"), Vec::<String>::new());
        assert_eq!(
            (store.run("a").expect("there").state, store.snapshot("a").expect("read")),
            (RunState::Expired, None)
        );
        fenced(store.claim_run("a", fences[0], "p"));
        assert!(store.snapshot("b").expect("read").is_some() && store.snapshot("c").expect("read").is_some());
        // What has ended long ago is forgotten, with its calls.
        assert_eq!(store.forget_runs(100).expect("forgotten"), 0);
        assert_eq!(store.forget_runs(101).expect("forgotten"), 1);
        assert!(store.run("a").is_err() && store.run("b").is_ok());
    });
}

#[test]
fn an_aborted_run_leaves_nothing_behind() {
    with_store(|store| {
        let fence = store.create_run(&run("a", "s"), "p").expect("made");
        let question = NewApproval {
            id: "q",
            run: Some("a"),
            session: "s",
            tool: "t",
            digest: b"d",
            request: "{}",
            created_at: 0,
            expires_at: None,
        };
        store.ask(&question).expect("asked");
        let kind = GrantKind::Next { run: "a".into(), remaining: 3 };
        store.grant(&NewGrant { id: "g", tool: "t", kind, created_at: 0 }).expect("granted");
        store.park("a", fence, &park(&snapshot(b"x"), Some(100))).expect("parked");
        assert!(store.abort_run("a", 5).expect("aborted"));
        assert!(!store.abort_run("a", 5).expect("once"));
        assert_eq!(store.run("a").expect("there").state, RunState::Aborted);
        assert_eq!(store.snapshot("a").expect("read"), None);
        assert_eq!(store.approval("q").expect("there").state, ApprovalState::Cancelled);
        assert_eq!(store.grants().expect("read").len(), 0);
        fenced(store.claim_run("a", fence, "p"));
        assert!(matches!(store.abort_run("nothing", 5), Err(StoreError::Missing { .. })));
    });
}

#[test]
fn as_many_wait_as_may_and_the_others_are_told_who_does() {
    with_store(|store| {
        let wait = |id: &str, session: &str| {
            let fence = store.create_run(&run(id, session), "p").expect("made");
            store.park(id, fence, &park(&snapshot(b"x"), None)).map(|()| fence)
        };
        let first = wait("a", "one").expect("room");
        wait("b", "one").expect("room");
        wait("c", "one").expect("room");
        let error = wait("d", "one").expect_err("the session is full").to_string();
        assert!(error.contains("3 programs") && error.contains("in the session one"), "{error}");
        wait("e", "two").expect("room");
        let error = wait("f", "two").expect_err("all is full").to_string();
        assert!(error.contains("4 programs") && error.contains("the session one (3), the session two (1)"), "{error}");
        // One that waits already needs no further place, and one that is aborted gives its own back.
        store.park("a", first, &park(&snapshot(b"y"), None)).expect("room for itself");
        // It keeps its place while it is continued.
        let driven = store.claim_run("a", first, "p2").expect("continued");
        wait("h", "one").expect_err("the session is still full");
        store.park("a", driven, &park(&snapshot(b"z"), None)).expect("and waits again");
        store.abort_run("b", 1).expect("aborted");
        wait("g", "two").expect("room again");
    });
}

#[test]
fn images_are_kept_while_a_snapshot_needs_them() {
    with_store(|store| {
        let fence = store.create_run(&run("a", "s"), "p").expect("made");
        store.keep_image(&[1; 32], b"old").expect("kept");
        store.keep_image(&[1; 32], b"again").expect("kept once");
        store.keep_image(&[2; 32], b"current").expect("kept");
        store.keep_image(&[3; 32], b"unused").expect("kept");
        store.park("a", fence, &park(&snapshot(b"x"), None)).expect("parked");
        assert_eq!(store.drop_unused_images(&[2; 32]).expect("dropped"), 1);
        assert_eq!(store.image(&[1; 32]).expect("read").as_deref(), Some(&b"old"[..]));
        store.finish_run("a", fence, RunState::Completed, "{}", 1, SAFE).expect("ends");
        assert_eq!(store.drop_unused_images(&[2; 32]).expect("dropped"), 1);
        assert_eq!(
            (store.image(&[1; 32]).expect("read"), store.image(&[2; 32]).expect("read").is_some()),
            (None, true)
        );
    });
}

#[test]
fn calls_settle_once_and_in_an_order() {
    with_store(|store| {
        let fence = store.create_run(&run("a", "s"), "p").expect("made");
        store.note_calls("a", fence, "p", &[call(0), call(1), call(2)], SAFE.into()).expect("noted");
        assert!(store.settle_call("a", "p", 1, "\"first\"", SAFE.into()).expect("settled"));
        assert!(!store.settle_call("a", "p", 1, "\"second\"", SAFE.into()).expect("known"));
        assert!(matches!(store.settle_call("a", "p", 9, "1", SAFE.into()), Err(StoreError::Missing { .. })));
        assert!(store.settle_call("a", "p", 0, "\"later\"", SAFE.into()).expect("settled"));
        // All or none: a settled one cannot be noted again.
        assert!(matches!(
            store.note_calls("a", fence, "p", &[call(3), call(0)], SAFE.into()),
            Err(StoreError::Exists { .. })
        ));
        let calls = store.calls("a").expect("read");
        let states: Vec<_> = calls.iter().map(|call| (call.state, call.outcome.as_deref())).collect();
        let (settled, dispatched) = (CallState::Settled, CallState::Dispatched);
        assert_eq!(states, [(settled, Some("\"later\"")), (settled, Some("\"first\"")), (dispatched, None)]);
        assert!(calls[0].settled > calls[1].settled && calls[2].settled.is_none());
    });
}

#[test]
fn a_call_belongs_to_who_makes_it_even_when_the_run_has_another_owner() {
    with_store(|store| {
        let fence = store.create_run(&run("a", "s"), "p1").expect("made");
        store.note_calls("a", fence, "p1", &[call(0), call(1), call(2)], SAFE.into()).expect("noted");
        let new = store.claim_run("a", fence, "p2").expect("claimed");
        assert!(store.settle_call("a", "p1", 0, "1", SAFE.into()).expect("it is still its call"));
        fenced(store.settle_call("a", "p2", 1, "1", SAFE.into()));
        // Taken over: now it is not.
        store.note_calls("a", new, "p2", &[call(1)], SAFE.into()).expect("taken over");
        fenced(store.settle_call("a", "p1", 1, "1", SAFE.into()));
        assert!(store.settle_call("a", "p2", 1, "2", SAFE.into()).expect("settled"));
        store.disown_calls("a", "p1").expect("given up");
        fenced(store.settle_call("a", "p1", 2, "1", SAFE.into()));
        let outcomes: Vec<_> = store.calls("a").expect("read").into_iter().map(|call| call.outcome).collect();
        assert_eq!(outcomes, [Some("1".to_owned()), Some("2".into()), None]);
    });
}

#[test]
fn questions_are_stored_before_they_are_answered() {
    with_store(|store| {
        store.ask(&question("q1")).expect("asked");
        store.ask(&NewApproval { created_at: 1, expires_at: None, run: None, ..question("q2") }).expect("asked");
        assert!(matches!(store.ask(&question("q1")), Err(StoreError::Exists { .. })));
        assert!(matches!(store.resolve("q9", Decision::Allow, &[], "me", 1), Err(StoreError::Missing { .. })));
        let pending =
            |store: &dyn Store| store.pending_approvals().expect("read").into_iter().map(|a| a.id).collect::<Vec<_>>();
        assert_eq!(pending(store), ["q1", "q2"]);
        let resolved = store.resolve("q2", Decision::Allow, &[], "me", 1 << 60).expect("answered");
        assert!(resolved.applied);
        assert_eq!(
            (resolved.approval.state, resolved.approval.decided_by.as_deref()),
            (ApprovalState::Allowed, Some("me"))
        );
        // The same answer came after the time of the other question.
        assert_eq!(store.approval("q1").expect("there").state, ApprovalState::Expired);
        assert!(pending(store).is_empty());
    });
}

#[test]
fn a_permission_is_found_by_its_call_and_used_once() {
    with_store(|store| {
        let standing = |session, run, digest: &[u8], now| {
            store.standing_question(session, run, digest, now).expect("read").map(|approval| approval.id)
        };
        store.ask(&question("q1")).expect("asked");
        assert_eq!(standing("s", Some("a"), b"digest", 1).as_deref(), Some("q1"));
        for (session, run, digest) in [
            ("other", Some("a"), &b"digest"[..]),
            ("s", Some("b"), b"digest"),
            ("s", None, b"digest"),
            ("s", Some("a"), b"else"),
        ] {
            assert_eq!(standing(session, run, digest, 1), None);
        }
        assert!(!store.use_answer("q1").expect("asked"), "nobody has said yes");
        store.resolve("q1", Decision::Allow, &[], "me", 2).expect("answered");
        assert_eq!(standing("s", Some("a"), b"digest", 5000).as_deref(), Some("q1"), "a yes does not expire");
        assert!(store.use_answer("q1").expect("used"));
        assert!(!store.use_answer("q1").expect("asked"));
        assert_eq!(standing("s", Some("a"), b"digest", 3), None);
        store.ask(&question("q2")).expect("asked");
        assert_eq!(
            standing("s", Some("a"), b"digest", 2000).as_deref(),
            Some("q2"),
            "its time is over, and nobody was told"
        );
        assert!(store.use_answer("q2").expect("told"));
        assert_eq!(standing("s", Some("a"), b"digest", 2000), None);
        store.ask(&NewApproval { run: None, ..question("q4") }).expect("asked");
        assert_eq!(standing("s", None, b"digest", 2000), None, "without a run it is asked anew");
        store.ask(&NewApproval { expires_at: None, ..question("q3") }).expect("asked");
        store.resolve("q3", Decision::Deny, &[], "me", 2).expect("answered");
        assert_eq!(standing("s", Some("a"), b"digest", 3).as_deref(), Some("q3"), "a no waits for its caller too");
        assert!(store.use_answer("q3").expect("used"));
        assert_eq!(standing("s", Some("a"), b"digest", 3), None);
    });
}

/// Allow, deny, cancel, expiry and a repeated allow, in every order of length four: one of them counts, and stays.
#[test]
fn the_first_answer_wins_in_every_order() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Act {
        Answer(Decision),
        Expire,
    }
    let acts = [
        Act::Answer(Decision::Allow),
        Act::Answer(Decision::Deny),
        Act::Answer(Decision::Cancel),
        Act::Expire,
        Act::Answer(Decision::Allow),
    ];
    with_store(|store| {
        for order in 0..acts.len().pow(4) {
            let chosen: Vec<Act> = (0..4u32).map(|place| acts[order / acts.len().pow(place) % acts.len()]).collect();
            let id = format!("q{order}");
            store.ask(&question(&id)).expect("asked");
            let mut winners = Vec::new();
            for act in &chosen {
                let won = match act {
                    Act::Answer(decision) => store.resolve(&id, *decision, &[], "me", 1).expect("answered").applied,
                    Act::Expire => store.expire_approvals(1000).expect("swept").contains(&id),
                };
                if won {
                    winners.push(*act);
                }
                let state = store.approval(&id).expect("there").state;
                let expected = match winners[0] {
                    Act::Answer(Decision::Allow) => ApprovalState::Allowed,
                    Act::Answer(Decision::Deny) => ApprovalState::Denied,
                    Act::Answer(Decision::Cancel) => ApprovalState::Cancelled,
                    Act::Expire => ApprovalState::Expired,
                };
                assert_eq!(state, expected, "{chosen:?}");
            }
            assert_eq!(winners, chosen[..1], "{chosen:?}");
        }
    });
}

#[test]
fn grants_hold_until_they_are_used_up_or_revoked() {
    with_store(|store| {
        let next = GrantKind::Next { run: "a".into(), remaining: 2 };
        store.grant(&NewGrant { id: "g1", tool: "t", kind: next, created_at: 1 }).expect("granted");
        assert_eq!(store.use_grant("t", Some("b")).expect("asked"), None);
        assert_eq!(store.use_grant("t", None).expect("asked"), None);
        assert_eq!(store.use_grant("u", Some("a")).expect("asked"), None);
        for _ in 0..2 {
            assert_eq!(store.use_grant("t", Some("a")).expect("asked").as_deref(), Some("g1"));
        }
        assert_eq!(store.use_grant("t", Some("a")).expect("asked"), None);
        store.grant(&NewGrant { id: "g2", tool: "t", kind: GrantKind::Always, created_at: 2 }).expect("granted");
        assert!(matches!(
            store.grant(&NewGrant { id: "g2", tool: "t", kind: GrantKind::Always, created_at: 2 }),
            Err(StoreError::Exists { .. })
        ));
        for run in [None, Some("a"), Some("z")] {
            assert_eq!(store.use_grant("t", run).expect("asked").as_deref(), Some("g2"));
        }
        assert_eq!(store.grants().expect("listed").len(), 1);
        assert!(store.revoke("g2").expect("revoked") && !store.revoke("g2").expect("gone"));
        assert_eq!(store.use_grant("t", None).expect("asked"), None);
    });
}

#[test]
fn a_key_belongs_to_the_request_that_came_first() {
    with_store(|store| {
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
