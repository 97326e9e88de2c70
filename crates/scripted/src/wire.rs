//! The way of a reply's bytes to the client.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

/// The way of a reply's bytes to the client. By default: at once, one chunk per event, to the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wire {
    /// The boundaries of chunks.
    pub cut: Cut,
    /// The pause between two chunks.
    pub every: Duration,
    /// The part of the body that is sent.
    pub sent: Sent,
    /// Raw bytes between events.
    pub insert: Vec<Insert>,
    /// The end of a line in an event stream.
    pub line_end: LineEnd,
    /// Leaves out the last event: `[DONE]`, `response.completed` or `message_stop`.
    pub omit_done: bool,
    /// Puts a `ping` event (Messages) or a comment (OpenAI's formats) after every event but the last.
    pub pings: bool,
    /// The time until the headers are sent.
    pub headers_after: Duration,
    /// Compresses the body, flushed after every event, and says so in `content-encoding`.
    pub gzip: bool,
}

/// The boundaries of chunks. Each chunk is one chunk of HTTP and one write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cut {
    /// One chunk per event.
    #[default]
    Events,
    /// Chunks of so many bytes, whatever they separate.
    Every(NonZeroUsize),
    /// Chunks that begin at these offsets of the body.
    At(Vec<usize>),
}

/// The part of a body that is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sent {
    /// Everything, with a proper end.
    #[default]
    Whole,
    /// So many chunks, then nothing. The connection stays open.
    StallAfter(usize),
    /// So many bytes, then the connection is closed without the end of the body.
    TruncateAfter(usize),
}

/// Raw bytes between events.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Insert {
    /// The number of events before it.
    pub at: usize,
    /// The bytes, with their own line ends.
    pub raw: String,
}

/// The end of a line in an event stream. The standard allows all three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum LineEnd {
    /// As providers send it.
    #[default]
    #[serde(rename = "\n")]
    Lf,
    /// As some proxies send it.
    #[serde(rename = "\r\n")]
    CrLf,
    /// As hardly any server sends it.
    #[serde(rename = "\r")]
    Cr,
}

impl LineEnd {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

impl Wire {
    /// Cuts a body into chunks of so many bytes.
    #[must_use]
    pub fn cut_every(bytes: NonZeroUsize) -> Self {
        Self { cut: Cut::Every(bytes), ..Self::default() }
    }

    /// Sends so many chunks, then nothing.
    #[must_use]
    pub fn stall_after(chunks: usize) -> Self {
        Self { sent: Sent::StallAfter(chunks), ..Self::default() }
    }

    /// Closes the connection after so many bytes.
    #[must_use]
    pub fn truncate_after(bytes: usize) -> Self {
        Self { sent: Sent::TruncateAfter(bytes), ..Self::default() }
    }

    /// Returns the first setting that only makes sense for events of our own.
    pub(crate) fn needs_events(&self) -> Option<&'static str> {
        let settings = [
            ("insert", !self.insert.is_empty()),
            ("lineEnd", self.line_end != LineEnd::Lf),
            ("omitDone", self.omit_done),
            ("pings", self.pings),
            ("gzip", self.gzip),
        ];
        settings.into_iter().find_map(|(key, is_set)| is_set.then_some(key))
    }
}
