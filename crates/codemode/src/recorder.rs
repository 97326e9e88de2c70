//! Records a program while it runs. Nothing is stored here: what was recorded goes with the commits that are made anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pincer_sandbox::{Answer, Engine, Json, Limit, LoadKind, Output, Request, RequestId, Turn, TurnEnd};
use pincer_store::{Millis, RecordedPart, SharedText};
use pincer_tools::Effect;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::input::ExecInput;
use crate::pending_calls::Settled;
use crate::recording::{
    FORM, RecordedAnswer, RecordedEnd, RecordedEvent, RecordedLimits, RecordedLoad, RecordedPark, RecordedProgram,
    RecordedRequest, RecordedTurn, RecordedWait, check, hex,
};
use crate::result::PendingToolCall;
use crate::scope::RunScope;

/// The bytes of events that are recorded of a run, about.
const MOST_EVENT_BYTES: usize = 1 << 20;
/// The bytes of the texts that its events name.
const MOST_TEXT_BYTES: usize = 8 << 20;
/// The bytes from which a part is left as it is. A smaller one is stored again with what comes next: a program that makes many short calls
/// has few rows.
const FULL_PART: usize = 1 << 10;
/// A value up to this size is part of its event. A larger one is a text: other runs may have it too.
const SMALL: usize = 256;
/// The things that a suspension lists.
const MOST_WAITS: usize = 20;

/// Records one program.
pub(crate) struct Recorder(Option<Box<Log>>);

/// The part of a recording that is not stored.
struct Log {
    /// The beginning, as long as it is not stored.
    program: Option<RecordedProgram>,
    events: Vec<RecordedEvent>,
    /// The first of these events that are stored: the part that they are in is stored again with those behind them.
    kept: usize,
    /// The bytes of the part that is about to be stored.
    bytes: usize,
    texts: BTreeMap<[u8; 32], Arc<str>>,
    /// The turn that is under way.
    turn: RecordedTurn,
    /// Answers on their way to the program that the journal has.
    journaled: BTreeSet<RequestId>,
    stored: StoredRecorder,
}

/// Where a recording stands, as it is stored with a program that may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRecorder {
    /// The number of the next part.
    number: u32,
    /// When the program began.
    began: Millis,
    event_bytes: usize,
    text_bytes: usize,
    /// The recording has ended.
    is_cut: bool,
}

/// A part as it is stored.
#[derive(Serialize)]
struct Part<'l> {
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'l RecordedProgram>,
    events: &'l [RecordedEvent],
}

impl Recorder {
    /// For a program that began unrecorded.
    pub(crate) fn off() -> Self {
        Self(None)
    }

    /// For a program that begins now.
    pub(crate) fn new(engine: &Engine, scope: &RunScope, input: &ExecInput, seed: u64, now: Millis) -> Self {
        let limits = scope.settings.limits;
        let program = RecordedProgram {
            form: FORM,
            at: now,
            code: input.code.clone(),
            language: input.language,
            guest: scope.guest,
            globals: scope.lazy_globals(),
            seed: hex(&seed.to_be_bytes()),
            engine: hex(&engine.engine_hash().0[..8]),
            image: image_of(engine),
            limits: RecordedLimits {
                memory_bytes: limits.memory_bytes,
                output_bytes: limits.output_bytes,
                value_bytes: limits.value_bytes,
                pending_requests: limits.pending_requests,
                source_bytes: limits.source_bytes,
                timeout_ms: scope.whole_time().as_millis() as u64,
            },
        };
        Self::of(Some(program), StoredRecorder { number: 0, began: now, event_bytes: 0, text_bytes: 0, is_cut: false })
    }

    /// For a program that is continued.
    pub(crate) fn resumed(stored: Option<StoredRecorder>, now: Millis) -> Self {
        let Some(stored) = stored else { return Self::off() };
        let mut recorder = Self::of(None, stored);
        recorder.push(RecordedEvent::Resumed(since(stored.began, now)), 16);
        recorder
    }

    fn of(program: Option<RecordedProgram>, stored: StoredRecorder) -> Self {
        let (events, texts) = (Vec::new(), BTreeMap::new());
        let (turn, journaled) = (RecordedTurn::default(), BTreeSet::new());
        Self(Some(Box::new(Log { program, events, kept: 0, bytes: 0, texts, turn, journaled, stored })))
    }

    /// Returns the log, unless the recording is off or has ended.
    fn open(&mut self) -> Option<&mut Log> {
        self.0.as_deref_mut().filter(|log| !log.stored.is_cut)
    }

    /// Returns whether the program is recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.0.as_ref().is_some_and(|log| !log.stored.is_cut)
    }

    /// Takes note of a call that has settled. One that failed before it changed something may not have been dispatched, and then the
    /// journal has nothing of it.
    pub(crate) fn settled(&mut self, settled: &Settled) {
        if settled.outcome.result.is_ok() || settled.outcome.effect != Effect::None {
            self.journaled(settled.call.id);
        }
    }

    /// Notes that an answer is the outcome of a call which the journal has.
    pub(crate) fn journaled(&mut self, request: RequestId) {
        if let Some(log) = self.open() {
            log.journaled.insert(request);
        }
    }

    /// Returns whether it was noted.
    pub(crate) fn has_journaled(&self, request: RequestId) -> bool {
        self.0.as_ref().is_some_and(|log| log.journaled.contains(&request))
    }

    /// Begins a turn, in which the program is told this.
    pub(crate) fn begin_turn(&mut self, answers: &[Answer], now: Millis) {
        let Some(log) = self.open() else { return };
        let at = since(log.stored.began, now);
        let answers = answers.iter().map(|answer| log.answer(answer)).collect();
        log.turn = RecordedTurn { at, answers, ..RecordedTurn::default() };
    }

    /// Takes the readings, the output and the end of a turn. Its requests are noted one by one.
    pub(crate) fn turned(&mut self, turn: &mut Turn) {
        let readings = turn.readings.take();
        let Some(log) = self.open() else { return };
        let Some(readings) = readings.filter(|readings| !readings.is_cut) else {
            return log.cut("the program read its clock or its files too often");
        };
        log.turn.clock = readings.clock;
        for load in readings.loads {
            let text = load.text.as_ref().map(|text| log.text(text));
            log.turn.loads.push(RecordedLoad { file: load.kind == LoadKind::File, name: load.name, text });
        }
        log.turn.printed = printed(&turn.output);
        log.turn.end = ending(&turn.end);
        if log.turn.end.is_some() {
            log.end_turn();
        }
    }

    /// Notes a request of the turn, and the call that it has become, if it has: its number and its tool.
    pub(crate) fn asked(&mut self, request: &Request, line: Option<u32>, call: Option<(u32, &str)>) {
        let Some(log) = self.open() else { return };
        let args = (call.is_none() && request.args.as_str().len() <= SMALL).then(|| request.args.clone());
        let (call, tool) = call.map(|(seq, tool)| (seq, tool.to_owned())).unzip();
        let (id, method, check) = (request.id.0, request.method.clone(), Some(checked(request)));
        log.turn.requests.push(RecordedRequest { id, method, line, call, tool, args, check });
    }

    /// Ends a turn, after its requests.
    pub(crate) fn end_turn(&mut self) {
        if let Some(log) = self.open() {
            log.end_turn();
        }
    }

    /// Notes that the program is suspended.
    pub(crate) fn parked(&mut self, pending: &[PendingToolCall], now: Millis) {
        let Some(log) = self.open() else { return };
        let waits = pending.iter().take(MOST_WAITS).map(|call| RecordedWait {
            method: call.method.clone(),
            tool: call.tool_id.clone(),
            state: call.state,
        });
        let park = RecordedPark { at: since(log.stored.began, now), waits: waits.collect() };
        let bytes = 32 + 96 * park.waits.len();
        self.push(RecordedEvent::Parked(park), bytes);
    }

    /// Takes the last note back: the program could not be suspended.
    pub(crate) fn not_parked(&mut self) {
        if let Some(log) = self.open()
            && log.has_more()
            && matches!(log.events.last(), Some(RecordedEvent::Parked(_)))
        {
            log.events.pop();
        }
    }

    fn push(&mut self, event: RecordedEvent, bytes: usize) {
        if let Some(log) = self.open() {
            log.push(event, bytes);
        }
    }

    /// Returns what is to be stored with the next commit of the run, if anything is.
    pub(crate) fn part(&mut self) -> Option<RecordedPart> {
        let log = self.0.as_deref_mut()?;
        if !log.has_more() {
            return None;
        }
        let text = serde_json::to_string(&Part { program: log.program.as_ref(), events: &log.events }).ok()?;
        log.bytes = text.len();
        let shared = |(hash, text): (&[u8; 32], &Arc<str>)| SharedText { hash: *hash, text: Arc::clone(text) };
        let texts = log.texts.iter().map(shared).collect();
        Some(RecordedPart { number: log.stored.number, text: text.into(), texts })
    }

    /// Takes note that the part has been stored.
    pub(crate) fn stored(&mut self) {
        if let Some(log) = self.0.as_deref_mut()
            && log.has_more()
        {
            log.texts.clear();
            // The first part begins the recording anew whenever it is stored.
            if log.program.take().is_some() || log.bytes >= FULL_PART {
                log.events.clear();
                log.stored.number += 1;
            }
            log.kept = log.events.len();
        }
    }

    /// Returns where the recording will stand when its part has been stored.
    pub(crate) fn standing(&self) -> Option<StoredRecorder> {
        let log = self.0.as_deref()?;
        // Another process does not know the events of this part, so it begins another.
        let is_next = log.program.is_some() || !log.events.is_empty();
        Some(StoredRecorder { number: log.stored.number + u32::from(is_next), ..log.stored })
    }
}

impl Log {
    /// Returns whether there is something that is not stored.
    fn has_more(&self) -> bool {
        self.program.is_some() || self.events.len() > self.kept
    }

    fn push(&mut self, event: RecordedEvent, bytes: usize) {
        self.stored.event_bytes += bytes;
        if self.stored.event_bytes > MOST_EVENT_BYTES || self.stored.text_bytes > MOST_TEXT_BYTES {
            return self.cut("the program did more than is recorded of one");
        }
        self.events.push(event);
    }

    fn cut(&mut self, why: &str) {
        self.stored.is_cut = true;
        self.events.push(RecordedEvent::Cut(why.into()));
    }

    fn end_turn(&mut self) {
        let turn = std::mem::take(&mut self.turn);
        let answers = turn.answers.iter().map(|it| 40 + it.value.as_ref().map_or(64, |value| value.as_str().len()));
        let requests = turn.requests.iter().map(|it| 120 + it.args.as_ref().map_or(0, |args| args.as_str().len()));
        let loads = turn.loads.iter().map(|load| 96 + load.name.len());
        let bytes = 64 + answers.chain(requests).chain(loads).sum::<usize>() + 8 * turn.clock.len();
        self.push(RecordedEvent::Turn(turn), bytes);
    }

    fn answer(&mut self, Answer { id, outcome }: &Answer) -> RecordedAnswer {
        let answer = RecordedAnswer { id: id.0, ..RecordedAnswer::default() };
        match outcome {
            _ if self.journaled.remove(id) => RecordedAnswer { check: Some(checked_answer(outcome)), ..answer },
            Ok(value) if value.as_str().len() <= SMALL => RecordedAnswer { value: Some(value.clone()), ..answer },
            Ok(value) => RecordedAnswer { text: Some(self.text(&value.as_str().into())), ..answer },
            Err(fault) => RecordedAnswer { fault: Some(fault.clone()), ..answer },
        }
    }

    /// Keeps a text, and returns its hash.
    fn text(&mut self, text: &Arc<str>) -> String {
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        if self.texts.insert(hash, Arc::clone(text)).is_none() {
            self.stored.text_bytes += text.len();
        }
        hex(&hash)
    }
}

/// Names the image that programs begin with.
pub(crate) fn image_of(engine: &Engine) -> String {
    hex(&engine.image_hash().0[..8])
}

/// Returns the milliseconds since the program began.
fn since(began: Millis, now: Millis) -> u64 {
    u64::try_from(now - began).unwrap_or(0)
}

/// A check of what a program asks for.
pub(crate) fn checked(request: &Request) -> u64 {
    check([request.method.as_str(), request.args.as_str(), &request.absent.to_string()])
}

/// A check of what it is told.
pub(crate) fn checked_answer(outcome: &Result<Json, pincer_sandbox::Fault>) -> u64 {
    match outcome {
        Ok(value) => check(["value", value.as_str()]),
        Err(fault) => check(["fault", &serde_json::to_string(fault).unwrap_or_default()]),
    }
}

/// A check of what it prints, if it does.
pub(crate) fn printed(output: &[Output]) -> Option<u64> {
    fn texts(item: &Output) -> [&str; 2] {
        match item {
            Output::Text { text } => ["text", text],
            Output::Json { value } => ["json", value.as_str()],
        }
    }
    (!output.is_empty()).then(|| check(output.iter().flat_map(texts)))
}

/// Returns how a turn ended its program.
pub(crate) fn ending(end: &TurnEnd) -> Option<RecordedEnd> {
    Some(match end {
        TurnEnd::Waiting => return None,
        TurnEnd::Value(value) => RecordedEnd::Value(Some(check(value.as_ref().map(Json::as_str)))),
        TurnEnd::Failed(failure) => RecordedEnd::Failed(Some(check([failure.name.as_str(), &failure.message]))),
        TurnEnd::Limit(limit) => RecordedEnd::Limit(limit_name(*limit).into()),
        TurnEnd::Interrupted | TurnEnd::Crashed(_) => RecordedEnd::Stopped,
    })
}

/// The limits that depend on the machine and on other programs.
pub(crate) const OF_THE_MACHINE: [&str; 2] = ["time", "memory budget"];

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Time => OF_THE_MACHINE[0],
        Limit::MemoryBudget { .. } => OF_THE_MACHINE[1],
        Limit::Memory { .. } => "memory",
        Limit::Stack => "stack",
        Limit::Output { .. } | Limit::OutputItems { .. } => "output",
        Limit::Value { .. } | Limit::Nodes { .. } | Limit::Depth { .. } => "value",
        Limit::Arguments { .. } => "arguments",
        Limit::Requests { .. } => "requests",
    }
}
