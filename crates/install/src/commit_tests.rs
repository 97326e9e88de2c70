use std::fs;
use std::mem::forget;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::places::read_installed;
use crate::source::SourceKind;

const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn record(version: &str) -> Record {
    Record {
        kind: Kind::Plugin,
        id: "notes".into(),
        version: Some(version.into()),
        source: PathBuf::from("/somewhere"),
        source_kind: SourceKind::Directory,
        digest: DIGEST.parse().unwrap(),
        at: "2026-01-01T00:00:00Z".into(),
    }
}

/// A state directory, in which the versions of one plugin come and go.
struct State {
    home: TempDir,
    places: Places,
}

impl State {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let places = Places::new(&home.path().join("state"));
        Self { home, places }
    }

    fn put(&self, version: &str) -> (Exclusive, Stage, Change) {
        let lock = Exclusive::new(&self.places).unwrap();
        let stage = Stage::new(&self.places.work()).unwrap();
        fs::write(stage.content().join("version"), version).unwrap();
        let change =
            Change::Put { record: record(version), new: self.within(&stage.content()), old: self.within(&stage.old()) };
        (lock, stage, change)
    }

    fn removal(&self) -> (Exclusive, Stage, Change) {
        let lock = Exclusive::new(&self.places).unwrap();
        let stage = Stage::new(&self.places.work()).unwrap();
        let change = Change::Remove { kind: Kind::Plugin, id: "notes".into(), old: self.within(&stage.old()) };
        (lock, stage, change)
    }

    /// A path as journals have it.
    fn within(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.places.work()).unwrap().to_owned()
    }

    /// The version that is there, and the one that is recorded.
    fn there(&self) -> (Option<String>, Option<String>) {
        let file = self.places.target(Kind::Plugin, "notes").join("version");
        let records = Records::read(&self.places.records()).unwrap();
        let recorded = records.find(Kind::Plugin, "notes").and_then(|record| record.version.clone());
        (fs::read_to_string(file).ok(), recorded)
    }

    fn is_tidy(&self) -> bool {
        drop(Exclusive::new(&self.places).unwrap());
        let left: Vec<_> = fs::read_dir(self.places.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left == ["lock"]
    }
}

fn both(version: &str) -> (Option<String>, Option<String>) {
    (Some(version.into()), Some(version.into()))
}

/// Makes the first steps of a change, and forgets it as a process does that is killed: nothing is dropped, but the locks are free.
fn die_after(steps: usize, state: &State, (lock, stage, change): (Exclusive, Stage, Change)) {
    STEPS.iter().take(steps).for_each(|step| apply(&state.places, &change, *step).unwrap());
    let folder = stage.folder().to_owned();
    drop(lock);
    let kept = state.home.path().join("kept");
    // The lock of the stage goes with the process, the folder stays.
    fs::rename(&folder, &kept).unwrap();
    drop(stage);
    fs::rename(&kept, &folder).unwrap();
}

#[test]
fn whatever_step_a_process_dies_at_there_is_the_old_or_the_new_and_the_record_says_which() {
    for steps in 0..=STEPS.len() {
        for (before, change) in [(None, "put"), (Some("1"), "put"), (Some("1"), "remove")] {
            let state = State::new();
            if let Some(version) = before {
                let (lock, mut stage, change) = state.put(version);
                commit(&lock, &mut stage, &change).unwrap();
            }
            let (dying, after) = match change {
                "put" => (state.put("2"), both("2")),
                _ => (state.removal(), (None, None)),
            };
            die_after(steps, &state, dying);
            // A reader settles it before it looks.
            let (reading, recovered) = read_installed(state.places.state()).unwrap();
            let before = before.map_or((None, None), both);
            let at_the_end = state.there();
            assert!(at_the_end == before || at_the_end == after, "{change} {steps}: {at_the_end:?}");
            let done = at_the_end == after;
            let expected = match steps {
                0 | 5 => None,
                _ if done => Some(Recovered::Finished),
                _ => Some(Recovered::Undone),
            };
            assert_eq!(recovered, expected, "{change} {steps}");
            assert!(if steps == 0 { !done } else { steps < 3 || done }, "{change} {steps}");
            drop(reading);
            assert!(state.is_tidy(), "{change} {steps}");
        }
    }
}

#[test]
fn a_step_that_fails_leaves_what_was_there() {
    let state = State::new();
    let (lock, mut stage, change) = state.put("1");
    commit(&lock, &mut stage, &change).unwrap();
    drop((lock, stage));
    let (lock, mut stage, _) = state.put("2");
    let change =
        Change::Put { record: record("2"), new: state.within(&stage.content()), old: state.within(&stage.old()) };
    let target = state.places.target(Kind::Plugin, "notes");
    // Something that cannot be replaced stands where the old one is put aside.
    fs::create_dir_all(stage.old().join("full")).unwrap();
    let failed = commit(&lock, &mut stage, &change).unwrap_err();
    assert!(matches!(failed, InstallError::Write { .. }), "{failed}");
    assert!(target.exists());
    assert_eq!(state.there().1, both("1").1);
    forget(lock);
}

#[test]
fn a_state_directory_that_was_moved_is_settled_where_it_is() {
    let mut state = State::new();
    let (lock, mut stage, change) = state.put("1");
    commit(&lock, &mut stage, &change).unwrap();
    drop((lock, stage));
    let dying = state.put("2");
    die_after(2, &state, dying);
    fs::rename(state.places.state(), state.home.path().join("moved")).unwrap();
    state.places = Places::new(&state.home.path().join("moved"));
    let (_reading, recovered) = read_installed(state.places.state()).unwrap();
    assert_eq!((recovered, state.there()), (Some(Recovered::Undone), both("1")));
}

#[test]
fn a_journal_that_cannot_be_read_stops_everything_and_loses_nothing() {
    let state = State::new();
    let (lock, mut stage, change) = state.put("1");
    commit(&lock, &mut stage, &change).unwrap();
    drop((lock, stage));
    fs::write(state.places.journal(), "{").unwrap();
    for failed in [read_installed(state.places.state()).map(drop), Exclusive::new(&state.places).map(drop)] {
        assert!(matches!(failed, Err(InstallError::Damaged { .. })), "{failed:?}");
    }
    assert_eq!(state.there(), both("1"));
}

#[test]
fn nothing_is_made_where_nothing_was_installed() {
    let home = tempfile::tempdir().unwrap();
    let (_reading, recovered) = read_installed(home.path()).unwrap();
    assert_eq!(recovered, None);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    assert!(read_installed(Path::new("/nowhere/at/all")).is_ok());
}
