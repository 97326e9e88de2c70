//! The files of a bundle while it is written.

use std::io;
use std::path::PathBuf;

use pincer_store::Session;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::about::About;
use crate::bundle::{Bundle, List, Summed};
use crate::entries::Usage;
use crate::error::ExportError;
use crate::event::{Event, Lines, Reading, iso};
use crate::manifest::{Manifest, Truncation};
use crate::sources::hex;

/// The most errors that are listed. All of them are counted, and each is an event.
const MOST_ERRORS: usize = 1000;

/// The files that grow while the session is read.
pub(crate) struct Files {
    bundle: Bundle,
    lines: Lines,
    events: Option<Summed>,
    prompts: Option<List>,
    answers: Option<List>,
}

impl Files {
    pub(crate) fn begin(bundle: Bundle, lines: Lines) -> Result<Self, ExportError> {
        let events = bundle.file("events.jsonl")?;
        let begun = |name: &str, before: &str| {
            let file = bundle.file(name)?;
            List::begin(file, before).map_err(|source| bundle.failed(source))
        };
        let prompts = begun("prompts.json", "{\"prompts\":")?;
        let answers = begun("artifacts.json", "{\"assistantTexts\":")?;
        Ok(Self { lines, events: Some(events), prompts: Some(prompts), answers: Some(answers), bundle })
    }

    pub(crate) fn failed(&self, source: io::Error) -> ExportError {
        self.bundle.failed(source)
    }

    pub(crate) fn event(&mut self, event: Event) -> Result<(), ExportError> {
        let mut line = self.lines.line(event);
        line.push('\n');
        let written = self.events.as_mut().map_or(Ok(()), |file| file.add(&line));
        written.map_err(|source| self.bundle.failed(source))
    }

    /// Returns how many events there are.
    pub(crate) fn events(&self) -> u64 {
        self.lines.count
    }

    pub(crate) fn truncation(&self) -> Truncation {
        self.lines.truncation
    }

    pub(crate) fn count_replaced(&mut self) {
        self.lines.truncation.replaced_events += 1;
    }

    pub(crate) fn prompt(&mut self, place: &Value, text: &str) -> Result<(), ExportError> {
        let written = self.prompts.as_mut().map_or(Ok(()), |list| list.add(&with_text(place, text)));
        written.map_err(|source| self.bundle.failed(source))
    }

    pub(crate) fn answer(&mut self, place: &Value, text: &str) -> Result<(), ExportError> {
        let written = self.answers.as_mut().map_or(Ok(()), |list| list.add(&with_text(place, text)));
        written.map_err(|source| self.bundle.failed(source))
    }

    pub(crate) fn put(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        self.bundle.put(name, text)
    }

    pub(crate) fn list(&mut self, name: &str, before: &str) -> Result<List, ExportError> {
        let file = self.bundle.file(name)?;
        List::begin(file, before).map_err(|source| self.bundle.failed(source))
    }

    pub(crate) fn end_list(&mut self, list: List, behind: &str) -> Result<(), ExportError> {
        let file = list.end(behind).map_err(|source| self.bundle.failed(source))?;
        self.bundle.end(file)
    }

    /// Ends the list of answers with the members that sum up.
    pub(crate) fn end_answers(&mut self, summary: &Value) -> Result<(), ExportError> {
        let summary = summary.to_string();
        match self.answers.take() {
            Some(list) => self.end_list(list, &format!(",{}", summary.trim_start_matches('{'))),
            None => Ok(()),
        }
    }

    /// Writes the manifest, and gives the bundle its place.
    pub(crate) fn publish(mut self, manifest: Manifest) -> Result<(PathBuf, Manifest), ExportError> {
        if let Some(events) = self.events.take() {
            self.bundle.end(events)?;
        }
        if let Some(prompts) = self.prompts.take() {
            self.end_list(prompts, "}")?;
        }
        let manifest = Manifest { files: self.bundle.sums.clone(), ..manifest };
        self.bundle.put("manifest.json", &serde_json::to_string_pretty(&manifest).unwrap_or_default())?;
        Ok((self.bundle.publish()?, manifest))
    }
}

fn with_text(place: &Value, text: &str) -> String {
    let mut item = place.clone();
    item["text"] = text.into();
    item.to_string()
}

/// The facts that the files that sum up are made of.
#[derive(Default)]
pub(crate) struct Summary {
    usage: Usage,
    model_calls: u64,
    errors: Vec<Value>,
    error_count: u64,
    last: Option<Value>,
    /// Facts about the instructions that were sent last, and the model.
    pub sent: Option<(Value, Value)>,
}

impl Summary {
    /// Notes what a run came to.
    pub(crate) fn ran(&mut self, outcome: Value) {
        if !outcome.is_null() {
            self.last = Some(outcome);
        }
    }

    pub(crate) fn used(&mut self, usage: Option<Usage>) {
        let Some(Usage { input, output, cache_read, cache_write }) = usage else { return };
        self.model_calls += 1;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.usage.input, input);
        add(&mut self.usage.output, output);
        add(&mut self.usage.cache_read, cache_read);
        add(&mut self.usage.cache_write, cache_write);
    }

    pub(crate) fn failed(&mut self, place: &Value, error: Value) {
        self.error_count += 1;
        if self.errors.len() < MOST_ERRORS {
            let mut item = place.clone();
            item["error"] = error;
            self.errors.push(item);
        }
    }

    /// Returns the members of `artifacts.json` beside the texts.
    pub(crate) fn artifacts(&self, session: &Session) -> Value {
        let Usage { input, output, cache_read, cache_write } = self.usage;
        let last = self.last.clone().unwrap_or_default();
        let total = input.saturating_add(output).saturating_add(cache_read).saturating_add(cache_write);
        json!({
            "finalStatus": last["status"],
            "finalSummary": last["summary"],
            "stopReason": last["stopReason"],
            "finalError": last["error"],
            "errors": self.errors,
            "errorCount": self.error_count,
            "modelCalls": self.model_calls,
            "usage": { "input": input, "output": output, "total": total },
            "promptCache": { "read": cache_read, "write": cache_write },
            "compactionCount": session.totals.compactions,
            "runs": session.totals.runs,
        })
    }

    /// Returns `metadata.json`.
    pub(crate) fn metadata(
        &self,
        about: &About,
        session: &Session,
        skills: Option<Value>,
        reading: &Reading<'_>,
    ) -> Value {
        let config = about.config.to_string();
        let name = |text: &Option<String>| text.as_deref().map(|text| reading.name(text));
        let names = |list: &[String]| list.iter().map(|text| reading.name(text)).collect::<Vec<_>>();
        let (prompt, model) = self.sent.clone().unwrap_or_default();
        let whole = pincer_secrecy::Bounds { depth: 16, items: 1000, ..reading.bounds };
        let shown = reading.cleaner.json(&config, &whole).map(|(shown, _)| shown).unwrap_or_default();
        let settings = reading.json(&session.settings, &mut pincer_secrecy::Cut::Whole);
        json!({
            "version": about.version,
            "system": about.system,
            "session": {
                "id": reading.name(session.id.as_str()),
                "key": reading.name(session.key.as_str()),
                "label": name(&session.label),
                "agent": name(&session.agent),
                "parent": session.parent.as_ref().map(|parent| reading.name(parent.as_str())),
                "createdAt": iso(session.created_at),
                "updatedAt": iso(session.updated_at),
                "ended": name(&session.ended),
                "entries": session.entries,
                "settings": settings,
            },
            "model": model,
            "prompt": prompt,
            "config": shown,
            // Of the config as it may be shown: a digest of secrets would tell whether a guess is right.
            "configSha256": hex(&Sha256::digest(shown.to_string().as_bytes())),
            "plugins": names(&about.plugins),
            "skills": { "ofConfig": names(&about.skills), "listed": skills },
        })
    }
}
