//! The calls that this process makes at the moment.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pincer_store::RunId;

/// The numbers of the calls that are made here, by run.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<HashMap<RunId, BTreeSet<u32>>>);

/// A call that is made here, until this is dropped.
pub(crate) struct Making<'u> {
    under_way: &'u UnderWay,
    run: RunId,
    seq: u32,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, BTreeSet<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a call is made from now on.
    pub(crate) fn begin(&self, run: &RunId, seq: u32) -> Making<'_> {
        self.lock().entry(run.clone()).or_default().insert(seq);
        Making { under_way: self, run: run.clone(), seq }
    }

    /// Returns the calls of a run that are made.
    pub(crate) fn of(&self, run: &RunId) -> BTreeSet<u32> {
        self.lock().get(run).cloned().unwrap_or_default()
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut runs = self.under_way.lock();
        if let Some(calls) = runs.get_mut(&self.run) {
            calls.remove(&self.seq);
            if calls.is_empty() {
                runs.remove(&self.run);
            }
        }
    }
}
