//! Runs a recorded program again: in a cell of its own, against what was recorded, and compares the way it takes.
//!
//! There is no door here, no tool and no store: an engine and a recording are all that a replay has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_sandbox::{
    Answer, Cell, Engine, Error, Json, Limits, Load, LoadKind, Program, ProgramValue, Readings, Request, RequestId,
    Site, Turn, TurnEnd,
};
use pincer_source::{Returns, SourceError, prepare};
use pincer_tools::one_line;
use serde::Serialize;

use crate::bridge;
use crate::positions::Positions;
use crate::recorder::{OF_THE_MACHINE, checked, checked_answer, ending, image_of, printed};
use crate::recording::{
    RecordedAnswer, RecordedEnd, RecordedEvent, RecordedLimits, RecordedLoad, RecordedRequest, RecordedTurn, Recording,
};
use crate::replay_steps::{Asked, Difference, Step, Steps, What, asked, shown_end, shown_load, shown_output};
use crate::settings::TIMEOUT_MS;
use crate::text::without_fence;

/// The time that a replayed program may compute in all.
const MOST_TIME: Duration = Duration::from_secs(300);
/// The time that it may compute in one turn.
const MOST_TURN_TIME: Duration = Duration::from_millis(*TIMEOUT_MS.end());
/// The time of a turn that was stopped by its deadline, or from outside: what it printed until then is shown.
const STOPPED_TURN: Duration = Duration::from_millis(250);
/// The most that a recording may allow its program, whatever it says.
const MOST: Limits = Limits {
    memory_bytes: 1 << 30,
    output_bytes: 10 << 20,
    value_bytes: 16 << 20,
    pending_requests: 4 << 10,
    source_bytes: 4 << 20,
    snapshot_bytes: 0,
};

/// How to replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Another text in place of the recorded program, in the same language.
    pub code: Option<String>,
    /// The step after which it stops.
    pub until: Option<usize>,
    /// The time that the program may compute in a turn, if that is less than usual. The recorded deadline does not count: this machine
    /// may be slower.
    pub turn_time: Option<Duration>,
}

/// The result of a replay.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// The steps of the program, in order.
    pub steps: Vec<Step>,
    /// The place where it took another way than the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Why the replay ends before the program did, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_here: Option<String>,
    /// The faults of the recording, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Remarks about the comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Replay {
    /// Returns whether the program took the recorded way as far as it is known.
    pub fn is_same(&self) -> bool {
        self.difference.is_none() && self.damage.is_none()
    }
}

/// Why a program cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is no program.
    #[error("the program cannot be read: {0}")]
    Source(#[from] SourceError),
    /// There is no cell for it.
    #[error("the program cannot be run: {0}")]
    Cell(#[from] Error),
}

/// Runs a recorded program again.
pub fn replay(engine: &Engine, recording: &Recording, options: &ReplayOptions) -> Result<Replay, ReplayError> {
    let mut replaying = Replaying::begin(engine, recording, options)?;
    let stop = replaying.run();
    Ok(replaying.end(stop))
}

/// Why a replay is over.
enum Stop {
    /// The program has ended, or the recording has.
    Over,
    /// The replay goes no further, through no fault of the recording.
    EndsHere(String),
    Differs(Difference),
    Damaged(String),
}

/// A program on its way along a recording.
struct Replaying<'r> {
    recording: &'r Recording,
    cell: Cell,
    positions: Positions,
    steps: Steps,
    /// The call of each request that has become one.
    calls: BTreeMap<u32, u32>,
    turn_time: Duration,
    left: Duration,
    until: usize,
    warnings: Vec<String>,
    is_other: bool,
    has_ended: bool,
}

/// The outcome of looking an answer up.
enum Found {
    Answer(Answer),
    Stop(Stop),
}

impl<'r> Replaying<'r> {
    fn begin(engine: &Engine, recording: &'r Recording, options: &ReplayOptions) -> Result<Self, ReplayError> {
        let recorded = &recording.program;
        let code = options.code.as_deref().unwrap_or(&recorded.code);
        let limits = bounded(recorded.limits);
        if code.len() > limits.source_bytes {
            return Err(Error::SourceTooLong { bytes: code.len(), limit: limits.source_bytes }.into());
        }
        let prepared = prepare(&without_fence(code), recorded.language.into())?;
        let positions = Positions::new(&prepared.text, prepared.map);
        let value = match prepared.returns {
            Returns::Value => ProgramValue::Returned,
            Returns::LastInList => ProgramValue::Last,
        };
        let limits = Limits { source_bytes: prepared.text.len(), ..limits };
        let seed = u64::from_str_radix(&recorded.seed, 16).unwrap_or_default();
        let program = Program::new(prepared.text).value(value).seeded(seed);
        let cell = engine.start(recorded.guest.with_globals(program, &recorded.globals), limits)?;
        let mut warnings = Vec::new();
        if recorded.image != image_of(engine) {
            warnings.push(format!(
                "this program was recorded with another build of the JavaScript engine (image {}; this one is {}): it may differ \
                 for that alone",
                one_line(&recorded.image, 16),
                image_of(engine)
            ));
        }
        if recording.redacted {
            warnings.push(
                "values of this recording were redacted: a program that decides by one of them takes another way"
                    .into(),
            );
        }
        let turn_time = options.turn_time.unwrap_or(MOST_TURN_TIME).min(MOST_TURN_TIME);
        Ok(Self {
            recording,
            cell,
            positions,
            steps: Steps::default(),
            calls: BTreeMap::new(),
            turn_time,
            left: MOST_TIME,
            until: options.until.unwrap_or(usize::MAX),
            warnings,
            is_other: options.code.is_some(),
            has_ended: false,
        })
    }

    fn run(&mut self) -> Stop {
        for event in &self.recording.events {
            if self.has_ended {
                return Stop::Damaged("events follow the end of the program".into());
            }
            let stop = match event {
                RecordedEvent::Turn(turn) => self.turn(turn),
                RecordedEvent::Parked(park) => {
                    self.steps.push(park.at, None, What::suspended(park));
                    None
                }
                RecordedEvent::Resumed(at) => {
                    self.cell.renew_output();
                    self.steps.resumed(*at);
                    None
                }
                RecordedEvent::Cut(why) => {
                    Some(Stop::EndsHere(format!("the recording ends here: {}", one_line(why, 200))))
                }
            };
            if let Some(stop) = stop {
                return stop;
            }
            if self.steps.len() >= self.until {
                return Stop::EndsHere(format!("stopped after step {}, as asked", self.until));
            }
            if self.steps.is_full() {
                return Stop::EndsHere(format!("a replay shows {} steps at most", self.steps.len()));
            }
        }
        Stop::Over
    }

    /// Gives the program a turn, and compares it. Returns why the replay is over, if it is.
    fn turn(&mut self, recorded: &RecordedTurn) -> Option<Stop> {
        for answer in &recorded.answers {
            match self.found(answer) {
                Found::Answer(found) => {
                    self.steps.settled(answer.id, recorded.at, &found.outcome);
                    if self.cell.deliver(found).is_err() {
                        return Some(Stop::Damaged(format!(
                            "it has an answer to a request {} that is not open",
                            answer.id
                        )));
                    }
                }
                Found::Stop(stop) => return Some(stop),
            }
        }
        match self.readings(recorded) {
            Ok(readings) => self.cell.replay_readings(readings),
            Err(stop) => return Some(stop),
        }
        let was_stopped = match &recorded.end {
            Some(RecordedEnd::Stopped) => true,
            Some(RecordedEnd::Limit(limit)) => OF_THE_MACHINE.contains(&limit.as_str()),
            _ => false,
        };
        let time = if was_stopped { STOPPED_TURN } else { self.turn_time }.min(self.left);
        let began = Instant::now();
        let turn = match self.cell.run_turn(time) {
            Ok(turn) => turn,
            Err(error) => return Some(Stop::Damaged(error.to_string())),
        };
        self.left = self.left.saturating_sub(began.elapsed());
        self.steps.printed(recorded.at, &turn.output);
        if was_stopped {
            self.has_ended = true;
            return None;
        }
        if self.left.is_zero() {
            let seconds = MOST_TIME.as_secs();
            return Some(Stop::EndsHere(format!("a replayed program may compute for {seconds} seconds")));
        }
        self.compare(recorded, &turn)
    }

    /// Compares a turn with the recorded one, and returns the first difference.
    fn compare(&mut self, recorded: &RecordedTurn, turn: &Turn) -> Option<Stop> {
        let requests: &[Request] = if turn.end.is_final() { &[] } else { &turn.requests };
        let failure = match &turn.end {
            TurnEnd::Failed(failure) => failure.site.map(|site| self.line(site)),
            _ => None,
        };
        let loads = self.loads_differ(recorded, turn);
        if let (Some(line), Some((expected, found))) = (failure, &loads) {
            return Some(Stop::Differs(self.differs(Some(line), expected, found)));
        }
        for place in 0..requests.len().max(recorded.requests.len()) {
            match (recorded.requests.get(place), requests.get(place)) {
                (Some(was), Some(is)) => {
                    let line = is.site.map(|site| self.line(site));
                    if !self.is_same(was, is, line) {
                        let found = asked(is, None, line).to_string();
                        return Some(Stop::Differs(self.differs(line, &self.expected(was), &found)));
                    }
                    self.calls.extend(was.call.map(|call| (was.id, call)));
                    self.steps.asked(recorded.at, line, is.id.0, asked(is, was.tool.clone(), line));
                }
                (Some(was), None) => {
                    let found = shown_end(&turn.end);
                    return Some(Stop::Differs(self.differs(was.line, &self.expected(was), &found)));
                }
                (None, Some(is)) => {
                    let line = is.site.map(|site| self.line(site));
                    let found = asked(is, None, line).to_string();
                    let expected = match &recorded.end {
                        Some(end) => self.expected_end(end),
                        None => "nothing more before it waits".into(),
                    };
                    return Some(Stop::Differs(self.differs(line, &expected, &found)));
                }
                (None, None) => break,
            }
        }
        if let Some((expected, found)) = loads {
            return Some(Stop::Differs(self.differs(None, &expected, &found)));
        }
        if !self.is_other
            && let Some(was) = &recorded.printed
            && printed(&turn.output) != Some(*was)
        {
            let found = shown_output(&turn.output);
            return Some(Stop::Differs(self.differs(None, "another output", &found)));
        }
        if !self.is_other && recorded.printed.is_none() && !turn.output.is_empty() && !self.recording.redacted {
            return Some(Stop::Differs(self.differs(None, "no output", &shown_output(&turn.output))));
        }
        let reads = |clock: &[(i64, u64)]| clock.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        let (was, is) = (reads(&recorded.clock), turn.readings.as_ref().map_or(0, Readings::clock_reads));
        if was != is && !self.is_other {
            let (expected, found) = (format!("{was} looks at the clock"), format!("{is}"));
            return Some(Stop::Differs(self.differs(None, &expected, &found)));
        }
        self.compare_end(recorded, turn, failure)
    }

    fn compare_end(&mut self, recorded: &RecordedTurn, turn: &Turn, line: Option<u32>) -> Option<Stop> {
        let is_same = match (&recorded.end, ending(&turn.end)) {
            (None, None) => return None,
            (Some(RecordedEnd::Value(was)), Some(RecordedEnd::Value(is))) => was.is_none() || *was == is,
            (Some(RecordedEnd::Failed(was)), Some(RecordedEnd::Failed(is))) => was.is_none() || *was == is,
            (Some(was), Some(is)) => *was == is,
            _ => false,
        };
        if !is_same {
            let expected = match &recorded.end {
                Some(end) => self.expected_end(end),
                None => "that it waits".into(),
            };
            return Some(Stop::Differs(self.differs(line, &expected, &shown_end(&turn.end))));
        }
        self.has_ended = true;
        self.steps.push(recorded.at, line, What::Ended { how: shown_end(&turn.end) });
        None
    }

    /// Returns what was loaded and what is, where the two differ first.
    fn loads_differ(&self, recorded: &RecordedTurn, turn: &Turn) -> Option<(String, String)> {
        let loads = turn.readings.as_ref().map_or(&[][..], |readings| &readings.loads);
        let of_recorded = |load: &RecordedLoad| shown_load(load.file, &load.name);
        let of_found = |load: &Load| shown_load(load.kind == LoadKind::File, &load.name);
        let nothing = || "nothing of its globals and files".to_owned();
        (0..recorded.loads.len().max(loads.len())).find_map(|place| {
            let (was, is) = (recorded.loads.get(place).map(of_recorded), loads.get(place).map(of_found));
            // Another text may use less of what is there.
            let is_fine = was == is || self.is_other && is.is_none();
            (!is_fine).then(|| (was.unwrap_or_else(nothing), is.unwrap_or_else(nothing)))
        })
    }

    /// Returns whether a request is the recorded one.
    fn is_same(&self, was: &RecordedRequest, is: &Request, line: Option<u32>) -> bool {
        let same_line = self.is_other || was.line == line;
        let same = match &was.check {
            Some(check) => *check == checked(is),
            // Its arguments were redacted: what is left is the tool, by its id or its name.
            None => {
                let tool = asked(is, None, line).tool;
                let is_named = |id: &String, name: &String| id == name || id.ends_with(&format!(":{name}"));
                was.method == is.method
                    && was.tool.as_ref().zip(tool.as_ref()).is_none_or(|(id, name)| is_named(id, name))
            }
        };
        was.id == is.id.0 && same_line && same
    }

    fn line(&self, site: Site) -> u32 {
        self.positions.original(site).line
    }

    /// Returns a recorded request in words.
    fn expected(&self, was: &RecordedRequest) -> String {
        let call = was.call.and_then(|seq| self.recording.calls.iter().find(|call| call.seq == seq));
        let input = call.and_then(|call| call.input.clone());
        let line = was.line;
        match (&was.args, was.tool.clone()) {
            (Some(args), tool) => {
                let (id, method) = (RequestId(was.id), was.method.clone());
                let request = Request { id, method, args: args.clone(), absent: 0, site: None, at: Instant::now() };
                asked(&request, tool, line).to_string()
            }
            (None, tool) => Asked { method: was.method.clone(), tool, input, line, from_journal: true }.to_string(),
        }
    }

    /// Returns a recorded end in words.
    fn expected_end(&self, end: &RecordedEnd) -> String {
        let told = self.recording.result.as_ref().and_then(|result| result.to::<serde_json::Value>().ok());
        let told = |key: &str| told.as_ref().and_then(|told| told.get(key)).map(ToString::to_string);
        match end {
            RecordedEnd::Value(_) => match told("value") {
                Some(value) => format!("the value {}", one_line(&value, 200)),
                None => "a value".into(),
            },
            RecordedEnd::Failed(_) => match told("error") {
                Some(error) => format!("the failure {}", one_line(&error, 200)),
                None => "a failure".into(),
            },
            RecordedEnd::Limit(limit) => format!("an end at its limit of {}", one_line(limit, 40)),
            RecordedEnd::Stopped => "that it is stopped from outside".into(),
        }
    }

    fn differs(&self, line: Option<u32>, expected: &str, found: &str) -> Difference {
        let short = |text: &str| one_line(text, 400);
        Difference { step: self.steps.len() + 1, line, expected: short(expected), found: short(found) }
    }

    /// Looks an answer up.
    fn found(&self, answer: &RecordedAnswer) -> Found {
        let id = RequestId(answer.id);
        let outcome = match answer {
            RecordedAnswer { value: Some(value), .. } => Ok(value.clone()),
            RecordedAnswer { fault: Some(fault), .. } => Err(fault.clone()),
            RecordedAnswer { text: Some(hash), .. } => match self.recording.texts.get(hash).map(Json::parse) {
                Some(Ok(value)) => Ok(value),
                _ => return Found::Stop(Stop::Damaged(format!("the text of the answer {id} is not there"))),
            },
            _ => {
                let Some(call) = self.calls.get(&answer.id) else {
                    return Found::Stop(Stop::Damaged(format!("it has an answer to a request {id} that was not made")));
                };
                let row = self.recording.calls.iter().find(|row| row.seq == *call);
                let Some((row, outcome)) = row.and_then(|row| Some((row, row.outcome.as_ref()?))) else {
                    let tool = row.map_or_else(String::new, |row| format!(" of {}", one_line(&row.tool, 100)));
                    return Found::Stop(Stop::EndsHere(format!(
                        "the outcome of the call {call}{tool} is not kept any more: the journal of a program keeps its latest calls"
                    )));
                };
                bridge::replayed(&self.recording.run_id, row.seq, &row.tool, outcome.as_str())
            }
        };
        if answer.check.as_ref().is_some_and(|check| *check != checked_answer(&outcome)) {
            return Found::Stop(Stop::Damaged(format!(
                "the outcome for the request {id} is not the one that the program got: it was changed since"
            )));
        }
        Found::Answer(Answer { id, outcome })
    }

    fn readings(&self, recorded: &RecordedTurn) -> Result<Readings, Stop> {
        let text = |load: &RecordedLoad| match &load.text {
            None => Ok(None),
            Some(hash) => match self.recording.texts.get(hash) {
                Some(text) => Ok(Some(Arc::from(text.as_str()))),
                None => Err(Stop::Damaged(format!("the text of {} is not there", shown_load(load.file, &load.name)))),
            },
        };
        let load = |load: &RecordedLoad| -> Result<Load, Stop> {
            let kind = if load.file { LoadKind::File } else { LoadKind::Global };
            Ok(Load { kind, name: load.name.clone(), text: text(load)? })
        };
        let loads = recorded.loads.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Readings { clock: recorded.clock.clone(), loads, is_cut: false })
    }

    fn end(mut self, stop: Stop) -> Replay {
        let (mut difference, mut ends_here, mut damage) = (None, None, None);
        match stop {
            Stop::Over => self.over(),
            Stop::EndsHere(why) => ends_here = Some(why),
            Stop::Differs(found) => difference = Some(found),
            Stop::Damaged(what) => damage = Some(one_line(&what, 400)),
        }
        Replay { steps: self.steps.into(), difference, ends_here, damage, warnings: self.warnings }
    }

    /// Tells how a program ended that did not end by itself, or how it stands.
    fn over(&mut self) {
        if self.steps.has_ended() {
            return;
        }
        let told = self.recording.result.as_ref().and_then(|result| result.to::<serde_json::Value>().ok());
        let error = told.as_ref().and_then(|told| told.get("error")?.as_str().map(str::to_owned));
        let state = one_line(&self.recording.state, 40);
        let how = match error {
            Some(error) => format!("recorded as {state}: {}", one_line(&error, 300)),
            None if self.recording.ended() => format!("recorded as {state}"),
            None => format!("the recording ends here; the run is {state}"),
        };
        let at = self.steps.last_at();
        self.steps.push(at, None, What::Ended { how });
    }
}

fn bounded(limits: RecordedLimits) -> Limits {
    Limits {
        memory_bytes: limits.memory_bytes.min(MOST.memory_bytes),
        output_bytes: limits.output_bytes.min(MOST.output_bytes),
        value_bytes: limits.value_bytes.min(MOST.value_bytes),
        pending_requests: limits.pending_requests.min(MOST.pending_requests),
        source_bytes: limits.source_bytes.min(MOST.source_bytes),
        // It is never parked.
        snapshot_bytes: MOST.snapshot_bytes,
    }
}
