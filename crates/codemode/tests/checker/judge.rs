//! What must hold, whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pincer_codemode::{Recording, Replay, ReplayOptions, replay};
use pincer_store::{Approvals, Call, Journal, Run, RunId, RunState, Runs};
use pincer_store_sqlite::SqliteStore;
use serde_json::Value;

use crate::common::engine;
use crate::effects::{Effect, repeated, unlike_journal, untrue};
use crate::parent::{History, Mode, Told};

/// How much was done.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub kills: usize,
    pub faults: usize,
    pub programs: usize,
    pub runs: usize,
    pub effects: usize,
    pub completed: usize,
    /// Calls of which their program was told that they may or may not have happened.
    pub unknown: usize,
    pub aborted: usize,
    pub lost: usize,
    pub replayed: usize,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.faults += other.faults;
        self.programs += other.programs;
        self.runs += other.runs;
        self.effects += other.effects;
        self.completed += other.completed;
        self.unknown += other.unknown;
        self.aborted += other.aborted;
        self.lost += other.lost;
        self.replayed += other.replayed;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, faults, programs, runs, effects, completed, unknown, aborted, lost, replayed } = self;
        write!(
            f,
            "{kills} kills, {faults} faults, {programs} programs, {runs} runs, {effects} effects, {completed} completed, \
             {unknown} calls unknown, {aborted} aborted, {lost} lost that may be, {replayed} replayed"
        )
    }
}

struct Judge<'h> {
    history: &'h History,
    runs: BTreeMap<RunId, (Run, Value)>,
    effects: Vec<Effect>,
    /// The run of each program that has made calls.
    run_of: BTreeMap<String, RunId>,
    findings: Vec<String>,
    figures: Figures,
}

/// Returns what was done, and what is wrong with it.
pub(crate) fn judge(history: &History) -> (Figures, Vec<String>) {
    let store = SqliteStore::open(&history.place.store()).unwrap();
    let result = |run: &Run| -> Value {
        let stored = store.run_result(&run.id).wait().unwrap();
        stored.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default()
    };
    let runs: BTreeMap<RunId, (Run, Value)> =
        store.runs(None).wait().unwrap().into_iter().map(|run| (run.id.clone(), (run.clone(), result(&run)))).collect();
    let effects = history.place.effects();
    let figures = Figures {
        kills: history.kills,
        faults: history.faults,
        programs: history.programs.len(),
        runs: runs.len(),
        effects: effects.len(),
        completed: runs.values().filter(|(run, _)| run.state == RunState::Completed).count(),
        ..Figures::default()
    };
    let findings = history.findings.clone();
    let mut judge = Judge { history, runs, effects, run_of: BTreeMap::new(), findings, figures };
    judge.one_life_per_program();
    judge.no_effect_twice();
    judge.all_at_an_end(&store);
    judge.one_owner_per_proof();
    judge.nothing_without_leave();
    judge.told_is_stored();
    judge.programs_know_what_happened(&store);
    judge.nothing_lost();
    judge.takes_the_same_way_again(&store);
    (judge.figures, judge.findings)
}

impl Judge<'_> {
    /// Reports something about a run or a program, with its history.
    fn find(&mut self, what: String, words: &[&str]) {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let runs: Vec<String> =
            self.run_of.iter().filter(|(name, _)| words.contains(name)).map(|it| it.1.to_string()).collect();
        words.extend(runs);
        let programs: Vec<String> = self
            .run_of
            .iter()
            .filter(|(_, run)| words.iter().any(|word| **run == word.as_str()))
            .map(|it| it.0.clone())
            .collect();
        let code: String =
            programs.iter().filter_map(|name| self.history.programs.get(name)).map(|it| format!("{it:?}\n")).collect();
        words.extend(programs.iter().map(|name| format!("\"{name}\"")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let effects: String = self
            .effects
            .iter()
            .filter(|effect| words.contains(&effect.run.as_str()))
            .map(|effect| format!("    {effect:?}\n"))
            .collect();
        let stored: String =
            words.iter().filter_map(|word| self.runs.get(*word)).map(|run| format!("    {run:?}\n")).collect();
        let owners: String = self
            .history
            .place
            .lines("proofs")
            .iter()
            .filter(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| format!("    {line}\n"))
            .collect();
        let history = self.history.of(&words);
        self.findings.push(format!("{what}\n{code}{history}{effects}{stored}{owners}"));
    }

    /// Whether a run has changed something.
    fn has_acted(&self, run: &RunId) -> bool {
        self.effects.iter().any(|effect| effect.run == *run && effect.tool != "look")
    }

    /// A program is begun once: all its effects are of one run, and of one beginning.
    fn one_life_per_program(&mut self) {
        let mut lives: BTreeMap<String, BTreeSet<(RunId, String)>> = BTreeMap::new();
        for effect in self.effects.iter().filter(|effect| effect.tool != "look") {
            let program = effect.label.split('-').next().unwrap_or_default().to_owned();
            lives.entry(program).or_default().insert((effect.run.clone(), effect.nonce.clone()));
        }
        for effect in &self.effects {
            let program = effect.label.split('-').next().unwrap_or_default().to_owned();
            self.run_of.insert(program, effect.run.clone());
        }
        for (program, lives) in lives {
            if lives.len() > 1 {
                self.find(format!("{program} was begun more than once: {lives:?}"), &[&program]);
            }
        }
    }

    fn no_effect_twice(&mut self) {
        for effect in repeated(&self.effects) {
            self.find(format!("an effect happened twice: {effect:?}"), &[effect.run.as_str()]);
        }
    }

    /// Every run has come to an end, with all that belongs to it, and nothing was done afterwards.
    fn all_at_an_end(&mut self, store: &SqliteStore) {
        let runs: Vec<Run> = self.runs.values().map(|(run, _)| run.clone()).collect();
        for run in runs {
            if !run.state.is_final() {
                self.find(format!("{} is still {:?}", run.id, run.state), &[run.id.as_str()]);
            }
            // The end moves the proof on.
            let late = self.effects.iter().find(|effect| effect.run == run.id && effect.fence >= run.fence.0).cloned();
            if let Some(late) = late.filter(|_| run.state.is_final()) {
                self.find(format!("done with a proof from after the end: {late:?}"), &[run.id.as_str()]);
            }
        }
        for question in store.pending_approvals().wait().unwrap() {
            self.findings.push(format!("a question of a run that is over is still open: {question:?}"));
        }
    }

    /// Each claim gives a proof of its own, and only one process uses it.
    fn one_owner_per_proof(&mut self) {
        let mut users: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        let mut claims: BTreeMap<(String, String), usize> = BTreeMap::new();
        for line in self.history.place.lines("proofs") {
            let parts: Vec<&str> = line.split(' ').collect();
            let [method, run, fence, process] = parts[..] else { panic!("{line}") };
            let proof = (run.to_owned(), fence.to_owned());
            *claims.entry(proof.clone()).or_default() += usize::from(matches!(method, "claim_run" | "create_run"));
            users.entry(proof).or_default().insert(process.to_owned());
        }
        for ((run, fence), users) in users {
            if users.len() > 1 {
                self.find(format!("{run} had two owners with the proof {fence}: {users:?}"), &[&run]);
            }
        }
        for ((run, fence), count) in claims {
            if count > 1 {
                self.find(format!("{run} was claimed {count} times with the proof {fence}"), &[&run]);
            }
        }
    }

    /// Every call that needs leave has it.
    fn nothing_without_leave(&mut self) {
        let mut done: BTreeMap<RunId, usize> = BTreeMap::new();
        for effect in self.effects.iter().filter(|effect| effect.tool == "ask") {
            *done.entry(effect.run.clone()).or_default() += 1;
        }
        for (run, done) in done {
            let allowed = self.history.allowed.values().filter(|of| **of == run).count();
            if done > allowed {
                self.find(format!("{run} did {done} things with leave for {allowed}"), &[run.as_str()]);
            }
        }
    }

    /// Whether a call was to fail.
    fn fails_by_itself(&self, label: &str, calls: &[Call]) -> bool {
        let inputs = calls.iter().filter_map(|call| serde_json::from_str::<Value>(&call.input).ok());
        inputs.into_iter().any(|input| input["label"] == *label && input["fails"] == true)
    }

    fn is_keyed(&self, program: &Option<String>) -> bool {
        program.as_ref().and_then(|name| self.history.programs.get(name)).is_some_and(|program| program.key.is_some())
    }

    fn told_is_stored(&mut self) {
        for Told { what, program, run, result } in &self.history.told {
            let run = run.clone().or_else(|| self.run_of.get(program.as_ref()?).cloned());
            let stored = run.as_ref().and_then(|run| self.runs.get(run)).cloned();
            let (Some(run), Some((stored, kept))) = (&run, &stored) else {
                let is_wrong = !result["runId"].is_null() || what == &"wait";
                if is_wrong {
                    self.find(format!("{what} of {program:?} was told {result}, and there is no such run"), &[]);
                }
                continue;
            };
            match result["status"].as_str() {
                Some("completed") if stored.state != RunState::Completed || kept["value"] != result["value"] => {
                    self.find(
                        format!("{what} was told {result}, and stored is {:?} {kept}", stored.state),
                        &[run.as_str()],
                    );
                }
                // A request that the store had not taken may be sent again.
                Some("failed")
                    if result["code"] == "runtime_unavailable" && *what == "exec" && self.is_keyed(program) => {}
                // An end was told: it must be one.
                Some("failed") if result["runId"].is_null() && stored.state == RunState::Completed => {
                    self.find(format!("{what} was told the end {result}, and stored is {kept}"), &[run.as_str()]);
                }
                Some("completed" | "failed" | "waiting") => {}
                _ => self.find(format!("{what} was told {result}"), &[run.as_str()]),
            }
        }
    }

    /// A program was told of its calls exactly what happened and what the journal says.
    fn programs_know_what_happened(&mut self, store: &SqliteStore) {
        let completed: Vec<(RunId, Value)> = self
            .runs
            .iter()
            .filter(|(_, (run, _))| run.state == RunState::Completed)
            .map(|(id, (_, result))| (id.clone(), result["value"].clone()))
            .collect();
        for (run, value) in completed {
            let calls = store.calls(&run).wait().unwrap();
            for wrong in untrue(&value, &self.effects).into_iter().chain(unlike_journal(&value, &calls)) {
                self.find(wrong, &[run.as_str()]);
            }
            let seen = value["seen"].as_object().into_iter().flatten();
            let unknown =
                seen.filter(|(label, told)| **told == "unknown" && !self.fails_by_itself(label, &calls)).count();
            self.figures.unknown += unknown;
            if unknown > 0 && self.history.mode == Mode::Calm {
                self.find(format!("{unknown} calls of {run} are unknown, and nothing was amiss"), &[run.as_str()]);
            }
        }
    }

    /// The recording of every run leads its program the same way again, however often it was killed on it.
    fn takes_the_same_way_again(&mut self, store: &SqliteStore) {
        let runs: Vec<(RunId, RunState)> = self.runs.values().map(|(run, _)| (run.id.clone(), run.state)).collect();
        for (id, state) in runs {
            let read = pincer_store::block_on(Recording::read(store, &id));
            let done = read.map(|recording| replay(engine(), &recording, &ReplayOptions::default()));
            let is_whole = |done: &Replay| state != RunState::Completed || done.ends_here.is_none();
            match done {
                Ok(Ok(done)) if done.is_same() && is_whole(&done) => self.figures.replayed += 1,
                done => self.find(format!("{id}, {state:?}, takes another way: {done:#?}"), &[id.as_str()]),
            }
        }
    }

    /// A run that was acknowledged, or that has changed something, ends by itself or is aborted.
    fn nothing_lost(&mut self) {
        let is_waiting = |told: &&Told| told.result["status"] == "waiting";
        let acknowledged: BTreeSet<RunId> =
            self.history.told.iter().filter(is_waiting).filter_map(|told| told.run.clone()).collect();
        let aborted: Vec<RunId> = self
            .runs
            .values()
            .filter(|(run, _)| matches!(run.state, RunState::Aborted | RunState::Expired))
            .map(|(run, _)| run.id.clone())
            .collect();
        for run in aborted {
            if self.history.aborts.contains(&run) {
                self.figures.aborted += 1;
                continue;
            }
            let program = self.run_of.iter().find(|(_, of)| **of == run).map(|(name, _)| name.clone());
            let may_be_lost =
                program.and_then(|name| self.history.programs.get(&name)).is_some_and(|it| it.may_be_lost);
            let matters = acknowledged.contains(&run) || self.has_acted(&run);
            if matters && !may_be_lost {
                self.find(format!("{run} is lost"), &[run.as_str()]);
            } else {
                self.figures.lost += 1;
            }
        }
    }
}
