//! Whether a bundle is whole.

use std::io::{self, Read};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Folder;
use super::event::Teller;
use super::lines::Line;
use crate::SCHEMA;
use crate::manifest::Manifest;
use crate::sources::hex;

/// The most findings that are kept in words.
const MOST_FINDINGS: usize = 50;
/// The most files of a manifest that are checked.
const MOST_FILES: usize = 10_000;

/// How a bundle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// All of it is there, as it was written.
    Whole,
    /// Its end is missing.
    Cut,
    /// A part of it was changed or cannot be read.
    Damaged,
}

impl State {
    /// Returns its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Cut => "cut",
            Self::Damaged => "damaged",
        }
    }
}

/// Something that is wrong with a bundle, or that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How the bundle stands because of it.
    pub state: State,
    /// It, in words. They may have words of the bundle in them.
    pub text: String,
}

/// Reads the manifest, and tells its faults.
pub(super) fn manifest(folder: &Folder, most: u64) -> (Option<Manifest>, Vec<Finding>) {
    let wrong = |state, text: String| (None, vec![Finding { state, text }]);
    let mut text = String::new();
    match folder.file("manifest.json").and_then(|file| file.take(most + 1).read_to_string(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return wrong(State::Cut, "manifest.json is missing, so nothing can be checked against it".into());
        }
        Err(error) => return wrong(State::Damaged, format!("manifest.json cannot be read: {error}")),
        Ok(read) if read as u64 > most => return wrong(State::Damaged, "manifest.json is too long to be one".into()),
        Ok(_) => {}
    }
    match serde_json::from_str::<Manifest>(&text) {
        Ok(manifest) if manifest.trace_schema == SCHEMA => (Some(manifest), Vec::new()),
        Ok(_) => wrong(State::Damaged, format!("manifest.json is not of the schema {SCHEMA}")),
        Err(error) => wrong(State::Damaged, format!("manifest.json is damaged: {error}")),
    }
}

/// The place of an event in the order.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbered {
    #[serde(default)]
    trace_schema: String,
    #[serde(default)]
    seq: u64,
    #[serde(rename = "type", default)]
    kind: String,
}

/// A bundle while it is checked.
pub(super) struct Checked {
    findings: Vec<Finding>,
    state: State,
    lines: u64,
    events: u64,
    broken: u64,
    /// The number that the next event should have.
    expected: u64,
    gaps: u64,
    has_end: bool,
}

impl Checked {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        let state = findings.iter().map(|finding| finding.state).max().unwrap_or(State::Whole);
        Self { findings, state, lines: 0, events: 0, broken: 0, expected: 1, gaps: 0, has_end: false }
    }

    fn finds(&mut self, state: State, text: String) {
        self.state = self.state.max(state);
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding { state, text });
        }
    }

    pub(super) fn note(&mut self, text: String) {
        self.finds(State::Whole, text);
    }

    pub(super) fn unreadable(&mut self, error: &io::Error) {
        self.finds(State::Damaged, format!("events.jsonl cannot be read behind line {}: {error}", self.lines));
    }

    pub(super) fn missing(&mut self, name: &str, error: &io::Error) {
        let state = if error.kind() == io::ErrorKind::NotFound { State::Cut } else { State::Damaged };
        self.finds(state, format!("{name} cannot be read: {error}"));
    }

    /// Takes a line of the events.
    pub(super) fn line(&mut self, line: Line<'_>, teller: &mut Teller) {
        self.lines += 1;
        let number = self.lines;
        let Line::Whole(bytes) = line else {
            self.broken += 1;
            return self.finds(State::Damaged, format!("line {number} of events.jsonl is too long to be an event"));
        };
        let text = String::from_utf8_lossy(bytes);
        let numbered = match serde_json::from_str::<Numbered>(&text) {
            Ok(numbered) if numbered.trace_schema == SCHEMA => numbered,
            Ok(_) => {
                self.broken += 1;
                return self.finds(State::Damaged, format!("line {number} of events.jsonl is no event of this schema"));
            }
            // An end that is missing is told with the end of the file.
            Err(error) if error.is_eof() => return self.broken += 1,
            Err(error) => {
                self.broken += 1;
                return self.finds(State::Damaged, format!("line {number} of events.jsonl is damaged: {error}"));
            }
        };
        if numbered.seq != self.expected {
            self.gaps += 1;
            let expected = self.expected;
            self.finds(
                State::Damaged,
                format!("event {expected} is expected in line {number}, and {} is there", numbered.seq),
            );
        }
        self.expected = numbered.seq.saturating_add(1);
        self.events += 1;
        self.has_end = numbered.kind == "trace.exported";
        teller.tell(&text);
    }

    /// Takes the end of the events.
    pub(super) fn ended(&mut self, in_a_line: bool) {
        if !in_a_line {
            self.finds(State::Cut, format!("events.jsonl ends in the middle of line {}", self.lines));
        } else if !self.has_end {
            self.finds(State::Cut, "events.jsonl has no end: events behind the last one are missing".into());
        }
    }

    /// Compares the files with their sums.
    pub(super) fn files(&mut self, folder: &Folder, manifest: Option<&Manifest>) {
        for (name, sum) in manifest.into_iter().flat_map(|manifest| &manifest.files).take(MOST_FILES) {
            match summed(folder, name, sum.bytes) {
                Ok((bytes, _)) if bytes < sum.bytes => {
                    self.finds(State::Cut, format!("{name} has {bytes} of {} bytes", sum.bytes));
                }
                Ok((bytes, _)) if bytes > sum.bytes => {
                    self.finds(
                        State::Damaged,
                        format!("{name} has more than the {} bytes that were written", sum.bytes),
                    );
                }
                Ok((_, digest)) if digest != sum.sha256 => {
                    self.finds(State::Damaged, format!("{name} is not as it was written: its sum is another one"));
                }
                Ok(_) => {}
                Err(error) => self.missing(name, &error),
            }
        }
    }

    /// Returns how the bundle stands.
    pub(super) fn verdict(mut self, manifest: Option<&Manifest>) -> (State, Vec<Finding>, u64, u64) {
        if let Some(manifest) = manifest.filter(|manifest| manifest.counts.events != self.events) {
            let (events, all) = (self.events, manifest.counts.events);
            let state = if events < all { State::Cut } else { State::Damaged };
            self.finds(state, format!("{events} of {all} events can be read"));
        }
        (self.state, self.findings, self.events, self.broken)
    }
}

/// Returns the length and the sum of a file, of which no more is read than is expected.
fn summed(folder: &Folder, name: &str, expected: u64) -> io::Result<(u64, String)> {
    let mut file = folder.file(name)?.take(expected.saturating_add(1));
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hex(&digest.finalize()))),
            read => {
                digest.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}
