//! What is told beside the entries: frames in which models were asked, questions to people, and runs.

use pincer_secrecy::{Bounds, Cut};
use pincer_store::{AgentRunId, AgentRuns, Approval, ApprovalState, Frame, Instructions, Millis, SessionId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::event::{Event, Model, Reading, Source, iso};
use crate::manifest::Warnings;

/// The frames that are read at once.
const PAGE: u32 = 100;
/// The tools of a model are shown as a whole, as far as they are stored.
const TOOLS: Bounds = Bounds { depth: 32, items: 2000, chars: 64 << 10, bytes: 4 << 20 };

/// The instructions and the tools of a frame.
#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    system: Vec<String>,
    #[serde(default)]
    tools: Vec<Box<RawValue>>,
}

/// The part of a frame that differs from session to session.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    suffix: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    api: Option<String>,
    thinking: Option<String>,
    surface: Option<String>,
}

/// The frames of a session, in their order.
pub(crate) struct Frames<'s, S> {
    store: &'s S,
    session: &'s SessionId,
    page: std::collections::VecDeque<Frame>,
    after: Option<i64>,
    pub count: u64,
    pub last: Option<Frame>,
}

impl<'s, S: Instructions> Frames<'s, S> {
    pub(crate) fn new(store: &'s S, session: &'s SessionId) -> Self {
        Self { store, session, page: std::collections::VecDeque::new(), after: Some(0), count: 0, last: None }
    }

    /// Returns the next frame that was stored before an entry, or with it.
    pub(crate) fn next_until(&mut self, position: u32, warnings: &mut Warnings) -> Option<Frame> {
        if let (true, Some(after)) = (self.page.is_empty(), self.after) {
            match self.store.frames(self.session, after, PAGE).wait() {
                Ok(page) => {
                    self.after = page.last().map(|frame| frame.number);
                    self.page.extend(page);
                }
                Err(error) => {
                    self.after = None;
                    warnings.add(format!("what models were sent cannot be read: {error}"));
                }
            }
        }
        let frame = self.page.pop_front_if(|frame| frame.position <= position)?;
        self.count += 1;
        self.last = Some(frame.clone());
        Some(frame)
    }

    fn body(&self, frame: &Frame, warnings: &mut Warnings) -> Option<Body> {
        let found = self.store.frame_body(&frame.digest).wait();
        let why = match found.map(|body| body.map(|body| serde_json::from_str(&body))) {
            Ok(Some(Ok(body))) => return Some(body),
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => "they are not in the store".to_owned(),
            Err(error) => error.to_string(),
        };
        warnings.add(format!("the instructions and the tools of {} cannot be read: {why}", frame.run));
        None
    }

    /// Returns the event of a frame.
    pub(crate) fn event(&self, frame: &Frame, reading: &Reading<'_>, warnings: &mut Warnings) -> Event {
        let detail: Detail = serde_json::from_str(&frame.detail).unwrap_or_default();
        let name = |text: &Option<String>| text.as_deref().map(|text| reading.name(text));
        let Body { system, tools } = self.body(frame, warnings).unwrap_or_default();
        let tool_name = |tool: &RawValue| {
            let tool: Value = serde_json::from_str(tool.get()).unwrap_or_default();
            tool["name"].as_str().map(|name| reading.name(name))
        };
        let names: Vec<Option<String>> = tools.iter().map(|tool| tool_name(tool)).collect();
        let data = json!({
            "digest": hex(&frame.digest),
            "systemPrompt": reading.text(&system.join("\n\n")),
            "systemPromptBytes": system.iter().map(String::len).sum::<usize>(),
            "suffix": detail.suffix.as_deref().map(|text| reading.text(text)),
            "tools": names,
            "toolBytes": tools.iter().map(|tool| tool.get().len()).sum::<usize>(),
            "surface": name(&detail.surface),
            "thinking": name(&detail.thinking),
        });
        let model = Model { provider: name(&detail.provider), id: name(&detail.model), api: name(&detail.api) };
        Event {
            model,
            run: Some(reading.name(frame.run.as_str())),
            source_seq: u64::try_from(frame.number).ok(),
            ..Event::new(Source::Runtime, "context.compiled", frame.at, data)
        }
    }

    /// Returns the instructions and the tools of the last frame, as files, and what is to be said of them.
    pub(crate) fn files(&self, reading: &Reading<'_>, warnings: &mut Warnings) -> Option<Sent> {
        let frame = self.last.as_ref()?;
        let Body { system, tools } = self.body(frame, warnings)?;
        let detail: Detail = serde_json::from_str(&frame.detail).unwrap_or_default();
        let parts = system.len();
        let mut prompt: Vec<String> = system.iter().map(|part| reading.cleaner.text(part)).collect();
        prompt.extend(detail.suffix.as_deref().map(|text| reading.cleaner.text(text)));
        let shown = |tool: &RawValue| match reading.cleaner.json(tool.get(), &TOOLS) {
            Ok((tool, _)) => tool,
            Err(_) => Value::Null,
        };
        let tools: Vec<Value> = tools.iter().map(|tool| shown(tool)).collect();
        let name = |text: &Option<String>| text.as_deref().map(|text| reading.name(text));
        let about = json!({
            "digest": hex(&frame.digest),
            "capturedAt": iso(frame.at),
            "runId": reading.name(frame.run.as_str()),
            "systemPromptParts": parts,
            "tools": tools.len(),
            "surface": name(&detail.surface),
            "thinking": name(&detail.thinking),
            "frames": self.count,
        });
        let model = json!({ "provider": name(&detail.provider), "id": name(&detail.model), "api": name(&detail.api) });
        Some(Sent {
            prompt: prompt.join("\n\n"),
            tools: serde_json::to_string_pretty(&tools).unwrap_or_default(),
            about,
            model,
        })
    }
}

/// The instructions and tools that a model was sent around the conversation.
pub(crate) struct Sent {
    pub prompt: String,
    pub tools: String,
    pub about: Value,
    pub model: Value,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the event of a question.
pub(crate) fn asked(question: &Approval, reading: &Reading<'_>) -> Event {
    let mut cut = Cut::Whole;
    let data = json!({
        "approvalId": reading.name(question.id.as_str()),
        "tool": reading.name(&question.tool),
        "request": reading.json(&question.request, &mut cut),
        "callSeq": question.seq,
        "expiresAt": question.expires_at.map(iso),
    });
    let run = question.run.as_ref().map(|run| reading.name(run.as_str()));
    Event { cut, run, ..Event::new(Source::Runtime, "approval.requested", question.created_at, data) }
}

/// Returns the event of the answer to a question.
pub(crate) fn decided(question: &Approval, at: Millis, reading: &Reading<'_>) -> Event {
    let data = json!({
        "approvalId": reading.name(question.id.as_str()),
        "tool": reading.name(&question.tool),
        "decision": question.state.as_str(),
        "decidedBy": question.decided_by.as_deref().map(|by| reading.name(by)),
        "isUsed": question.is_used,
    });
    let run = question.run.as_ref().map(|run| reading.name(run.as_str()));
    Event { run, ..Event::new(Source::Runtime, "approval.resolved", at, data) }
}

/// Returns when a question was decided, if it was. Of those that earlier versions decided, only the time of the question is known.
pub(crate) fn decided_at(question: &Approval) -> Option<Millis> {
    let is_decided = question.state != ApprovalState::Pending;
    is_decided.then(|| question.decided_at.unwrap_or(question.created_at).max(question.created_at))
}

/// The beginning and the end of a run, as its row tells.
pub(crate) struct RunFacts {
    pub began: Event,
    pub ended: Option<Event>,
    pub outcome: Value,
}

/// Reads a run. Those of sessions that were imported have no rows.
pub(crate) fn run<S: AgentRuns>(store: &S, id: &AgentRunId, reading: &Reading<'_>) -> Option<RunFacts> {
    let row = store.agent_run(id).wait().ok()?;
    let mut cut = Cut::Whole;
    let mut request = match reading.json(&row.request, &mut cut) {
        Value::Object(request) => request,
        _ => Map::new(),
    };
    let prompt = request.remove("message").unwrap_or_default();
    let began = row.started_at.unwrap_or(row.created_at);
    let data =
        json!({ "prompt": prompt, "request": request, "acceptedAt": iso(row.created_at), "startedAt": iso(began) });
    let name = Some(reading.name(id.as_str()));
    let began = Event { cut, run: name.clone(), ..Event::new(Source::Runtime, "prompt.submitted", began, data) };
    let mut outcome_cut = Cut::Whole;
    let outcome = row.result.as_deref().map_or(Value::Null, |result| reading.json(result, &mut outcome_cut));
    let ended = row.ended_at.map(|at| {
        let data = json!({ "state": row.state.as_str(), "processes": row.generation, "outcome": outcome });
        Event { cut: outcome_cut, run: name, ..Event::new(Source::Runtime, "trace.artifacts", at, data) }
    });
    Some(RunFacts { began, ended, outcome })
}
