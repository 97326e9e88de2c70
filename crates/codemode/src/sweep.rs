//! What ends runs from outside: their time, an abort here or in another process, the end of this process.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pincer_store::{Millis, RunId, RunState, SessionKey, Standing, StoreError};
use tokio_util::sync::CancellationToken;

use crate::codemode::CodeMode;
use crate::live::Guard;
use crate::orphans::settle_orphans;
use crate::scope::RunScope;
use crate::telemetry::Counted;

/// How often this process looks whether others have ended runs of its own.
const LOOK: Duration = Duration::from_millis(200);
/// How often it looks whether it has any left.
const ANY_LEFT: Duration = Duration::from_secs(1);
/// How often runs that have waited for too long are looked for while programs come and go.
const SWEEP: Duration = Duration::from_secs(1);
/// How many of its runs it looks up at once: others use the store too.
const LOOKED_UP_AT_ONCE: usize = 200;
/// How many times as long as looking took it waits before it looks again.
const SPARING: u32 = 20;
/// How soon the store is swept again if it could not be, in milliseconds.
const SWEEP_AGAIN_MS: Millis = 10_000;
/// How often it looks whether the last tool has ended, when that is all it waits for.
const LINGER: Duration = Duration::from_millis(20);
/// How long a run that has ended is remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// How long programs have at the end of the process to come to a point where they can be suspended.
const CLOSING: Duration = Duration::from_secs(2);

impl CodeMode {
    /// Sweeps on a task of its own, if the last sweep is some time ago.
    pub(crate) fn sweep_now_and_then(&self, lifetime: Duration) {
        if !self.shared.live.is_time_to_sweep(SWEEP) {
            return;
        }
        let mode = self.clone();
        tokio::spawn(async move {
            if let Some(next) = mode.sweep().await {
                mode.sweep_within(next);
            }
            if let Err(error) = settle_orphans(&*mode.shared.store, &*mode.shared.leases, lifetime).await {
                tracing::warn!("runs of processes that are gone could not be settled: {error}");
            }
        });
    }

    /// Ends what has waited for too long, with all that belongs to it, forgets what ended long ago, and gives space back.
    /// Returns when there is something to sweep again.
    pub async fn sweep(&self) -> Option<Duration> {
        match self.swept().await {
            Ok((expired, next)) => {
                self.shared.counting.add(Counted::Expired, expired.len());
                for id in &expired {
                    tracing::debug!(run = %id, "expired");
                    self.shared.live.abort(id);
                }
                next
            }
            // The next caller that needs the store is told.
            Err(error) => {
                tracing::warn!("runs that have waited for too long could not be ended: {error}");
                Some(Duration::from_millis(SWEEP_AGAIN_MS.unsigned_abs()))
            }
        }
    }

    async fn swept(&self) -> Result<(Vec<RunId>, Option<Duration>), StoreError> {
        let store = &self.shared.store;
        let (now, remembered) = (store.now(), REMEMBERED.as_millis() as Millis);
        store.forget_runs(now - remembered).await?;
        let expired = store.expire_runs(now).await?;
        // The runs that have expired must be told to this process, also if another one is in the way here.
        let is_more = store.give_space_back().await.unwrap_or(false);
        let next = match is_more {
            true => Some(now),
            false => store.next_due(remembered).await.unwrap_or(Some(now + SWEEP_AGAIN_MS)),
        };
        Ok((expired, next.map(|next| Duration::from_millis(u64::try_from(next - now).unwrap_or(0) + 1))))
    }

    /// Ends a run of this scope: the program, its timers and calls, its snapshot. `false` if it had ended.
    pub async fn abort(&self, scope: &RunScope, id: &RunId) -> Result<bool, crate::CodeModeResult> {
        let run = self.known(scope, id).await?;
        let aborted = self.end(&run.id).await;
        aborted.map_err(|error| crate::codemode::failed(crate::outcome::RunError::of_store(&error), Default::default()))
    }

    /// Ends all runs of a session; how many there were.
    pub async fn abort_session(&self, session: &SessionKey) -> Result<usize, StoreError> {
        let runs = self.shared.store.runs(Some(session)).await?;
        let mut count = 0;
        for run in runs.into_iter().filter(|run| !run.state.is_final()) {
            count += usize::from(self.end(&run.id).await?);
        }
        Ok(count)
    }

    /// Ends these runs, whichever process drives them.
    pub async fn abort_runs(&self, ids: &[RunId]) -> Result<(), StoreError> {
        for id in ids {
            self.end(id).await?;
        }
        Ok(())
    }

    async fn end(&self, id: &RunId) -> Result<bool, StoreError> {
        let (aborted, state) = self.shared.store.abort_run(id, self.shared.now()).await?;
        // A caller here may be about to be told that it has completed in another process.
        if matches!(state, RunState::Aborted | RunState::Expired) {
            self.shared.live.abort(id);
        }
        Ok(aborted)
    }

    /// Sees to it that a suspended run whose calls go on here ends with its scope.
    pub(crate) fn guard(&self, id: RunId, abort: CancellationToken) -> Guard {
        let mode = self.clone();
        let guarding = tokio::spawn(async move {
            abort.cancelled().await;
            // On a task of its own: this one ends with the place of the run.
            tokio::spawn(async move {
                if let Err(error) = mode.end(&id).await {
                    tracing::error!("the run {id} could not be aborted: {error}");
                }
            });
        });
        Guard(guarding.abort_handle())
    }

    /// Watches for what other processes do to runs of this one, for as long as there are any.
    pub(crate) fn watch_over(&self) {
        if !self.shared.live.start_watching() {
            return;
        }
        let mode = self.clone();
        tokio::spawn(async move {
            let mut changes = mode.shared.store.watch(LOOK);
            // A run may have been ended before the watch began.
            tokio::time::sleep(LOOK).await;
            let mut is_changed = true;
            while !mode.shared.live.stop_watching_if_empty() {
                if is_changed {
                    let began = Instant::now();
                    mode.look_after_all().await;
                    // Another process may write all the time.
                    tokio::time::sleep(began.elapsed() * SPARING).await;
                }
                is_changed = tokio::select! {
                    () = changes.changed() => true,
                    () = tokio::time::sleep(ANY_LEFT) => false,
                };
            }
        });
    }

    /// Ends what goes on here of runs that were ended elsewhere, or that another process continues.
    async fn look_after_all(&self) {
        let (ids, driven): (Vec<RunId>, Vec<bool>) = self.shared.live.ids().into_iter().unzip();
        let driven: HashSet<RunId> =
            ids.iter().zip(driven).filter(|(_, driven)| *driven).map(|(id, _)| id.clone()).collect();
        for ids in ids.chunks(LOOKED_UP_AT_ONCE) {
            let Ok(standings) = self.shared.store.standings(ids.to_vec()).await else { return };
            for Standing { id, state, owner } in standings {
                if matches!(state, RunState::Aborted | RunState::Expired) {
                    self.shared.live.abort(&id);
                } else if !driven.contains(&id) && *self.shared.leases.own() != owner {
                    self.shared.live.leave(&id);
                }
            }
        }
    }

    /// Waits until no tool runs any more for a suspended program. What has not begun is left to whoever continues it.
    pub async fn linger(&self) {
        self.shared.live.drop_unbegun();
        while self.shared.live.any_begun() {
            tokio::time::sleep(LINGER).await;
        }
    }

    /// Returns how many runs this process has something to do with. A suspended one whose calls have settled is none of them:
    /// it is data.
    pub fn runs_here(&self) -> usize {
        self.shared.live.count()
    }

    /// Whether tools run for suspended programs.
    pub fn is_busy(&self) -> bool {
        self.shared.live.any_begun()
    }

    /// This process owns nothing any more: what is left of its lock goes.
    pub fn release(&self) {
        self.shared.leases.release();
    }

    /// Suspends what runs, as far as it can be. Nothing new is begun.
    pub async fn suspend(&self) {
        self.shared.closing.cancel();
        let deadline = tokio::time::Instant::now() + CLOSING;
        while self.shared.live.any_driven() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Suspends what runs, as far as it can be, and ends the calls that go on. Their outcome is then not known to anybody: what
    /// may be repeated will be.
    pub async fn shutdown(&self) {
        self.suspend().await;
        for (id, driven) in self.shared.live.ids() {
            if driven {
                self.shared.live.abort(&id);
            }
        }
        for (id, mut parked) in self.shared.live.take_parked() {
            // Questions to people stay open.
            parked.pending_calls.drop_unbegun();
            let _ = self.shared.store.disown_calls(&id, self.shared.leases.own()).await;
            parked.pending_calls.abort();
            let mut pending_calls = parked.pending_calls;
            let _ = tokio::time::timeout(CLOSING, pending_calls.ended()).await;
        }
    }
}
