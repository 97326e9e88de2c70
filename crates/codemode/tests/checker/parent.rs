//! One round: what is done to the processes, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pincer_codemode::{Durability, settle_orphans};
use pincer_store::{Approval, ApprovalId, Approvals, Clock, Journal, RunId, Runs, block_on};
use pincer_store_sqlite::SqliteStore;
use pincer_testkit::faulty::Kind;
use pincer_tools::{Answer, answer_question};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::effects::Site;
use crate::processes::{DEATHS, FAULTS, News, Process, Processes, fault_of};
use crate::program::Program;
use crate::random::Random;

/// Programs that are under way at a time.
const MOST_AT_A_TIME: usize = 10;
/// How long everything has to come to its end once nothing is killed any more.
const TO_THE_END: Duration = Duration::from_secs(60);

/// How a round is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// With kills and faults.
    Rough,
    /// With faults only: processes live long, and so does what they keep in memory.
    Faulty,
    /// Without either: the processes are in each other's way, and that is all.
    Calm,
}

/// The steps of a round without kills.
const ACTIONS: usize = 350;

/// A request to a process.
#[derive(Clone, Debug)]
struct Request {
    process: usize,
    what: &'static str,
    program: Option<String>,
    run: Option<RunId>,
}

/// An answer to a caller.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub what: &'static str,
    pub program: Option<String>,
    pub run: Option<RunId>,
    pub result: Value,
}

/// All that was done and said.
pub(crate) struct History {
    directory: TempDir,
    pub mode: Mode,
    pub place: Site,
    pub programs: BTreeMap<String, Program>,
    pub told: Vec<Told>,
    /// The runs that were aborted.
    pub aborts: BTreeSet<RunId>,
    /// The questions that were answered with yes, or may have been, each with its run.
    pub allowed: BTreeMap<ApprovalId, RunId>,
    pub kills: usize,
    pub faults: usize,
    /// The findings so far.
    pub findings: Vec<String>,
    events: Vec<String>,
    started: Instant,
}

impl History {
    fn new(mode: Mode) -> Self {
        let directory = tempfile::Builder::new().prefix("checker-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self {
            place: Site::new(directory.path()),
            directory,
            mode,
            programs: BTreeMap::new(),
            told: Vec::new(),
            aborts: BTreeSet::new(),
            allowed: BTreeMap::new(),
            kills: 0,
            faults: 0,
            findings: Vec::new(),
            events: Vec::new(),
            started: Instant::now(),
        }
    }

    fn note(&mut self, event: impl Display) {
        self.events.push(format!("{:8.3} {event}", self.started.elapsed().as_secs_f64()));
    }

    /// The history of a run, or of all processes.
    pub(crate) fn of(&self, words: &[&str]) -> String {
        let is_about = |event: &&String| event.contains('!') || words.iter().any(|word| event.contains(word));
        self.events.iter().filter(is_about).map(|event| format!("    {event}\n")).collect()
    }

    /// Keeps the directory, so that a finding can be looked into.
    pub(crate) fn keep(self) -> PathBuf {
        let path = self.directory.keep();
        let events = self.events.join("\n");
        std::fs::write(path.join("events"), events).unwrap();
        path
    }
}

struct Round<'r> {
    random: &'r mut Random,
    history: History,
    processes: Processes,
    store: SqliteStore,
    durability: Option<Durability>,
    asked: BTreeMap<u64, Request>,
    next_request: u64,
    /// The runs that callers know, and that are not known to have ended.
    open: BTreeMap<RunId, Option<String>>,
    /// When which process is healed.
    healing: Vec<(Instant, usize)>,
    leaving: Vec<Process>,
}

/// Plays one round, with so many kills.
pub(crate) fn play(random: &mut Random, kills: usize) -> History {
    let mode = match random.below(10) {
        0..7 => Mode::Rough,
        7 | 8 => Mode::Faulty,
        _ => Mode::Calm,
    };
    let history = History::new(mode);
    let (place, store) = (history.place.clone(), SqliteStore::open(&history.place.store()).unwrap());
    let durability = match random.below(10) {
        0..6 => Some(Durability::Calls),
        6 | 7 => Some(Durability::EveryCall),
        8 => Some(Durability::Parked),
        _ => None,
    };
    let mut round = Round {
        random,
        history,
        processes: Processes::new(&place),
        store,
        durability,
        asked: BTreeMap::new(),
        next_request: 0,
        open: BTreeMap::new(),
        healing: Vec::new(),
        leaving: Vec::new(),
    };
    (0..round.random.between(2, 3)).for_each(|_| round.processes.start());
    let mut actions = 0;
    let goes_on = |history: &History, actions: usize| match mode {
        Mode::Rough => history.kills < kills,
        Mode::Faulty | Mode::Calm => actions < ACTIONS,
    };
    while goes_on(&round.history, actions) {
        actions += 1;
        let pause = round.random.below(12) as u64;
        round.listen(Duration::from_millis(pause));
        round.heal_those_due();
        round.act();
    }
    round.come_to_an_end();
    round.history
}

impl Round<'_> {
    fn act(&mut self) {
        match self.random.below(100) {
            0..30 => self.exec(),
            30..58 => self.wait(),
            58..75 => self.answer(),
            75..79 => self.abort(),
            79..88 if self.history.mode != Mode::Calm => self.fault(),
            88..93 => self.exec_again(),
            93..98 if self.history.mode == Mode::Rough => self.kill(),
            98 if self.history.mode == Mode::Rough && self.random.percent(30) => self.dismiss(),
            _ => {}
        }
    }

    /// Takes what the processes say.
    fn listen(&mut self, pause: Duration) {
        let mut news = self.processes.news.recv_timeout(pause).ok();
        while let Some(News { process, said }) = news {
            match said {
                Some(said) => self.hear(&said),
                None => self.gone(process),
            }
            news = self.processes.news.try_recv().ok();
        }
    }

    fn hear(&mut self, said: &Value) {
        let Some(request) = said["id"].as_u64().and_then(|id| self.asked.remove(&id)) else { return };
        let result = said["result"].clone();
        let Request { process, what, program, run } = request;
        let run_of = result["runId"].as_str().map(RunId::from).or_else(|| run.clone());
        self.history.note(format!("<- {process} {what} {program:?} {run_of:?}: {result}"));
        if !matches!(what, "exec" | "wait") {
            return;
        }
        match (result["runId"].as_str(), &run) {
            (Some(open), _) => drop(self.open.insert(open.into(), program.clone())),
            (None, Some(ended)) => drop(self.open.remove(ended)),
            (None, None) => {}
        }
        self.history.told.push(Told { what, program, run: run_of, result });
    }

    fn gone(&mut self, number: usize) {
        self.asked.retain(|_, request| request.process != number);
        self.healing.retain(|(_, process)| *process != number);
        let Some(mut process) = self.processes.remove(number) else { return };
        process.kill();
        if process.is_doomed {
            self.history.kills += 1;
            self.history.note(format!("! {number} died at its commit"));
        } else {
            let errors = std::fs::read_to_string(self.history.place.0.join(format!("stderr-{number}")));
            self.history.findings.push(format!("process {number} died by itself: {}", errors.unwrap_or_default()));
            // Otherwise a round in which each process dies at once has no end.
            self.history.kills += 1;
        }
        self.processes.start();
    }

    /// Asks a process for something.
    fn ask(&mut self, process: usize, mut request: Value, of: Request) {
        self.next_request += 1;
        let id = self.next_request;
        request["id"] = json!(id);
        request["do"] = json!(of.what);
        self.history.note(format!("-> {process} {} {:?} {:?}", of.what, of.program, of.run));
        let Some(to) = self.processes.get(process) else { return };
        to.tell(&request);
        self.asked.insert(id, Request { process, ..of });
    }

    fn any_process(&mut self) -> usize {
        let place = self.random.below(self.processes.alive.len());
        self.processes.alive[place].number
    }

    fn how(program: &Program) -> Value {
        let durability = match program.durability {
            Durability::Calls => "calls",
            Durability::EveryCall => "every_call",
            Durability::Parked => "parked",
        };
        json!({
            "durability": durability, "pendingCalls": program.pending_calls, "timeoutMs": program.timeout_ms,
            "snapshotBytes": program.snapshot_bytes,
        })
    }

    fn exec(&mut self) {
        let beginning = self.asked.values().filter(|request| request.what == "exec").count();
        if beginning + self.open.len() >= MOST_AT_A_TIME {
            return;
        }
        let durability = self.durability.unwrap_or_else(|| match self.random.below(3) {
            0 => Durability::Parked,
            1 => Durability::EveryCall,
            _ => Durability::Calls,
        });
        let number = self.history.programs.len();
        let program = Program::random(self.random, number, durability);
        let process = self.any_process();
        self.send(process, &program);
        self.history.programs.insert(program.name.clone(), program);
    }

    fn send(&mut self, process: usize, program: &Program) {
        let mut request = Self::how(program);
        request["code"] = json!(program.code);
        request["key"] = json!(program.key);
        let of = Request { process, what: "exec", program: Some(program.name.clone()), run: None };
        self.ask(process, request, of);
    }

    /// Sends a program with a key a second time, as a client does that was not answered.
    fn exec_again(&mut self) {
        let keyed: Vec<Program> = self.history.programs.values().filter(|it| it.key.is_some()).cloned().collect();
        if let Some(program) = self.random.pick(&keyed).cloned() {
            let process = self.any_process();
            self.send(process, &program);
        }
    }

    fn any_run(&mut self) -> Option<RunId> {
        let open: Vec<RunId> = self.open.keys().cloned().collect();
        self.random.pick(&open).cloned()
    }

    fn wait(&mut self) {
        if let Some(run) = self.any_run() {
            let process = self.any_process();
            self.wait_for(process, &run);
        }
    }

    fn wait_for(&mut self, process: usize, run: &RunId) {
        let known = self.open.get(run).cloned().flatten().or_else(|| self.program_of(run));
        let how = known.as_ref().and_then(|name| self.history.programs.get(name)).map(Self::how);
        let mut request = how.unwrap_or_else(|| json!({ "timeoutMs": 2000 }));
        request["run"] = json!(run);
        self.ask(process, request, Request { process, what: "wait", program: known, run: Some(run.clone()) });
    }

    /// The program of a run whose id no caller was told.
    fn program_of(&self, run: &RunId) -> Option<String> {
        let calls = self.store.calls(run).wait().ok()?;
        let input: Value = serde_json::from_str(&calls.first()?.input).ok()?;
        Some(input["label"].as_str()?.split_once('-')?.0.to_owned())
    }

    fn answer(&mut self) {
        let Ok(pending) = self.store.pending_approvals().wait() else { return };
        let Some(question) = self.random.pick(&pending).cloned() else { return };
        let yes = self.random.percent(75);
        if self.random.percent(50) {
            return self.answer_here(&question, yes);
        }
        self.note_answer(&question, yes);
        let process = self.any_process();
        let request = json!({ "approval": question.id, "yes": yes });
        self.ask(process, request, Request { process, what: "answer", program: None, run: question.run.clone() });
    }

    fn answer_here(&mut self, question: &Approval, yes: bool) {
        self.note_answer(question, yes);
        let answer = if yes { Answer::AllowOnce } else { Answer::Deny };
        let answered = block_on(answer_question(&self.store, &question.id, answer, "the parent"));
        self.history.note(format!("answered {} of {:?} with {yes}: {answered:?}", question.id, question.run));
    }

    fn note_answer(&mut self, question: &Approval, yes: bool) {
        if let (true, Some(run)) = (yes, &question.run) {
            self.history.allowed.insert(question.id.clone(), run.clone());
        }
    }

    fn abort(&mut self) {
        let Some(run) = self.any_run() else { return };
        self.history.aborts.insert(run.clone());
        if self.random.percent(50) {
            let aborted = self.store.abort_run(&run, self.store.now()).wait();
            self.history.note(format!("aborted {run}: {aborted:?}"));
            return;
        }
        let process = self.any_process();
        self.ask(
            process,
            json!({ "run": run }),
            Request { process, what: "abort", program: None, run: Some(run.clone()) },
        );
    }

    fn fault(&mut self) {
        let process = self.any_process();
        if self.healing.iter().any(|(_, faulty)| *faulty == process) {
            return;
        }
        // The last ones are those that end the process.
        let kinds = if self.history.mode == Mode::Rough { FAULTS } else { FAULTS - DEATHS };
        let (kind, at) = (self.random.below(kinds), self.random.between(1, 30) as u64);
        let lasts = Duration::from_millis(self.random.between(50, 400) as u64);
        let fault = fault_of(kind, at);
        self.history.note(format!("! {process} has {fault:?} for {lasts:?}"));
        self.history.faults += 1;
        let Some(to) = self.processes.get(process) else { return };
        // It may die before it is told that it is healed, and be told of another fault meanwhile.
        to.is_doomed |= matches!(fault.kind, Kind::DieBefore | Kind::DieAfter);
        to.tell(&json!({ "do": "fault", "kind": kind, "at": at }));
        self.healing.push((Instant::now() + lasts, process));
    }

    fn heal_those_due(&mut self) {
        let now = Instant::now();
        let due: Vec<usize> = self.healing.iter().filter(|(time, _)| *time <= now).map(|(_, number)| *number).collect();
        self.healing.retain(|(time, _)| *time > now);
        for number in due {
            self.heal(number);
        }
    }

    fn heal(&mut self, number: usize) {
        self.history.note(format!("! {number} is healed"));
        if let Some(process) = self.processes.get(number) {
            process.tell(&json!({ "do": "heal" }));
        }
    }

    fn kill(&mut self) {
        let number = self.any_process();
        let Some(mut process) = self.processes.remove(number) else { return };
        self.history.note(format!("! {number} is killed"));
        process.kill();
        self.history.kills += 1;
        self.healing.retain(|(_, process)| *process != number);
        self.processes.start();
    }

    /// Lets a process end in an orderly way.
    fn dismiss(&mut self) {
        let number = self.any_process();
        self.heal(number);
        let Some(mut process) = self.processes.remove(number) else { return };
        self.history.note(format!("! {number} is dismissed"));
        process.dismiss();
        self.leaving.push(process);
        self.healing.retain(|(_, process)| *process != number);
        self.processes.start();
    }

    /// Nothing is killed any more: everything goes on to its end.
    fn come_to_an_end(&mut self) {
        self.history.note("! everything comes to its end");
        self.healing.clear();
        let numbers: Vec<usize> = self.processes.alive.iter().map(|process| process.number).collect();
        numbers.into_iter().for_each(|number| self.heal(number));
        let deadline = Instant::now() + TO_THE_END;
        loop {
            self.listen(Duration::from_millis(20));
            for question in self.store.pending_approvals().wait().unwrap() {
                self.answer_here(&question, true);
            }
            let runs = self.store.runs(None).wait().unwrap();
            let open: Vec<RunId> = runs.into_iter().filter(|run| !run.state.is_final()).map(|run| run.id).collect();
            if open.is_empty() && self.asked.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                let asked: Vec<&Request> = self.asked.values().collect();
                let what = format!("no end of {open:?}, requests {asked:?}");
                let words: Vec<&str> = open.iter().map(RunId::as_str).collect();
                let history = self.history.of(&words);
                self.history.findings.push(format!("{what}\n{history}"));
                break;
            }
            for run in open {
                if !self.asked.values().any(|request| request.run.as_ref() == Some(&run) && request.what == "wait") {
                    let process = self.any_process();
                    self.wait_for(process, &run);
                }
            }
        }
        for mut process in
            std::mem::take(&mut self.processes.alive).into_iter().chain(std::mem::take(&mut self.leaving))
        {
            process.dismiss();
            if process.ended(Duration::from_secs(15)) {
                self.history.findings.push(format!("process {} does not end by itself", process.number));
            }
        }
        let leases = self.history.place.leases();
        let settled = block_on(settle_orphans(&self.store, &leases, Duration::from_secs(60)));
        self.history.note(format!("settled {settled:?}"));
    }
}
