//! Recordings: parts that come with the commits of a run, and texts that several runs share.

use pincer_store::{
    CellPart, Checkpoint, Fence, NewRun, RecordedPart, RecordedRuns, RunEnd, RunState, SharedText, Store,
    StoredRecording,
};

use crate::words::*;
use crate::{Blocking, Fresh};

fn part(number: u32, text: &str) -> RecordedPart {
    RecordedPart { number, text: text.into(), texts: Vec::new() }
}

fn named(number: u32, text: &str, texts: &[(u8, &str)]) -> RecordedPart {
    let shared = |(hash, text): &(u8, &str)| SharedText { hash: [*hash; 32], text: (*text).into() };
    RecordedPart { texts: texts.iter().map(shared).collect(), ..part(number, text) }
}

fn made(store: Blocking<'_>, run: NewRun, recorded: RecordedPart) -> Fence {
    let run = NewRun { recorded: Some(recorded), ..run };
    store.create_run(&run, claim("p"), None, SAFE).expect("made")
}

fn recording(store: &dyn Store, run: &str) -> Option<StoredRecording> {
    store.recording(&run.into()).wait().ok().filter(|recording| !recording.parts.is_empty())
}

fn parts(store: &dyn Store, run: &str) -> Vec<String> {
    recording(store, run).map_or_else(Vec::new, |recording| recording.parts)
}

fn end(store: &dyn Store, run: &str, fence: Fence, recorded: Option<RecordedPart>, at: i64) {
    let end = RunEnd { recorded, ..RunEnd::new(RunState::Completed, "{}") };
    store.finish_run(&run.into(), fence, end, at, SAFE).wait().expect("ended");
}

pub fn a_recording_grows_with_the_commits_of_its_run(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, run("a", "s"), part(0, "head"));
        let with = |checkpoint: Checkpoint, recorded| Checkpoint { recorded: Some(recorded), ..checkpoint };
        let checkpoint = |it| store.checkpoint("a", fence, &it, SAFE).expect("stored");
        checkpoint(with(full(1, b"cell"), part(1, "one")));
        checkpoint(with(delta(2, b"d", 0), part(2, "two")));
        checkpoint(with(delta(3, b"e", 1), part(3, "three")));
        checkpoint(with(delta(4, b"f", 1), part(3, "three again")));
        checkpoint(full(5, b"cell"));
        let waits = with(full(6, b"cell"), part(4, "four"));
        store.park("a", fence, &park(waits, Some(99))).expect("parked");
        assert_eq!(parts(store.0, "a"), ["head", "one", "two", "three again", "four"]);
        let fence = store.claim_run("a", (RunState::Waiting, fence), claim("q")).expect("claimed");
        end(store.0, "a", fence, Some(part(5, "end")), 7);
        assert_eq!(parts(store.0, "a").last().map(String::as_str), Some("end"));
        let _ = store.create_run(&run("b", "s"), claim("p"), None, SAFE).expect("made");
        assert_eq!(recording(store.0, "b"), None);
        assert_eq!(recording(store.0, "nothing"), None);
    });
}

pub fn a_run_that_begins_anew_is_recorded_anew(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = made(store, run("a", "s"), named(0, "head", &[(1, "one")]));
        let cell = CellPart::Full { image: IMAGE.into(), bytes: vec![1] };
        let again = |number, text| Some(named(number, text, &[(2, "two")]));
        let checkpoint = Checkpoint { next: 0, cell, detail: "{}".into(), recorded: again(1, "lost") };
        store.checkpoint("a", fence, &checkpoint, SAFE).expect("stored");
        store
            .checkpoint("a", fence, &Checkpoint { recorded: again(0, "new head"), ..checkpoint }, SAFE)
            .expect("stored");
        let found = recording(store.0, "a").expect("recorded");
        assert_eq!(found.parts, ["new head"]);
        assert_eq!(found.texts, [SharedText { hash: [2; 32], text: "two".into() }]);
    });
}

pub fn a_commit_that_is_refused_records_nothing(fresh: &Fresh) {
    fresh.with_store(|store| {
        let old = made(store, run("a", "s"), part(0, "head"));
        store.claim_run("a", (RunState::Running, old), claim("q")).expect("claimed");
        let late = Checkpoint { recorded: Some(part(1, "late")), ..full(1, b"cell") };
        assert!(store.checkpoint("a", old, &late, SAFE).is_err());
        let delta = Checkpoint { recorded: Some(part(1, "late")), ..delta(1, b"d", 0) };
        assert!(store.checkpoint("a", old, &delta, SAFE).is_err());
        let late = RunEnd { recorded: Some(part(1, "late")), ..RunEnd::new(RunState::Failed, "{}") };
        assert!(store.0.finish_run(&"a".into(), old, late, 1, SAFE).wait().is_err());
        let twice = NewRun { recorded: Some(part(0, "other")), ..run("a", "s") };
        assert!(store.create_run(&twice, claim("p"), None, SAFE).is_err());
        assert_eq!(parts(store.0, "a"), ["head"]);
    });
}

pub fn a_text_is_kept_once_and_goes_with_the_last_run_that_names_it(fresh: &Fresh) {
    fresh.with_store(|store| {
        let one = made(store, run("a", "s"), named(0, "{}", &[(1, "shared"), (2, "own")]));
        let two = made(store, run("b", "s"), named(0, "{}", &[(1, "shared")]));
        end(store.0, "a", one, Some(named(1, "{}", &[(1, "shared")])), 5);
        end(store.0, "b", two, None, 50);
        let texts = |run| {
            let mut texts: Vec<_> = recording(store.0, run).expect("recorded").texts.into_iter().collect();
            texts.sort_by_key(|shared| shared.hash);
            texts.into_iter().map(|shared| shared.text.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((texts("a"), texts("b")), (vec!["shared".to_owned(), "own".into()], vec!["shared".to_owned()]));
        assert_eq!(store.forget_runs(10).expect("forgotten"), 1);
        assert_eq!((recording(store.0, "a"), texts("b")), (None, vec!["shared".to_owned()]));
        // Named again after it was forgotten by all, it is there again.
        assert_eq!(store.forget_runs(100).expect("forgotten"), 1);
        made(store, run("c", "s"), named(0, "{}", &[(1, "shared")]));
        assert_eq!(texts("c"), ["shared"]);
    });
}

pub fn the_recorded_runs_of_an_agents_run_and_of_a_session_are_listed(fresh: &Fresh) {
    fresh.with_store(|store| {
        let of = |id: &str, agent: &str| NewRun { agent_run: Some(agent.into()), ..run(id, "s") };
        made(store, of("cm_1", "ar_1"), part(0, "{}"));
        made(store, of("cm_2", "ar_2"), part(0, "{}"));
        store.create_run(&of("cm_3", "ar_1"), claim("p"), None, SAFE).expect("made");
        let fence = made(store, of("cm_4", "ar_1"), part(0, "{}"));
        end(store.0, "cm_4", fence, None, 1);
        made(store, NewRun { user: "you".into(), ..run("cm_5", "s") }, part(0, "{}"));
        let listed = |of| {
            let runs = store.0.recorded_runs(of).wait().expect("read");
            runs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(listed(RecordedRuns::OfAgentRun("ar_1".into())), ["cm_1", "cm_4"]);
        let of = |user: &str| RecordedRuns::OfSession { session: "s".into(), user: user.into() };
        assert_eq!(listed(of("me")), ["cm_1", "cm_2", "cm_4"]);
        assert_eq!(listed(of("you")), ["cm_5"]);
    });
}
