//! The promises of the traits about the instructions of models.
use pincer_store::{Fence, SessionCommit};

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
