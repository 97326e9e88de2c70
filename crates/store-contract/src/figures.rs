//! The figures of runs: small rows beside them, to be summed.

use pincer_store::AgentRunState::{Done, Running, Waiting};
use pincer_store::{FiguresPage, NewAgentRun, RunChange, SessionCommit};

use crate::session_words::{accepted, change, changing, held, incoming, storing};
use crate::{Blocking, Fresh};

/// The figures of a page, as `run=figures`.
fn told(store: Blocking<'_>, page: &FiguresPage) -> Vec<String> {
    let page = store.run_figures(page).expect("read");
    page.iter().map(|row| format!("{}={} at {}", row.run, row.figures.as_deref().unwrap_or("?"), row.at)).collect()
}

fn all() -> FiguresPage {
    FiguresPage { user: "me".into(), key: None, after: (0, -1), limit: 100 }
}

pub fn figures_take_the_place_of_those_before_and_go_with_the_run(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        accepted(store, &incoming("r", "main"));
        let at = |now, figures: Option<&str>, state| {
            let change = RunChange { figures: figures.map(Into::into), ..change("r", state) };
            let commit = SessionCommit { now, ..changing([change]) };
            store.commit_session("s", fence, &commit).expect("stored");
        };
        at(100, None, Running);
        assert_eq!(told(store, &all()), [""; 0]);
        at(200, Some("1"), Waiting);
        at(300, None, Running);
        assert_eq!(told(store, &all()), ["r=1 at 200"]);
        at(400, Some("2"), Done);
        assert_eq!(told(store, &all()), ["r=2 at 400"], "once, and the latest");
        let of_session = store.figures_of_session("s", -1, 9).expect("read");
        assert_eq!((of_session.len(), of_session[0].figures.as_deref()), (1, Some("2")));
        assert_eq!(of_session[0].session_key, "main");
        store.delete_session("s", fence).expect("deleted");
        assert_eq!(told(store, &all()), [""; 0]);
    });
}

pub fn figures_are_read_in_pages_by_user_session_and_time(fresh: &Fresh) {
    fresh.with_store(|store| {
        let run = |id: &str, user: &str, key: &str, now: i64| {
            let new = NewAgentRun { user: user.into(), ..incoming(id, key) };
            let session = accepted(store, &new).session.to_string();
            let found = store.session(&session).expect("there");
            let fence = store.claim_session(&session, found.fence, "p", &storing([])).expect("claimed");
            let last = RunChange { figures: Some(now.to_string().into()), ..change(id, Done) };
            let commit = SessionCommit { now, release: true, ..changing([last]) };
            store.commit_session(&session, fence, &commit).expect("ended");
            session
        };
        let main = run("a", "me", "main", 500);
        run("b", "me", "other", 300);
        run("c", "you", "main", 400);
        run("d", "me", "main", 500);
        run("e", "me", "main", 200);
        let (a, b, d, e) = ("a=500 at 500", "b=300 at 300", "d=500 at 500", "e=200 at 200");
        assert_eq!(told(store, &all()), [e, b, a, d]);
        assert_eq!(told(store, &FiguresPage { user: "you".into(), ..all() }), ["c=400 at 400"]);
        assert_eq!(told(store, &FiguresPage { user: "they".into(), ..all() }), [""; 0]);
        let main_only = FiguresPage { key: Some("main".into()), ..all() };
        assert_eq!(told(store, &main_only), [e, a, d]);
        assert_eq!(told(store, &FiguresPage { after: (300, -1), ..all() }), [b, a, d], "those of this time too");
        // Page by page, with two at the same time.
        for of in [all(), main_only] {
            let (mut after, mut paged) = ((0, -1), Vec::new());
            while let Some(row) = store.run_figures(&FiguresPage { after, limit: 1, ..of.clone() }).expect("read").pop()
            {
                after = (row.at, row.number);
                paged.push(row);
            }
            assert_eq!(paged, store.run_figures(&of).expect("read"));
        }
        let ids = |after, limit| {
            let rows = store.figures_of_session(&main, after, limit).expect("read").into_iter();
            rows.map(|row| (row.run.to_string(), row.number)).collect::<Vec<_>>()
        };
        let rows = ids(-1, 9);
        assert_eq!(rows.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "d", "e"]);
        assert_eq!((ids(-1, 1), ids(rows[1].1, 9)), (rows[..1].to_vec(), rows[2..].to_vec()));
    });
}
