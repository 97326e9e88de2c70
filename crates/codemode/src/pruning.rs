//! The journal of one run has a bound: calls that have settled, and whose outcomes the program has, are forgotten when there are
//! too many bytes of them.

use pincer_store::Prune;

use crate::drive::Driver;

/// The journal of a run as its driver knows it.
#[derive(Default)]
pub(crate) struct JournalUse {
    /// The calls whose outcomes the stored checkpoint waits for.
    pub awaited: Vec<u32>,
    /// The bytes that were left the last time, and could not be forgotten.
    left: u64,
}

impl Driver {
    /// Forgets old calls if there are too many bytes of them. Failing to do so is no reason to stop.
    pub(crate) async fn prune_journal(&mut self) {
        let (Some(run), Some(fence)) = (self.pending_calls.run().cloned(), self.record.fence) else { return };
        let (most, before) = (self.scope.settings.journal_bytes, run.journal_bytes());
        // Awaited outcomes cannot go. Looking again pays off only when much has been added.
        if before <= most.max(2 * self.record.journal.left) {
            return;
        }
        let (next, awaited) = (self.record.covered, self.record.journal.awaited.clone());
        let _turn = self.shared.turn_to_write(&self.scope).await;
        let prune = Prune { next, awaited, keep: most / 2 };
        match self.shared.store.prune_calls(&self.record.id, fence, prune).await {
            Ok(left) => {
                tracing::debug!(run = %self.record.id, before, left, "journal pruned");
                self.record.journal.left = left;
                run.recount_journal(before, left);
            }
            Err(error) => tracing::warn!("old calls of the run {} could not be forgotten: {error}", self.record.id),
        }
    }
}
