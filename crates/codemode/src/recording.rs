//! Recordings: what a program read, asked for and was told, so that it can take the same way again without its tools.
//!
//! The outcomes of calls are in the journal and stay there; a recording has the order in which the program got them, and what the
//! journal does not have.

use std::collections::BTreeMap;

use pincer_sandbox::{Fault, Json, has_too_many_nodes};
use pincer_store::{Millis, RecordedRuns, Recordings, RunId, RunState, SharedText, StoreError, StoredRecording};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use crate::guest::Guest;
use crate::result::PendingState;
use crate::settings::Language;

/// The form. A later one that cannot be read by this version has another number.
pub(crate) const FORM: u32 = 1;
/// The largest recording that is read from a file.
pub const MAX_RECORDING_BYTES: usize = 64 << 20;

/// The recording of a run, with the outcomes of its calls. As JSON it is the file of a program in a bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    form: u32,
    /// The run.
    pub run_id: RunId,
    /// How the run stands, as the store calls it.
    pub state: String,
    /// The run of an agent that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_run: Option<String>,
    pub(crate) program: RecordedProgram,
    pub(crate) events: Vec<RecordedEvent>,
    /// Texts that events name by their hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) texts: BTreeMap<String, String>,
    /// The calls, as the journal has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<RecordedCall>,
    /// The last words to the caller.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) result: Option<Json>,
    /// Values in it were replaced since it was recorded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) redacted: bool,
}

/// The program and what it began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedProgram {
    pub form: u32,
    /// When it began.
    pub at: Millis,
    /// As its author wrote it.
    pub code: String,
    pub language: Language,
    pub guest: Guest,
    /// The names of the globals that it could load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub globals: Vec<String>,
    /// Of `Math.random`, in hexadecimal digits.
    pub seed: String,
    /// The hashes of the engine and of its image.
    pub engine: String,
    pub image: String,
    pub limits: RecordedLimits,
}

/// The limits of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedLimits {
    pub memory_bytes: usize,
    pub output_bytes: usize,
    pub value_bytes: usize,
    pub pending_requests: usize,
    pub source_bytes: usize,
    pub timeout_ms: u64,
}

/// An event of the program's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RecordedEvent {
    Turn(RecordedTurn),
    /// It was suspended.
    Parked(RecordedPark),
    /// It was continued from its checkpoint, so many milliseconds after it began.
    Resumed(u64),
    /// The recording ends here, although the program went on.
    Cut(String),
}

/// One turn of its cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedTurn {
    /// When it began, in milliseconds since the program did.
    pub at: u64,
    /// The answers to it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RecordedAnswer>,
    /// As in [`Readings`](pincer_sandbox::Readings).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<(i64, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<RecordedLoad>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RecordedRequest>,
    /// A check of what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<u64>,
    /// How the program ended, if this was its last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RecordedEnd>,
}

/// An answer. Without a value, a text or a fault it is the outcome of a call, which the journal has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedAnswer {
    /// The request.
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<Json>,
    /// The hash of a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// A check of what the program got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<u64>,
}

/// Something that it took from its library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedLoad {
    #[serde(default, skip_serializing_if = "is_false")]
    pub file: bool,
    pub name: String,
    /// The hash of its text; absent if there was no such thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Something that it asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedRequest {
    pub id: u32,
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The number of the call in the journal, and its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The arguments of something that is no call, if they are short.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub args: Option<Json>,
    /// A check of method and arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<u64>,
}

/// How a program ended in its cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RecordedEnd {
    /// It returned; a check of the value.
    Value(Option<u64>),
    /// It failed; a check of what it said.
    Failed(Option<u64>),
    /// It was stopped for using too much: of this.
    Limit(String),
    /// It was stopped from outside, or broke down.
    Stopped,
}

/// A suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedPark {
    pub at: u64,
    /// The calls that it waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<RecordedWait>,
}

/// Something that a suspended program waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedWait {
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub state: PendingState,
}

/// A call as the journal has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordedCall {
    pub seq: u32,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub input: Option<Json>,
    /// As [`pincer_tools::recorded`] reads it. Absent if it is not there any more, or not yet.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub outcome: Option<Json>,
}

/// A part of a recording, as it is stored.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPart {
    program: Option<RecordedProgram>,
    events: Vec<RecordedEvent>,
}

/// Why there is no recording that can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is none.
    #[error(
        "the run {run} was not recorded: it began before this version of Pincer recorded programs, or its program has not begun"
    )]
    None {
        /// The run.
        run: RunId,
    },
    /// It is of another version.
    #[error("the recording has form {form}, which this version of Pincer does not know: use the version that made it")]
    Form {
        /// The form.
        form: u64,
    },
    /// It cannot be read.
    #[error("the recording of {of} is damaged: {source}")]
    Damaged {
        /// The run or file.
        of: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// It is larger than a recording may be.
    #[error("a recording may have {limit} {what}, and this one has more")]
    TooLarge {
        /// The thing that is counted.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Recording {
    /// Reads the recording of a run.
    pub async fn read<S: Recordings + ?Sized>(store: &S, id: &RunId) -> Result<Self, RecordingError> {
        Self::of(store.recording(id).await?)
    }

    /// Makes it of what is stored.
    pub fn of(stored: StoredRecording) -> Result<Self, RecordingError> {
        let StoredRecording { run, parts, texts, calls, result } = stored;
        let damaged = |source| RecordingError::Damaged { of: format!("the run {}", run.id), source };
        let (mut program, mut events) = (None, Vec::new());
        for part in &parts {
            let part: StoredPart = serde_json::from_str(part).map_err(|error| of_form(part, damaged(error)))?;
            program = program.or(part.program);
            events.extend(part.events);
        }
        let program: RecordedProgram = program.ok_or_else(|| RecordingError::None { run: run.id.clone() })?;
        let json = |text: &str| Json::parse(text).ok();
        let calls = calls.into_iter().map(|call| RecordedCall {
            seq: call.seq,
            tool: call.tool,
            line: call.line,
            input: json(&call.input),
            outcome: call.outcome.as_deref().and_then(json),
        });
        let mut recording = Self {
            form: FORM,
            run_id: run.id,
            state: run.state.as_str().to_owned(),
            agent_run: run.agent_run,
            program,
            events,
            texts: BTreeMap::new(),
            calls: calls.collect(),
            result: result.as_deref().and_then(json),
            redacted: false,
        };
        recording.name_texts(texts);
        recording.known()
    }

    /// Gives texts short names: a long hash looks like a secret.
    fn name_texts(&mut self, texts: Vec<SharedText>) {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for (place, SharedText { hash, text }) in texts.into_iter().enumerate() {
            let name = format!("t{}", place + 1);
            names.insert(hex(&hash), name.clone());
            self.texts.insert(name, text.to_string());
        }
        for event in &mut self.events {
            let RecordedEvent::Turn(turn) = event else { continue };
            let of_answers = turn.answers.iter_mut().filter_map(|answer| answer.text.as_mut());
            let of_loads = turn.loads.iter_mut().filter_map(|load| load.text.as_mut());
            for text in of_answers.chain(of_loads) {
                if let Some(name) = names.get(text) {
                    text.clone_from(name);
                }
            }
        }
    }

    /// Returns the runs that have a recording, oldest first.
    pub async fn list<S: Recordings + ?Sized>(store: &S, of: RecordedRuns) -> Result<Vec<RunId>, StoreError> {
        store.recorded_runs(of).await
    }

    /// Reads the file of a program in a bundle. A stranger may have written it.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        if text.len() > MAX_RECORDING_BYTES {
            return Err(RecordingError::TooLarge { what: "bytes", limit: MAX_RECORDING_BYTES });
        }
        if has_too_many_nodes(text.as_bytes()) {
            return Err(RecordingError::TooLarge { what: "values and keys", limit: pincer_sandbox::MAX_NODES });
        }
        let recording: Self = serde_json::from_str(text)
            .map_err(|source| of_form(text, RecordingError::Damaged { of: "this file".into(), source }))?;
        recording.known()
    }

    /// Returns it as the text of a file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn known(self) -> Result<Self, RecordingError> {
        match [self.form, self.program.form].into_iter().find(|form| *form != FORM) {
            Some(form) => Err(RecordingError::Form { form: form.into() }),
            None => Ok(self),
        }
    }

    /// Returns the program as its author wrote it.
    pub fn code(&self) -> &str {
        &self.program.code
    }

    /// Returns the language of the program.
    pub fn language(&self) -> Language {
        self.program.language
    }

    /// Returns whether values in it were replaced since it was recorded.
    pub fn is_redacted(&self) -> bool {
        self.redacted
    }

    pub(crate) fn ended(&self) -> bool {
        RunState::from_word(&self.state).is_some_and(RunState::is_final)
    }
}

/// A recording of another form may have other members.
fn of_form(text: &str, error: RecordingError) -> RecordingError {
    #[derive(Deserialize)]
    struct Form {
        form: Option<u64>,
        program: Option<Within>,
    }
    #[derive(Deserialize)]
    struct Within {
        form: u64,
    }
    let form = serde_json::from_str::<Form>(text).ok();
    let form = form.and_then(|form| form.form.or(form.program.map(|program| program.form)));
    match form.filter(|form| *form != u64::from(FORM)) {
        Some(form) => RecordingError::Form { form },
        None => error,
    }
}

/// Returns a check of some texts: enough to tell others from them, and not to find them. Every reader of JSON takes the number.
pub(crate) fn check<'t>(texts: impl IntoIterator<Item = &'t str>) -> u64 {
    const BITS: u32 = 53;
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    let hash: [u8; 32] = hasher.finalize().into();
    let first = hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    first >> (u64::BITS - BITS)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A value that is `null` is one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(it: &bool) -> bool {
    !it
}
