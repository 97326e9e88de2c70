//! Runs as they are listed, and when they are due.
use pincer_store::{
    NewApproval, NewRun, Page, RunId, RunState, Safety, SessionCount, SessionKey, Standing, StoreError, ToolSet,
};

use crate::words::{claim, finish, full, made, park, question, run};
use crate::{Blocking, Fresh};

fn all() -> Page {
    Page { limit: u32::MAX, ..Page::default() }
}

fn ids(store: Blocking<'_>, page: &Page) -> Vec<RunId> {
    store.run_overviews(page).expect("listed").into_iter().map(|overview| overview.run.id).collect()
}

/// Runs of two sessions in turns.
fn with_runs(store: Blocking<'_>, count: usize) {
    for index in 0..count {
        let (id, session) = (format!("cm_{index:04}"), if index % 2 == 0 { "even" } else { "odd" });
        store.create_run(&run(&id, session), claim("p"), None, Safety::Process).expect("made");
    }
}

pub fn pages_follow_each_other_without_gaps(fresh: &Fresh) {
    fresh.with_store(|store| {
        with_runs(store, 25);
        for session in [None, Some(SessionKey::from("odd"))] {
            let all = ids(store, &Page { session: session.clone(), ..all() });
            let (mut paged, mut before): (Vec<RunId>, Option<RunId>) = (Vec::new(), None);
            loop {
                let page = ids(store, &Page { session: session.clone(), user: None, before, limit: 4 });
                let Some(first) = page.first().cloned() else { break };
                assert!(page.len() <= 4);
                paged.splice(0..0, page);
                before = Some(first);
            }
            assert_eq!(paged, all, "{session:?}");
            assert_eq!(all.len(), if session.is_some() { 12 } else { 25 });
        }
        // The run that a page ends before may be gone.
        assert_eq!(ids(store, &Page { before: Some("cm_0002x".into()), limit: 2, ..all() }), ["cm_0001", "cm_0002"]);
        assert_eq!(ids(store, &Page { session: Some("none".into()), ..all() }), Vec::<RunId>::new());
    });
}

pub fn runs_are_found_by_the_beginning_of_their_ids(fresh: &Fresh) {
    fresh.with_store(|store| {
        with_runs(store, 120);
        assert_eq!(store.runs_named("cm_0007").expect("read"), ["cm_0007"]);
        assert_eq!(store.runs_named("cm_001").expect("read").len(), 10);
        assert_eq!(store.runs_named("cm_").expect("read").len(), 100, "no more than a hundred");
        assert_eq!(store.runs_named("cm_9").expect("read"), Vec::<RunId>::new());
        assert!(matches!(store.run_overview("cm_001"), Err(StoreError::Missing { .. })));
    });
}

pub fn sessions_and_states_are_counted(fresh: &Fresh) {
    fresh.with_store(|store| {
        with_runs(store, 5);
        let later = NewRun { created_at: 99, ..run("cm_9", "odd") };
        let fence = store.create_run(&later, claim("p2"), None, Safety::Process).expect("made");
        finish(store, "cm_9", fence, RunState::Failed).expect("ends");
        let count = |session: &str, runs, open, last| SessionCount { session: session.into(), runs, open, last };
        assert_eq!(store.sessions(None).expect("read"), [count("odd", 3, 2, 99), count("even", 3, 3, 10)]);
        let mut counts = store.run_counts("odd", None).expect("read");
        counts.sort_by_key(|(_, count)| *count);
        assert_eq!(counts, [(RunState::Failed, 1), (RunState::Running, 2)]);
        let asked = ["cm_9", "gone", "cm_0000"];
        let standing = |id: &str, state, owner: &str| Standing { id: id.into(), state, owner: owner.into() };
        let expected = [standing("cm_9", RunState::Failed, "p2"), standing("cm_0000", RunState::Running, "p")];
        assert_eq!(store.standings(&asked).expect("read"), expected);
    });
}

pub fn the_next_due_is_the_first_to_expire_or_to_be_forgotten(fresh: &Fresh) {
    fresh.with_store(|store| {
        assert_eq!(store.next_due(1000).expect("read"), None);
        for (id, until) in [("a", 500), ("b", 300)] {
            let fence = made(store, id, "p");
            store.park(id, fence, &park(full(0, b"x"), Some(until))).expect("parked");
        }
        assert_eq!(store.next_due(1000).expect("read"), Some(300));
        assert_eq!(store.expire_runs(300).expect("swept"), ["b"]);
        assert_eq!(store.next_due(1000).expect("read"), Some(500));
        assert_eq!(store.next_due(100).expect("read"), Some(400), "b ended at 300");
    });
}

pub fn what_belongs_to_a_forgotten_run_goes_with_it_and_nothing_else(fresh: &Fresh) {
    fresh.with_store(|store| {
        let tools = |hash: &[u8], tools: &str| Some(ToolSet { hash: hash.into(), tools: tools.into() });
        for (id, hash) in [("a", b"one"), ("b", b"two"), ("c", b"two")] {
            let run = NewRun { tools: tools(hash, "[]"), ..run(id, "s") };
            let fence = store.create_run(&run, claim("p"), None, Safety::Process).expect("made");
            store.ask(&NewApproval { run: Some(id.into()), ..question(&format!("ap_{id}")) }).expect("asked");
            if id != "c" {
                finish(store, id, fence, RunState::Completed).expect("ends");
            }
        }
        assert_eq!(store.forget_runs(1000).expect("forgotten"), 2);
        let is_there = |id: &str| store.approval(id).is_ok();
        assert_eq!(["ap_a", "ap_b", "ap_c"].map(is_there), [false, false, true]);
        // A set that is still there is not written again.
        let is_kept = |id: &str, hash: &[u8]| {
            let run = NewRun { tools: tools(hash, "[again]"), ..run(id, "s") };
            store.create_run(&run, claim("p"), None, Safety::Process).expect("made");
            store.resumption(id).expect("read").tools.as_deref() == Some("[]")
        };
        assert_eq!((is_kept("d", b"one"), is_kept("e", b"two")), (false, true));
    });
}
