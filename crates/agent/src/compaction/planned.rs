//! Decides, before anything is done, what of a conversation gives way to a summary.

use pincer_store::{Sessions, StoreError};

use super::branch::{Branch, both_ends};
use super::estimate;
use super::plan::{cut, share};
use crate::lane::Lost;
use crate::turn::Turn;

/// A summary has at least so many tokens.
pub(super) const LEAST_SUMMARY: u64 = 200;
/// A user who asks for a summary gets one of at least so many tokens: one of fewer is easily longer than they are.
pub(super) const LEAST_SUMMARIZED: u64 = 500;
/// A result has at least so many bytes, however many there are.
const LEAST_RESULT: u64 = 400;

/// Why a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// It is about to be too long.
    Threshold,
    /// The provider found it too long: for the first time, or again.
    Overflow { is_again: bool },
    /// The user wants it.
    Asked,
}

impl Trigger {
    /// Returns its name, as events have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Overflow { .. } => "overflow",
            Self::Asked => "manual",
        }
    }
}

/// What there is room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// The most tokens of the kept part.
    keep: u64,
    /// The most tokens of the summary.
    pub(super) summary: u64,
    /// The tokens of which a summary is written if results could be shortened instead.
    least: u64,
    /// The most tokens of both together, if that is known.
    all: Option<u64>,
}

/// A compaction that makes the conversation shorter.
pub(super) struct Planned {
    pub branch: Branch,
    pub budget: Budget,
    pub trigger: Trigger,
    /// The first piece that stays. Without one all of them stay, and results of calls are shortened.
    pub cut: Option<usize>,
}

/// A conversation of which nothing can be left out, or too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short {
    pub all: Size,
    /// What comes before the part that always stays.
    pub before: Option<Size>,
    /// Something suspended belongs to it.
    pub is_open: bool,
}

/// The size of a part of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub messages: usize,
    pub tokens: u64,
}

impl Branch {
    /// Adds to a summary what must stay in sight.
    pub(super) fn with_rest(&self, at: usize, budget: Budget, mut summary: String) -> String {
        let most = usize::try_from(budget.summary * 2).unwrap_or(usize::MAX);
        if let Some(request) = self.cut_request(at) {
            summary.push_str(&format!(
                "\n\nThe request that is being worked on, word for word:\n{}",
                both_ends(&request, most)
            ));
        }
        if self.open_from().is_some_and(|open| open < at) {
            let programs = self.open.join(", ");
            summary.push_str(&format!("\n\nPrograms that are still suspended, for `wait`: {programs}"));
        }
        summary
    }

    /// Returns the most bytes of each kept result, if the kept part is too long with whole results and may be shortened further.
    pub(super) fn shortened(&self, at: usize, budget: Budget, summary: &str) -> Option<usize> {
        let room = budget.all?.saturating_sub(estimate::text(summary));
        let results = self.results_from(at);
        let all = self.tokens_from(at);
        if results.is_empty() || all <= room {
            return None;
        }
        let others = all - results.iter().sum::<u64>();
        let most = share(&results, room.saturating_sub(others))?;
        let most = usize::try_from(most.saturating_mul(3).max(LEAST_RESULT)).unwrap_or(usize::MAX);
        self.details.most_result_bytes.is_none_or(|before| most < before).then_some(most)
    }
}

impl Short {
    fn of(branch: &Branch, at: Option<usize>) -> Self {
        let all = Size { messages: branch.messages(..), tokens: branch.tokens_from(0) };
        let before = at.map(|at| Size { messages: branch.messages(..at), tokens: branch.tokens_before(at) });
        Self { all, before, is_open: branch.open_from().is_some() }
    }
}

impl Turn {
    /// Plans a compaction. Nothing is stored, and no model is asked.
    pub(super) async fn plan_compaction(&self, trigger: Trigger) -> Result<Result<Planned, Short>, Lost> {
        let unread = |error: serde_json::Error| {
            tracing::error!(run = %self.run.id, "the transcript cannot be read for a compaction: {error}");
            Lost::Unstored(StoreError::Missing { what: "readable transcript", id: self.lane.session.to_string() })
        };
        let entries = self.lane.store.context(&self.lane.session).await.map_err(Lost::Unstored)?;
        let open: Vec<String> = self.agent.programs(&self.run.id).await.iter().map(ToString::to_string).collect();
        let branch = Branch::read(&entries, open).map_err(unread)?;
        let budget = self.budget(trigger);
        let place = self.place(&branch, budget, trigger);
        let may_shorten = branch.shortened(0, budget, &branch.summary).is_some();
        let is_worth = |at: &usize| {
            let rest = estimate::text(&branch.with_rest(*at, budget, String::new()));
            match trigger {
                Trigger::Asked => branch.tokens_before(*at) >= LEAST_SUMMARIZED + rest,
                Trigger::Threshold | Trigger::Overflow { .. } => {
                    !may_shorten || branch.replaced(*at) >= budget.least + rest
                }
            }
        };
        let cut = place.filter(is_worth);
        Ok(match cut.is_some() || may_shorten {
            true => Ok(Planned { branch, budget, trigger, cut }),
            false => Err(Short::of(&branch, place)),
        })
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
        let all = self.window().map(|window| settings.limit(window, self.around()).saturating_sub(self.around()));
        let room = all.unwrap_or(counted.max(estimated));
        let room = if is_tight { room / 2 } else { room };
        Budget {
            keep: if is_tight { 0 } else { looks_like(settings.keep_recent.min(room / 2)) },
            summary: (room / 4).min(settings.reserve(u64::MAX) * 4 / 5).max(LEAST_SUMMARY),
            least: looks_like(LEAST_SUMMARY),
            all: all.map(|_| looks_like(room)),
        }
    }

    /// Returns the first piece that stays, if something is to be summarized.
    fn place(&self, branch: &Branch, budget: Budget, trigger: Trigger) -> Option<usize> {
        let pieces = &branch.pieces;
        // A request that the model has not replied to stays whole: a part of it is another request.
        let unanswered = (branch.unanswered < pieces.len()).then_some(branch.unanswered);
        let stays = branch.open_from().into_iter().chain(unanswered).min();
        let at = cut(pieces, budget.keep, stays);
        match trigger {
            // A conversation of which enough may stay: its last turn does.
            Trigger::Asked if at.is_none_or(|at| branch.tokens_before(at) < LEAST_SUMMARIZED) => {
                let last = branch.tokens_from(branch.last_turn());
                cut(pieces, last, stays).filter(|_| last < branch.tokens_from(0))
            }
            // A program that is open is summarized rather than the run failed.
            Trigger::Overflow { .. } => at.or_else(|| cut(pieces, budget.keep, unanswered)),
            Trigger::Threshold if self.window().is_some_and(|window| self.tokens() > window) => {
                at.or_else(|| cut(pieces, budget.keep, unanswered))
            }
            Trigger::Asked | Trigger::Threshold => at,
        }
    }
}
