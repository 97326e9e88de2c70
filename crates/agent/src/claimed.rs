//! A run in the hands of this process: what is stored of it, and the sign that it is to stop.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_store::{AgentRun, ApprovalId};
use tokio_util::sync::CancellationToken;

use crate::detail::{Detail, Parked};
use crate::fitting::Size;
use crate::hooks::{Beginning, RunHooks};
use crate::inner::Inner;
use crate::lane::Lane;
use crate::replies::{Said, Telling, ToolFailure};
use crate::request::Request;
use crate::telemetry::{Answer, Exposed, Weight};
use crate::transcript::Transcript;

/// A run that this process has claimed.
pub(crate) struct Claimed {
    pub agent: Arc<Inner>,
    pub run: AgentRun,
    pub request: Request,
    pub lane: Lane,
    pub stop: StopSign,
    pub hooks: RunHooks,
    /// Another process may have begun with the calls that are open.
    pub is_recovered: bool,
    pub state: Mutex<TurnState>,
}

impl Claimed {
    pub(crate) fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a run that changes.
#[derive(Default)]
pub(crate) struct TurnState {
    pub transcript: Transcript,
    pub detail: Detail,
    /// The parts of its answer, in the order in which they came.
    pub said: Vec<Said>,
    /// Where its last reply begins in there.
    pub reply_from: usize,
    /// The words of the user: the texts of all messages that became this run when it began.
    pub prompt: String,
    /// The last call that was settled, if it failed.
    pub failure: Option<ToolFailure>,
    /// The share of its calls and thoughts that the user is told.
    pub telling: Telling,
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    /// The results that are being stored.
    pub settling: Size,
    /// The nested calls that the transcript has.
    pub nested: HashSet<(String, u32)>,
    /// Replies in a row that said nothing, or broke off.
    pub empty: u32,
    /// The answers of hooks to the beginning of the run, if they were stored.
    pub beginning: Option<Beginning>,
    /// The workspace that has begun when the run completes.
    pub begins: Option<String>,
    /// The tools and the instructions as the model sees them, once they are known.
    pub exposed: Option<Exposed>,
    /// The window of the model, as far as a provider has told it in this run by refusing a request.
    pub learned_window: Option<u64>,
    /// A compaction failed, so no other one is tried before a request: only if the provider refuses it.
    pub has_failed_to_compact: bool,
}

impl TurnState {
    /// Counts a request that was answered. `more` is the weight of instructions that it had besides those of the run.
    pub(crate) fn answered(&mut self, more: Weight, answer: Answer, cache_read: u64) {
        if let Some(exposed) = &self.exposed {
            self.detail.tools.answered(exposed, more, answer, cache_read);
        }
    }
}

/// Says that a run is to stop, and why.
#[derive(Clone, Default)]
pub(crate) struct StopSign {
    /// This process is to stop working on the run.
    pub token: CancellationToken,
    /// The run itself is to stop, with its programs. A run that is only given up leaves them to the next process.
    pub ends: CancellationToken,
    reason: Arc<Mutex<Option<StopReason>>>,
}

/// Why a run is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It was asked for.
    Asked,
    /// It takes too long.
    TimedOut,
    /// The run makes no progress.
    Stalled,
    /// Another process has the run, or this one ends: nothing more is stored.
    Lost,
}

impl StopSign {
    /// Stops the run. The first reason counts.
    pub(crate) fn stop(&self, reason: StopReason) {
        let reason = *self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.token.cancel();
        if reason != StopReason::Lost {
            self.ends.cancel();
        }
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a run was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It has ended.
    Ended,
    /// It waits for a person or for its sender.
    Waiting,
    /// It is no longer in the hands of this process, or the store does not take what it comes to.
    Lost,
}

/// What a run waits for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub approvals: Vec<ApprovalId>,
    pub for_caller: bool,
    pub programs: Vec<Parked>,
}
