//! The silent turn in which a model may write lasting notes before its conversation is compacted.
//!
//! The turn is part of the transcript like everything else, so that a process that dies in it leaves nothing behind that the next one could
//! not read. Its answer is withheld.

use pincer_model::Plan;
use pincer_sessions::Message as Stored;
use pincer_store::{EntryKind, Millis, NewEntry, Totals};
use serde_json::json;

use crate::lane::{Lost, Step};
use crate::telemetry::Weight;
use crate::transcript::Flush;
use crate::turn::Turn;

/// The kinds of the texts with which it begins and ends.
pub(crate) const FLUSH: &str = "pincer.memory-flush";
pub(crate) const FLUSH_END: &str = "pincer.memory-flush-end";

/// The most replies of one.
const MOST_REPLIES: u32 = 8;
/// Tools that write files.
const WRITERS: [&str; 3] = ["openclaw:core:write", "openclaw:core:edit", "openclaw:core:apply_patch"];

/// The text that asks for the notes, before and after the name of their file.
const PROMPT: [&str; 2] = [
    "This conversation is about to be summarized, and details will be lost. If it holds facts, decisions or wishes that will matter in \
     later conversations and stand in no file yet, write them down now, into",
    "in the workspace: add to what stands there, and overwrite nothing. Do nothing else, and do not answer the user. When you are done, or \
     if there is nothing to write, reply with NO_REPLY.",
];
const END: &str = "The notes are done. The user was shown nothing of that. Now go on with what the user asked for.";

impl Turn {
    /// Returns whether a silent turn may begin: there was none since the last compaction, the model has said something that could be worth a
    /// note, and there is a tool that writes files.
    pub(crate) fn may_flush(&self) -> bool {
        {
            let state = self.state();
            if state.transcript.flush() != Flush::Due || !state.transcript.has_replies() || self.request.disable_tools {
                return false;
            }
        }
        let tools = self.agent.runtime.tools(&self.scope);
        let writes = tools.catalog().iter().any(|entry| WRITERS.contains(&entry.id.to_string().as_str()));
        writes && self.agent.runtime.may_write_workspace(&self.scope)
    }

    /// Returns whether the next reply is part of a silent turn.
    pub(crate) fn is_flushing(&self) -> bool {
        matches!(self.state().transcript.flush(), Flush::UnderWay(_))
    }

    /// Returns whether a silent turn goes on for too long.
    pub(crate) fn flushes_too_long(&self) -> bool {
        matches!(self.state().transcript.flush(), Flush::UnderWay(replies) if replies >= MOST_REPLIES)
    }

    /// Begins a silent turn.
    pub(crate) async fn begin_flush(&self) -> Result<(), Lost> {
        let prompt = self.compaction.flush.as_ref().and_then(|flush| flush.prompt.clone());
        let prompt = prompt.filter(|prompt| !prompt.trim().is_empty()).unwrap_or_else(|| {
            let [before, after] = PROMPT;
            format!("{before} `memory/{}.md` {after}", day(self.lane.now()))
        });
        let entry = self.told(FLUSH, &prompt);
        self.lane.commit(Step { entries: vec![entry], ..Step::default() }, &self.stop.token).await?;
        self.tell_transcript(FLUSH, prompt);
        Ok(())
    }

    /// Ends a silent turn, with its last reply if there is one. The reply stays in the transcript, and no person is told of it.
    pub(crate) async fn end_flush(&self, last: Option<(NewEntry, Stored)>, totals: Totals) -> Result<(), Lost> {
        let (mut entries, mut reply) = (Vec::new(), None);
        if let Some((entry, stored)) = last {
            entries.push(entry);
            reply = Some(stored);
        }
        entries.push(self.told(FLUSH_END, END));
        let detail = Some(self.state().detail.to_json().into());
        let step = Step { entries, totals, detail, ..Step::default() };
        let committed = self.lane.commit(step, &self.stop.token).await?;
        if let Some(reply) = reply {
            self.state().transcript.push(committed.first, reply);
        }
        self.tell_transcript(FLUSH_END, END.to_owned());
        Ok(())
    }

    /// Returns the models that are asked in a silent turn.
    pub(crate) fn flush_plan(&self) -> Plan {
        let name = self.compaction.flush.as_ref().and_then(|flush| flush.model.as_deref());
        self.plan_with(name)
    }

    /// Returns the instructions of the model in a silent turn.
    pub(crate) fn flush_system(&self) -> Vec<String> {
        self.prompt.stable().into_iter().chain(self.flush_instructions()).collect()
    }

    /// Returns the weight of the instructions that come after those of the run if the next reply is part of a silent turn.
    pub(crate) fn flush_weight(&self) -> Weight {
        let more = if self.is_flushing() { self.flush_instructions() } else { None };
        more.map_or_else(Weight::default, |text| Weight::of(&text))
    }

    fn flush_instructions(&self) -> Option<String> {
        let more = self.compaction.flush.as_ref().and_then(|flush| flush.system_prompt.clone());
        more.filter(|text| !text.trim().is_empty())
    }

    /// Returns the run's plan, with another model if one is named. One that cannot be found is passed over.
    pub(crate) fn plan_with(&self, name: Option<&str>) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(name) = name {
            match self.agent.models.target(name) {
                Ok(target) => plan.targets.insert(0, target),
                Err(error) => tracing::warn!(run = %self.run.id, "{name} cannot be asked for a compaction: {error}"),
            }
        }
        plan
    }

    fn told(&self, kind: &str, text: &str) -> NewEntry {
        let body = json!({ "customType": kind, "content": text, "display": false }).to_string();
        self.lane.entry(EntryKind::CustomMessage, body)
    }

    fn tell_transcript(&self, kind: &str, text: String) {
        let mut state = self.state();
        state.transcript.push_text(text);
        state.transcript.told(kind);
    }
}

/// Returns the day of a time, as `2026-01-31`, in UTC.
fn day(at: Millis) -> String {
    // Years that begin with March have their leap day at the end, and eras of 400 such years are all alike.
    let days = at.div_euclid(24 * 3_600 * 1_000) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        const DAY: Millis = 24 * 3_600 * 1_000;
        for (at, expected) in [
            (0, "1970-01-01"),
            (DAY - 1, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016 * DAY, "2000-02-29"),
            (11_017 * DAY, "2000-03-01"),
            (20_775 * DAY, "2026-11-18"),
        ] {
            assert_eq!(day(at), expected);
        }
    }
}
