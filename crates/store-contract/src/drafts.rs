//! What the traits promise about sessions that are filled before a key means them.
use pincer_store::{Fence, SessionPage};

use crate::session_words::*;
use crate::{Blocking, Fresh};

fn listed(store: Blocking<'_>) -> Vec<String> {
    let page = SessionPage { with_ended: true, limit: 9, ..SessionPage::default() };
    store.session_page(&page).expect("read").into_iter().map(|session| session.id.to_string()).collect()
}

fn drafts(store: Blocking<'_>) -> Vec<String> {
    store.drafts().expect("read").into_iter().map(|session| session.id.to_string()).collect()
}

pub fn a_draft_is_seen_when_it_is_published_and_not_before(fresh: &Fresh) {
    fresh.with_two(|store, other| {
        let draft = store.draft_session(&session("d", "main"), "p").expect("made");
        assert_eq!((draft.is_current, draft.ended, draft.owner), (false, None, Some("p".into())));
        commit(store, "d", draft.fence, [message("needle"), message("b")]);
        commit(store, "d", draft.fence, [message("c")]);
        assert_eq!(other.current_session("me", "main").expect("read"), None);
        assert_eq!((listed(other), drafts(other)), (vec![], vec!["d".to_owned()]));
        assert_eq!(other.search_entries(None, &["needle"], 9).expect("read"), []);
        session_fenced(other.claim_session("d", draft.fence, "q", &storing([])));
        session_fenced(other.reset_session("d", draft.fence, "s", "why", 60));
        session_fenced(other.publish_session("d", Fence(draft.fence.0 + 1), 60));
        assert_eq!(other.forget_sessions(1000).expect("looked"), 0);

        let made = store.publish_session("d", draft.fence, 200).expect("published");
        assert_eq!((made.is_current, &made.owner, made.entries, made.leaf), (true, &None, 3, Some(3)));
        assert_eq!((made.created_at, made.interacted_at, made.updated_at), (10, 200, 200));
        assert!(made.fence > draft.fence);
        assert_eq!(other.current_session("me", "main").expect("read"), Some(made.clone()));
        assert_eq!((listed(other), drafts(other)), (vec!["d".to_owned()], vec![]));
        assert_eq!(other.search_entries(None, &["needle"], 9).expect("read").len(), 1);
        // The proof of its writer has ended, and it is published once.
        session_fenced(store.commit_session("d", draft.fence, &storing([message("x")])));
        session_fenced(store.delete_session("d", draft.fence));
        session_fenced(store.publish_session("d", made.fence, 300));
        exists(store.draft_session(&session("e", "main"), "p"));
        exists(store.draft_session(&session("d", "other"), "p"));
        missing(store.publish_session("none", Fence::FIRST, 1));
    });
}

pub fn a_message_under_the_key_of_a_draft_is_never_lost(fresh: &Fresh) {
    fresh.with_two(|store, other| {
        let draft = store.draft_session(&session("d", "main"), "p").expect("made");
        commit(store, "d", draft.fence, [message("a")]);
        let run = accepted(other, &incoming("r", "main"));
        assert_eq!(run.session, "ses_of_r", "it is not mixed with what is not there yet");
        exists(store.publish_session("d", draft.fence, 60));
        store.delete_session("d", draft.fence).expect("deleted");
        assert_eq!(other.agent_run("r").expect("there"), run);
        assert_eq!((listed(other), drafts(other)), (vec!["ses_of_r".to_owned()], vec![]));
    });
}

pub fn drafts_of_one_key_do_not_disturb_each_other(fresh: &Fresh) {
    fresh.with_two(|store, other| {
        let one = store.draft_session(&session("one", "main"), "p").expect("made");
        let two = other.draft_session(&session("two", "main"), "q").expect("made");
        commit(store, "one", one.fence, [message("a")]);
        commit(other, "two", two.fence, [message("b")]);
        other.publish_session("two", two.fence, 60).expect("published");
        exists(store.publish_session("one", one.fence, 70));
        store.delete_session("one", one.fence).expect("deleted");
        assert_eq!((tree(store, "two").as_str(), listed(store)), ("b:0", vec!["two".to_owned()]));
    });
}
