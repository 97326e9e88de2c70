//! The runs that this process has something to do with: those that it drives, and those that are suspended while their calls
//! go on here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pincer_store::RunId;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::held::HeldEnd;
use crate::pending_calls::PendingCalls;
use crate::result::CodeModeResult;

/// Where the result of a driven run will be.
pub(crate) type Awaited = watch::Receiver<Option<CodeModeResult>>;

/// A run in this process.
pub(crate) enum Local {
    /// It is driven. Whoever else wants to continue it waits for the same result.
    Driven { result: Awaited, abort: CancellationToken },
    /// It is suspended, and its calls go on.
    Parked(ParkedRun),
    /// It has been given back, or another process has it. The tools that run for it here go on, and are waited for in the journal.
    Left(PendingCalls),
    /// It has ended, and the store has not taken that.
    Held(Arc<HeldEnd>),
}

/// A suspended run whose calls go on here.
pub(crate) struct ParkedRun {
    pub pending_calls: PendingCalls,
    pub abort: CancellationToken,
    pub _guard: Guard,
}

/// Somebody who sees to it that a suspended run ends in time. Not needed once somebody else has the run.
pub(crate) struct Guard(pub AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What to do with a run that somebody wants to continue.
pub(crate) enum Taken {
    /// It is driven already.
    Join(Awaited),
    /// It has ended, and the store has not taken that.
    Held(Arc<HeldEnd>),
    /// It is the caller's to drive. The calls that go on here come with it.
    Go(watch::Sender<Option<CodeModeResult>>, Option<Box<PendingCalls>>),
}

#[derive(Default)]
pub(crate) struct Live {
    runs: Mutex<HashMap<RunId, Local>>,
    watched: AtomicBool,
    swept: Mutex<Option<Instant>>,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Local>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it the caller's business to drive this run, unless somebody does.
    pub(crate) fn take(&self, id: &RunId, abort: &CancellationToken) -> Taken {
        let mut runs = self.lock();
        match runs.get(id) {
            Some(Local::Driven { result, .. }) => return Taken::Join(result.clone()),
            Some(Local::Held(held)) => return Taken::Held(Arc::clone(held)),
            Some(Local::Parked(_) | Local::Left(_)) | None => {}
        }
        let (tell, result) = watch::channel(None);
        let before = runs.insert(id.clone(), Local::Driven { result, abort: abort.clone() });
        let pending_calls = before.and_then(|local| match local {
            Local::Parked(parked) => Some(Box::new(parked.pending_calls)),
            Local::Left(pending_calls) => {
                // Their outcomes are in the journal.
                pending_calls.leave();
                None
            }
            Local::Driven { .. } | Local::Held(_) => None,
        });
        Taken::Go(tell, pending_calls)
    }

    pub(crate) fn park(&self, id: &RunId, parked: ParkedRun) {
        self.lock().insert(id.clone(), Local::Parked(parked));
    }

    /// Leaves tools running for a run that is given back.
    pub(crate) fn put_left(&self, id: &RunId, pending_calls: PendingCalls) {
        self.lock().insert(id.clone(), Local::Left(pending_calls));
    }

    /// Keeps an end that is not stored.
    pub(crate) fn hold(&self, id: &RunId, held: Arc<HeldEnd>) {
        self.lock().insert(id.clone(), Local::Held(held));
    }

    /// Forgets an end that is stored now.
    pub(crate) fn remove_held(&self, id: &RunId) {
        let mut runs = self.lock();
        if matches!(runs.get(id), Some(Local::Held(_))) {
            runs.remove(id);
        }
    }

    pub(crate) fn remove(&self, id: &RunId) -> Option<Local> {
        self.lock().remove(id)
    }

    /// Leaves a suspended run to the process that has it now.
    pub(crate) fn leave(&self, id: &RunId) {
        let mut runs = self.lock();
        match runs.remove(id) {
            Some(Local::Parked(mut parked)) => {
                parked.pending_calls.drop_unbegun();
                runs.insert(id.clone(), Local::Left(parked.pending_calls));
            }
            Some(Local::Left(pending_calls)) if !pending_calls.any_begun() => {}
            Some(other) => drop(runs.insert(id.clone(), other)),
            None => {}
        }
    }

    /// Ends what goes on of a run here; `true` if something did.
    pub(crate) fn abort(&self, id: &RunId) -> bool {
        let mut runs = self.lock();
        match runs.get(id) {
            Some(Local::Driven { abort, .. }) => abort.cancel(),
            Some(Local::Parked(parked)) => {
                parked.abort.cancel();
                parked.pending_calls.abort();
                runs.remove(id);
            }
            Some(Local::Left(pending_calls)) => {
                pending_calls.abort();
                runs.remove(id);
            }
            Some(Local::Held(_)) => drop(runs.remove(id)),
            None => return false,
        }
        true
    }

    /// All runs here, and whether each is driven.
    pub(crate) fn ids(&self) -> Vec<(RunId, bool)> {
        let runs = self.lock();
        runs.iter().map(|(id, local)| (id.clone(), matches!(local, Local::Driven { .. }))).collect()
    }

    /// How many runs there are here.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Whether a run is driven.
    pub(crate) fn any_driven(&self) -> bool {
        self.lock().values().any(|local| matches!(local, Local::Driven { .. }))
    }

    /// Whether tools run for suspended runs.
    pub(crate) fn any_begun(&self) -> bool {
        self.lock().values().any(|local| match local {
            Local::Parked(ParkedRun { pending_calls, .. }) | Local::Left(pending_calls) => pending_calls.any_begun(),
            Local::Driven { .. } => false,
            // Nothing but this process has it.
            Local::Held(_) => true,
        })
    }

    /// Gives up the calls of suspended runs that no tool has begun with.
    pub(crate) fn drop_unbegun(&self) {
        for local in self.lock().values_mut() {
            if let Local::Parked(parked) = local {
                parked.pending_calls.drop_unbegun();
            }
        }
    }

    /// `true` for the first who asks in so long a time.
    pub(crate) fn is_time_to_sweep(&self, every: Duration) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let due = swept.is_none_or(|last| last.elapsed() >= every);
        if due {
            *swept = Some(Instant::now());
        }
        due
    }

    /// `true` for the one who is to watch over the runs from now on.
    pub(crate) fn start_watching(&self) -> bool {
        !self.watched.swap(true, Ordering::SeqCst)
    }

    /// `true` if there is nothing to watch over any more: whoever comes next begins anew.
    pub(crate) fn stop_watching_if_empty(&self) -> bool {
        let runs = self.lock();
        let empty = runs.is_empty();
        if empty {
            self.watched.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// Takes all suspended runs out.
    pub(crate) fn take_parked(&self) -> Vec<(RunId, ParkedRun)> {
        let mut runs = self.lock();
        let parked: Vec<RunId> =
            runs.iter().filter(|(_, local)| matches!(local, Local::Parked(_))).map(|(id, _)| id.clone()).collect();
        let take = |id: RunId| match runs.remove(&id) {
            Some(Local::Parked(parked)) => Some((id, parked)),
            _ => None,
        };
        parked.into_iter().filter_map(take).collect()
    }
}
