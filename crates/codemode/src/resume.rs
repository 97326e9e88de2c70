//! Continues a run: checks its owner, restores its state, and finds what has become of its calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_sandbox::{Answer, Cell, Error};
use pincer_store::{
    Call, CallState, Claim, Fence, Repeat, Resumption, Run, RunEnd, RunId, RunState, Safety, StoreError,
};
use pincer_tools::RunOwner;
use tokio_util::sync::CancellationToken;

use crate::aside::Home;
use crate::bridge;
use crate::codemode::{Begun, CodeMode, failed, telemetry};
use crate::drive::Driver;
use crate::frontier::Frontier;
use crate::held::HeldEnd;
use crate::input::ExecInput;
use crate::known_tools::KnownTools;
use crate::orphans::{lost, may_begin_again, written};
use crate::outcome::{RunError, told};
use crate::pending_calls::{PendingCalls, StoredCall};
use crate::places::Place;
use crate::recorder::Recorder;
use crate::result::{CodeModeResult, ErrorCode, Failed, Waiting};
use crate::run::{After, Driven, RunRecord};
use crate::scope::RunScope;
use crate::telemetry::{Counted, Telemetry};
use crate::timers::Timers;
use crate::unbegun::Unbegun;

/// How often a run that another process drives is looked up.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// How often it looks whether that process is alive: its death changes nothing in the store.
const LOOK_ALIVE: Duration = Duration::from_millis(100);

impl CodeMode {
    /// Whether there is a run with this id that this scope may continue.
    pub async fn belongs_to(&self, scope: &RunScope, id: &RunId) -> bool {
        self.known(scope, id).await.is_ok()
    }

    /// The run with this id, if it is this scope's.
    pub(crate) async fn known(&self, scope: &RunScope, id: &RunId) -> Result<Run, CodeModeResult> {
        let run = self.shared.store.run(id).await.map_err(|error| match error {
            StoreError::Missing { .. } => {
                let shown = pincer_catalog::shortened(id.as_str(), 100);
                let hint = if id.as_str().starts_with("cm_") {
                    ""
                } else {
                    " A runId begins with cm_ and comes from a result with status \"waiting\"."
                };
                let error = format!("code mode run is unavailable or expired: there is no run {shown}.{hint}");
                CodeModeResult::refused(ErrorCode::InvalidInput, error)
            }
            // It may be there, and can be continued when the store works again.
            error => with_run(failed(RunError::of_store(&error), Telemetry::default()), id),
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
        mut pending_calls: Option<PendingCalls>,
        deadline: Instant,
        abort: CancellationToken,
        again: Option<ExecInput>,
    ) -> Driven {
        // A request that is sent again is told what it was told: it does not continue what waits.
        let mut joined = again.is_some();
        let mut elsewhere = None;
        loop {
            if run.state == RunState::Waiting && joined {
                // Another process has gone on with it and has stopped: all callers that waited for it get that result. If that
                // process died before it told anything, the run is continued here.
                match self.shared.store.run_result(&run.id).await {
                    Ok(None) => {}
                    _ => return (self.told(&run.id).await, After::Nothing),
                }
            }
            if run.expires_at.is_some_and(|time| time <= self.shared.now()) {
                // It was swept since it was read.
                run.state = RunState::Expired;
            }
            match run.state {
                RunState::Completed | RunState::Failed => return (self.told(&run.id).await, After::Nothing),
                RunState::Expired => return (ended(ErrorCode::SnapshotExpired, &scope), After::Nothing),
                RunState::Aborted => return (self.told_aborted(&run.id, &scope).await, After::Nothing),
                RunState::Running
                    if *self.shared.leases.own() != run.owner && self.shared.is_alive(&run.owner).await =>
                {
                    joined = true;
                    if Instant::now() >= deadline {
                        return (self.still_running(&run, &scope).await, After::Nothing);
                    }
                    tokio::select! {
                        () = abort.cancelled() => {
                            return (failed(RunError::aborted(), telemetry(&scope, 0)), After::Nothing);
                        }
                        () = elsewhere.get_or_insert_with(|| self.shared.store.watch(LOOK_AGAIN)).changed() => {}
                        () = tokio::time::sleep(LOOK_ALIVE) => {}
                    }
                }
                RunState::Running | RunState::Waiting => {
                    match self.claim(&run, pending_calls.as_ref().and_then(PendingCalls::run).cloned(), &scope).await {
                        Ok((fence, kept)) => {
                            // If another process had it in between, it is no longer where these calls belong.
                            let here = if kept { pending_calls.take() } else { None };
                            pending_calls.into_iter().for_each(PendingCalls::leave);
                            return self.go_on(Claimed { scope, run, fence, deadline, abort, again }, here).await;
                        }
                        // Another process was faster.
                        Err(StoreError::Fenced { .. }) => {}
                        Err(error) => {
                            return self.not_continued(&run, RunError::of_store(&error), &scope, pending_calls);
                        }
                    }
                }
            }
            run = match self.shared.store.run(&run.id).await {
                Ok(run) => run,
                Err(error) => return self.not_continued(&run, RunError::of_store(&error), &scope, pending_calls),
            };
        }
    }

    /// Claims a run. The calls of it that go on here get the new proof, if they still belong to it.
    async fn claim(&self, run: &Run, here: Option<RunOwner>, scope: &RunScope) -> Result<(Fence, bool), StoreError> {
        let claim = Claim { owner: self.shared.leases.hold().await?, safety: self.shared.safety(&scope.settings) };
        let claiming = async {
            let _turn = self.shared.turn_to_write(scope).await;
            self.shared.store.claim_run(&run.id, (run.state, run.fence), claim).await
        };
        match here {
            Some(here) => {
                let mut proof = here.change_proof().await;
                let fence = claiming.await?;
                let kept = *proof == run.fence;
                if kept {
                    *proof = fence;
                }
                Ok((fence, kept))
            }
            None => Ok((claiming.await?, false)),
        }
    }

    /// Reports a run that could not be continued now, through no fault of its own, and is as it was.
    fn not_continued(
        &self,
        run: &Run,
        error: RunError,
        scope: &RunScope,
        pending_calls: Option<PendingCalls>,
    ) -> Driven {
        let after = pending_calls.map_or(After::Nothing, After::Parked);
        (with_run(failed(error, telemetry(scope, 0)), &run.id), after)
    }

    /// Returns the stored result of a run that was aborted.
    async fn told_aborted(&self, id: &RunId, scope: &RunScope) -> CodeModeResult {
        match self.shared.store.run_result(id).await {
            Ok(Some(_)) => self.told(id).await,
            _ => ended(ErrorCode::Aborted, scope),
        }
    }

    /// What the caller of a run was last told.
    pub(crate) async fn told(&self, id: &RunId) -> CodeModeResult {
        match self.shared.store.run_result(id).await {
            Ok(Some(result)) => CodeModeResult::parse(&result).unwrap_or_else(|error| {
                failed(RunError::bug(format!("the stored result: {error}")), Telemetry::default())
            }),
            Ok(None) => CodeModeResult::refused(ErrorCode::Aborted, format!("the result of {id} is no longer stored")),
            Err(error) => with_run(failed(RunError::of_store(&error), Telemetry::default()), id),
        }
    }

    /// Reports a run that another process drives, and that has not ended before our deadline.
    async fn still_running(&self, run: &Run, scope: &RunScope) -> CodeModeResult {
        let calls = self.shared.store.calls(&run.id).await.unwrap_or_default();
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
    async fn go_on(&self, claimed: Claimed, pending_calls: Option<PendingCalls>) -> Driven {
        let Claimed { scope, run, fence, deadline, abort, again } = claimed;
        let here_now = self.shared.door.under_way(&run.id);
        let Resumption { snapshot, calls, tools: known } = match self.shared.store.resumption(&run.id).await {
            Ok(read) => read,
            Err(error) => return self.given_back(&run, fence, RunError::of_store(&error), &scope, pending_calls),
        };
        // A store that was slow must not cost the program its turn.
        let deadline = deadline.max(Instant::now() + crate::drive::margin(&scope.settings));
        let snapshot = match (snapshot, again) {
            _ if run.power_cut => return self.unusable(&run, fence, lost(&run, &calls), &scope).await,
            (Some(snapshot), _) => snapshot,
            (None, Some(input)) if may_begin_again(&calls) => {
                let next_seq = calls.iter().map(|call| call.seq + 1).max().unwrap_or(0);
                let record = RunRecord::claimed(run.id.clone(), fence, None, next_seq);
                let telemetry = telemetry(&scope, 1);
                let begun = Begun { scope: scope.clone(), input, record, telemetry, abort, is_admitted: false };
                return self.begin(begun).await;
            }
            (None, _) => return self.unusable(&run, fence, lost(&run, &calls), &scope).await,
        };
        if let Some(unbegun) = Unbegun::parse(&snapshot.detail) {
            return self.go_on_before((scope, &run, fence), unbegun, &calls, abort).await;
        }
        let restored = match Frontier::parse(&snapshot.detail) {
            Ok(frontier) => self.restored(&scope, snapshot.parts, deadline, &abort).await.map(|cell| (frontier, cell)),
            Err(error) => Err(RunError::failed(ErrorCode::SnapshotRestoreFailed, told(&error))),
        };
        let (frontier, (cell, place)) = match restored {
            Ok(restored) => restored,
            // What is damaged stays so. Everything else may be better next time.
            Err(error @ RunError::Failed { code: Some(ErrorCode::SnapshotRestoreFailed), .. }) => {
                return self.unusable(&run, fence, error, &scope).await;
            }
            Err(error) => return self.given_back(&run, fence, error, &scope, pending_calls),
        };
        let known = self.known_tools(&run, fence, known.as_deref(), &scope).await;
        self.shared.counting.add(Counted::Restore, 1);
        tracing::debug!(run = %run.id, calls = frontier.calls.len(), "restored");
        let parts = self.call_parts(&scope, &abort, &frontier.parent);
        let elapsed = Duration::from_millis(u64::try_from(self.shared.now() - frontier.at).unwrap_or(0));
        let mut telemetry = frontier.telemetry.clone();
        telemetry.wait_count += 1;
        telemetry.ms.parked += elapsed.as_millis() as f64;
        telemetry.catalog_size = scope.found().len();
        telemetry.durability = Some(scope.settings.durability);
        let next_seq = calls.iter().map(|call| call.seq + 1).fold(frontier.next_seq, u32::max);
        let here = pending_calls.is_some();
        let most = scope.settings.pending_calls;
        let (covered, awaited) = (Some(snapshot.next), frontier.awaited());
        let mut driver = Driver {
            shared: Arc::clone(&self.shared),
            pending_calls: match pending_calls {
                Some(mut pending_calls) => {
                    pending_calls.called_by(parts);
                    pending_calls
                }
                None => PendingCalls::new(parts, most),
            },
            scope,
            record: RunRecord::claimed(run.id.clone(), fence, covered, next_seq),
            source: None,
            positions: frontier.positions,
            home: Home::Live(cell),
            place: Some(place),
            stays: false,
            timers: Timers::restore(&frontier.timers, elapsed),
            yields: frontier.yields,
            answers: Vec::new(),
            arrived: Vec::new(),
            output: frontier.output,
            telemetry,
            known,
            parent: frontier.parent,
            deadline,
            quick: true,
            breath: Instant::now(),
            changes: None,
            abort,
            recorder: Recorder::resumed(frontier.recording, self.shared.now()),
        };
        for stored in frontier.answers {
            if stored.is_journaled {
                driver.recorder.journaled(stored.id);
            }
            driver.answers.push(stored.into());
        }
        driver.own(fence, self.shared.leases.own().clone());
        driver.record.journal.awaited = awaited;
        if let Some(run) = driver.pending_calls.run() {
            run.recount_journal(run.journal_bytes(), calls.iter().map(Call::stored_bytes).sum());
        }
        if !here {
            self.take_up(&mut driver, &frontier.calls, &calls, &here_now).await;
        }
        driver.answer_yields();
        driver.go_on().await
    }

    /// Gives back a run that could not be continued now: it waits again.
    fn given_back(
        &self,
        run: &Run,
        fence: Fence,
        error: RunError,
        scope: &RunScope,
        pending_calls: Option<PendingCalls>,
    ) -> Driven {
        self.shared.give_back(&run.id, fence, scope.settings.snapshot_lifetime);
        let after = pending_calls.map_or(After::Nothing, |mut pending_calls| {
            pending_calls.drop_unbegun();
            After::Left(pending_calls)
        });
        (with_run(failed(error, telemetry(scope, 0)), &run.id), after)
    }

    /// Returns the tools as the program knows them: those that it began with, and those that have come since.
    async fn known_tools(&self, run: &Run, fence: Fence, stored: Option<&str>, scope: &RunScope) -> Arc<KnownTools> {
        let current = scope.tools.known();
        if run.tools.as_deref() == Some(current.hash()) {
            return Arc::clone(current);
        }
        let Some(began) = stored.and_then(|text| KnownTools::parse(text).ok()) else { return Arc::clone(current) };
        let known = Arc::new(began.and(current));
        if known.hash() != began.hash()
            && let Err(error) = self.shared.store.set_tools(&run.id, fence, known.stored()).await
        {
            tracing::warn!("the tools of the run {} could not be noted: {error}", run.id);
        }
        known
    }

    async fn restored(
        &self,
        scope: &RunScope,
        parts: Vec<Vec<u8>>,
        deadline: Instant,
        abort: &CancellationToken,
    ) -> Result<(Cell, Place), RunError> {
        let place = self.place(scope, deadline, abort).await?;
        let parts = Arc::new(parts);
        let text = parts.iter().map(Vec::len).sum();
        let mut memory = self.shared.engine.fresh_bytes();
        let mut cell = loop {
            let allotment = self.allotted(scope, memory, text, deadline, abort).await?;
            let (engine, limits, parts) = (self.shared.engine.clone(), scope.settings.limits, Arc::clone(&parts));
            let restored = tokio::task::spawn_blocking(move || match parts.split_first() {
                Some((base, deltas)) => engine.restore_within(allotment, base, deltas, limits),
                None => engine.restore(&[], limits),
            });
            match restored.await {
                Ok(Ok(cell)) => break cell,
                // Only its snapshot tells how large it is.
                Ok(Err(Error::NoMemory { needed })) if needed > memory => memory = needed,
                Ok(Err(error)) => return Err(RunError::of_error(&error)),
                Err(_) => return Err(RunError::bug("restoring a snapshot broke down")),
            }
        };
        cell.provide(scope.library());
        Ok((cell, place))
    }

    /// Takes up the calls that the program waits for, as the journal has them. A call without a row never began.
    async fn take_up(&self, driver: &mut Driver, waiting: &[StoredCall], journal: &[Call], here: &BTreeSet<u32>) {
        let mut settled: Vec<(i64, Instant, Answer)> = Vec::new();
        for call in waiting.iter().cloned() {
            let Some(row) = journal.iter().find(|row| row.seq == call.seq) else {
                self.take_up_unbegun(driver, call);
                continue;
            };
            match (row.state, row.repeat) {
                (CallState::Settled, _) => {
                    let answer = bridge::recorded(&driver.record.id, &call, row.outcome.as_deref());
                    let at = driver.moment(row.settled_at.unwrap_or_default());
                    driver.recorder.journaled(call.id);
                    settled.push((row.settled.unwrap_or_default(), at, answer));
                }
                (CallState::Dispatched, _) if self.shared.is_made(row, here).await => {
                    driver.pending_calls.watch(call, row.owner.clone());
                }
                (CallState::Dispatched, Repeat::Unknown) => {
                    driver.answers.push(Answer::fault(call.id, bridge::interrupted(&call.tool)));
                }
                (CallState::Dispatched, Repeat::Pure | Repeat::Idempotent) => self.take_up_unbegun(driver, call),
            }
        }
        settled.sort_by_key(|(order, ..)| *order);
        driver.arrived.extend(settled.into_iter().map(|(_, at, answer)| (at, answer)));
    }

    /// Queues a call again. Its question, if it had one, is found by its number.
    fn take_up_unbegun(&self, driver: &mut Driver, call: StoredCall) {
        match driver.scope.tools.catalog().get(&call.tool) {
            Some(_) => driver.pending_calls.queue(StoredCall { approval: None, ..call }),
            None => driver.answers.push(Answer::fault(call.id, bridge::gone(&call.tool))),
        }
    }

    /// Ends a run that cannot go on.
    async fn unusable(&self, run: &Run, fence: Fence, error: RunError, scope: &RunScope) -> Driven {
        let state = error.state();
        self.over(&run.id, fence, state, failed(error, telemetry(scope, 0))).await
    }

    /// Stores the result of a run that ends without a cell.
    pub(crate) async fn over(&self, id: &RunId, fence: Fence, state: RunState, result: CodeModeResult) -> Driven {
        let (store, end) = (&self.shared.store, RunEnd::new(state, written(&result)));
        match store.finish_run(id, fence, end.clone(), store.now(), Safety::Power).await {
            Ok(()) => (result, After::Nothing),
            Err(error) => {
                let held = Arc::new(HeldEnd { id: id.clone(), fence, end, result });
                (held.not_stored(&error), After::Held(held))
            }
        }
    }
}

/// A run that has been claimed, and its scope.
struct Claimed {
    scope: RunScope,
    run: Run,
    fence: Fence,
    deadline: Instant,
    abort: CancellationToken,
    /// The program, if its request was sent again.
    again: Option<ExecInput>,
}

/// A failure that is not the run's end, with what `wait` must be given.
fn with_run(result: CodeModeResult, id: &RunId) -> CodeModeResult {
    match result {
        CodeModeResult::Failed(failed) => CodeModeResult::Failed(Failed { run_id: Some(id.clone()), ..failed }),
        other => other,
    }
}

fn ended(code: ErrorCode, scope: &RunScope) -> CodeModeResult {
    let error = match code {
        ErrorCode::SnapshotExpired => {
            "code mode run is unavailable or expired: it waited longer than tools.codeMode.snapshotTtlSeconds; run the program again"
        }
        _ => "code mode execution aborted: the run or its session was cancelled",
    };
    failed(RunError::failed(code, error), Telemetry { wait_count: 1, ..telemetry(scope, 0) })
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
