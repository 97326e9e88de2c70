//! `pincer runs replay`: runs a recorded program again and shows the way that it takes. Nothing is called, changed or stored.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pincer_codemode::{MAX_RECORDING_BYTES, Output, Recording, Replay, ReplayOptions, Settled, Step, What, replay};
use pincer_runtime::load_engine;
use pincer_sandbox::Engine;
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;
use serde_json::{Value, json};

use super::exec::read;
use super::runs::LEAST_PREFIX;
use crate::print::{chain, count, exit_code, harmless, line, note, prepared, time};
use crate::refused::Refused;
use crate::usage::LocationArguments;
use crate::usage_runs::ReplayArguments;
use crate::{DONE, FAILED, WRONG_USAGE, notices, state};

/// The folder of a bundle with a file for each program.
const PROGRAMS: &str = "programs";
/// The programs of a bundle that are looked at.
const MOST_PROGRAMS: usize = 10_000;
/// The characters of a value that a line has room for.
const MOST_SHOWN: usize = 200;

pub(crate) fn run(locations: &LocationArguments, arguments: &ReplayArguments, is_json: bool) -> u8 {
    match replayed(locations, arguments, is_json) {
        Ok(true) => exit_code(DONE),
        Ok(false) => exit_code(FAILED),
        Err(refused) => refused.tell(),
    }
}

/// Replays what is asked for, and returns whether all of it took the same way.
fn replayed(locations: &LocationArguments, arguments: &ReplayArguments, is_json: bool) -> Result<bool, Refused> {
    let place = Path::new(&arguments.what);
    let is_bundle = place.is_dir() || arguments.what.contains('/');
    let code = arguments.code.as_deref().map(read).transpose().map_err(|error| Refused(WRONG_USAGE, error))?;
    let until = arguments.until.map(|until| until as usize);
    let options = ReplayOptions { code, until, ..ReplayOptions::default() };
    let files = match (is_bundle, &arguments.run) {
        (true, run) => Some(programs(place, run.as_deref())?),
        (false, Some(_)) => {
            return Err(Refused(WRONG_USAGE, "--run chooses a program of a bundle, and this is none".into()));
        }
        (false, None) => None,
    };
    let (mut is_same, mut documents) = (true, Vec::new());
    // Loaded when there is something to run.
    let mut engine: Option<Engine> = None;
    let mut one = |recording: Recording| -> Result<(), Refused> {
        let engine = match &engine {
            Some(engine) => engine,
            None => {
                engine.insert(load_engine(1, &notices::observer()).map_err(|error| Refused(FAILED, chain(&error)))?)
            }
        };
        let done = replay(engine, &recording, &options)
            .map_err(|error| Refused(FAILED, format!("{}: {}", recording.run_id, harmless(&chain(&error)))))?;
        is_same &= done.is_same();
        match is_json {
            true => documents.push(document(&recording, &done)),
            false => show(&recording, &done, arguments.step),
        }
        Ok(())
    };
    let Some(files) = files else {
        one(stored(locations, &arguments.what)?)?;
        if let Some(document) = documents.pop() {
            line(&document.to_string());
        }
        return Ok(is_same);
    };
    for file in files {
        let text = read_file(&file)?;
        let refused = |error: &dyn std::error::Error| Refused(FAILED, format!("{}: {}", shown(&file), chain(error)));
        one(Recording::parse(&text).map_err(|error| refused(&error))?)?;
    }
    if is_json {
        line(&json!({ "same": is_same, "programs": documents }).to_string());
    }
    Ok(is_same)
}

/// Reads the recording of the one run whose id begins so.
fn stored(locations: &LocationArguments, id: &str) -> Result<Recording, Refused> {
    if id.len() < LEAST_PREFIX {
        return Err(Refused(WRONG_USAGE, format!("`{id}` is too short for an id: `pincer runs list` shows them")));
    }
    let directory =
        state::directory(locations).ok_or_else(|| Refused(FAILED, chain(&state::OpenError::NoDirectory)))?;
    let found = SqliteStore::look_at_recordings(&directory.join(pincer_runtime::STORE_FILE), id)
        .map_err(|error| Refused(FAILED, chain(&error)))?;
    let mut found = found.ok_or_else(|| {
        let why = "no version of Pincer that records programs has opened this store: run them again with this one";
        Refused(FAILED, why.into())
    })?;
    if let Some(whole) = found.iter().position(|recording| recording.run.id == *id) {
        found = vec![found.swap_remove(whole)];
    }
    match (found.pop(), found.len()) {
        (Some(recording), 0) => Recording::of(recording).map_err(|error| Refused(FAILED, chain(&error))),
        (None, _) => Err(Refused(WRONG_USAGE, format!("there is no run {id}: `pincer runs list` shows them"))),
        (Some(_), _) => Err(Refused(WRONG_USAGE, format!("several runs begin with {id}: give more of the id"))),
    }
}

/// Returns the files of a bundle's programs, in the order in which these began. Links and names of another form are left out.
fn programs(bundle: &Path, run: Option<&str>) -> Result<Vec<PathBuf>, Refused> {
    let folder = bundle.join(PROGRAMS);
    let none = |why: &str| Refused(WRONG_USAGE, format!("{} is no bundle with programs: {why}", shown(bundle)));
    if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
        return Err(none("it has no folder `programs`"));
    }
    let entries = fs::read_dir(&folder).map_err(|error| none(&error.to_string()))?;
    let is_wanted = |name: &str| run.is_none_or(|run| name.starts_with(run));
    let mut files: Vec<PathBuf> = entries
        .take(MOST_PROGRAMS)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter(|entry| entry.file_name().to_str().and_then(run_of).is_some_and(is_wanted))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    match (files.len(), run) {
        (0, Some(run)) => Err(Refused(WRONG_USAGE, format!("the bundle has no program {}", one_line(run, 100)))),
        (0, None) => Err(none("its folder `programs` has none")),
        (2.., Some(run)) if run.len() < LEAST_PREFIX => {
            Err(Refused(WRONG_USAGE, format!("`{run}` is too short for an id")))
        }
        (2.., Some(run)) => {
            Err(Refused(WRONG_USAGE, format!("several programs begin with {run}: give more of the id")))
        }
        _ => Ok(files),
    }
}

/// Returns the run whose recording a file has, by its name.
fn run_of(name: &str) -> Option<&str> {
    let run = name.strip_suffix(".json")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!run.is_empty() && run.len() <= 100 && run.chars().all(fits)).then_some(run)
}

/// Reads the file of a program, which may be neither a link nor a pipe.
fn read_file(file: &Path) -> Result<String, Refused> {
    let refused = |why: String| Refused(FAILED, format!("{} cannot be read: {why}", shown(file)));
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(file);
    let opened = opened.map_err(|error| refused(error.to_string()))?;
    if !opened.metadata().is_ok_and(|found| found.is_file()) {
        return Err(refused("it is no file".into()));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_RECORDING_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
    if bytes.len() > MAX_RECORDING_BYTES {
        return Err(refused(format!("it has more than {MAX_RECORDING_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| refused("it is no text".into()))
}

fn shown(path: &Path) -> String {
    one_line(&path.display().to_string(), 300)
}

fn document(recording: &Recording, done: &Replay) -> Value {
    let mut document = json!(done);
    document["runId"] = json!(recording.run_id);
    document["state"] = json!(recording.state);
    document["same"] = json!(done.is_same());
    document
}

fn show(recording: &Recording, done: &Replay, step: Option<u32>) {
    if let Some(number) = step {
        match done.steps.get(number as usize - 1) {
            Some(step) => line(&harmless(&serde_json::to_string_pretty(step).unwrap_or_default())),
            None => note(&format!("there is no step {number}: it has {}", count(done.steps.len(), "step"))),
        }
    } else {
        line(&format!("{} ({})", one_line(recording.run_id.as_str(), 100), one_line(&recording.state, 40)));
        done.steps.iter().flat_map(rows).for_each(|row| prepared(&row));
    }
    done.warnings.iter().for_each(|warning| note(&format!("warning: {}", harmless(warning))));
    if let Some(difference) = &done.difference {
        let place = difference.line.map_or_else(String::new, |line| format!(", line {line}"));
        prepared(&format!("step {}{place}: it takes another way", difference.step));
        prepared(&format!("  recorded: {}", difference.expected));
        prepared(&format!("  now:      {}", difference.found));
    } else if let Some(damage) = &done.damage {
        prepared(&format!("the recording is damaged: {damage}"));
    } else if let Some(why) = &done.ends_here {
        prepared(&format!("the same way up to here; {}", harmless(why)));
    } else if step.is_none() {
        prepared("the same way as recorded");
    }
}

/// Returns a step as lines without control characters.
fn rows(step: &Step) -> Vec<String> {
    let place = step.line.map_or_else(String::new, |line| format!("line {line}"));
    let head = format!("{:4}  {:>9}  {place:9}", step.number, since(step.at_ms));
    match &step.what {
        What::Asked { asked, settled } => {
            let name = match (asked.tool.as_deref(), asked.method.as_str()) {
                (Some(tool), _) => tool,
                (None, "search") => "tools.search",
                (None, "describe") => "tools.describe",
                (None, "sleep") => "setTimeout",
                (None, "yield") => "yield_control",
                (None, method) => method,
            };
            let input = asked.input.as_ref().map_or_else(String::new, |input| short(input.as_str()));
            let outcome = settled.as_ref().map_or_else(|| "→ (no answer)".into(), |it| outcome(it, step.at_ms));
            vec![format!("{head}  {} {input} {outcome}", one_line(name, 100))]
        }
        What::Printed { output } => output
            .iter()
            .map(|item| match item {
                Output::Text { text } => format!("{head}  printed: {}", short(text)),
                Output::Json { value } => format!("{head}  printed: {}", short(value.as_str())),
            })
            .collect(),
        What::Suspended { waits_for, ms } => {
            let time = ms.map_or_else(String::new, |ms| format!(" for {}", since(ms)));
            let waits = if waits_for.is_empty() { "its next turn".into() } else { waits_for.join(", ") };
            vec![format!("{head}  suspended{time}: waited for {}", one_line(&waits, 400))]
        }
        What::Ended { how } => vec![format!("{head}  end: {}", one_line(how, 600))],
    }
}

fn outcome(settled: &Settled, asked_at: u64) -> String {
    let value = match (&settled.value, &settled.error) {
        (Some(value), _) => short(value.as_str()),
        (None, Some(fault)) => format!("threw {}: {}", one_line(&fault.name, 60), short(&fault.message)),
        (None, None) => String::new(),
    };
    let took = since(settled.at_ms.saturating_sub(asked_at));
    match settled.beside {
        0 => format!("→ {value} (after {took})"),
        _ => format!("→ {value} (after {took}, answer {})", settled.place),
    }
}

fn short(text: &str) -> String {
    one_line(text, MOST_SHOWN)
}

fn since(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => time(Duration::from_millis(ms)),
        _ => format!("{:.1} min", ms as f64 / 60_000.0),
    }
}
