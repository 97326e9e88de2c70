//! A run that this process owns, as the calls made for it see it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_store::{Cover, Fence, OwnerId, RunId, Safety};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};

/// Which dispatches must be on the disk before their tool runs, in a run whose checkpoints are not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncNext {
    /// None: a power cut ends the run, and no caller was told that it could be continued.
    Nothing,
    /// The next one. A suspension of the run was acknowledged: after a power cut, what is stored must show that it has gone on.
    First,
    /// All. The run is suspended: after a power cut it would be continued from there.
    All,
}

/// A run, and the proof that this process owns it. Clones share both: a claim hands the new proof on to the calls under way.
#[derive(Clone, Debug)]
pub struct RunOwner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: RunId,
    owner: OwnerId,
    fence: RwLock<Fence>,
    safety: Safety,
    sync_next: AtomicU8,
    retires: AtomicU8,
    /// Calls below this number are part of the stored checkpoint.
    covered: watch::Sender<u32>,
    /// The bytes of its calls in the journal, about.
    journal_bytes: AtomicU64,
    /// The number of its last event.
    last_event: Mutex<u64>,
}

impl RunOwner {
    /// Returns a run that the process `owner` owns. `safety` is what its checkpoints survive.
    pub fn new(id: RunId, owner: OwnerId, fence: Fence, safety: Safety) -> Self {
        let (fence, covered) = (RwLock::new(fence), watch::Sender::new(0));
        let (sync_next, retires) = (AtomicU8::new(SyncNext::Nothing as u8), AtomicU8::new(0));
        let (journal_bytes, last_event) = (AtomicU64::new(0), Mutex::default());
        Self(Arc::new(Shared { id, owner, fence, safety, sync_next, retires, covered, journal_bytes, last_event }))
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        &self.0.id
    }

    /// Returns the process that makes the calls: they stay its own when another one has taken the run over.
    pub fn owner(&self) -> &OwnerId {
        &self.0.owner
    }

    /// Returns the proof, which no claim of this process changes while the guard is held.
    pub async fn proof(&self) -> RwLockReadGuard<'_, Fence> {
        self.0.fence.read().await
    }

    /// Returns the proof to be replaced. Nothing is dispatched meanwhile.
    pub async fn change_proof(&self) -> RwLockWriteGuard<'_, Fence> {
        self.0.fence.write().await
    }

    /// Sets which dispatches are synced from now on.
    pub fn sync_next(&self, next: SyncNext) {
        self.0.sync_next.store(next as u8, Ordering::SeqCst);
    }

    /// Sets whether a call that is not part of the stored checkpoint removes it, or is refused.
    pub fn retire_checkpoints(&self, retire: bool) {
        self.0.retires.store(u8::from(retire), Ordering::SeqCst);
    }

    /// Says that calls below this number are part of the stored checkpoint, or need not be.
    pub fn cover(&self, next: u32) {
        self.0.covered.send_if_modified(|covered| {
            let more = next > *covered;
            *covered = next.max(*covered);
            more
        });
    }

    /// Returns whether a call is part of the stored checkpoint.
    pub fn covers(&self, seq: u32) -> bool {
        *self.0.covered.borrow() > seq
    }

    /// Returns how many bytes its calls have in the journal, about.
    pub fn journal_bytes(&self) -> u64 {
        self.0.journal_bytes.load(Ordering::Relaxed)
    }

    /// Sets how many bytes they have, of which so many were known before.
    pub fn recount_journal(&self, before: u64, now: u64) {
        let recounted = |bytes: u64| Some(now + bytes.saturating_sub(before));
        let _ = self.0.journal_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, recounted);
    }

    /// Notes that so many bytes were written to the journal.
    pub(crate) fn journaled(&self, bytes: usize) {
        self.0.journal_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of its last event. No other event of it is passed on while the guard is held.
    pub(crate) fn last_event(&self) -> MutexGuard<'_, u64> {
        self.0.last_event.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a call is part of the stored checkpoint.
    pub(crate) async fn covered(&self, seq: u32) {
        // It holds the sender itself.
        let _ = self.0.covered.subscribe().wait_for(|covered| *covered > seq).await;
    }

    /// Returns what the store is to check for a call with a possible effect.
    pub(crate) fn needs(&self) -> Cover {
        if self.0.retires.load(Ordering::SeqCst) == 1 { Cover::Retire } else { Cover::Checkpoint }
    }

    /// Returns what the note of a dispatch with a possible effect must survive.
    pub(crate) fn dispatch_safety(&self) -> Safety {
        let is_due = self.0.sync_next.load(Ordering::SeqCst) != SyncNext::Nothing as u8;
        if is_due { Safety::Power } else { self.0.safety }
    }

    /// A dispatch has been synced.
    pub(crate) fn synced(&self) {
        let (first, nothing) = (SyncNext::First as u8, SyncNext::Nothing as u8);
        let _ = self.0.sync_next.compare_exchange(first, nothing, Ordering::SeqCst, Ordering::SeqCst);
    }
}
