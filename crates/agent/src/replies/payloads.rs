//! The payloads of an answer: the model's texts, without silent ones and without those that were sent already.

use pincer_sessions::Message as Stored;

use super::silence::visible;
use crate::event::shortened;
use crate::outcome::{Payload, PayloadKind};
use crate::request::Verbose;

/// The most bytes of a result in a summary: in a line, and in full.
const MOST_IN_A_LINE: usize = 120;
const MOST_IN_FULL: usize = 4000;

/// Something that a run said, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A text of the model.
    Text(String),
    /// Thoughts of the model.
    Thinking(String),
    /// A summary of a call.
    Tool(String),
}

impl Said {
    /// Returns whether these are words of the model.
    pub(crate) fn is_the_models(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thinking(_))
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolFailure {
    pub tool: String,
    pub message: String,
}

/// The material of payloads.
pub(crate) struct Shaping<'a> {
    pub said: &'a [Said],
    /// The texts that messaging tools have sent.
    pub sent: &'a [String],
    /// The last call, if it failed.
    pub failure: Option<&'a ToolFailure>,
    pub shows_thinking: bool,
}

/// Returns the payloads of an answer.
pub(crate) fn payloads(shaping: &Shaping<'_>) -> Vec<Payload> {
    let sent: Vec<String> = shaping.sent.iter().map(|text| folded(text)).collect();
    let mut payloads: Vec<Payload> = Vec::new();
    for said in shaping.said {
        let (text, kind) = match said {
            Said::Text(text) => (visible(text).trim(), PayloadKind::Text),
            Said::Thinking(text) if shaping.shows_thinking => (text.trim(), PayloadKind::Thinking),
            Said::Tool(text) => (text.as_str(), PayloadKind::Tool),
            Said::Thinking(_) => continue,
        };
        if text.is_empty() || kind == PayloadKind::Text && sent.contains(&folded(text)) {
            continue;
        }
        payloads.push(Payload { text: text.to_owned(), kind, ..Payload::default() });
    }
    let is_answered = payloads.iter().any(|payload| payload.kind == PayloadKind::Text);
    if let (false, true, Some(failure)) = (is_answered, sent.is_empty(), shaping.failure) {
        let text = format!("{} failed: {}", failure.tool, shortened(failure.message.trim(), MOST_IN_FULL));
        payloads.push(Payload { text, is_error: true, ..Payload::default() });
    }
    payloads
}

/// Returns what a reply says, in its order.
pub(crate) fn said_in(reply: &Stored) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    for block in &reply.content {
        let part = match (block.kind.as_str(), &block.text, &block.thinking) {
            ("text" | "refusal", Some(text), _) => Said::Text(text.clone()),
            ("thinking", _, Some(text)) => Said::Thinking(text.clone()),
            _ => continue,
        };
        match (said.last_mut(), part) {
            // Parts of one text.
            (Some(Said::Text(before)), Said::Text(text)) => before.push_str(&text),
            (_, part) => said.push(part),
        }
    }
    said.retain(|part| match part {
        Said::Text(text) | Said::Thinking(text) | Said::Tool(text) => !text.trim().is_empty(),
    });
    said
}

/// Returns why a call failed, if it did.
pub(crate) fn failed_with(tool: &str, result: &Stored) -> Option<ToolFailure> {
    let is_error = result.is_error.unwrap_or_default();
    is_error.then(|| ToolFailure { tool: tool.to_owned(), message: result.text() })
}

/// Returns a text as it is compared with those that were sent.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns the summary of a call, if the run tells of calls.
pub(crate) fn summary(verbose: Verbose, tool: &str, result: &Stored) -> Option<String> {
    let most = match verbose {
        Verbose::Off => return None,
        Verbose::On => MOST_IN_A_LINE,
        Verbose::Full => MOST_IN_FULL,
    };
    let mark = if result.is_error.unwrap_or_default() { "failed" } else { "done" };
    let text = result.text();
    let text = match verbose {
        Verbose::Full => text.trim().to_owned(),
        Verbose::On | Verbose::Off => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    Some(format!("{tool} ({mark}): {}", shortened(&text, most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[Said], sent: &[&str], failure: Option<&str>, wanted: &[&str]) {
        let sent: Vec<String> = sent.iter().map(|text| (*text).to_owned()).collect();
        let failure = failure.map(|message| ToolFailure { tool: "mark".into(), message: message.to_owned() });
        let shaping = Shaping { said, sent: &sent, failure: failure.as_ref(), shows_thinking: true };
        let texts: Vec<String> = payloads(&shaping).into_iter().map(|payload| payload.text).collect();
        assert_eq!(texts, wanted);
    }

    fn text(text: &str) -> Said {
        Said::Text(text.into())
    }

    #[test]
    fn silence_is_no_payload_and_what_was_sent_is_not_sent_again() {
        check(&[text("Look."), text("NO_REPLY")], &[], None, &["Look."]);
        check(&[text("It is  done."), text("Bye.")], &["it is done."], None, &["Bye."]);
        check(&[Said::Thinking("hm".into()), Said::Tool("t".into()), text("a NO_REPLY")], &[], None, &["hm", "t", "a"]);
    }

    #[test]
    fn a_failed_call_is_told_if_nothing_else_is() {
        check(&[text("NO_REPLY")], &[], Some("no disk"), &["mark failed: no disk"]);
        check(&[text("It failed.")], &[], Some("no disk"), &["It failed."]);
        check(&[text("NO_REPLY")], &["I could not do it."], Some("no disk"), &[]);
        check(&[Said::Tool("t".into())], &[], Some("no disk"), &["t", "mark failed: no disk"]);
    }
}
