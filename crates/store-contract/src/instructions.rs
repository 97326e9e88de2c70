//! The promises of the traits about the instructions of models.
use pincer_store::{Fence, Frame, NewFrame, SessionCommit};

use crate::Fresh;
use crate::session_words::*;

fn listing(skills: &str) -> SessionCommit {
    SessionCommit { skills: Some(skills.into()), ..storing([]) }
}

pub fn the_skills_of_a_session_are_its_own_and_are_stored_by_its_writer(fresh: &Fresh) {
    fresh.with_two(|store, elsewhere| {
        let seen = store.create_session(&session("s", "main")).expect("made").fence;
        store.create_session(&session("t", "other")).expect("made");
        let fence = store.claim_session("s", seen, "p", &storing([])).expect("claimed");
        assert_eq!(store.listed_skills("s").expect("read"), None);
        store.commit_session("s", fence, &listing("[1]")).expect("stored");
        store.commit_session("s", fence, &storing([message("a")])).expect("stored");
        assert_eq!(elsewhere.listed_skills("s").expect("read").as_deref(), Some("[1]"), "another commit keeps it");
        store.commit_session("s", fence, &listing("[2]")).expect("stored");
        session_fenced(store.commit_session("s", Fence::FIRST, &listing("[3]")));
        assert_eq!(store.listed_skills("s").expect("read").as_deref(), Some("[2]"));
        assert_eq!(store.listed_skills("t").expect("read"), None);
        missing(store.listed_skills("none"));
        let last = store.entries("s", ALL).expect("read").last().expect("an entry").position;
        store.fork_session("s", last, &session("f", "fork")).expect("forked");
        assert_eq!(store.listed_skills("f").expect("read").as_deref(), Some("[2]"), "a fork begins in the same way");
        let next = store.reset_session("s", fence, "s2", "new", 50).expect("reset");
        assert_eq!(store.listed_skills(next.id.as_str()).expect("read"), None, "a new conversation lists them anew");
    });
}

pub fn a_workspace_has_begun_for_all_sessions_with_the_commit_that_says_so(fresh: &Fresh) {
    fresh.with_two(|store, elsewhere| {
        let seen = store.create_session(&session("s", "main")).expect("made").fence;
        let fence = store.claim_session("s", seen, "p", &storing([])).expect("claimed");
        let begun = SessionCommit { begun_workspace: Some("/place".into()), ..storing([]) };
        session_fenced(store.commit_session("s", Fence::FIRST, &begun));
        assert!(!store.is_begun("/place").expect("read"));
        store.commit_session("s", fence, &begun).expect("stored");
        store.commit_session("s", fence, &begun).expect("stored again");
        assert!(elsewhere.is_begun("/place").expect("read"));
        assert!(!store.is_begun("/place/").expect("read") && !store.is_begun("").expect("read"));
        store.delete_session("s", fence).expect("deleted");
        assert!(store.is_begun("/place").expect("read"), "the workspace outlives the session");
    });
}

fn framed(body: &str, detail: &str) -> SessionCommit {
    let frame = NewFrame {
        digest: body.as_bytes().to_vec(),
        body: format!("\"{body}\"").into(),
        detail: detail.into(),
        run: "ar_1".into(),
    };
    SessionCommit { frame: Some(frame), ..storing([]) }
}

pub fn a_frame_is_stored_when_it_changes_and_sessions_share_its_body(fresh: &Fresh) {
    fresh.with_store(|store| {
        let (fence, other) = (held(store, "s", "main"), held(store, "t", "other"));
        let frames = |id: &str| store.frames(id, 0, 100).expect("read");
        assert_eq!(frames("s"), []);
        let first = SessionCommit { entries: vec![message("a")], ..framed("one", "{}") };
        store.commit_session("s", fence, &first).expect("stored");
        store.commit_session("s", fence, &framed("one", "{}")).expect("stored");
        store.commit_session("s", fence, &storing([message("b")])).expect("stored");
        store.commit_session("s", fence, &framed("one", "{1}")).expect("stored");
        store.commit_session("s", fence, &framed("two", "{1}")).expect("stored");
        store.commit_session("s", fence, &framed("one", "{}")).expect("stored");
        store.commit_session("t", other, &framed("one", "{}")).expect("stored");
        let shown = |frame: &Frame| (frame.position, frame.digest.clone(), frame.detail.clone());
        let shown: Vec<_> = frames("s").iter().map(shown).collect();
        let expected = [(1, "one", "{}"), (3, "one", "{1}"), (3, "two", "{1}"), (3, "one", "{}")];
        assert_eq!(shown, expected.map(|(at, body, detail)| (at, body.as_bytes().to_vec(), detail.to_owned())));
        assert_eq!((frames("s")[0].run.as_str(), frames("s")[0].at), ("ar_1", 100));
        let second = frames("s")[1].number;
        assert_eq!(store.frames("s", second, 1).expect("read"), frames("s")[2..3]);
        missing(store.frames("none", 0, 1));

        let body = |digest: &str| store.frame_body(digest.as_bytes()).expect("read");
        assert_eq!((body("one").as_deref(), body("three")), (Some("\"one\""), None));
        store.delete_session("s", fence).expect("deleted");
        assert_eq!((body("one").as_deref(), body("two")), (Some("\"one\""), None), "a body stays while one has it");
        store.delete_session("t", other).expect("deleted");
        assert_eq!(body("one"), None);
    });
}
