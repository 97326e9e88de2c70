//! A session becomes a bundle: its outline is read first, then its texts in the order in which things happened.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pincer_secrecy::{Bounds, Cleaner, Cut};
use pincer_store::{
    AgentRuns, Approval, Approvals, Clock, EntryKind, EntryText, Instructions, Millis, Outlines, Session, Sessions,
};
use serde_json::{Value, json};

use crate::about::About;
use crate::branch::{Outline, Point, What, digest, read};
use crate::bundle::Bundle;
use crate::entries::{Side, Told, nested, told};
use crate::error::ExportError;
use crate::event::{Event, Lines, Reading, Source, iso, replaced};
use crate::manifest::{Counts, Limits, Manifest, SourceSum, Truncation, Warnings};
use crate::sources::{Frames, RunFacts, asked, decided, decided_at, run};
use crate::window::{MOST_BODY, Windows};
use crate::writing::{Files, Summary};
use crate::{SCHEMA, VERSION};

/// The name that the workspace has in all files.
pub(crate) const WORKSPACE: &str = "$WORKSPACE_DIR";
/// Programs are written as a whole.
const WHOLE: Bounds = Bounds { depth: 120, items: usize::MAX, chars: 64 << 20, bytes: 256 << 20 };

/// A program for the folder `programs` of a bundle.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its run, which is the name of its file.
    pub run: String,
    /// Its recording, as JSON [without secrets](without_secrets).
    pub json: String,
}

/// Takes secrets out of a value of a program, and nothing else.
pub fn without_secrets(cleaner: &Cleaner, value: Value) -> Value {
    // A value that has just been written as JSON can be read.
    cleaner.json(&value.to_string(), &WHOLE).map_or(Value::Null, |(cleaned, _)| cleaned)
}

/// A bundle that was written.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Its place.
    pub place: PathBuf,
    /// Its contents.
    pub manifest: Manifest,
    /// The most bytes of texts of the session that were in memory at once.
    pub most_held: u64,
}

/// Writes sessions as bundles.
pub struct Exporter<'a, S> {
    /// The store.
    pub store: &'a S,
    /// The session.
    pub session: &'a Session,
    /// Takes out of all texts what must not leave this machine.
    pub cleaner: &'a Cleaner,
    /// Facts that the store does not know.
    pub about: &'a About,
    /// Ends the export when it is set.
    pub stop: &'a AtomicBool,
}

impl<S: Sessions + Outlines + Instructions + Approvals + AgentRuns + Clock> Exporter<'_, S> {
    /// Writes the bundle to `place`, which must be free. `programs` are put into it as they come; one that cannot be read is a warning.
    ///
    /// Damage in the session is told in the manifest, and the rest is written. A bundle that is not whole is not left behind.
    pub fn export(
        &self,
        place: &Path,
        programs: impl IntoIterator<Item = Result<Program, String>>,
    ) -> Result<Exported, ExportError> {
        let limits = Limits::default();
        let reading = Reading::new(self.cleaner, &limits);
        let mut warnings = Warnings::default();
        self.about.warnings.iter().for_each(|warning| warnings.add(self.cleaner.text(warning)));
        let outline = read(self.store, self.session, &mut warnings)?;
        let bundle = Bundle::begin(place)?;
        let lines = Lines {
            session: reading.name(self.session.id.as_str()),
            key: reading.name(self.session.key.as_str()),
            workspace: WORKSPACE,
            limits,
            truncation: Truncation::default(),
            count: 0,
        };
        let work = Work {
            exporter: self,
            reading,
            files: Files::begin(bundle, lines)?,
            warnings,
            counts: Counts { entries: self.session.entries.into(), ..Counts::default() },
            summary: Summary::default(),
            events_of: [0; 3],
            known_questions: HashSet::new(),
            most_held: 0,
        };
        work.write(outline, programs)
    }
}

struct Work<'a, S> {
    exporter: &'a Exporter<'a, S>,
    reading: Reading<'a>,
    files: Files,
    warnings: Warnings,
    counts: Counts,
    summary: Summary,
    events_of: [u64; 3],
    /// The questions that the store knows.
    known_questions: HashSet<String>,
    most_held: u64,
}

impl<S: Sessions + Outlines + Instructions + Approvals + AgentRuns + Clock> Work<'_, S> {
    fn check(&self) -> Result<(), ExportError> {
        if self.exporter.stop.load(Ordering::Relaxed) { Err(ExportError::Stopped) } else { Ok(()) }
    }

    fn event(&mut self, event: Event) -> Result<(), ExportError> {
        self.events_of[event.source as usize] += 1;
        self.files.event(event)
    }

    fn write(
        mut self,
        mut outline: Outline,
        programs: impl IntoIterator<Item = Result<Program, String>>,
    ) -> Result<Exported, ExportError> {
        let (store, session) = (self.exporter.store, self.exporter.session);
        let questions = self.questions();
        let times: Vec<_> = questions.iter().map(|question| (Some(question.0), question.1)).collect();
        let points = outline.points(&times);
        // The entries of a session that was imported are older than it.
        let began = points.first().map_or(session.created_at, |first| first.at.min(session.created_at));
        self.begin(began)?;
        let mut frames = Frames::new(store, &session.id);
        let mut windows = Windows::new(store, &session.id);
        // A run is taken out when it begins.
        let mut runs = std::mem::take(&mut outline.runs);
        let mut ends: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        for (number, point) in points.iter().enumerate() {
            if number % 64 == 0 {
                self.check()?;
            }
            let index = point.index() as usize;
            match point.what() {
                What::Asked | What::Decided => self.question(&questions[index].2, *point)?,
                What::Began | What::Ended => {
                    let side = if point.what() == What::Began { Side::Began } else { Side::Ended };
                    let text = windows.text(&outline.marks, index, &mut self.warnings);
                    let told = text.map(|text| nested(text, side, point.at, &self.reading));
                    self.counts.nested_calls += u64::from(side == Side::Began);
                    self.counts.exported_entries += u64::from(side == Side::Began);
                    match told {
                        Some(told) => self.told(told)?,
                        None if side == Side::Began => self.unread(&outline, *point)?,
                        None => {}
                    }
                }
                What::Entry => {
                    let position = outline.marks[index].position;
                    self.counts.exported_entries += 1;
                    // A run begins with its first entry.
                    let text = windows.text(&outline.marks, index, &mut self.warnings);
                    let of = text.and_then(|text| text.entry.run.clone());
                    let told = text.map(|text| told(text, &self.reading));
                    if let Some(id) = of
                        && let Some(last) = runs.remove(&digest(id.as_str()))
                        && let Some(facts) = run(store, &id, &self.reading)
                    {
                        self.begins(facts, last, *point, &mut ends)?;
                    }
                    while let Some(frame) = frames.next_until(position, &mut self.warnings) {
                        let mut event = frames.event(&frame, &self.reading, &mut self.warnings);
                        // The commit is a moment later than the reply that it stores.
                        event.at = event.at.min(point.at);
                        self.event(event)?;
                    }
                    match told {
                        Some(told) => self.told(told)?,
                        None => self.unread(&outline, *point)?,
                    }
                    for mut event in ends.remove(&point.index()).into_iter().flatten() {
                        event.at = event.at.max(point.at);
                        self.event(event)?;
                    }
                }
            }
        }
        while let Some(frame) = frames.next_until(u32::MAX, &mut self.warnings) {
            let event = frames.event(&frame, &self.reading, &mut self.warnings);
            self.event(event)?;
        }
        self.most_held = windows.most;
        drop(windows);
        self.counts.entries_of_other_branches =
            (outline.marks.len() as u64).saturating_sub(self.counts.exported_entries);
        if let Some(sent) = frames.files(&self.reading, &mut self.warnings) {
            self.files.put("system-prompt.txt", &sent.prompt)?;
            self.files.put("tools.json", &sent.tools)?;
            self.summary.sent = Some((sent.about, sent.model));
        } else {
            self.warnings.add("the instructions and the tools of this session were not captured: it was imported, or has asked no model since");
        }
        let frame_rows = frames.count;
        let leaf = self.branch(&outline)?;
        for program in programs {
            self.check()?;
            match program {
                Ok(program) => self.program(&program)?,
                Err(why) => self.warnings.add(format!("a program was left out: {}", self.reading.name(&why))),
            }
        }
        self.end(frame_rows, leaf)
    }

    /// Writes the events with which a session begins.
    fn begin(&mut self, at: Millis) -> Result<(), ExportError> {
        let session = self.exporter.session;
        let name = |text: &Option<String>| text.as_deref().map(|text| self.reading.name(text));
        let data = json!({
            "agent": name(&session.agent),
            "label": name(&session.label),
            "parentSession": session.parent.as_ref().map(|parent| self.reading.name(parent.as_str())),
        });
        let about = self.exporter.about;
        let meta = json!({ "version": about.version, "system": about.system, "entries": session.entries });
        self.event(Event::new(Source::Runtime, "session.started", at, data))?;
        self.event(Event::new(Source::Runtime, "trace.metadata", at, meta))
    }

    /// Returns the questions of the session: when they were asked and decided, and their ids.
    fn questions(&mut self) -> Vec<(i64, Option<i64>, pincer_store::ApprovalId)> {
        let (store, session) = (self.exporter.store, self.exporter.session);
        let until = if session.is_current { i64::MAX } else { session.updated_at };
        let found = store.questions_asked(&session.user, &session.key, (session.created_at, until)).wait();
        let found = found.unwrap_or_else(|error| {
            self.warnings.add(format!("the questions of the session cannot be read: {error}"));
            Vec::new()
        });
        let mut questions = Vec::new();
        for (id, at) in found {
            match store.approval(&id).wait() {
                Ok(question) => {
                    self.known_questions.insert(id.to_string());
                    questions.push((at, decided_at(&question), id));
                }
                Err(error) => self.warnings.add(format!("the question {id} cannot be read: {error}")),
            }
        }
        self.counts.approvals = questions.len() as u64;
        questions
    }

    fn question(&mut self, id: &pincer_store::ApprovalId, point: Point) -> Result<(), ExportError> {
        let question: Approval = match self.exporter.store.approval(id).wait() {
            Ok(question) => question,
            Err(error) => {
                self.warnings.add(format!("the question {id} cannot be read: {error}"));
                return Ok(());
            }
        };
        let event = match point.what() {
            What::Asked => asked(&question, &self.reading),
            _ => decided(&question, point.at, &self.reading),
        };
        self.event(event)
    }

    fn begins(
        &mut self,
        facts: RunFacts,
        last: u32,
        point: Point,
        ends: &mut BTreeMap<u32, Vec<Event>>,
    ) -> Result<(), ExportError> {
        let RunFacts { mut began, ended, outcome } = facts;
        self.counts.runs += 1;
        began.at = began.at.min(point.at);
        self.event(began)?;
        self.summary.ran(outcome);
        ends.entry(last).or_default().extend(ended);
        Ok(())
    }

    /// Writes what an entry tells.
    fn told(&mut self, told: Told) -> Result<(), ExportError> {
        let Told { events, answer, prompt, usage, error, questions, complaint } = told;
        complaint.into_iter().for_each(|complaint| self.warnings.add(complaint));
        let first = events.first().cloned();
        for event in events {
            self.event(event)?;
        }
        if let Some(first) = first {
            for id in questions {
                if !self.known_questions.contains(&id) {
                    self.forgotten_question(&first, &id)?;
                }
            }
            let place = json!({ "entryId": first.entry, "runId": first.run, "ts": iso(first.at) });
            if let Some(text) = prompt {
                self.files.prompt(&place, &text)?;
            }
            if let Some(text) = answer {
                self.files.answer(&place, &text)?;
            }
            if let Some(error) = error {
                self.summary.failed(&place, error);
            }
        }
        self.summary.used(usage);
        Ok(())
    }

    /// Writes the events of a question that the store has forgotten: notes tell of it.
    fn forgotten_question(&mut self, note: &Event, id: &str) -> Result<(), ExportError> {
        let list = if note.kind == "run.suspended" { "approvals" } else { "answers" };
        let items = note.data.get(list).and_then(Value::as_array).into_iter().flatten();
        let Some(item) = items.into_iter().find(|item| item["approvalId"] == id) else { return Ok(()) };
        let (kind, data) = match list {
            "approvals" => ("approval.requested", json!({ "approvalId": id, "tool": item["tool"] })),
            _ => {
                let (decision, by) = (&item["status"], &item["by"]);
                let data = json!({ "approvalId": id, "tool": item["tool"], "decision": decision, "decidedBy": by });
                ("approval.resolved", data)
            }
        };
        self.counts.approvals += u64::from(kind == "approval.requested");
        let (source_seq, run, entry) = (note.source_seq, note.run.clone(), note.entry.clone());
        self.event(Event { source_seq, run, entry, ..Event::new(Source::Runtime, kind, note.at, data) })
    }

    /// Writes an event in place of an entry that is too long, or cannot be read.
    fn unread(&mut self, outline: &Outline, point: Point) -> Result<(), ExportError> {
        let mark = &outline.marks[point.index() as usize];
        let is_long = mark.bytes > MOST_BODY;
        let reason = if is_long { "the entry is longer than is read" } else { "the entry cannot be read" };
        if is_long {
            self.warnings.add(format!("entry {} has {} bytes, which is more than is read", mark.position, mark.bytes));
        }
        let data = replaced(&serde_json::Map::new(), mark.bytes as usize, MOST_BODY as usize, reason);
        let event = Event::new(Source::Transcript, "session.broken", point.at, data.into());
        self.files.count_replaced();
        self.event(Event { source_seq: Some(mark.position.into()), ..event })
    }

    /// Writes the branch in use, with the calls of its programs. Returns the id of its last entry.
    fn branch(&mut self, outline: &Outline) -> Result<Option<String>, ExportError> {
        let (store, session) = (self.exporter.store, self.exporter.session);
        let mut windows = Windows::new(store, &session.id);
        let mut leaf = None;
        let mut list = self.files.list("session-branch.json", &self.branch_head())?;
        for (index, mark) in outline.marks.iter().enumerate().filter(|(_, mark)| mark.is_used) {
            self.check()?;
            // What is wrong with it was told with its event.
            let text = windows.text(&outline.marks, index, &mut Warnings::default());
            let shown = match text {
                Some(text) => shown_entry(text, &self.reading),
                None => {
                    json!({ "type": "unread", "position": mark.position, "truncated": true, "originalBytes": mark.bytes })
                }
            };
            if outline.leaf == Some(mark.position) {
                leaf = shown["id"].as_str().map(str::to_owned);
            }
            list.add(&shown.to_string()).map_err(|source| self.files.failed(source))?;
        }
        self.most_held = self.most_held.max(windows.most);
        drop(windows);
        self.files.end_list(list, "}")?;
        Ok(leaf)
    }

    fn branch_head(&self) -> String {
        let session = self.exporter.session;
        let header = json!({
            "type": "session",
            "version": 3,
            "id": self.reading.name(session.id.as_str()),
            "cwd": WORKSPACE,
            "timestamp": iso(session.created_at),
        });
        format!("{{\"header\":{header},\"entries\":")
    }

    /// Puts a program into the bundle.
    fn program(&mut self, program: &Program) -> Result<(), ExportError> {
        let is_name = |name: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !name.is_empty() && name.len() <= 100 && name.chars().all(fits)
        };
        if !is_name(&program.run) {
            self.warnings
                .add(format!("a program was left out: {:?} is no name for its file", self.reading.name(&program.run)));
            return Ok(());
        }
        self.counts.programs += 1;
        // As it is: its caller knows which parts a replay compares, and has taken secrets out of the others.
        self.files.put(&format!("programs/{}.json", program.run), &program.json)
    }

    /// Writes the last event and the files that sum up.
    fn end(mut self, frames: u64, leaf_id: Option<String>) -> Result<Exported, ExportError> {
        let (store, session) = (self.exporter.store, self.exporter.session);
        if let Some(why) = &session.ended {
            let data = json!({ "reason": self.reading.name(why) });
            self.event(Event::new(Source::Runtime, "session.ended", session.updated_at, data))?;
        }
        let now = store.now();
        let data = json!({ "events": self.files.events() + 1, "warnings": self.warnings.count });
        self.event(Event::new(Source::Export, "trace.exported", now, data))?;
        let skills = store.listed_skills(&session.id).wait().ok().flatten();
        let skills = skills.map(|skills| self.reading.json(&skills, &mut Cut::Whole));
        let metadata = self.summary.metadata(self.exporter.about, session, skills, &self.reading);
        self.files.put("metadata.json", &serde_json::to_string_pretty(&metadata).unwrap_or_default())?;
        self.files.end_answers(&self.summary.artifacts(session))?;
        let rows = |source: &str, from: &str, rows, events| SourceSum {
            source: source.to_owned(),
            from: from.to_owned(),
            rows,
            events,
        };
        let [runtime, transcript, export] = self.events_of;
        let Counts { runs, approvals, exported_entries, .. } = self.counts;
        let manifest = Manifest {
            trace_schema: SCHEMA.to_owned(),
            schema_version: VERSION,
            trace_id: self.reading.name(session.id.as_str()),
            session_id: self.reading.name(session.id.as_str()),
            session_key: Some(self.reading.name(session.key.as_str())),
            generated_at: iso(now),
            workspace_dir: WORKSPACE.to_owned(),
            leaf_id,
            sources: vec![
                rows("runtime", "agent_run, session_frame, approval, entry", runs + frames + approvals, runtime),
                rows("transcript", "entry", exported_entries, transcript),
                rows("export", "", 0, export),
            ],
            counts: Counts { events: self.files.events(), ..self.counts },
            limits: Limits::default(),
            truncation: self.files.truncation(),
            warnings: self.warnings.told.iter().map(|warning| self.reading.text(warning)).collect(),
            warning_count: self.warnings.count,
            files: BTreeMap::new(),
        };
        self.check()?;
        let (place, manifest) = self.files.publish(manifest)?;
        Ok(Exported { place, manifest, most_held: self.most_held })
    }
}

/// Returns an entry as it stands in the branch: its members, cleaned and bounded.
fn shown_entry(text: &EntryText, reading: &Reading<'_>) -> Value {
    let EntryText { entry, parent_id } = text;
    let mut cut = Cut::Whole;
    let kind = match entry.kind {
        EntryKind::NestedCall => "custom",
        kind => kind.as_str(),
    };
    let mut shown = json!({
        "type": kind,
        "id": reading.name(entry.id.as_str()),
        "parentId": parent_id.as_ref().map(|id| reading.name(id.as_str())),
        "timestamp": iso(entry.at),
    });
    let body = reading.json(&entry.body, &mut cut);
    match (entry.kind, body) {
        (EntryKind::NestedCall, body) => {
            shown["customType"] = json!("pincer.nested-call");
            shown["data"] = body;
        }
        (_, Value::Object(members)) => {
            for (name, value) in members
                .into_iter()
                .filter(|(name, _)| !["type", "id", "parentId", "timestamp"].contains(&name.as_str()))
            {
                shown[name] = value;
            }
        }
        (_, other) => shown["body"] = other,
    }
    for (name, value) in [("run", entry.run.as_ref().map(|run| run.as_str())), ("call", entry.call.as_deref())] {
        if let Some(value) = value {
            shown["pincer"][name] = json!(reading.name(value));
        }
    }
    if cut == Cut::Shortened {
        shown["truncated"] = json!(true);
    }
    shown
}
