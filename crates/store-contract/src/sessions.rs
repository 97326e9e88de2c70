//! What the traits promise about sessions: their keys, their writers, and their end.
use pincer_store::{
    AgentRunState, ClientCall, Fence, NewApproval, NewEntry, NewSession, Session, SessionCommit, SessionKey,
    SessionPage, StoreError, Totals,
};

use crate::session_words::*;
use crate::words::question;
use crate::{Blocking, Fresh};

fn current(store: Blocking<'_>, user: &str, key: &str) -> Option<String> {
    store.current_session(user, key).expect("read").map(|session| session.id.to_string())
}

pub fn a_key_has_one_current_session_per_user(fresh: &Fresh) {
    fresh.with_store(|store| {
        let made = store.create_session(&session("s1", "main")).expect("made");
        assert_eq!((made.user.as_str(), made.key.as_str(), made.is_current), ("me", "main", true));
        assert_eq!((made.entries, made.leaf, made.context_from, made.settings.as_str()), (0, None, 1, "{}"));
        assert_eq!((made.created_at, made.interacted_at, made.updated_at), (10, 10, 10));
        assert_eq!((made.owner, made.active, made.ended, made.agent.as_deref()), (None, None, None, Some("main")));
        exists(store.create_session(&session("s2", "main")));
        exists(store.create_session(&session("s1", "other")));
        let yours = NewSession { user: "you".into(), ..session("s3", "main") };
        store.create_session(&yours).expect("another user has keys of their own");
        assert_eq!(current(store, "me", "main").as_deref(), Some("s1"));
        assert_eq!(current(store, "you", "main").as_deref(), Some("s3"));
        assert_eq!((current(store, "me", "other"), current(store, "none", "main")), (None, None));
        missing(store.session("s2"));
        missing(store.context("s2"));
        missing(store.entries("s2", ALL));
        missing(store.commit_session("s2", Fence::FIRST, &storing([])));
    });
}

pub fn awkward_keys_are_never_mixed_up(fresh: &Fresh) {
    fresh.with_store(|store| {
        let long = "k".repeat(10 << 10);
        let almost = format!("{long}2");
        let keys = [
            "",
            " ",
            "a",
            "A",
            "a ",
            "a/b",
            "a//b",
            "../a",
            "a'b",
            "a\"b",
            "a\\b",
            "a\nb",
            "a\n",
            "a\0b",
            "a\0",
            "\0",
            "%",
            "_",
            "a%",
            "🦀",
            "é",
            "e\u{301}",
            "\u{feff}a",
            ":",
            "a:b",
            "null",
            "1",
            "01",
            &long,
            &almost,
        ];
        for (index, key) in keys.iter().enumerate() {
            for (user, name) in [("a", "of a"), ("a\nb", "of a b"), ("", "of none")] {
                let id = format!("{index} {name}");
                let new = NewSession { user: user.into(), ..session(&id, key) };
                match store.create_session(&new) {
                    Ok(made) => assert_eq!((made.user.as_str(), made.key.as_str()), (user, *key)),
                    Err(error) => panic!("{key:?} of {user:?}: {error}"),
                }
                let mut run = incoming(&id, key);
                (run.user, run.key) = (user.into(), Some((*key).into()));
                assert_eq!(accepted(store, &run).session, id.as_str(), "the session is there already");
            }
        }
        for (index, key) in keys.iter().enumerate() {
            for (user, name) in [("a", "of a"), ("a\nb", "of a b"), ("", "of none")] {
                let id = format!("{index} {name}");
                assert_eq!(current(store, user, key).as_deref(), Some(id.as_str()), "{key:?} of {user:?}");
                let open = store.open_runs(user, key).expect("read");
                assert_eq!(open.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), [id.as_str()], "{key:?}");
                assert_eq!((open[0].session.as_str(), open[0].session_key.as_str()), (id.as_str(), *key));
                let by_key = store.agent_run_with_key(user, key, key).expect("read").expect("there");
                assert_eq!(by_key.id, id.as_str(), "{key:?} of {user:?}");
                let page = SessionPage {
                    user: Some(user.into()),
                    key: Some(SessionKey::from(*key)),
                    limit: 9,
                    ..SessionPage::default()
                };
                let page = store.session_page(&page).expect("read");
                assert_eq!(page.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
            }
        }
    });
}

pub fn only_one_of_two_claimants_gets_a_session(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let seen = one.create_session(&session("s", "main")).expect("made").fence;
        let first = one.claim_session("s", seen, "p1", &storing([message("a")])).expect("claimed");
        assert!(first > seen);
        session_fenced(two.claim_session("s", seen, "p2", &storing([message("b")])));
        let stands = two.session("s").expect("there");
        assert_eq!((stands.owner.expect("owned"), stands.fence, stands.entries), ("p1".into(), first, 1));
        // A claimant that saw the latest proof takes it, also from its owner, and from itself.
        let second = two.claim_session("s", first, "p2", &storing([])).expect("claimed");
        let third = two.claim_session("s", second, "p2", &storing([])).expect("claimed");
        assert!(first < second && second < third);
        assert_eq!(tree(one, "s"), "a:0");
        missing(one.claim_session("none", seen, "p1", &storing([])));
    });
}

pub fn a_stale_writer_can_store_nothing(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let old = held(one, "s", "main");
        commit(one, "s", old, [message("a")]);
        let new = two.claim_session("s", old, "p2", &storing([])).expect("claimed");
        accepted(one, &incoming("r", "main"));
        let before = one.session("s").expect("there");
        let mut all = storing([message("b")]);
        all.settings = Some("{\"a\":1}".into());
        all.runs = vec![change("r", AgentRunState::Running)];
        all.totals.input = 1;
        for stale in [Fence::FIRST, old, Fence(new.0 + 1), Fence(0), Fence(-1)] {
            session_fenced(one.commit_session("s", stale, &all));
            session_fenced(one.commit_session("s", stale, &release()));
            session_fenced(one.claim_session("s", stale, "p1", &all));
            session_fenced(one.reset_session("s", stale, "s2", "why", 200));
            session_fenced(one.delete_session("s", stale));
        }
        assert_eq!(one.session("s").expect("there"), before);
        assert_eq!((tree(one, "s").as_str(), one.agent_run("r").expect("there").state), ("a:0", AgentRunState::Queued));
        missing(one.session("s2"));
        commit(two, "s", new, [message("b")]);
    });
}

pub fn a_commit_is_stored_as_a_whole_or_not_at_all(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        held(store, "other", "other");
        commit(store, "s", fence, [message("a")]);
        accepted(store, &incoming("mine", "main"));
        accepted(store, &incoming("theirs", "other"));
        let mut yours = incoming("yours", "main");
        yours.user = "you".into();
        accepted(store, &yours);
        let before = store.session("s").expect("there");
        let mut all = storing([message("b")]);
        (all.settings, all.interacted_at, all.context_from) = (Some("{\"a\":1}".into()), Some(500), Some(2));
        all.totals = Totals { input: 1, output: 2, cache_read: 3, cache_write: 4, runs: 5, compactions: 6 };
        all.release = true;
        for run in ["none", "theirs", "yours"] {
            let changes = vec![change("mine", AgentRunState::Running), change(run, AgentRunState::Running)];
            missing(store.commit_session("s", fence, &SessionCommit { runs: changes.clone(), ..all.clone() }));
            missing(store.claim_session("s", fence, "p2", &SessionCommit { runs: changes, ..all.clone() }));
        }
        let twice = vec![message("b"), message("a")];
        exists(store.commit_session("s", fence, &SessionCommit { entries: twice, ..all.clone() }));
        assert_eq!(store.session("s").expect("there"), before);
        assert_eq!((tree(store, "s").as_str(), context(store, "s").as_str()), ("a:0", "a"));
        let states = ["mine", "theirs", "yours"].map(|run| store.agent_run(run).expect("there").state);
        assert_eq!(states, [AgentRunState::Queued; 3]);
        all.runs = vec![change("mine", AgentRunState::Running)];
        store.commit_session("s", fence, &all).expect("stored");
        let stands = store.session("s").expect("there");
        assert_eq!((stands.entries, stands.settings.as_str(), stands.interacted_at), (2, "{\"a\":1}", 500));
        assert_eq!((stands.context_from, stands.totals, stands.owner), (2, all.totals, None));
    });
}

pub fn a_release_ends_the_proof_of_its_writer(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        assert_eq!(store.session("s").expect("there").owner.expect("owned"), "p");
        let last = SessionCommit { release: true, ..storing([message("a")]) };
        store.commit_session("s", fence, &last).expect("stored");
        let stands = store.session("s").expect("there");
        assert_eq!((stands.owner, stands.entries), (None, 1));
        session_fenced(store.commit_session("s", fence, &storing([message("b")])));
        session_fenced(store.commit_session("s", fence, &release()));
        // A claim may be all that there is to do.
        let once = SessionCommit { release: true, ..storing([message("b")]) };
        let used = store.claim_session("s", stands.fence, "q", &once).expect("claimed");
        session_fenced(store.commit_session("s", used, &storing([message("c")])));
        let stands = store.session("s").expect("there");
        assert_eq!((stands.owner, tree(store, "s").as_str()), (None, "a:0 b:1"));
        store.claim_session("s", stands.fence, "q", &storing([])).expect("free");
    });
}

pub fn figures_and_times_add_up(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let part = Totals { input: 1, output: 20, cache_read: 300, cache_write: 4000, runs: 1, compactions: 2 };
        let mut add = SessionCommit { totals: part, interacted_at: Some(300), now: 400, ..storing([]) };
        store.commit_session("s", fence, &add).expect("stored");
        (add.interacted_at, add.now) = (Some(200), 350);
        store.commit_session("s", fence, &add).expect("stored");
        store.commit_session("s", fence, &SessionCommit { now: 380, ..storing([]) }).expect("stored");
        let stands = store.session("s").expect("there");
        let all = Totals { input: 2, output: 40, cache_read: 600, cache_write: 8000, runs: 2, compactions: 4 };
        assert_eq!(stands.totals, all);
        assert_eq!((stands.interacted_at, stands.updated_at), (300, 400), "times do not go back");
        assert_eq!((stands.settings.as_str(), stands.leaf, stands.context_from), ("{}", None, 1));
        // A sum that no number holds is the greatest number.
        let most = i64::MAX;
        let totals = Totals { input: most, output: most, cache_read: most, cache_write: most, ..Totals::default() };
        for _ in 0..2 {
            store.commit_session("s", fence, &SessionCommit { totals, ..storing([]) }).expect("stored");
            assert_eq!(store.session("s").expect("there").totals, Totals { runs: 2, compactions: 4, ..totals });
        }
    });
}

pub fn a_reset_begins_another_session_under_the_same_key(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s1", "main");
        for id in ["r1", "r2", "r3"] {
            accepted(store, &incoming(id, "main"));
        }
        let mut first = storing([message("a"), message("b")]);
        first.settings = Some("{\"a\":1}".into());
        first.totals.input = 7;
        store.commit_session("s1", fence, &first).expect("stored");
        store.rename_session("s1", Some("name"), 100).expect("named");
        turn(store, "s1", fence, "r1", AgentRunState::Running);
        turn(store, "s1", fence, "r1", AgentRunState::Done);
        exists(store.reset_session("s1", fence, "s1", "again", 600));
        assert!(store.session("s1").expect("there").is_current, "nothing of it was stored");

        let next = store.reset_session("s1", fence, "s2", "daily", 600).expect("reset");
        assert_eq!((next.id.as_str(), next.user.as_str(), next.key.as_str()), ("s2", "me", "main"));
        assert_eq!((next.is_current, next.parent, next.owner), (true, Some("s1".into()), Some("p".into())));
        assert_eq!((next.entries, next.leaf, next.context_from, next.totals), (0, None, 1, Totals::default()));
        assert_eq!(
            (next.settings.as_str(), next.label.as_deref(), next.agent.as_deref()),
            ("{\"a\":1}", Some("name"), Some("main"))
        );
        assert!(next.fence > fence);
        assert_eq!(current(store, "me", "main").as_deref(), Some("s2"));
        let old = store.session("s1").expect("kept");
        assert_eq!((old.is_current, old.ended.as_deref(), old.owner, old.active), (false, Some("daily"), None, None));
        assert_eq!(
            (tree(store, "s1").as_str(), context(store, "s1").as_str(), old.totals.input),
            ("a:0 b:1", "a b", 7)
        );

        let runs = |id| store.runs_of_session(id, 9).expect("read").into_iter().map(|run| run.id.to_string());
        assert_eq!(runs("s1").collect::<Vec<_>>(), ["r1"]);
        assert_eq!(runs("s2").collect::<Vec<_>>(), ["r3", "r2"]);
        // The proof of the old one is worth nothing in either.
        for proof in [fence, old.fence] {
            session_fenced(store.commit_session("s1", proof, &storing([message("c")])));
            session_fenced(store.claim_session("s1", proof, "q", &storing([])));
            session_fenced(store.reset_session("s1", proof, "s3", "again", 700));
        }
        session_fenced(store.delete_session("s1", fence));
        session_fenced(store.commit_session("s2", fence, &storing([message("c")])));
        turn(store, "s2", next.fence, "r2", AgentRunState::Running);
        assert_eq!(store.session("s2").expect("there").active, Some("r2".into()));
        store.delete_session("s1", old.fence).expect("deleted");
        assert_eq!(current(store, "me", "main").as_deref(), Some("s2"));
        // A run that has begun stays behind, until the new one takes it.
        let last = store.reset_session("s2", next.fence, "s3", "again", 700).expect("reset");
        assert_eq!(
            (runs("s2").collect::<Vec<_>>(), runs("s3").collect::<Vec<_>>()),
            (vec!["r2".into()], vec!["r3".into()])
        );
        assert_eq!(store.session("s2").expect("there").active, None);
        turn(store, "s3", last.fence, "r2", AgentRunState::Done);
        assert_eq!(runs("s3").collect::<Vec<_>>(), ["r3", "r2"]);
    });
}

pub fn a_session_is_renamed(fresh: &Fresh) {
    fresh.with_store(|store| {
        held(store, "s", "main");
        store.rename_session("s", Some("it's \"mine\"\n🦀"), 300).expect("named");
        let named = store.session("s").expect("there");
        assert_eq!((named.label.as_deref(), named.updated_at), (Some("it's \"mine\"\n🦀"), 300));
        assert_eq!(named.owner.expect("owned"), "p", "its writer goes on");
        store.rename_session("s", None, 200).expect("unnamed");
        let unnamed = store.session("s").expect("there");
        assert_eq!((unnamed.label, unnamed.updated_at), (None, 300));
        missing(store.rename_session("none", None, 1));
    });
}

pub fn settings_are_those_of_the_current_session(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s1", "main");
        store.create_session(&NewSession { user: "you".into(), ..session("yours", "main") }).expect("made");
        store.set_session_settings("me", "main", "{\"a\":1}", 300).expect("set");
        let stands = store.session("s1").expect("there");
        assert_eq!((stands.settings.as_str(), stands.updated_at), ("{\"a\":1}", 300));
        assert_eq!((stands.fence, stands.owner), (fence, Some("p".into())), "its writer goes on");
        assert_eq!(store.session("yours").expect("there").settings, "{}");
        store.reset_session("s1", fence, "s2", "daily", 400).expect("reset");
        store.set_session_settings("me", "main", "{\"a\":2}", 350).expect("set");
        let settings = ["s1", "s2"].map(|id| store.session(id).expect("there").settings);
        assert_eq!(settings, ["{\"a\":1}", "{\"a\":2}"]);
        assert_eq!(store.session("s2").expect("there").updated_at, 400, "times do not go back");
        missing(store.set_session_settings("me", "none", "{}", 1));
        missing(store.set_session_settings("none", "main", "{}", 1));
    });
}

fn asked(run: &str) -> ClientCall {
    let (name, arguments) = ("tool".into(), "{}".into());
    ClientCall { id: "c".into(), run: run.into(), name, arguments, created_at: 1, result: None }
}

/// Makes a session with an entry, and two runs of it, one of which runs with a question and a call of its client.
fn with_work(store: Blocking<'_>, name: &str) -> Fence {
    let fence = held(store, &format!("s_{name}"), name);
    let (running, queued) = (format!("r1_{name}"), format!("r2_{name}"));
    accepted(store, &incoming(&running, name));
    accepted(store, &incoming(&queued, name));
    let text: NewEntry = NewEntry { body: "{\"message\":\"needle\"}".into(), ..message("a") };
    commit(store, &format!("s_{name}"), fence, [text]);
    turn(store, &format!("s_{name}"), fence, &running, AgentRunState::Running);
    store.ask_client(&asked(&running)).expect("asked");
    let id = format!("q_{name}");
    store.ask(&NewApproval { run: Some(running.as_str().into()), ..question(&id) }).expect("asked");
    fence
}

pub fn a_deleted_session_takes_all_that_is_of_it_along(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = with_work(store, "gone");
        with_work(store, "kept");
        for run in ["r1_gone", "r2_gone"] {
            turn(store, "s_gone", fence, run, AgentRunState::Aborted);
        }
        store.delete_session("s_gone", fence).expect("deleted");
        missing(store.delete_session("s_gone", fence));
        missing(store.session("s_gone"));
        for run in ["r1_gone", "r2_gone"] {
            missing(store.agent_run(run));
            assert_eq!(store.client_calls(run).expect("read"), []);
            missing(store.answer_client(run, "c", "1"));
        }
        assert_eq!(store.open_runs("me", "gone").expect("read"), []);
        assert_eq!(store.sessions_with_work().expect("read"), [("me".into(), "kept".into())]);
        missing(store.approval("q_gone"));
        let found = store.search_entries(None, &["needle"], 9).expect("read");
        assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["s_kept"]);
        assert_eq!(store.client_calls("r1_kept").expect("read").len(), 1);
        assert_eq!(store.pending_approvals().expect("read").len(), 1);
        // The key is free for another one, which has nothing of it.
        let again = store.create_session(&session("s_again", "gone")).expect("free");
        assert_eq!((again.entries, tree(store, "s_again").as_str()), (0, ""));
    });
}

pub fn a_session_with_a_message_that_has_not_ended_is_not_deleted(fresh: &Fresh) {
    fresh.with_two(|store, other| {
        let fence = held(store, "s", "main");
        commit(store, "s", fence, [message("a")]);
        let refused = |what: &str| {
            let result = store.delete_session("s", fence);
            assert!(matches!(result, Err(StoreError::SessionBusy { .. })), "{what}: {result:?}");
            assert_eq!((tree(store, "s").as_str(), other.agent_run("r").is_ok()), ("a:0", true), "{what}");
        };
        // Accepting a message needs no proof, so another process may do it at any time.
        accepted(other, &incoming("r", "main"));
        refused("queued");
        turn(store, "s", fence, "r", AgentRunState::Running);
        refused("running");
        turn(store, "s", fence, "r", AgentRunState::Waiting);
        refused("waiting");
        turn(store, "s", fence, "r", AgentRunState::Done);
        store.delete_session("s", fence).expect("deleted");
        missing(other.agent_run("r"));
    });
}

fn page(store: Blocking<'_>, page: &SessionPage) -> Vec<Session> {
    store.session_page(page).expect("read")
}

pub fn sessions_are_listed_in_pages_without_gaps(fresh: &Fresh) {
    fresh.with_store(|store| {
        for index in 0..23 {
            let mut new = session(&format!("s{index:02}"), &format!("k{index}"));
            // Many of them changed at the same time.
            (new.created_at, new.user) = (100 + index / 10, if index % 5 == 0 { "you" } else { "me" }.into());
            store.create_session(&new).expect("made");
        }
        let fence = store.claim_session("s01", Fence::FIRST, "p", &SessionCommit::default()).expect("claimed");
        store.reset_session("s01", fence, "t01", "reset", 101).expect("reset");
        let names = |listed: &[Session]| listed.iter().map(|session| session.id.to_string()).collect::<Vec<_>>();
        for (user, with_ended, count) in
            [(None, false, 23), (None, true, 24), (Some("me"), true, 19), (Some("you"), false, 5)]
        {
            let all = SessionPage { user: user.map(Into::into), with_ended, limit: 1000, ..SessionPage::default() };
            let whole = page(store, &all);
            assert_eq!(whole.len(), count);
            assert!(whole.windows(2).all(|two| (two[0].updated_at, &two[0].id) > (two[1].updated_at, &two[1].id)));
            let (mut paged, mut before) = (Vec::new(), None);
            loop {
                let part = page(store, &SessionPage { before, limit: 3, ..all.clone() });
                let Some(last) = part.last() else { break };
                before = Some((last.updated_at, last.id.clone()));
                paged.extend(part);
            }
            assert_eq!(names(&paged), names(&whole), "{user:?}");
        }
        let of_key = SessionPage { key: Some("k1".into()), with_ended: true, limit: 9, ..SessionPage::default() };
        assert_eq!(names(&page(store, &of_key)), ["t01", "s01"]);
        assert_eq!(names(&page(store, &SessionPage { with_ended: false, ..of_key.clone() })), ["t01"]);
        assert_eq!(page(store, &SessionPage { limit: 0, ..of_key }), []);
    });
}

pub fn only_sessions_without_a_writer_and_work_are_forgotten(fresh: &Fresh) {
    fresh.with_store(|store| {
        let old = |id: &str| NewSession { created_at: 1, ..session(id, id) };
        for id in ["idle", "late", "owned", "active", "queued", "ended"] {
            store.create_session(&old(id)).expect("made");
        }
        let early = SessionCommit { now: 5, ..SessionCommit::default() };
        let with_run = |id: &str, states: &[AgentRunState]| {
            accepted(store, &incoming(&format!("r_{id}"), id));
            let fence = store.claim_session(id, Fence::FIRST, "p", &early).expect("claimed");
            let runs = states.iter().map(|state| change(&format!("r_{id}"), *state)).collect();
            store.commit_session(id, fence, &SessionCommit { runs, release: true, ..early.clone() }).expect("stored");
        };
        store.claim_session("owned", Fence::FIRST, "p", &early).expect("claimed");
        with_run("active", &[AgentRunState::Waiting]);
        with_run("queued", &[]);
        with_run("ended", &[AgentRunState::Running, AgentRunState::Done]);
        store.rename_session("late", None, 10).expect("changed");
        assert_eq!(store.forget_sessions(10).expect("forgotten"), 2);
        assert_eq!(store.forget_sessions(10).expect("forgotten"), 0);
        let is_there = |id: &str| match store.session(id) {
            Ok(_) => true,
            Err(StoreError::Missing { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        let left = ["idle", "late", "owned", "active", "queued", "ended"].map(is_there);
        assert_eq!(left, [false, true, true, true, true, false]);
        missing(store.agent_run("r_ended"));
        assert_eq!(store.forget_sessions(11).expect("forgotten"), 1);
    });
}
