//! What the traits promise about questions, answers and grants.
use pincer_store::{ApprovalState, Asked, Decision, Grant, GrantKind, NewApproval, Permission, StoreError};

use crate::words::*;
use crate::{Blocking, Fresh};

/// The call that the questions here are about.
fn asked(seq: u32) -> Asked {
    Asked {
        session: "s".into(),
        user: "me".into(),
        call: Some(("a".into(), seq)),
        digest: b"digest".into(),
        fingerprint: b"print".into(),
    }
}

fn standing(store: Blocking<'_>, asked: &Asked, now: i64) -> Option<String> {
    store.standing_question(asked, now).expect("read").map(|approval| approval.id.to_string())
}

pub fn questions_are_stored_before_they_are_answered(fresh: &Fresh) {
    fresh.with_store(|store| {
        store.ask(&question("q1")).expect("asked");
        let free = NewApproval { created_at: 1, expires_at: None, run: None, seq: None, ..question("q2") };
        store.ask(&free).expect("asked");
        assert!(matches!(store.ask(&question("q1")), Err(StoreError::Exists { .. })));
        assert!(matches!(store.resolve("q9", Decision::Allow, &[], "me", 1), Err(StoreError::Missing { .. })));
        let stored = store.approval("q1").expect("there");
        assert_eq!((stored.seq, stored.fingerprint.as_deref()), (Some(0), Some(&b"print"[..])));
        let pending = |store: Blocking<'_>| {
            store.pending_approvals().expect("read").into_iter().map(|a| a.id).collect::<Vec<_>>()
        };
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

pub fn the_question_of_a_call_is_found_by_its_run_and_number(fresh: &Fresh) {
    fresh.with_store(|store| {
        store.ask(&question("q1")).expect("asked");
        assert_eq!(standing(store, &asked(0), 1).as_deref(), Some("q1"));
        for other in [
            asked(1),
            Asked { call: Some(("b".into(), 0)), ..asked(0) },
            Asked { call: None, ..asked(0) },
            Asked { user: "you".into(), ..asked(0) },
            Asked { digest: b"else".into(), ..asked(0) },
            Asked { fingerprint: b"changed".into(), ..asked(0) },
        ] {
            assert_eq!(standing(store, &other, 1), None, "{other:?}");
        }
        assert!(!store.use_answer("q1").expect("asked"), "nobody has said yes");
        store.resolve("q1", Decision::Allow, &[], "me", 2).expect("answered");
        // Its call finds it for as long as it has not been made, however late, and after a crash again.
        assert_eq!(standing(store, &asked(0), 5000).as_deref(), Some("q1"), "a yes does not expire");
        assert_eq!(standing(store, &asked(0), 5000).as_deref(), Some("q1"));
        // The latest question of the call counts, also one whose time is over: its caller is told.
        store.ask(&NewApproval { created_at: 5, ..question("q2") }).expect("asked");
        assert_eq!(standing(store, &asked(0), 999).as_deref(), Some("q2"));
        assert_eq!(standing(store, &asked(0), 2000).as_deref(), Some("q2"));
        assert_eq!(store.approval("q2").expect("there").state, ApprovalState::Expired);
        // One that was withdrawn is none.
        store.ask(&NewApproval { created_at: 6, expires_at: None, ..question("q3") }).expect("asked");
        store.resolve("q3", Decision::Cancel, &[], "me", 2).expect("withdrawn");
        assert_eq!(standing(store, &asked(0), 2000).as_deref(), Some("q2"));
    });
}

pub fn an_answer_without_a_run_is_used_once(fresh: &Fresh) {
    fresh.with_store(|store| {
        let free = || Asked { call: None, ..asked(0) };
        let ask = |id| store.ask(&NewApproval { run: None, seq: None, ..question(id) }).expect("asked");
        ask("q1");
        assert_eq!(standing(store, &free(), 1).as_deref(), Some("q1"));
        for other in [
            Asked { session: "other".into(), ..free() },
            Asked { user: "you".into(), ..free() },
            asked(0),
            Asked { digest: b"else".into(), ..free() },
            Asked { fingerprint: b"changed".into(), ..free() },
        ] {
            assert_eq!(standing(store, &other, 1), None, "{other:?}");
        }
        store.resolve("q1", Decision::Allow, &[], "me", 2).expect("answered");
        assert_eq!(standing(store, &free(), 5000).as_deref(), Some("q1"), "a yes does not expire");
        assert!(store.use_answer("q1").expect("used"));
        assert!(!store.use_answer("q1").expect("asked"));
        assert_eq!(standing(store, &free(), 3), None);
        ask("q2");
        assert_eq!(standing(store, &free(), 2000), None, "it is asked anew");
        ask("q3");
        store.resolve("q3", Decision::Deny, &[], "me", 2).expect("answered");
        assert_eq!(standing(store, &free(), 3).as_deref(), Some("q3"), "a no waits for its caller too");
        assert!(store.use_answer("q3").expect("used"));
        assert_eq!(standing(store, &free(), 3), None);
    });
}

/// Allow, deny, cancel, expiry and a repeated allow, in every order of length four: one of them counts, and stays.
pub fn the_first_answer_wins_in_every_order(fresh: &Fresh) {
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
    fresh.with_store(|store| {
        for order in 0..acts.len().pow(4) {
            let chosen: Vec<Act> = (0..4u32).map(|place| acts[order / acts.len().pow(place) % acts.len()]).collect();
            let id = format!("q{order}");
            store.ask(&question(&id)).expect("asked");
            let mut winners = Vec::new();
            for act in &chosen {
                let won = match act {
                    Act::Answer(decision) => store.resolve(&id, *decision, &[], "me", 1).expect("answered").applied,
                    Act::Expire => store.expire_approvals(1000).expect("swept").contains(&id.as_str().into()),
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

pub fn an_answer_and_what_it_grants_are_one_step(fresh: &Fresh) {
    fresh.with_store(|store| {
        let always = |id: &str| Grant {
            id: id.into(),
            tool: "t".into(),
            fingerprint: None,
            user: Some("me".into()),
            kind: GrantKind::Always,
            created_at: 1,
        };
        store.grant(&always("g1")).expect("granted");
        store.ask(&question("q")).expect("asked");
        let clash = store.resolve("q", Decision::Allow, &[always("g2"), always("g1")], "me", 1);
        assert!(matches!(clash, Err(StoreError::Exists { what: "grant", .. })));
        assert_eq!(store.approval("q").expect("there").state, ApprovalState::Pending);
        assert_eq!(store.grants().expect("read").len(), 1);
        assert!(store.resolve("q", Decision::Allow, &[always("g2")], "me", 1).expect("answered").applied);
        assert!(!store.resolve("q", Decision::Allow, &[always("g3")], "me", 1).expect("too late").applied);
        assert_eq!(store.grants().expect("read").len(), 2);
    });
}

pub fn grants_hold_for_their_tool_as_it_was(fresh: &Fresh) {
    fresh.with_store(|store| {
        let of = |tool: &str, print: &[u8], run: Option<&str>| {
            let found = store.grants_for(tool, print, "me", run).expect("read");
            found.into_iter().map(|grant| grant.id.to_string()).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        let of_another = || store.grants_for("t", b"print", "you", Some("a")).expect("read").len();
        let grant = |id: &str, fingerprint: Option<&[u8]>, kind, created_at| {
            store
                .grant(&Grant {
                    id: id.into(),
                    tool: "t".into(),
                    fingerprint: fingerprint.map(<[u8]>::to_vec),
                    user: Some("me".into()),
                    kind,
                    created_at,
                })
                .expect("granted");
        };
        grant("next", Some(&b"print"[..]), GrantKind::Next { run: "a".into(), remaining: 2 }, 1);
        assert_eq!(of("t", b"print", Some("a")), ["next"]);
        for (tool, print, run) in
            [("t", b"print", Some("b")), ("t", b"print", None), ("u", b"print", Some("a")), ("t", b"other", Some("a"))]
        {
            assert_eq!(of(tool, print, run), none, "{tool} {run:?}");
        }
        grant("always", Some(&b"print"[..]), GrantKind::Always, 2);
        assert_eq!(
            (of("t", b"print", Some("a")), of("t", b"print", None)),
            (vec!["next".into(), "always".into()], vec!["always".into()])
        );
        assert_eq!(of("t", b"other", None), none);
        assert_eq!(of_another(), 0, "it is for its user");
        // A grant of an earlier version knows no fingerprint, and holds for every tool of this id.
        grant("earlier", None, GrantKind::Always, 3);
        assert_eq!(
            (of("t", b"print", None), of("t", b"other", None)),
            (vec!["always".into(), "earlier".into()], vec!["earlier".into()])
        );
        assert_eq!(of("u", b"print", None), none);
        let again = Grant {
            id: "always".into(),
            tool: "t".into(),
            fingerprint: None,
            user: Some("me".into()),
            kind: GrantKind::Always,
            created_at: 2,
        };
        assert!(matches!(store.grant(&again), Err(StoreError::Exists { .. })));
        assert!(store.revoke("always").expect("revoked") && !store.revoke("always").expect("gone"));
        assert_eq!(of("t", b"print", None), ["earlier"]);
        assert_eq!(store.grants().expect("listed").len(), 2);
    });
}

pub fn questions_of_earlier_versions_cover_their_call_whatever_the_tool_is_now(fresh: &Fresh) {
    fresh.with_store(|store| {
        store.ask(&NewApproval { fingerprint: None, ..question("q1") }).expect("asked");
        assert_eq!(standing(store, &asked(0), 1).as_deref(), Some("q1"));
        assert_eq!(standing(store, &Asked { fingerprint: b"changed".into(), ..asked(0) }, 1).as_deref(), Some("q1"));
    });
}

pub fn the_questions_of_a_run_are_listed_unless_withdrawn(fresh: &Fresh) {
    fresh.with_store(|store| {
        let ask = |id: &str, run: Option<&str>, created_at| {
            let new = NewApproval { run: run.map(Into::into), created_at, expires_at: Some(50), ..question(id) };
            store.ask(&new).expect("asked");
        };
        for (id, created_at) in [("late", 9), ("b", 5), ("a", 5), ("denied", 2), ("withdrawn", 1)] {
            ask(id, Some("r"), created_at);
        }
        ask("other", Some("r2"), 1);
        ask("free", None, 1);
        store.resolve("denied", Decision::Deny, &[], "me", 10).expect("answered");
        store.resolve("a", Decision::Allow, &[], "me", 10).expect("answered");
        store.resolve("withdrawn", Decision::Cancel, &[], "me", 10).expect("answered");
        assert_eq!(store.questions_of("r").expect("read"), ["denied", "a", "b", "late"]);
        store.expire_approvals(50).expect("closed");
        assert_eq!(store.questions_of("r").expect("read"), ["denied", "a", "b", "late"]);
        assert_eq!(store.questions_of("r2").expect("read"), ["other"]);
        assert_eq!(store.questions_of("none").expect("read"), [""; 0]);
    });
}

pub fn a_permission_is_spent_for_one_call(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        for (id, decision) in [
            ("yes", Some(Decision::Allow)),
            ("no", Some(Decision::Deny)),
            ("gone", Some(Decision::Cancel)),
            ("open", None),
        ] {
            one.ask(&NewApproval { expires_at: None, ..question(id) }).expect("asked");
            if let Some(decision) = decision {
                one.resolve(id, decision, &[], "me", 1).expect("answered");
            }
        }
        let spend = |run, seq, permission: &Permission| two.spend(run, seq, permission.clone()).expect("asked");
        let answer = |id: &str| Permission::Answer(id.into());
        assert!(spend("a", 9, &Permission::Free) && spend("a", 9, &Permission::Free));
        for id in ["no", "gone", "open", "none"] {
            assert!(!spend("a", 0, &answer(id)), "{id}");
        }
        let is_used = || one.approval("yes").expect("there").is_used;
        assert!(!spend("a", 1, &answer("yes")) && !spend("b", 0, &answer("yes")) && !is_used());
        assert!(spend("a", 0, &answer("yes")) && is_used());
        assert!(spend("a", 0, &answer("yes")), "it is for this call, also if that is made again");

        let grant = |id: &str, kind| {
            let (id, tool) = (id.into(), "t".into());
            one.grant(&Grant { id, tool, fingerprint: None, user: None, kind, created_at: 0 }).expect("granted");
        };
        grant("two", GrantKind::Next { run: "a".into(), remaining: 2 });
        let counted = Permission::Counted("two".into());
        assert!(!spend("b", 0, &counted), "it is for another run");
        let spent = [0, 1, 2].map(|seq| spend("a", seq, &counted));
        assert_eq!((spent, one.grants().expect("read").len()), ([true, true, false], 0));

        grant("one", GrantKind::Always);
        grant("other", GrantKind::Always);
        let both = Permission::Standing(vec!["one".into(), "other".into()]);
        assert!(spend("a", 0, &both) && spend("b", 7, &both), "it is not used up");
        // A call that a grant allows must not look as if it waited for its question.
        one.ask(&NewApproval { seq: Some(5), expires_at: None, ..question("late") }).expect("asked");
        assert!(spend("a", 5, &both));
        let late = one.approval("late").expect("there");
        assert_eq!((late.state, late.is_used), (ApprovalState::Cancelled, true));
        one.revoke("other").expect("revoked");
        assert!(!spend("a", 0, &both) && spend("a", 0, &Permission::Standing(vec!["one".into()])));
    });
}
