//! Compacts the conversation of a run: before a request that would not fit, after one that did not, or because it is asked for.

use pincer_hooks::events::{AfterCompaction, BeforeCompaction};
use pincer_model::{ErrorKind, ModelError};
use pincer_sessions::Compaction;
use pincer_store::{EntryKind, Sessions, StoreError, Totals};
use serde_json::json;

use super::CompactionDetails;
use super::branch::{Branch, both_ends};
use super::estimate;
use super::guard::MOST_OVERFLOWS;
use super::plan::{cut, share};
use super::summary::{Spent, Summarizer, Written, plain};
use crate::claimed::{Left, StopReason};
use crate::ending::Failure;
use crate::event::{Happening, Stream};
use crate::lane::{Lost, Step};
use crate::replies::Said;
use crate::reply::void;
use crate::transcript::Transcript;
use crate::turn::Turn;

/// A summary has at least so many tokens.
const LEAST_SUMMARY: u64 = 200;
/// A result has at least so many bytes, however many there are.
const LEAST_RESULT: u64 = 400;
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

/// The reason of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// The next request is about to be too long.
    Threshold,
    /// The provider found it too long: for the first time, or again.
    Overflow { is_again: bool },
    /// The user wants it.
    Asked,
}

/// The outcome of a compaction.
enum Done {
    /// The summary is stored. The conversation had, and has, so many tokens.
    Compacted { before: u64, after: u64 },
    /// Nothing can be left out.
    Nothing,
    /// No summary could be made, and nothing has changed.
    Failed(ModelError),
    /// The run is to stop.
    Stopped,
}

/// A compaction that is ready to be stored.
struct Ready {
    entry: String,
    details: CompactionDetails,
    first_kept: u32,
    before: u64,
    spent: Spent,
}

/// The room in the window of a model.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// The most tokens of the kept part.
    keep: u64,
    /// The most tokens of the summary.
    summary: u64,
    /// The most tokens of both together, if that is known.
    all: Option<u64>,
}

impl Turn {
    /// Returns the estimated tokens of instructions and tools.
    fn around(&self) -> u64 {
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
        let (tokens, limit) = (self.tokens(), self.compaction.limit(window));
        // Beyond this the rest of the reserve is for the summary.
        let most_with_flush = window - self.compaction.reserve(window) / 2;
        if self.is_flushing() {
            if tokens <= most_with_flush && !self.flushes_too_long() {
                return Ok(Room::Made);
            }
            return self.end_flush(None, Totals::default()).await.map(|()| Room::Changed);
        }
        if !self.compaction.is_enabled {
            return Ok(Room::Made);
        }
        if let Some(flush) = &self.compaction.flush
            && tokens > limit - flush.soft_threshold.min(limit / 4)
            && tokens <= most_with_flush
            && self.may_flush()
        {
            return self.begin_flush().await.map(|()| Room::Changed);
        }
        if tokens <= limit {
            return Ok(Room::Made);
        }
        let mut reason = "its last message alone is too long";
        let failed;
        if !self.state().has_failed_to_compact {
            match self.compact(Trigger::Threshold, None).await? {
                Done::Compacted { .. } | Done::Stopped => return Ok(Room::Changed),
                Done::Nothing => {}
                Done::Failed(error) => {
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
            overflows => match self.compact(Trigger::Overflow { is_again: overflows > 1 }, None).await? {
                Done::Compacted { .. } | Done::Stopped => return Ok(true),
                Done::Nothing => "its last message alone is too long".to_owned(),
                Done::Failed(failed) => format!("it could not be compacted: {failed}"),
            },
        };
        let told = format!("{}, and {reason}", error.message.trim_end_matches('.'));
        let error = ModelError { message: told, ..error.clone() };
        self.failed(&error).await.map(|()| false)
    }

    /// Compacts the conversation because the user wants it, and ends the run with that.
    pub(crate) async fn compact_as_asked(&self, instructions: &str) -> Result<Left, Lost> {
        let told = match self.compact(Trigger::Asked, Some(instructions)).await? {
            Done::Compacted { before, after } => {
                format!("The conversation is compacted: about {before} tokens became about {after}.")
            }
            Done::Nothing => "There is nothing to compact: the conversation is short.".to_owned(),
            Done::Stopped => return self.stopped(None).await,
            Done::Failed(error) => return self.failed(&error).await.map(|()| Left::Ended),
        };
        self.state().said.push(Said::Text(told));
        self.finish(None).await.map(|()| Left::Ended)
    }

    /// Returns what there is room for, in tokens as they are estimated here.
    fn budget(&self, trigger: Trigger) -> Budget {
        let settings = &self.compaction;
        let is_tight = trigger == Trigger::Overflow { is_again: true };
        let estimated = self.state().transcript.estimated();
        let counted = self.tokens().saturating_sub(self.around());
        // The provider may count more for the same text: then the pieces are larger than they look.
        let looks_like = |tokens: u64| match counted > estimated {
            true => u64::try_from(u128::from(tokens) * u128::from(estimated) / u128::from(counted)).unwrap_or(tokens),
            false => tokens,
        };
        // Without a known window, half of what there is stays at most.
        let all = self.window().map(|window| settings.limit(window).saturating_sub(self.around()));
        let room = all.unwrap_or(counted.max(estimated));
        let room = if is_tight { room / 2 } else { room };
        Budget {
            keep: if is_tight { 0 } else { looks_like(settings.keep_recent.min(room / 2)) },
            summary: (room / 4).min(settings.reserve(u64::MAX) * 4 / 5).max(LEAST_SUMMARY),
            all: all.map(|_| looks_like(room)),
        }
    }

    /// Compacts the conversation in one commit. Older entries stay in the session.
    async fn compact(&self, trigger: Trigger, instructions: Option<&str>) -> Result<Done, Lost> {
        let unread = |error: serde_json::Error| {
            tracing::error!(run = %self.run.id, "the transcript cannot be read for a compaction: {error}");
            Lost::Unstored(StoreError::Missing { what: "readable transcript", id: self.lane.session.to_string() })
        };
        let entries = self.lane.store.context(&self.lane.session).await.map_err(Lost::Unstored)?;
        let open: Vec<String> = self.agent.programs(&self.run.id).await.iter().map(ToString::to_string).collect();
        let branch = Branch::read(&entries, open).map_err(unread)?;
        let budget = self.budget(trigger);
        let at = self.place(&branch, budget, trigger);
        let (at, is_summarized) = (at.unwrap_or(0), at.is_some());
        let before = self.tokens();
        if !is_summarized && self.shortened(&branch, at, budget, &branch.summary).is_none() {
            return Ok(Done::Nothing);
        }
        self.lane.feed.tell(happening(json!({ "phase": "start" })), self.lane.now());
        let (compacted, kept) = (branch.messages(..at), branch.messages(at..));
        let event = BeforeCompaction {
            context: self.hooks.context(),
            message_count: compacted + kept,
            compacting_count: compacted,
            token_count: Some(before),
        };
        self.hooks.tell(&self.agent, event);
        let mut spent = Spent::default();
        let (summary, fallback) = match is_summarized {
            false => (branch.summary.clone(), None),
            true => match self.summary(&branch, at, budget, instructions, &mut spent).await {
                Ok(written) => written,
                Err(done) => {
                    self.tell_failed(&done);
                    return Ok(done);
                }
            },
        };
        let most_result_bytes = self.shortened(&branch, at, budget, &summary).or(branch.details.most_result_bytes);
        let request = branch.cut_request(at);
        let details = CompactionDetails { most_result_bytes, request, fallback };
        let Some(first) = branch.marks.get(at) else { return Ok(Done::Nothing) };
        let body = Compaction {
            summary,
            first_kept_entry_id: first.id.to_string(),
            tokens_before: before,
            details: details.to_json(),
        };
        let entry = serde_json::to_string(&body).unwrap_or_default();
        let done = self.store(Ready { entry, details, first_kept: first.position, before, spent }, trigger).await?;
        let event = AfterCompaction {
            context: self.hooks.context(),
            // The summary is one of them.
            message_count: kept + 1,
            compacted_count: compacted,
            token_count: Some(self.tokens()),
        };
        self.hooks.tell(&self.agent, event);
        Ok(done)
    }

    /// Returns the first piece that stays, if something is to be summarized.
    fn place(&self, branch: &Branch, budget: Budget, trigger: Trigger) -> Option<usize> {
        let pieces = &branch.pieces;
        let at = cut(pieces, budget.keep, branch.open_from());
        match trigger {
            // A conversation that may stay as it is: its last turn does.
            Trigger::Asked if at.is_none() => {
                let last = branch.tokens_from(branch.last_turn());
                cut(pieces, last, branch.open_from()).filter(|_| last < branch.tokens_from(0))
            }
            // A program that is open is summarized rather than the run failed.
            Trigger::Overflow { .. } => at.or_else(|| cut(pieces, budget.keep, None)),
            Trigger::Threshold if self.window().is_some_and(|window| self.tokens() > window) => {
                at.or_else(|| cut(pieces, budget.keep, None))
            }
            Trigger::Asked | Trigger::Threshold => at,
        }
    }

    /// Returns the most bytes of each kept result, if the kept part is too long with whole results and may be shortened further.
    fn shortened(&self, branch: &Branch, at: usize, budget: Budget, summary: &str) -> Option<usize> {
        let room = budget.all?.saturating_sub(estimate::text(summary));
        let results = branch.results_from(at);
        let all = branch.tokens_from(at);
        if results.is_empty() || all <= room {
            return None;
        }
        let others = all - results.iter().sum::<u64>();
        let most = share(&results, room.saturating_sub(others))?;
        let most = usize::try_from(most.saturating_mul(3).max(LEAST_RESULT)).unwrap_or(usize::MAX);
        branch.details.most_result_bytes.is_none_or(|before| most < before).then_some(most)
    }

    /// Has the summary written. Returns it, with the reason if no model has written it.
    async fn summary(
        &self,
        branch: &Branch,
        at: usize,
        budget: Budget,
        instructions: Option<&str>,
        spent: &mut Spent,
    ) -> Result<(String, Option<String>), Done> {
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
            most: budget.summary,
            window,
        };
        let texts: Vec<&str> =
            branch.marks[..at].iter().map(|mark| mark.text.as_str()).filter(|text| !text.is_empty()).collect();
        let written = summarizer.write(&branch.summary, &texts, spent).await;
        self.add_spent(spent);
        let (mut summary, fallback) = match written {
            Written::Summary(text) => (text, None),
            Written::Useless(reason) => {
                (plain(&branch.summary, branch.requests(at), budget.summary), Some(reason.to_owned()))
            }
            Written::Failed(error) if error.kind == ErrorKind::Deadline => {
                self.stop.stop(StopReason::TimedOut);
                return Err(Done::Stopped);
            }
            Written::Failed(error) => return Err(Done::Failed(error)),
            Written::Stopped => return Err(Done::Stopped),
        };
        let most = usize::try_from(budget.summary * 2).unwrap_or(usize::MAX);
        if let Some(request) = branch.cut_request(at) {
            summary.push_str(&format!(
                "\n\nThe request that is being worked on, word for word:\n{}",
                both_ends(&request, most)
            ));
        }
        if branch.open_from().is_some_and(|open| open < at) {
            let programs = branch.open.join(", ");
            summary.push_str(&format!("\n\nPrograms that are still suspended, for `wait`: {programs}"));
        }
        Ok((summary, fallback))
    }

    /// Stores a compaction, and goes on from what is stored.
    async fn store(&self, ready: Ready, trigger: Trigger) -> Result<Done, Lost> {
        let Ready { entry, details, first_kept, before, spent } = ready;
        let will_retry = matches!(trigger, Trigger::Overflow { .. });
        let mut end = json!({ "phase": "end", "completed": true, "willRetry": will_retry });
        if let Some(reason) = &details.fallback {
            end["reason"] = json!(reason);
        }
        let detail = {
            let mut state = self.state();
            state.detail.guard.compactions += 1;
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
        Ok(Done::Compacted { before, after: self.tokens() })
    }

    fn tell_failed(&self, done: &Done) {
        let reason = match done {
            Done::Failed(error) => error.to_string(),
            _ => "stopped".to_owned(),
        };
        tracing::info!(run = %self.run.id, "the conversation was not compacted: {reason}");
        let end = json!({ "phase": "end", "completed": false, "willRetry": false, "reason": reason });
        self.lane.feed.tell(happening(end), self.lane.now());
    }

    fn add_spent(&self, more: &Spent) {
        let mut state = self.state();
        let spent = &mut state.detail.spent;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        spent.model_calls += more.requests;
        add(&mut spent.input, more.usage.input);
        add(&mut spent.output, more.usage.output);
        add(&mut spent.cache_read, more.usage.cache_read);
        add(&mut spent.cache_write, more.usage.cache_write);
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
