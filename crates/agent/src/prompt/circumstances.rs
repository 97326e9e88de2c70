//! The circumstances that change between the requests of a conversation, in a few words.

use chrono::{DateTime, FixedOffset, Local};
use pincer_tools::one_line;

/// The most characters of a name that a person or a channel has chosen.
const MOST: usize = 120;

/// The circumstances of a run.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    pub session: String,
    pub channel: Option<String>,
    pub model: Option<String>,
    pub now: DateTime<FixedOffset>,
}

impl Circumstances {
    /// Returns the circumstances of now.
    pub(crate) fn now(session: &str, channel: Option<&str>, model: Option<String>) -> Self {
        let channel = channel.map(str::to_owned);
        Self { session: session.to_owned(), channel, model, now: Local::now().fixed_offset() }
    }

    /// Returns them as text. The day alone: with the time it would never be the same twice.
    pub(crate) fn text(&self) -> String {
        let name = |text: &str| one_line(text, MOST);
        let mut lines = vec![format!("Session: {}", name(&self.session))];
        lines.extend(self.channel.as_deref().map(|channel| format!("Channel: {}", name(channel))));
        lines.extend(self.model.as_deref().map(|model| format!("Model: {}", name(model))));
        lines.push(format!("Today: {} (time zone UTC{})", self.now.format("%A, %Y-%m-%d"), self.now.format("%:z")));
        lines.join("\n")
    }
}
