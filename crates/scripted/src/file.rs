//! The form of a script in a file, apart from the types that the server works with.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Flaw};
use crate::expect::Expect;
use crate::message::{Call, ErrorForm, Fault, Message, Part, Stop, StreamError, Thinking, Usage};
use crate::reply::{Failure, Recorded, Reply};
use crate::script::{MODEL, Order, Script};
use crate::wire::{Cut, Insert, LineEnd, Sent, Wire};

/// The status of an error that names none.
const DEFAULT_ERROR: u16 = 500;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptFile {
    #[serde(default = "default_models")]
    models: Vec<String>,
    #[serde(default)]
    order: Order,
    #[serde(default)]
    strict: bool,
    replies: Vec<ReplyFile>,
}

fn default_models() -> Vec<String> {
    vec![MODEL.to_owned()]
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ReplyFile {
    expect: Expect,
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    error: Option<Fault>,
    parts: Option<Vec<PartFile>>,
    pieces: Option<NonZeroUsize>,
    usage: Option<Usage>,
    stop: Option<Stop>,
    stream_error: Option<StreamErrorFile>,
    wire: WireFile,
    recorded: Option<RecordedFile>,
    repeat: bool,
    take: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PartFile {
    thinking: Option<String>,
    signature: Option<String>,
    encrypted: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    call: Option<Call>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StreamErrorFile {
    after: usize,
    r#type: Option<String>,
    code: Option<String>,
    message: Option<String>,
    #[serde(default)]
    form: ErrorForm,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireFile {
    cut: Option<NonZeroUsize>,
    cuts: Option<Vec<usize>>,
    every_ms: u64,
    stall_after: Option<usize>,
    truncate_after: Option<usize>,
    insert: Vec<Insert>,
    line_end: LineEnd,
    omit_done: bool,
    pings: bool,
    headers_after_ms: u64,
    gzip: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecordedFile {
    #[serde(default = "default_status")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: String,
    cuts: Option<Vec<usize>>,
    /// For people: the format, and the request that had this answer.
    #[serde(default, rename = "api")]
    _api: Option<IgnoredAny>,
    #[serde(default, rename = "request")]
    _request: Option<IgnoredAny>,
}

fn default_status() -> u16 {
    200
}

/// Reads a script, without the checks that scripts made in Rust need too.
pub(crate) fn parse(text: &str) -> Result<Script, Error> {
    let file: ScriptFile = json5::from_str(text)?;
    let replies = file.replies.into_iter().enumerate().map(|(at, reply)| {
        let reply = reply.into_reply();
        reply.map_err(|flaw| Error::Reply { reply: at + 1, flaw })
    });
    let replies = replies.collect::<Result<_, _>>()?;
    Ok(Script { models: file.models, order: file.order, strict: file.strict, replies })
}

impl ReplyFile {
    fn into_reply(mut self) -> Result<Reply, Flaw> {
        let mut wire = std::mem::take(&mut self.wire).into_wire()?;
        let (expect, repeat) = (std::mem::take(&mut self.expect), self.repeat);
        let take = std::mem::take(&mut self.take);
        let mut headers = std::mem::take(&mut self.headers);
        let mut reply = match self.recorded.take() {
            Some(recorded) => {
                self.has_only("recorded")?;
                if let Some(cuts) = recorded.cuts {
                    if wire.cut != Cut::Events {
                        return Err(Flaw::Mixed { key: "wire.cut", kind: "recorded.cuts" });
                    }
                    wire.cut = Cut::At(cuts);
                }
                headers.extend(recorded.headers);
                Reply::from(Recorded::new(recorded.status, recorded.body))
            }
            None => self.into_answer()?,
        };
        for (name, value) in &headers {
            reply = reply.header(name, value);
        }
        for (name, start) in &take {
            reply = reply.take(name, start);
        }
        reply.repeat = repeat;
        Ok(reply.expect(expect).wire(wire))
    }

    fn into_answer(mut self) -> Result<Reply, Flaw> {
        if self.status.is_some() || self.error.is_some() {
            let status = self.status.take().unwrap_or(DEFAULT_ERROR);
            let fault = self.error.take().unwrap_or_default();
            self.has_only("error")?;
            return Ok(Failure::new(status).fault(fault).into());
        }
        let parts = self.parts.ok_or(Flaw::Empty)?;
        let parts = parts.into_iter().enumerate().map(|(at, part)| part.into_part(at + 1)).collect::<Result<_, _>>()?;
        let stream_error = self.stream_error.map(|error| StreamError {
            after: error.after,
            fault: Fault { kind: error.r#type, code: error.code, message: error.message },
            form: error.form,
        });
        let usage = self.usage.unwrap_or_default();
        Ok(Message { parts, pieces: self.pieces, usage, stop: self.stop, stream_error }.into())
    }

    /// Refuses the keys of other kinds of replies. Those of `kind` were taken before.
    fn has_only(&self, kind: &'static str) -> Result<(), Flaw> {
        let keys = [
            ("status", self.status.is_some()),
            ("error", self.error.is_some()),
            ("parts", self.parts.is_some()),
            ("pieces", self.pieces.is_some()),
            ("usage", self.usage.is_some()),
            ("stop", self.stop.is_some()),
            ("streamError", self.stream_error.is_some()),
        ];
        match keys.into_iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => Err(Flaw::Mixed { key, kind }),
            None => Ok(()),
        }
    }
}

impl PartFile {
    fn into_part(self, number: usize) -> Result<Part, Flaw> {
        let is_thinking = self.thinking.is_some() || self.encrypted.is_some();
        match (self.text, self.refusal, self.call) {
            (None, None, None) if is_thinking => {
                let Self { thinking: text, signature, encrypted, .. } = self;
                Ok(Part::Thinking(Thinking { text, signature, encrypted }))
            }
            _ if is_thinking || self.signature.is_some() => Err(Flaw::Part { part: number }),
            (Some(text), None, None) => Ok(Part::Text(text)),
            (None, Some(refusal), None) => Ok(Part::Refusal(refusal)),
            (None, None, Some(call)) => Ok(Part::Call(call)),
            _ => Err(Flaw::Part { part: number }),
        }
    }
}

impl WireFile {
    fn into_wire(self) -> Result<Wire, Flaw> {
        let cut = match (self.cut, self.cuts) {
            (None, None) => Cut::Events,
            (Some(bytes), None) => Cut::Every(bytes),
            (None, Some(offsets)) => Cut::At(offsets),
            (Some(_), Some(_)) => return Err(Flaw::Mixed { key: "wire.cut", kind: "wire.cuts" }),
        };
        let sent = match (self.stall_after, self.truncate_after) {
            (None, None) => Sent::Whole,
            (Some(chunks), None) => Sent::StallAfter(chunks),
            (None, Some(bytes)) => Sent::TruncateAfter(bytes),
            (Some(_), Some(_)) => return Err(Flaw::Mixed { key: "wire.stallAfter", kind: "wire.truncateAfter" }),
        };
        Ok(Wire {
            cut,
            every: Duration::from_millis(self.every_ms),
            sent,
            insert: self.insert,
            line_end: self.line_end,
            omit_done: self.omit_done,
            pings: self.pings,
            headers_after: Duration::from_millis(self.headers_after_ms),
            gzip: self.gzip,
        })
    }
}
