//! Recordings without secrets: values are replaced, and the checks of what was there go with them.

use std::collections::{BTreeMap, BTreeSet};

use pincer_sandbox::{Fault, Json};
use serde_json::Value;

use crate::recording::{RecordedEnd, RecordedEvent, Recording};

impl Recording {
    /// Returns it with its values as `redact` leaves them: the program, inputs, outcomes, texts. Where it changes something, the check
    /// of what was there goes too, so that it tells nothing of that.
    #[must_use]
    pub fn redacted(mut self, redact: &dyn Fn(Value) -> Value) -> Self {
        let mut changes = Changes { redact, any: self.redacted };
        let mut changed = BTreeSet::new();
        changes.text(&mut self.program.code);
        for (hash, text) in &mut self.texts {
            if changes.json_text(text) {
                changed.insert(hash.clone());
            }
        }
        let mut calls = BTreeMap::new();
        for call in &mut self.calls {
            let of = (changes.json(&mut call.input), changes.json(&mut call.outcome));
            calls.insert(call.seq, of);
        }
        let is_told = self.result.is_some() && !changes.json(&mut self.result);
        let mut asked: BTreeMap<u32, u32> = BTreeMap::new();
        let any = changes.any;
        for event in &mut self.events {
            let RecordedEvent::Turn(turn) = event else { continue };
            for answer in &mut turn.answers {
                let outcome = asked.get(&answer.id).and_then(|seq| calls.get(seq)).is_some_and(|(_, outcome)| *outcome);
                let text = answer.text.as_ref().is_some_and(|hash| changed.contains(hash));
                if changes.json(&mut answer.value) | changes.fault(&mut answer.fault) | outcome | text {
                    answer.check = None;
                }
            }
            for request in &mut turn.requests {
                let input = request.call.and_then(|seq| calls.get(&seq)).is_none_or(|(input, _)| *input);
                asked.extend(request.call.map(|seq| (request.id, seq)));
                if changes.json(&mut request.args) || input && (request.call.is_some() || request.args.is_none()) {
                    request.check = None;
                }
            }
            if any {
                // What it printed is not here, and may have had the same values in it.
                turn.printed = None;
            }
            if let Some(RecordedEnd::Value(check) | RecordedEnd::Failed(check)) = &mut turn.end
                && !is_told
            {
                *check = None;
            }
        }
        self.redacted = changes.any;
        self
    }
}

/// The changes that redaction makes.
struct Changes<'r> {
    redact: &'r dyn Fn(Value) -> Value,
    any: bool,
}

impl Changes<'_> {
    fn value(&mut self, value: Value) -> Option<Value> {
        let redacted = (self.redact)(value.clone());
        let is_changed = redacted != value;
        self.any |= is_changed;
        is_changed.then_some(redacted)
    }

    fn text(&mut self, text: &mut String) {
        if let Some(Value::String(redacted)) = self.value(Value::String(text.clone())) {
            *text = redacted;
        }
    }

    /// Redacts a text that is mostly JSON.
    fn json_text(&mut self, text: &mut String) -> bool {
        let (value, is_json) = match serde_json::from_str(text) {
            Ok(value) => (value, true),
            Err(_) => (Value::String(text.clone()), false),
        };
        match self.value(value) {
            Some(Value::String(redacted)) if !is_json => *text = redacted,
            Some(redacted) => *text = redacted.to_string(),
            None => return false,
        }
        true
    }

    fn json(&mut self, json: &mut Option<Json>) -> bool {
        let redacted = json.as_ref().and_then(|json| json.to::<Value>().ok()).and_then(|value| self.value(value));
        match redacted {
            Some(redacted) => {
                *json = Json::of(&redacted).ok();
                true
            }
            None => false,
        }
    }

    fn fault(&mut self, fault: &mut Option<Fault>) -> bool {
        let value = fault.as_ref().and_then(|fault| serde_json::to_value(fault).ok());
        match value.and_then(|value| self.value(value)).and_then(|value| serde_json::from_value(value).ok()) {
            Some(redacted) => {
                *fault = Some(redacted);
                true
            }
            None => false,
        }
    }
}
