//! The power fails between two effects of a program: only what was synced is left. No effect is repeated; a program whose
//! checkpoints are not synced ends with what is known if it ran, and goes on if it was suspended.
//!
//! A cut is played by copying the files of the store after each commit that is synced. A cut at some moment leaves the
//! latest copy, in which the runs belong to another boot of the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "figures for whoever runs it with --nocapture")]

mod common;
mod effects;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use effects::process::{EFFECTS, Process, STARTS, STEPS};
use effects::{Effect, PRELUDE, Site, repeated};
use pincer_codemode::{Durability, settle_orphans};
use pincer_store::{Run, RunId, RunState, Runs, Safety, block_on};
use pincer_store_sqlite::SqliteStore;
use pincer_testkit::faulty::{Commit, FaultyStore};
use serde_json::Value;

/// A moment at which the power fails.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    /// The copy of the store that is left.
    copy: usize,
    /// How many effects had happened.
    happened: usize,
    /// A caller was told before that the run waits.
    acknowledged: bool,
    /// Nothing has been done since that was told.
    suspended: bool,
    /// The last commit.
    after: &'static str,
}

/// The copies, and the moments.
struct Recording {
    place: Site,
    copies: usize,
    acknowledged: bool,
    cuts: Vec<Cut>,
}

impl Recording {
    fn copy(&self, number: usize) -> PathBuf {
        self.place.0.join(format!("copy-{number}"))
    }

    /// Copies the store. By another process: closing a file of the store here would give up the locks on it.
    fn keep(&mut self) {
        self.copies += 1;
        let to = self.copy(self.copies);
        fs::create_dir(&to).unwrap();
        let files = ["pincer.db", "pincer.db-wal"].map(|file| self.place.0.join(file));
        let files = files.into_iter().filter(|file| file.exists());
        assert!(Command::new("cp").args(files).arg(to).status().unwrap().success());
    }

    fn cut(&mut self, after: &'static str, suspended: bool) {
        let happened = self.place.effects().len();
        let cut = Cut { copy: self.copies, happened, acknowledged: self.acknowledged, suspended, after };
        if self.cuts.last() != Some(&cut) {
            self.cuts.push(cut);
        }
    }

    fn committed(&mut self, commit: &Commit<'_>) {
        // Just before it reached the disk, with what had happened by then.
        self.cut(commit.method, false);
        if commit.safety == Safety::Power {
            self.keep();
            self.cut(commit.method, false);
        }
    }
}

/// Runs the program once, without a fault.
fn record(directory: &Path, durability: Durability, start: &str) -> Vec<Cut> {
    let place = Site::new(directory);
    let store = SqliteStore::open(&place.store()).unwrap();
    let recording = Recording { place: place.clone(), copies: 0, acknowledged: false, cuts: Vec::new() };
    let recording = Arc::new(Mutex::new(recording));
    recording.lock().unwrap().keep();
    let noted = Arc::clone(&recording);
    let observer = Box::new(move |commit: &Commit<'_>| noted.lock().unwrap().committed(commit));
    let store = Arc::new(FaultyStore::new(store).observed(observer));
    let process = Process::new(&place, &store, durability);
    let mut told = process.exec(&format!("const program = 'p';{PRELUDE}{start}{STEPS}"));
    while let Some(run) = told["runId"].as_str().map(RunId::from) {
        {
            let mut recording = recording.lock().unwrap();
            recording.acknowledged = true;
            recording.cut("told", true);
        }
        assert!(process.answer(store.inner()));
        told = process.wait(&run);
    }
    assert_eq!(told["status"], "completed", "{told}");
    process.end();
    let cuts = recording.lock().unwrap().cuts.clone();
    assert_eq!(cuts.last().unwrap().happened, EFFECTS + usize::from(!start.is_empty()));
    cuts
}

/// Lays the store out as a machine finds it that boots after the cut.
fn boot(from: &Path, cut: &Cut, to: &Path) -> Site {
    let place = Site::new(to);
    for file in fs::read_dir(from.join(format!("copy-{}", cut.copy))).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    // What was done to the world is not undone.
    let effects = Site::new(from).lines("effects");
    effects[..cut.happened].iter().for_each(|line| place.note("effects", line));
    let file = rusqlite::Connection::open(place.store()).unwrap();
    file.execute_batch(
        "UPDATE run SET boot = 'the boot before' WHERE boot IS NOT NULL; UPDATE clock SET boot = 'the boot before';",
    )
    .unwrap();
    place
}

/// Goes on after a cut. Returns what is wrong.
fn check(from: &Path, cut: &Cut, durability: Durability) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let place = boot(from, cut, directory.path());
    let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
    let found: Option<Run> = store.runs(None).wait().unwrap().pop();
    block_on(settle_orphans(&*store, &place.leases(), Duration::from_secs(60))).unwrap();
    let process = Process::new(&place, &store, durability);
    let mut wrong = Vec::new();
    let mut told = Vec::new();
    if let Some(run) = &found {
        while !store.run(&run.id).wait().unwrap().state.is_final() && told.len() < 12 {
            process.answer(&store);
            told.push(process.wait(&run.id));
        }
    }
    process.end();
    let ended = found.as_ref().map(|run| store.run(&run.id).wait().unwrap().state);
    let effects = place.effects();
    wrong.extend(repeated(&effects).iter().map(|effect| format!("it happened twice: {effect:?}")));
    let has_acted = effects[..cut.happened].iter().any(|effect| effect.tool != "look");
    // A run that was over at the cut, in the copy or a moment later, stays so.
    let was = found.as_ref().map(|run| run.state);
    match (was, ended) {
        (None, _) if cut.acknowledged => wrong.push("a run that was acknowledged is gone".into()),
        (None, _) if durability == Durability::EveryCall && has_acted => {
            wrong.push("a run that has acted is gone".into())
        }
        (None, _) => {}
        (Some(was), Some(ended)) if was.is_final() && was == ended => {}
        (Some(RunState::Waiting), Some(RunState::Completed)) => {}
        (Some(RunState::Running), Some(RunState::Completed)) if durability == Durability::EveryCall => {}
        // Without a checkpoint there is nothing to go on from, and nothing was done.
        (Some(RunState::Running), Some(RunState::Aborted)) if durability == Durability::Calls || !has_acted => {}
        (was, ended) => wrong.push(format!("it was {was:?} and is {ended:?}")),
    }
    if cut.suspended && was != Some(RunState::Waiting) {
        wrong.push(format!("a suspended run is {was:?} after the cut"));
    }
    let context = |wrong| context(cut, durability, wrong, &told, &effects);
    wrong.into_iter().map(context).collect()
}

fn context(cut: &Cut, durability: Durability, wrong: String, told: &[Value], effects: &[Effect]) -> String {
    format!("{durability:?} {cut:?}: {wrong}\n  told {told:?}\n  effects {effects:?}")
}

fn every_cut(durability: Durability) {
    for start in STARTS {
        let directory = tempfile::tempdir().unwrap();
        let cuts = record(directory.path(), durability, start);
        let wrong: Vec<String> = cuts.iter().flat_map(|cut| check(directory.path(), cut, durability)).collect();
        println!("{durability:?}: {} cuts, {} copies", cuts.len(), cuts.last().unwrap().copy);
        assert!(wrong.is_empty(), "{} of {} cuts:\n{}", wrong.len(), cuts.len(), wrong.join("\n"));
    }
}

#[test]
fn after_a_power_cut_a_program_that_ran_is_over_and_a_suspended_one_goes_on() {
    every_cut(Durability::Calls);
}

#[test]
fn with_every_call_synced_a_program_goes_on_after_a_power_cut() {
    every_cut(Durability::EveryCall);
}
