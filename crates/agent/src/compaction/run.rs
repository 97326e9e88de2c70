//! Compacts the conversation of a run: before a request that would not fit, or after one that did not.

use pincer_hooks::events::{AfterCompaction, BeforeCompaction};
use pincer_model::{ErrorKind, ModelError};
use pincer_sessions::Compaction;
use pincer_store::{EntryKind, Sessions, StoreError, Totals};
use serde_json::json;

use super::CompactionDetails;
use super::estimate;
use super::guard::MOST_OVERFLOWS;
use super::planned::{LEAST_SUMMARY, Planned, Trigger};
use super::summary::{Spent, Summarizer, Written, plain};
use crate::claimed::StopReason;
use crate::ending::Failure;
use crate::event::{Happening, Stream};
use crate::hooks::Author;
use crate::lane::{Lost, Step};
use crate::replies::Said;
use crate::reply::void;
use crate::transcript::Transcript;
use crate::turn::Turn;

/// The reason why a request stays too long after a summary was written.
const LONGER: &str = "the summary of its older part is not shorter than that part";
/// Windows that providers tell are believed from here on.
const LEAST_WINDOW: u64 = 512;

/// The outcome of making room for a request.
pub(crate) enum Room {
    /// There is room.
    Made,
    /// The conversation has changed: the next step follows from it anew.
    Changed,
    /// The run has ended.
    Ended,
}

/// What came of a compaction.
pub(super) enum Done {
    /// It is stored. The conversation had, and has, so many tokens, both estimated: the provider has not counted what there is now.
    Compacted { before: u64, after: u64 },
    /// The summary is not shorter than what it would replace, and nothing has changed. They have so many tokens.
    Longer { summary: u64, replaced: u64 },
    /// It failed, and nothing has changed.
    Failed(ModelError),
    /// The run is to stop.
    Stopped,
}

/// A compaction that is ready to be stored.
struct Ready {
    entry: String,
    details: CompactionDetails,
    first_kept: u32,
    /// The estimated tokens of the conversation as it was.
    estimated: u64,
    spent: Spent,
}

impl Turn {
    /// Returns the estimated tokens of instructions and tools.
    pub(super) fn around(&self) -> u64 {
        *self.around.get_or_init(|| {
            let mut system = self.prompt.stable();
            system.extend(self.prompt.suffix.as_ref().map(|part| part.text.clone()));
            estimate::around(&system, &self.surface.tools)
        })
    }

    /// Returns the tokens of the next request.
    pub(crate) fn tokens(&self) -> u64 {
        self.state().transcript.tokens(self.around())
    }

    /// Returns the tokens of the next request as they are estimated, whatever the provider has counted before.
    fn estimated(&self) -> u64 {
        self.around() + self.state().transcript.estimated()
    }

    /// Returns the window of the model: as it is known, or as the provider has told in this run.
    pub(crate) fn window(&self) -> Option<u64> {
        let known = self.plan.targets.first().and_then(pincer_model::Target::context_window);
        let learned = self.state().learned_window;
        known.into_iter().chain(learned).min()
    }

    /// Returns the most tokens of the next reply, if the window leaves less than the model's settings say.
    pub(crate) fn most_reply(&self) -> Option<u32> {
        let most = self.plan.targets.iter().filter_map(pincer_model::Target::most_reply_tokens).min()?;
        let left = u32::try_from(self.window()?.saturating_sub(self.tokens())).unwrap_or(u32::MAX);
        (left < most).then_some(left.max(1_024).min(most))
    }

    /// Sees to it that the next request fits.
    pub(crate) async fn make_room(&self) -> Result<Room, Lost> {
        if self.state().detail.guard.is_looping() {
            let told = "the model makes the same call again and again since its conversation was compacted, with the same result. To go \
                        on: tell it what to do differently, begin a new conversation with `/new`, or use a model with a larger window";
            let failure = Failure { kind: "compaction_loop_persisted", told: told.to_owned() };
            return self.failed_as(failure).await.map(|()| Room::Ended);
        }
        let Some(window) = self.window() else { return Ok(Room::Made) };
        let (tokens, around) = (self.tokens(), self.around());
        let limit = self.compaction.limit(window, around);
        // Beyond this the rest of the reserve is for the summary.
        let most_with_flush = window - (window - limit) / 2;
        if self.is_flushing() {
            if tokens <= most_with_flush && !self.flushes_too_long() {
                return Ok(Room::Made);
            }
            return self.end_flush(None, Totals::default()).await.map(|()| Room::Changed);
        }
        if !self.compaction.is_enabled {
            return Ok(Room::Made);
        }
        let is_idle = self.state().detail.guard.is_idle();
        if let Some(before) = self.compaction.notes_before(limit, around)
            && tokens > limit - before
            && tokens <= most_with_flush
            && !is_idle
            && self.may_flush()
        {
            return self.begin_flush().await.map(|()| Room::Changed);
        }
        if tokens <= limit {
            return Ok(Room::Made);
        }
        if around >= window {
            let told = format!(
                "the instructions and tools alone have about {around} tokens, and the model takes {window}. `pincer agent --show-prompt` \
                 shows their parts. Allow fewer tools, turn on code mode or Tool Search, shorten the bootstrap files, or use a model with \
                 a larger window"
            );
            let failure = Failure { kind: "context_overflow", told };
            return self.failed_as(failure).await.map(|()| Room::Ended);
        }
        let mut reason = if is_idle { "compacting it makes no room" } else { "its last message alone is too long" };
        let failed;
        if !is_idle && !self.state().has_failed_to_compact {
            match self.compact_by_itself(Trigger::Threshold).await? {
                Some(Done::Compacted { .. } | Done::Stopped) => return Ok(Room::Changed),
                None => {}
                Some(Done::Longer { .. }) => {
                    // The next step of this run would have such a summary written again.
                    self.state().has_failed_to_compact = true;
                    reason = LONGER;
                }
                Some(Done::Failed(error)) => {
                    self.state().has_failed_to_compact = true;
                    failed = format!("it could not be compacted: {error}");
                    reason = &failed;
                }
            }
        }
        if tokens <= window {
            // It is into the reserve, but it fits.
            return Ok(Room::Made);
        }
        let error =
            overflow(&format!("the conversation has about {tokens} tokens, the model takes {window}, and {reason}"));
        self.failed(&error).await.map(|()| Room::Ended)
    }

    /// Deals with a request that the provider found too long. Returns `false` if the run has ended.
    pub(crate) async fn take_overflow(&self, error: &ModelError) -> Result<bool, Lost> {
        let ErrorKind::ContextOverflow { used, limit } = error.kind else { return Ok(true) };
        if error.has_shown {
            void(&self.lane);
        }
        if self.is_flushing() {
            self.end_flush(None, Totals::default()).await?;
        }
        let tokens = self.tokens();
        let overflows = {
            let mut state = self.state();
            let window = learned_window(tokens, used, limit);
            state.learned_window = Some(state.learned_window.map_or(window, |before| before.min(window)));
            state.detail.guard.overflows += 1;
            state.detail.guard.overflows
        };
        let reason = match overflows {
            overflows if overflows > MOST_OVERFLOWS => "it was compacted and is still too long".to_owned(),
            overflows => match self.compact_by_itself(Trigger::Overflow { is_again: overflows > 1 }).await? {
                Some(Done::Compacted { .. } | Done::Stopped) => return Ok(true),
                None => "its last message alone is too long".to_owned(),
                Some(Done::Longer { .. }) => LONGER.to_owned(),
                Some(Done::Failed(failed)) => format!("it could not be compacted: {failed}"),
            },
        };
        let told = format!("{}, and {reason}", error.message.trim_end_matches('.'));
        let error = ModelError { message: told, ..error.clone() };
        self.failed(&error).await.map(|()| false)
    }

    /// Compacts the conversation of a run that goes on. Returns `None` if nothing can be left out.
    async fn compact_by_itself(&self, trigger: Trigger) -> Result<Option<Done>, Lost> {
        match self.plan_compaction(trigger).await? {
            Ok(planned) => self.compact(planned, None).await.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Compacts the conversation in one commit. What came before stays in the session.
    pub(super) async fn compact(&self, planned: Planned, instructions: Option<&str>) -> Result<Done, Lost> {
        let Planned { branch, budget, trigger, cut } = &planned;
        let (mut at, before) = (cut.unwrap_or(0), self.tokens());
        let estimated = self.estimated();
        self.lane.feed.tell(happening(json!({ "phase": "start", "trigger": trigger.name() })), self.lane.now());
        let (compacted, kept) = (branch.messages(..at), branch.messages(at..));
        let event = BeforeCompaction {
            context: self.hooks.context(),
            message_count: compacted + kept,
            compacting_count: compacted,
            token_count: Some(before),
        };
        self.hooks.tell(&self.agent, event);
        let mut spent = Spent::default();
        let (summary, fallback) = match cut {
            None => (branch.summary.clone(), None),
            Some(_) => match self.summary(&planned, at, instructions, &mut spent).await {
                Ok(written) => written,
                // All of it stays, and fits better with shorter results.
                Err(Done::Longer { .. }) if branch.shortened(0, *budget, &branch.summary).is_some() => {
                    at = 0;
                    (branch.summary.clone(), None)
                }
                Err(done) => return self.give_up(done, &spent).await,
            },
        };
        let Some(first) = branch.marks.get(at) else {
            let told = ModelError::new(ErrorKind::Malformed, "it has no entries");
            return self.give_up(Done::Failed(told), &spent).await;
        };
        let summary = self.hooks.written_text(Author::Summary, summary).await;
        let most_result_bytes = branch.shortened(at, *budget, &summary).or(branch.details.most_result_bytes);
        let request = branch.cut_request(at);
        let details = CompactionDetails { most_result_bytes, request, fallback };
        let body = Compaction {
            summary,
            first_kept_entry_id: first.id.to_string(),
            tokens_before: before,
            details: details.to_json(),
        };
        let entry = serde_json::to_string(&body).unwrap_or_default();
        let done = self.store(Ready { entry, details, first_kept: first.position, estimated, spent }, *trigger).await?;
        let event = AfterCompaction {
            context: self.hooks.context(),
            // The summary is one of them.
            message_count: branch.messages(at..) + 1,
            compacted_count: branch.messages(..at),
            token_count: Some(self.tokens()),
        };
        self.hooks.tell(&self.agent, event);
        Ok(done)
    }

    /// Has the summary written. Returns it, with the reason if no model has written it.
    async fn summary(
        &self,
        planned: &Planned,
        at: usize,
        instructions: Option<&str>,
        spent: &mut Spent,
    ) -> Result<(String, Option<String>), Done> {
        let Planned { branch, budget, trigger, .. } = planned;
        let replaced = branch.replaced(at);
        let most = budget.summary.min(replaced).max(LEAST_SUMMARY);
        let plan = self.plan_with(self.compaction.model.as_deref());
        let own = self.compaction.model.is_some();
        let window = match plan.targets.first().and_then(pincer_model::Target::context_window) {
            Some(known) if own => Some(known),
            _ => self.window(),
        };
        let summarizer = Summarizer {
            agent: &self.agent,
            hooks: &self.hooks,
            plan,
            lane: &self.lane,
            stop: &self.stop.token,
            instructions,
            most,
            window,
        };
        let texts: Vec<&str> =
            branch.marks[..at].iter().map(|mark| mark.text.as_str()).filter(|text| !text.is_empty()).collect();
        let written = summarizer.write(&branch.summary, &texts, spent).await;
        self.add_spent(spent);
        let with_rest = |text| branch.with_rest(at, *budget, text);
        let list = || with_rest(plain(&branch.summary, branch.requests(at), most));
        let (mut summary, mut fallback) = match written {
            Written::Summary(text) => (with_rest(text), None),
            Written::Useless(reason) => (list(), Some(reason.to_owned())),
            Written::Failed(error) if error.kind == ErrorKind::Deadline => {
                self.stop.stop(StopReason::TimedOut);
                return Err(Done::Stopped);
            }
            Written::Failed(error) => return Err(Done::Failed(error)),
            Written::Stopped => return Err(Done::Stopped),
        };
        let is_longer = |summary: &str| estimate::text(summary) >= replaced;
        // A user who asked can go on as before. A request that is too long cannot, and a list has only so many tokens.
        if is_longer(&summary) && fallback.is_none() && *trigger != Trigger::Asked {
            (summary, fallback) = (list(), Some("its summary was not shorter".to_owned()));
        }
        match is_longer(&summary) {
            true => Err(Done::Longer { summary: estimate::text(&summary), replaced }),
            false => Ok((summary, fallback)),
        }
    }

    /// Leaves the conversation as it is. The tokens of the model count all the same.
    async fn give_up(&self, done: Done, spent: &Spent) -> Result<Done, Lost> {
        let reason = match &done {
            Done::Failed(error) => error.to_string(),
            Done::Longer { .. } => "its summary is not shorter".to_owned(),
            _ => "stopped".to_owned(),
        };
        tracing::info!(run = %self.run.id, "the conversation was not compacted: {reason}");
        let end = json!({ "phase": "end", "completed": false, "willRetry": false, "reason": reason });
        match !spent.requests.is_empty() && !self.stop.token.is_cancelled() {
            true => {
                let detail = Some(self.state().detail.to_json().into());
                // Events are stored with an entry, and this one says what the tokens were for.
                let entries = vec![self.lane.note("pincer.not-compacted", &json!({ "reason": reason }))];
                let (totals, happenings) = (spent.totals(), vec![happening(end)]);
                let step = Step { entries, totals, detail, happenings, ..Step::default() };
                self.lane.commit(step, &self.stop.token).await?;
            }
            false => self.lane.feed.tell(happening(end), self.lane.now()),
        }
        Ok(done)
    }

    /// Stores a compaction, and goes on from what is stored.
    async fn store(&self, ready: Ready, trigger: Trigger) -> Result<Done, Lost> {
        let Ready { entry, details, first_kept, estimated, spent } = ready;
        let will_retry = matches!(trigger, Trigger::Overflow { .. });
        let mut end = json!({ "phase": "end", "completed": true, "willRetry": will_retry });
        if let Some(reason) = &details.fallback {
            end["reason"] = json!(reason);
        }
        let detail = {
            let mut state = self.state();
            state.detail.guard.compacted();
            state.detail.to_json()
        };
        let totals = Totals { compactions: 1, ..spent.totals() };
        let step = Step {
            entries: vec![self.lane.entry(EntryKind::Compaction, entry)],
            happenings: vec![happening(end)],
            context_from: Some(first_kept),
            totals,
            detail: Some(detail.into()),
            ..Step::default()
        };
        self.lane.commit(step, &self.stop.token).await?;
        let entries = self.lane.store.context(&self.lane.session).await.map_err(Lost::Unstored)?;
        let transcript = Transcript::read(&entries).map_err(|error| {
            tracing::error!(run = %self.run.id, "the compacted transcript cannot be read: {error}");
            Lost::Unstored(StoreError::Missing { what: "readable transcript", id: self.lane.session.to_string() })
        })?;
        let mut state = self.state();
        state.transcript = transcript;
        state.said.extend(details.notice().map(Said::Text));
        drop(state);
        Ok(Done::Compacted { before: estimated, after: self.estimated() })
    }

    fn add_spent(&self, more: &Spent) {
        let mut state = self.state();
        let spent = &mut state.detail.spent;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        spent.model_calls += more.requests.len() as u32;
        add(&mut spent.input, more.usage.input);
        add(&mut spent.output, more.usage.output);
        add(&mut spent.cache_read, more.usage.cache_read);
        add(&mut spent.cache_write, more.usage.cache_write);
        state.detail.tools.answered_without_tools(&more.requests);
    }
}

fn happening(data: serde_json::Value) -> Happening {
    Happening::new(Stream::Compaction, data)
}

/// Returns an overflow that was found before anything was sent.
fn overflow(message: &str) -> ModelError {
    ModelError::new(ErrorKind::ContextOverflow { used: None, limit: None }, message)
}

/// Returns the window of a model that found a request of `tokens`, as it is estimated here, too long. A provider may count more for the
/// same text, and may tell how much.
fn learned_window(tokens: u64, used: Option<u64>, limit: Option<u64>) -> u64 {
    let least = tokens.saturating_mul(9) / 10;
    let told = limit.filter(|limit| *limit >= LEAST_WINDOW).map(|limit| match used {
        Some(used) if used > tokens && used > limit => {
            u64::try_from(u128::from(limit) * u128::from(tokens) / u128::from(used)).unwrap_or(limit)
        }
        _ => limit,
    });
    // A limit above what was sent explains nothing.
    told.filter(|told| *told <= tokens).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_learned_from_what_the_provider_tells() {
        assert_eq!(learned_window(1_000, None, None), 900);
        assert_eq!(learned_window(10_000, None, Some(8_192)), 8_192);
        assert_eq!(learned_window(150_000, Some(300_000), Some(200_000)), 100_000);
        assert_eq!(learned_window(9_500, Some(9_001), Some(8_192)), 8_192);
        assert_eq!(learned_window(1_000, None, Some(8_192)), 900, "it was too long all the same");
        assert_eq!(learned_window(10_000, None, Some(300)), 9_000, "no window is that small");
    }
}
