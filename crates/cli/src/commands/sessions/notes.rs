//! The entries of a session that are no messages, as people read them.

use std::collections::HashMap;

use console::{StyledObject, style};
use pincer_sessions::{Compaction, Custom};
use pincer_store::{AgentRunId, Entry, EntryKind, Millis};
use serde_json::Value;

use super::list::lasted;
use super::page::{Page, clock};

/// How long the runs of a session waited.
pub(super) struct Pauses(HashMap<u32, Millis>);

impl Pauses {
    /// Finds, for each entry by which a run begins to wait, the one by which it goes on.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut waiting: HashMap<&AgentRunId, &Entry> = HashMap::new();
        let mut pauses = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Custom) {
            let Some(run) = &entry.run else { continue };
            match custom(entry).map(|note| note.custom_type).as_deref() {
                Some("pincer.waiting") => drop(waiting.insert(run, entry)),
                Some("pincer.resumed") => {
                    if let Some(since) = waiting.remove(run) {
                        pauses.insert(since.position, entry.at - since.at);
                    }
                }
                _ => {}
            }
        }
        Self(pauses)
    }
}

fn custom(entry: &Entry) -> Option<Custom> {
    serde_json::from_str(&entry.body).ok()
}

/// Adds an entry that is no message. `tail` is its id, and a mark if it is not on the branch in use.
pub(super) fn show(page: &mut Page, entry: &Entry, pauses: &Pauses, tail: &str) {
    let body: Value = serde_json::from_str(&entry.body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let time = clock(entry.at);
    match entry.kind {
        EntryKind::Custom => note(page, entry, pauses, tail),
        EntryKind::Compaction => {
            let compaction = serde_json::from_str::<Compaction>(&entry.body).ok();
            let before = compaction.map(|compaction| format!("of {} tokens", compaction.tokens_before));
            page.gap();
            page.line(0, &style("compaction").magenta(), &[&before.unwrap_or_default(), &time, tail]);
            page.block(1, &text("summary"));
        }
        EntryKind::BranchSummary => {
            page.gap();
            page.line(0, &style("summary of another branch").magenta(), &[&time, tail]);
            page.block(1, &text("summary"));
        }
        EntryKind::CustomMessage => {
            page.gap();
            page.line(0, &style("told the model").magenta(), &[&text("customType"), &time, tail]);
            match body["content"].as_str() {
                Some(content) => page.block(1, content),
                None => page.block(1, &body["content"].to_string()),
            }
        }
        EntryKind::ModelChange => {
            let model = format!("{}/{}", text("provider"), text("modelId"));
            page.line(0, &style("model").magenta(), &[&page.value(&model), tail]);
        }
        EntryKind::ThinkingLevelChange => {
            page.line(0, &style("thinking").magenta(), &[&page.value(&text("thinkingLevel")), tail]);
        }
        EntryKind::Label => {
            let target = format!("#{}", page.value(&text("targetId")));
            page.line(0, &style("label").magenta(), &[&page.value(&text("label")), &target, tail]);
        }
        EntryKind::SessionInfo => page.line(0, &style("name").magenta(), &[&page.value(&text("name")), tail]),
        EntryKind::Reset => page.line(0, &style("begins anew").magenta(), &[&page.value(&text("reason")), tail]),
        EntryKind::Message | EntryKind::NestedCall => {
            page.line(0, &style("an entry that cannot be read").red(), &[&page.value(&entry.body), tail]);
        }
    }
}

fn note(page: &mut Page, entry: &Entry, pauses: &Pauses, tail: &str) {
    let Some(Custom { custom_type, data }) = custom(entry) else {
        return page.line(0, &style("note").dim(), &[&page.value(&entry.body), tail]);
    };
    let data: Value = data.and_then(|data| data.to().ok()).unwrap_or_default();
    let time = clock(entry.at);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match custom_type.as_str() {
        "pincer.waiting" => {
            let pause = pauses
                .0
                .get(&entry.position)
                .map_or_else(|| "has not gone on since".to_owned(), |pause| format!("for {}", lasted(*pause)));
            page.line(0, &style("waits").yellow(), &[&pause, &time, tail]);
            for question in data["approvals"].as_array().into_iter().flatten() {
                let tool = page.value(&text(&question["tool"]));
                page.line(1, &style("asked about"), &[&tool, &page.value(&text(&question["approvalId"]))]);
            }
            for call in data["clientCalls"].as_array().into_iter().flatten() {
                let (name, arguments) = (page.value(&text(&call["name"])), page.value(&call["arguments"].to_string()));
                page.line(1, &style("asked the sender to call"), &[&name, &arguments]);
            }
        }
        "pincer.resumed" => {
            page.line(0, &style("goes on").green(), &[&time, tail]);
            for answer in data["answers"].as_array().into_iter().flatten() {
                let by = match answer["by"].as_str() {
                    Some(by) => format!("by {}", page.value(by)),
                    None => String::new(),
                };
                let tool = page.value(&text(&answer["tool"]));
                page.line(
                    1,
                    &verdict(&text(&answer["status"])),
                    &[&by, &tool, &page.value(&text(&answer["approvalId"]))],
                );
            }
        }
        "pincer.taken-over" => {
            page.line(0, &style("taken over").yellow(), &["by another process: the one before is gone", &time, tail]);
        }
        "pincer.stopped" => {
            let reason = match data["reason"].as_str() {
                Some("timeout") => "it took longer than it may".to_owned(),
                Some("aborted") | None => "as it was asked to".to_owned(),
                Some(other) => page.value(other),
            };
            page.line(0, &style("stopped").red(), &[&reason, &time, tail]);
        }
        "pincer.error" => {
            page.line(0, &style("error").red(), &[&page.value(&text(&data["kind"])), &time, tail]);
            page.block(1, &text(&data["message"]));
        }
        // The end of a run without words says nothing.
        "pincer.end" => {}
        other => page.line(0, &style("note").dim(), &[&page.value(other), &page.value(&data.to_string()), tail]),
    }
}

/// Returns the state of a question in its colour.
fn verdict(status: &str) -> StyledObject<String> {
    match status {
        "allowed" => style("allowed".to_owned()).green(),
        "denied" | "expired" | "cancelled" => style(status.to_owned()).red(),
        // A word of ours or none: a file may say anything.
        _ => style("answered".to_owned()),
    }
}
