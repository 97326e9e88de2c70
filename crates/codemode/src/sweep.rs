//! What ends runs from outside: their time, an abort here or in another process, the end of this process.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_store::{Millis, RunState, Standing, StoreError};
use tokio_util::sync::CancellationToken;

use crate::codemode::CodeMode;
use crate::live::Guard;
use crate::orphans::settle_orphans;
use crate::scope::RunScope;
use crate::telemetry::Counted;

/// How often this process looks whether others have ended runs of its own.
const LOOK: Duration = Duration::from_millis(200);
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
        if !self.inner.live.is_time_to_sweep(SWEEP) {
            return;
        }
        let mode = self.clone();
        tokio::spawn(async move {
            if let Some(next) = mode.sweep().await {
                mode.sweep_within(next);
            }
            let inner = Arc::clone(&mode.inner);
            let settled = mode.inner.stored(move |store| settle_orphans(store, &inner.owner, lifetime)).await;
            if let Err(error) = settled {
                tracing::warn!("runs of processes that are gone could not be settled: {error}");
            }
        });
    }

    /// Ends what has waited for too long, with all that belongs to it, forgets what ended long ago, and gives space back.
    /// Returns when there is something to sweep again.
    pub async fn sweep(&self) -> Option<Duration> {
        let swept = self.inner.stored(|store| {
            let (now, remembered) = (store.now(), REMEMBERED.as_millis() as Millis);
            store.forget_runs(now - remembered)?;
            let expired = store.expire_runs(now)?;
            // The runs that have expired must be told to this process, also if another one is in the way here.
            let is_more = store.give_space_back().unwrap_or(false);
            let next =
                if is_more { Some(now) } else { store.next_due(remembered).unwrap_or(Some(now + SWEEP_AGAIN_MS)) };
            Ok((expired, next.map(|next| Duration::from_millis(u64::try_from(next - now).unwrap_or(0) + 1))))
        });
        match swept.await {
            Ok((expired, next)) => {
                self.inner.counting.add(Counted::Expired, expired.len());
                for id in &expired {
                    tracing::debug!(run = %id, "expired");
                    self.inner.live.abort(id);
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

    /// Ends a run of this scope: the program, its timers and calls, its snapshot. `false` if it had ended.
    pub async fn abort(&self, scope: &RunScope, id: &str) -> Result<bool, crate::CodeModeResult> {
        let run = self.known(scope, id).await?;
        let aborted = self.end(&run.id).await;
        aborted.map_err(|error| crate::codemode::failed(crate::ending::Ending::of_store(&error), Default::default()))
    }

    /// Ends all runs of a session; how many there were.
    pub async fn abort_session(&self, session: &str) -> Result<usize, StoreError> {
        let asked = session.to_owned();
        let runs = self.inner.stored(move |store| store.runs(Some(&asked))).await?;
        let mut count = 0;
        for run in runs.into_iter().filter(|run| !run.state.is_final()) {
            count += usize::from(self.end(&run.id).await?);
        }
        Ok(count)
    }

    async fn end(&self, id: &str) -> Result<bool, StoreError> {
        let asked = id.to_owned();
        let ended = self.inner.stored(move |store| {
            let aborted = store.abort_run(&asked, store.now())?;
            Ok((aborted, store.run(&asked)?.state))
        });
        let (aborted, state) = ended.await?;
        // A caller here may be about to be told that it has completed in another process.
        if matches!(state, RunState::Aborted | RunState::Expired) {
            self.inner.live.abort(id);
        }
        Ok(aborted)
    }

    /// Sees to it that a suspended run whose calls go on here ends with its scope.
    pub(crate) fn guard(&self, id: String, abort: CancellationToken) -> Guard {
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
        if !self.inner.live.start_watching() {
            return;
        }
        let mode = self.clone();
        tokio::spawn(async move {
            let (mut seen, mut pause) = (None, LOOK);
            loop {
                tokio::time::sleep(pause).await;
                if mode.inner.live.stop_watching_if_empty() {
                    return;
                }
                let counter = mode.inner.stored(|store| store.change_counter()).await.ok();
                pause = LOOK;
                if counter.is_some() && counter == seen {
                    continue;
                }
                seen = counter;
                let began = Instant::now();
                mode.look_after_all().await;
                // Another process may write all the time.
                pause = LOOK.max(began.elapsed() * SPARING);
            }
        });
    }

    /// Ends what goes on here of runs that were ended elsewhere, or that another process continues.
    async fn look_after_all(&self) {
        let (ids, driven): (Vec<String>, Vec<bool>) = self.inner.live.ids().into_iter().unzip();
        let driven: HashSet<String> =
            ids.iter().zip(driven).filter(|(_, driven)| *driven).map(|(id, _)| id.clone()).collect();
        for ids in ids.chunks(LOOKED_UP_AT_ONCE) {
            let asked = ids.to_vec();
            let Ok(standings) = self.inner.stored(move |store| store.standings(&asked)).await else { return };
            for Standing { id, state, owner } in standings {
                if matches!(state, RunState::Aborted | RunState::Expired) {
                    self.inner.live.abort(&id);
                } else if !driven.contains(&id) && !self.inner.owner.is(&owner) {
                    self.inner.live.leave(&id);
                }
            }
        }
    }

    /// Waits until no tool runs any more for a suspended program. What has not begun is left to whoever continues it.
    pub async fn linger(&self) {
        self.inner.live.drop_unbegun();
        while self.inner.live.any_begun() {
            tokio::time::sleep(LINGER).await;
        }
    }

    /// Returns how many runs this process has something to do with. A suspended one whose calls have settled is none of them:
    /// it is data.
    pub fn runs_here(&self) -> usize {
        self.inner.live.count()
    }

    /// Whether tools run for suspended programs.
    pub fn is_busy(&self) -> bool {
        self.inner.live.any_begun()
    }

    /// This process owns nothing any more: what is left of its lock goes.
    pub fn release(&self) {
        self.inner.owner.release();
    }

    /// Suspends what runs, as far as it can be. Nothing new is begun.
    pub async fn suspend(&self) {
        self.inner.closing.cancel();
        let deadline = tokio::time::Instant::now() + CLOSING;
        while self.inner.live.any_driven() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Suspends what runs, as far as it can be, and ends the calls that go on. Their outcome is then not known to anybody: what
    /// may be repeated will be.
    pub async fn shutdown(&self) {
        self.suspend().await;
        for (id, driven) in self.inner.live.ids() {
            if driven {
                self.inner.live.abort(&id);
            }
        }
        let owner = self.inner.owner.name().ok();
        for (id, mut parked) in self.inner.live.take_parked() {
            // Questions to people stay open.
            parked.flights.drop_unbegun();
            if let Some(owner) = owner.clone() {
                let _ = self.inner.stored(move |store| store.disown_calls(&id, &owner)).await;
            }
            parked.flights.abort();
            let mut flights = parked.flights;
            let _ = tokio::time::timeout(CLOSING, flights.ended()).await;
        }
    }
}
