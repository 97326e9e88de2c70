//! Events of a stream, and the bytes they become.

use serde_json::Value;

use crate::formats::Format;
use crate::wire::{LineEnd, Wire};

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    event: Option<String>,
    data: String,
}

impl Frame {
    /// Makes an event without a name.
    pub(crate) fn data(data: impl ToString) -> Self {
        Self { event: None, data: data.to_string() }
    }

    /// Makes an event whose name is the `type` of its data.
    pub(crate) fn named(data: &Value) -> Self {
        Self { event: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    fn bytes(&self, line_end: LineEnd) -> Vec<u8> {
        let end = line_end.text();
        let event = self.event.as_ref().map(|event| format!("event: {event}{end}")).unwrap_or_default();
        format!("{event}data: {}{end}{end}", self.data).into_bytes()
    }
}

/// Turns events into the pieces of a body: one per event, ping and insertion.
pub(crate) fn body(format: Format, frames: &[Frame], wire: &Wire) -> Vec<Vec<u8>> {
    let end = wire.line_end.text();
    let ping = match format {
        Format::Messages => Frame::named(&serde_json::json!({ "type": "ping" })).bytes(wire.line_end),
        Format::Chat | Format::Responses => format!(": ping{end}{end}").into_bytes(),
    };
    let inserted = |at: usize| wire.insert.iter().filter(move |insert| insert.at == at);
    let mut body = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        body.extend(inserted(at).map(|insert| insert.raw.clone().into_bytes()));
        body.push(frame.bytes(wire.line_end));
        if wire.pings && at + 1 < frames.len() {
            body.push(ping.clone());
        }
    }
    let late = wire.insert.iter().filter(|insert| insert.at >= frames.len());
    body.extend(late.map(|insert| insert.raw.clone().into_bytes()));
    body
}
