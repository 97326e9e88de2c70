//! The words of a run, read from its entries: what its user said, and what it said itself.

use pincer_sessions::{Compaction, CustomMessage, Message as Stored, Role};
use pincer_store::{AgentRun, Entry, EntryKind};

use crate::compaction::{CompactionDetails, FLUSH, FLUSH_END};
use crate::replies::{Said, ToolFailure, failed_with, said_in, summary};
use crate::request::Verbose;
use crate::turn::REVISION;

/// Returns the words of the user with which a run began: those of all messages that became it.
pub(crate) fn prompt(entries: &[Entry], run: &AgentRun) -> String {
    let first = run.first_entry.unwrap_or(1);
    let own = entries.iter().filter(|entry| entry.kind == EntryKind::Message && entry.position >= first);
    let mut texts = Vec::new();
    for entry in own.rev() {
        let Ok(message) = Stored::parse(&entry.body) else { continue };
        if message.role != Role::User {
            break;
        }
        texts.push(message.text());
    }
    texts.reverse();
    texts.join("\n\n")
}

/// The parts of a run's answer.
#[derive(Default)]
pub(crate) struct Spoken {
    pub said: Vec<Said>,
    /// Where its last reply begins.
    pub reply_from: usize,
    /// Its last call, if that failed.
    pub failure: Option<ToolFailure>,
}

/// Returns the texts of a run, without silent ones and without replies that hooks had revised.
pub(crate) fn spoken(entries: &[Entry], run: &AgentRun, verbose: Verbose) -> Spoken {
    let (mut spoken, mut is_silent) = (Spoken::default(), false);
    let Spoken { said, reply_from, failure } = &mut spoken;
    for entry in entries {
        let is_own = entry.run.as_ref() == Some(&run.id);
        match entry.kind {
            EntryKind::CustomMessage => {
                let told = serde_json::from_str::<CustomMessage>(&entry.body).ok();
                match told.map(|told| told.custom_type).as_deref() {
                    Some(FLUSH) => is_silent = true,
                    Some(FLUSH_END) => is_silent = false,
                    Some(REVISION) if is_own => said.truncate(*reply_from),
                    _ => {}
                }
            }
            EntryKind::Compaction if is_own => {
                let compaction = serde_json::from_str::<Compaction>(&entry.body).ok();
                let details = compaction.map(|compaction| CompactionDetails::parse(compaction.details.as_ref()));
                said.extend(details.and_then(|details| details.notice()).map(Said::Text));
            }
            EntryKind::Message => {
                let Ok(message) = Stored::parse(&entry.body) else { continue };
                is_silent &= message.role != Role::User;
                match message.role {
                    Role::Assistant if is_own && !is_silent => {
                        *reply_from = said.len();
                        said.extend(said_in(&message));
                    }
                    Role::ToolResult if is_own && !is_silent => {
                        let tool = message.tool_name.clone().unwrap_or_default();
                        said.extend(summary(verbose, &tool, &message).map(Said::Tool));
                        *failure = failed_with(&tool, &message);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    spoken
}
