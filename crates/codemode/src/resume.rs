//! Continuing a run: whose it is, where it stands, and what has become of its calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_sandbox::{Answer, Cell};
use pincer_store::{Call, CallState, Fence, Repeat, Run, RunState, Safety, StoreError, now};
use tokio_util::sync::CancellationToken;

use crate::bridge;
use crate::codemode::{CodeMode, failed, telemetry};
use crate::drive::Driver;
use crate::ending::{Ending, told};
use crate::flights::{Flights, StoredCall};
use crate::frontier::Frontier;
use crate::orphans::{lost, written};
use crate::owner::OwnerError;
use crate::result::{CodeModeResult, ErrorCode, Waiting};
use crate::run::RunRecord;
use crate::scope::RunScope;
use crate::telemetry::{Counted, Telemetry};
use crate::timers::Timers;

/// How often a run that another process drives is looked up.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

type Driven = (CodeModeResult, Option<Flights>);

/// Why a run could not be claimed.
#[derive(Debug, thiserror::Error)]
enum ClaimError {
    #[error(transparent)]
    Owner(#[from] OwnerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ClaimError {
    fn ending(&self) -> Ending {
        match self {
            Self::Owner(error) => Ending::failed(ErrorCode::RuntimeUnavailable, told(error)),
            Self::Store(error) => Ending::of_store(error),
        }
    }
}

impl CodeMode {
    /// Whether there is a run with this id that this scope may continue.
    pub async fn belongs_to(&self, scope: &RunScope, id: &str) -> bool {
        self.known(scope, id).await.is_ok()
    }

    /// The run with this id, if it is this scope's.
    pub(crate) async fn known(&self, scope: &RunScope, id: &str) -> Result<Run, CodeModeResult> {
        let asked = id.to_owned();
        let run = self.inner.stored(move |store| store.run(&asked)).await.map_err(|error| match error {
            StoreError::Missing { .. } => {
                let shown = pincer_catalog::shortened(id, 100);
                let hint = if id.starts_with("cm_") {
                    ""
                } else {
                    " A runId begins with cm_ and comes from a result with status \"waiting\"."
                };
                let error = format!("code mode run is unavailable or expired: there is no run {shown}.{hint}");
                CodeModeResult::refused(ErrorCode::InvalidInput, error)
            }
            error => failed(Ending::of_store(&error), Telemetry::default()),
        })?;
        match scope.refusal(&run) {
            Some(refusal) => Err(CodeModeResult::refused(ErrorCode::InvalidInput, refusal)),
            None => Ok(run),
        }
    }

    /// Continues a run, or waits for the process that does.
    pub(crate) async fn resume(
        &self,
        scope: RunScope,
        mut run: Run,
        mut flights: Option<Flights>,
        deadline: Instant,
        abort: CancellationToken,
    ) -> Driven {
        let mut joined = false;
        loop {
            if run.expires_at.is_some_and(|time| time <= now()) {
                // It was swept since it was read.
                run.state = RunState::Expired;
            }
            match run.state {
                RunState::Completed | RunState::Failed => return (self.told(&run.id).await, None),
                RunState::Expired => return (ended(ErrorCode::SnapshotExpired, &scope), None),
                RunState::Aborted => return (ended(ErrorCode::Aborted, &scope), None),
                // Somebody has gone on with it and has stopped: that result is for everybody who waited for it.
                RunState::Waiting if joined => return (self.told(&run.id).await, None),
                RunState::Running if !self.inner.owner.is(&run.owner) && self.inner.owner.is_alive(&run.owner) => {
                    joined = true;
                    if Instant::now() >= deadline {
                        return (self.still_running(&run, &scope).await, None);
                    }
                    tokio::select! {
                        () = abort.cancelled() => return (failed(Ending::aborted(), telemetry(&scope, 0)), None),
                        () = tokio::time::sleep(LOOK_AGAIN) => {}
                    }
                }
                RunState::Running | RunState::Waiting => match self.claim(&run).await {
                    Ok(fence) => {
                        // If somebody else had it in between, it is no longer where these calls belong.
                        let here = if fence == run.fence { flights.take() } else { None };
                        flights.into_iter().for_each(Flights::leave);
                        return self.go_on(scope, run, fence, here, deadline, abort).await;
                    }
                    // Somebody was faster.
                    Err(ClaimError::Store(StoreError::Fenced { .. })) => {}
                    Err(error) => return (failed(error.ending(), telemetry(&scope, 0)), flights),
                },
            }
            let id = run.id.clone();
            run = match self.inner.stored(move |store| store.run(&id)).await {
                Ok(run) => run,
                Err(error) => return (failed(Ending::of_store(&error), telemetry(&scope, 0)), flights),
            };
        }
    }

    async fn claim(&self, run: &Run) -> Result<Fence, ClaimError> {
        let owner = self.inner.owner.name()?;
        let (id, seen) = (run.id.clone(), run.fence);
        Ok(self.inner.stored(move |store| store.claim_run(&id, seen, &owner)).await?)
    }

    /// What the caller of a run was last told.
    async fn told(&self, id: &str) -> CodeModeResult {
        let asked = id.to_owned();
        match self.inner.stored(move |store| store.run_result(&asked)).await {
            Ok(Some(result)) => CodeModeResult::parse(&result).unwrap_or_else(|error| {
                failed(Ending::bug(format!("the stored result: {error}")), Telemetry::default())
            }),
            Ok(None) => CodeModeResult::refused(ErrorCode::Aborted, format!("nobody knows any more what {id} came to")),
            Err(error) => failed(Ending::of_store(&error), Telemetry::default()),
        }
    }

    /// Another process drives it, and has not come to an end before our deadline.
    async fn still_running(&self, run: &Run, scope: &RunScope) -> CodeModeResult {
        let id = run.id.clone();
        let calls = self.inner.stored(move |store| store.calls(&id)).await.unwrap_or_default();
        let pending = calls.iter().filter(|call| call.state == CallState::Dispatched).map(shown).collect();
        CodeModeResult::Waiting(Waiting {
            run_id: run.id.clone(),
            reason: crate::result::WaitReason::PendingTools,
            pending_tool_calls: pending,
            output: Vec::new(),
            telemetry: telemetry(scope, 0),
        })
    }

    /// Goes on with a run that is ours now.
    async fn go_on(
        &self,
        scope: RunScope,
        run: Run,
        fence: Fence,
        flights: Option<Flights>,
        deadline: Instant,
        abort: CancellationToken,
    ) -> Driven {
        let id = run.id.clone();
        let read = self.inner.stored(move |store| Ok((store.snapshot(&id)?, store.calls(&id)?))).await;
        let (snapshot, calls) = match read {
            Ok(read) => read,
            Err(error) => {
                self.inner.give_back(&run.id, fence, scope.settings.snapshot_lifetime).await;
                return (failed(Ending::of_store(&error), telemetry(&scope, 0)), flights);
            }
        };
        // A store that was slow must not cost the program its turn.
        let deadline = deadline.max(Instant::now() + crate::drive::margin(&scope.settings));
        let Some(snapshot) = snapshot else {
            return (self.unusable(&run, fence, lost(&calls), &scope).await, None);
        };
        let restored = match Frontier::parse(&snapshot.detail) {
            Ok(frontier) => self.restored(&scope, snapshot.bytes, deadline, &abort).await.map(|cell| (frontier, cell)),
            Err(error) => Err(Ending::failed(ErrorCode::SnapshotRestoreFailed, told(&error))),
        };
        let (frontier, (cell, permit)) = match restored {
            Ok(restored) => restored,
            // What is damaged stays so. Everything else may be better next time.
            Err(ending @ Ending::Failed { code: Some(ErrorCode::SnapshotRestoreFailed), .. }) => {
                return (self.unusable(&run, fence, ending, &scope).await, None);
            }
            Err(ending) => {
                self.inner.give_back(&run.id, fence, scope.settings.snapshot_lifetime).await;
                return (failed(ending, telemetry(&scope, 0)), flights);
            }
        };
        self.inner.counting.add(Counted::Restore, 1);
        tracing::debug!(run = %run.id, calls = frontier.calls.len(), "restored");
        let caller = self.caller(&scope, &abort, &frontier.parent);
        let elapsed = Duration::from_millis(u64::try_from(now() - frontier.at).unwrap_or(0));
        let mut telemetry = frontier.telemetry.clone();
        telemetry.wait_count += 1;
        telemetry.ms.parked += elapsed.as_millis() as f64;
        telemetry.catalog_size = scope.tools.catalog().len();
        let next_seq = calls.iter().map(|call| call.seq + 1).fold(frontier.next_seq, u32::max);
        let here = flights.is_some();
        let most = scope.settings.pending_calls;
        let mut driver = Driver {
            inner: Arc::clone(&self.inner),
            flights: match flights {
                Some(mut flights) => {
                    flights.called_by(caller);
                    flights
                }
                None => Flights::new(caller, most),
            },
            scope,
            record: RunRecord::claimed(run.id.clone(), fence, next_seq),
            source: None,
            positions: frontier.positions,
            cell: Some(cell),
            permit: Some(permit),
            timers: Timers::restore(&frontier.timers, elapsed),
            yields: frontier.yields,
            answers: frontier.answers.into_iter().map(Answer::from).collect(),
            output: frontier.output,
            telemetry,
            replay: calls.iter().filter(|call| call.seq >= frontier.next_seq).cloned().collect(),
            parent: frontier.parent,
            deadline,
            quick: true,
            abort,
        };
        if let Ok(owner) = self.inner.owner.name() {
            driver.own(fence, owner);
        }
        if !here {
            self.take_up(&mut driver, &frontier.calls, &calls);
        }
        driver.answer_yields();
        driver.go_on().await
    }

    async fn restored(
        &self,
        scope: &RunScope,
        bytes: Vec<u8>,
        deadline: Instant,
        abort: &CancellationToken,
    ) -> Result<(Cell, tokio::sync::OwnedSemaphorePermit), Ending> {
        let permit = self.place(deadline, abort).await?;
        let (engine, limits) = (self.inner.engine.clone(), scope.settings.limits);
        let restored = tokio::task::spawn_blocking(move || engine.restore(&bytes, limits)).await;
        let mut cell = match restored {
            Ok(restored) => restored.map_err(|error| Ending::of_error(&error))?,
            Err(_) => return Err(Ending::bug("restoring a snapshot broke down")),
        };
        cell.provide(scope.tools.clone());
        Ok((cell, permit))
    }

    /// What has become of the calls that the program waits for, as the journal has it.
    fn take_up(&self, driver: &mut Driver, waiting: &[StoredCall], journal: &[Call]) {
        let mut settled: Vec<(i64, Answer)> = Vec::new();
        for call in waiting.iter().cloned() {
            let Some(row) = journal.iter().find(|row| row.seq == call.seq) else {
                driver.flights.queue_again(StoredCall { approval: None, ..call });
                continue;
            };
            match (row.state, row.repeat) {
                (CallState::Settled, _) => {
                    settled.push((
                        row.settled.unwrap_or_default(),
                        bridge::recorded(&driver.record.id, &call, row.outcome.as_deref()),
                    ));
                }
                (CallState::Dispatched, _) if self.inner.owner.is_alive(&row.owner) => {
                    driver.flights.watch(call, row.owner.clone());
                }
                (CallState::Dispatched, Repeat::Unknown) => {
                    driver.answers.push(Answer::fault(call.id, bridge::interrupted(&call.tool)));
                }
                (CallState::Dispatched, Repeat::Pure | Repeat::Idempotent) => {
                    driver.flights.queue_again(StoredCall { approval: None, ..call });
                }
            }
        }
        settled.sort_by_key(|(order, _)| *order);
        driver.answers.extend(settled.into_iter().map(|(_, answer)| answer));
    }

    /// Ends a run that cannot go on.
    async fn unusable(&self, run: &Run, fence: Fence, ending: Ending, scope: &RunScope) -> CodeModeResult {
        let result = failed(ending, telemetry(scope, 0));
        let (id, told) = (run.id.clone(), written(&result));
        let finish = move |store: &dyn crate::inner::CodeModeStore| {
            store.finish_run(&id, fence, RunState::Failed, &told, now(), Safety::Power)
        };
        if let Err(error) = self.inner.stored(finish).await {
            tracing::error!("the end of the run {} could not be stored: {error}", run.id);
        }
        result
    }
}

fn ended(code: ErrorCode, scope: &RunScope) -> CodeModeResult {
    let error = match code {
        ErrorCode::SnapshotExpired => {
            "code mode run is unavailable or expired: it waited longer than tools.codeMode.snapshotTtlSeconds; run the program again"
        }
        _ => "code mode execution aborted: the run or its session was cancelled",
    };
    failed(Ending::failed(code, error), telemetry(scope, 0))
}

fn shown(call: &Call) -> crate::result::PendingToolCall {
    crate::result::PendingToolCall {
        id: format!("bridge:call:{}", call.seq),
        method: "call".into(),
        tool_id: Some(call.tool.clone()),
        state: crate::result::PendingState::Running,
        since: 0,
        approval_id: None,
    }
}
