//! `exec` and `wait`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_sandbox::{Engine, Limits, MemoryBudget, Program, ProgramValue};
use pincer_source::{Prepared, Returns};
use pincer_store::{CallId, Leases, Run, RunId, StoreError};
use pincer_tools::{Admission, Asking, BoxFuture, Context, ControlCall, Door};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

use crate::aside::Home;
use crate::drive::{Driver, margin};
use crate::input::{ExecInput, InputError, WaitInput};
use crate::listener::Listener;
use crate::live::{Live, ParkedRun, Taken};
use crate::making::CallParts;
use crate::memory::{Backstop, Memory};
use crate::outcome::RunError;
use crate::pending_calls::PendingCalls;
use crate::places::Places;
use crate::positions::Positions;
use crate::recorder::Recorder;
use crate::result::{CodeModeResult, ErrorCode};
use crate::run::{After, Driven, Key, RunRecord};
use crate::scope::RunScope;
use crate::shared::{CodeModeStore, Shared};
use crate::telemetry::{Counted, Counters, Counting, Sources, Telemetry};
use crate::text::{prepared, without_fence};
use crate::threads::Threads;
use crate::timers::Timers;

/// Code mode in this process: runs programs, suspends and continues them. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct CodeMode {
    pub(crate) shared: Arc<Shared>,
}

impl CodeMode {
    /// On an engine that may have so many live cells at a time, with tools behind this door, and runs in this store.
    pub fn new(
        engine: Engine,
        live_cells: u32,
        door: Arc<Door>,
        store: Arc<dyn CodeModeStore>,
        leases: Arc<dyn Leases>,
    ) -> Self {
        Self::within(Memory::unlimited(), engine, live_cells, door, store, leases)
    }

    /// Like [`new`](Self::new), for programs that may have so much memory together.
    pub fn within(
        memory: Memory,
        engine: Engine,
        live_cells: u32,
        door: Arc<Door>,
        store: Arc<dyn CodeModeStore>,
        leases: Arc<dyn Leases>,
    ) -> Self {
        let places = Places::new(live_cells as usize);
        let resting = places.clone();
        memory.budget.on_shortage(move |wanted| resting.make_room(wanted));
        let values = MemoryBudget::new(memory.budget.bytes() / VALUES_PART);
        let shared = Shared {
            engine,
            door,
            store,
            leases,
            threads: Threads::default(),
            places,
            writers: Places::new(WRITERS),
            memory,
            values,
            backstop: Backstop::default(),
            counting: Counting::default(),
            live: Live::default(),
            house: Arc::default(),
            closing: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the figures of all runs of this process together.
    pub fn counters(&self) -> Counters {
        self.shared.counting.read()
    }

    /// Runs a program until it ends or must wait. It goes on when the caller stops listening. With a key
    /// ([`ExecInput::key`]), a program that was begun before under it is not begun again: what came of it is told.
    pub async fn exec(&self, scope: &RunScope, input: ExecInput) -> CodeModeResult {
        self.shared.counting.add(Counted::Exec, 1);
        self.sweep_now_and_then(scope.settings.snapshot_lifetime);
        if input.key.as_ref().is_some_and(|key| key.len() > MOST_KEY) {
            let error = format!("the id of the request is longer than the {MOST_KEY} bytes that it may have");
            return CodeModeResult::refused(ErrorCode::InvalidInput, error);
        }
        let key = input.key.clone().map(|key| Key { key, program: input.digest() });
        if let Some(key) = &key {
            match self.begun_before(scope, key).await {
                Ok(None) => {}
                Ok(Some(run)) => return self.same_run(scope, run, input).await,
                Err(refused) => return refused,
            }
        }
        let telemetry = telemetry(scope, 1);
        let record = RunRecord::fresh(key.clone());
        let id = record.id.clone();
        let abort = scope.context.abort.child_token();
        let Taken::Go(tell, _) = self.shared.live.take(&id, &abort) else {
            return CodeModeResult::refused(ErrorCode::InternalError, "two runs have the same id");
        };
        let again = key.map(|key| (key, input.clone()));
        let begun = Begun { scope: scope.clone(), input, record, telemetry, abort: abort.clone(), is_admitted: false };
        let (mode, of) = (self.clone(), scope.clone());
        let result = self.driven(id, &of, abort, tell, boxed(async move { mode.begin(begun).await })).await;
        // Of two requests with one key at the same time, one begins the run.
        match again {
            Some((key, input)) if is_taken(&result) => match self.begun_before(scope, &key).await {
                Ok(Some(run)) => self.same_run(scope, run, input).await,
                Ok(None) => result,
                Err(refused) => refused,
            },
            _ => result,
        }
    }

    /// Returns the run that was begun under a key. Another program under the same key is refused.
    async fn begun_before(&self, scope: &RunScope, key: &Key) -> Result<Option<Run>, CodeModeResult> {
        let Context { user, session, .. } = &scope.context;
        let found = self.shared.store.run_with_key(user, session, &key.key).await;
        let found = found.map_err(|error| failed(RunError::of_store(&error), Telemetry::default()))?;
        match &found {
            Some(run) if run.key.as_ref().is_some_and(|begun| begun.program == key.program) => {
                match scope.refusal(run) {
                    Some(refusal) => Err(CodeModeResult::refused(ErrorCode::InvalidInput, refusal)),
                    None => Ok(found),
                }
            }
            Some(run) => {
                let error = format!(
                    "another program was run under the id {} in this session ({}): use a new id for a new program",
                    pincer_catalog::shortened(&key.key, 100),
                    run.id
                );
                Err(CodeModeResult::refused(ErrorCode::InvalidInput, error))
            }
            None => Ok(None),
        }
    }

    /// Tells what came of a run whose request was sent again. If its process died, it goes on.
    async fn same_run(&self, scope: &RunScope, run: Run, input: ExecInput) -> CodeModeResult {
        let deadline = Instant::now() + scope.settings.timeout;
        self.continued(scope, run, deadline, Some(input)).await
    }

    /// Continues a suspended program until it ends or must wait again.
    pub async fn wait(&self, scope: &RunScope, input: &WaitInput) -> CodeModeResult {
        let deadline = Instant::now() + scope.settings.timeout;
        self.shared.counting.add(Counted::Wait, 1);
        self.sweep_now_and_then(scope.settings.snapshot_lifetime);
        let run = match self.known(scope, &input.run_id).await {
            Ok(run) => run,
            Err(mut refused) => {
                if let CodeModeResult::Failed(failed) = &mut refused {
                    failed.telemetry = Telemetry { wait_count: 1, ..telemetry(scope, 0) };
                }
                return refused;
            }
        };
        if run.expires_at.is_some_and(|time| time <= self.shared.now()) {
            self.sweep().await;
        }
        self.continued(scope, run, deadline, None).await
    }

    /// Continues a run, or joins the driver that does.
    async fn continued(
        &self,
        scope: &RunScope,
        run: Run,
        deadline: Instant,
        again: Option<ExecInput>,
    ) -> CodeModeResult {
        let abort = scope.context.abort.child_token();
        let id = run.id.clone();
        match self.shared.live.take(&id, &abort) {
            Taken::Join(result) => joined(result).await,
            Taken::Held(held) => self.told_held(&held).await,
            Taken::Go(tell, pending_calls) => {
                let (mode, scope) = (self.clone(), scope.clone());
                let (of, token) = (scope.clone(), abort.clone());
                let pending_calls = pending_calls.map(|pending_calls| *pending_calls);
                let going = async move { mode.resume(scope, run, pending_calls, deadline, token, again).await };
                self.driven(id, &of, abort, tell, boxed(going)).await
            }
        }
    }

    /// Drives a run on a task of its own, and tells its result to all callers that wait for it.
    async fn driven(
        &self,
        id: RunId,
        scope: &RunScope,
        abort: CancellationToken,
        tell: watch::Sender<Option<CodeModeResult>>,
        driving: BoxFuture<'static, Driven>,
    ) -> CodeModeResult {
        let mode = self.clone();
        let (lifetime, is_agents) = (scope.settings.snapshot_lifetime, scope.agent_run().is_some());
        let result = tell.subscribe();
        self.watch_over();
        let span = tracing::debug_span!("run", run = %id, session = %scope.context.session);
        let going = async move {
            // A panic must not leave others waiting: the place is cleared when this is dropped.
            let entry = Entry { mode: &mode, id: &id };
            let (result, after) = driving.await;
            std::mem::forget(entry);
            match after {
                After::Parked(mut pending_calls) => {
                    if is_agents {
                        // The agent continues it once the answers are there: nothing is waited for here.
                        pending_calls.drop_unbegun();
                    }
                    mode.sweep_within(lifetime + Duration::from_millis(1));
                    if pending_calls.any_here() {
                        let guard = mode.guard(id.clone(), abort.clone());
                        mode.shared.live.park(&id, ParkedRun { pending_calls, abort, _guard: guard });
                    } else {
                        // All of it is in the store.
                        drop(mode.shared.live.remove(&id));
                    }
                }
                After::Left(pending_calls) => mode.shared.live.put_left(&id, pending_calls),
                After::Held(held) => {
                    mode.shared.live.hold(&id, Arc::clone(&held));
                    mode.keep_storing(held);
                }
                After::Nothing => drop(mode.shared.live.remove(&id)),
            }
            tell.send_replace(Some(result));
        };
        tokio::spawn(going.instrument(span));
        joined(result).await
    }

    /// Runs a program to its first result.
    pub(crate) async fn begin(&self, begun: Begun) -> Driven {
        let Begun { scope, input, record, mut telemetry, abort, is_admitted } = begun;
        telemetry.durability = Some(scope.settings.durability);
        let parent = scope.context.parent_call.clone().unwrap_or_else(|| format!("exec_{}", Uuid::now_v7()).into());
        let refused = |ending: RunError, telemetry: Telemetry| (failed(ending, telemetry), After::Nothing);
        let input = match is_admitted {
            true => input,
            false => match self.admitted(&scope, input, &parent).await {
                Ok((input, None)) => input,
                Ok((input, Some(asking))) => {
                    let begun = Begun { scope, input, record, telemetry, abort, is_admitted: false };
                    return self.ask_before(begun, &asking, &parent).await;
                }
                Err(error) => return refused(error, telemetry),
            },
        };
        // Hooks, and the person they may have asked, have time of their own.
        let deadline = Instant::now() + scope.settings.timeout;
        let prepared = match self.prepared(&input, &scope).await {
            Ok(prepared) => prepared,
            Err(error) => return refused(error, telemetry),
        };
        let place = match self.place(&scope, deadline, &abort).await {
            Ok(place) => place,
            Err(error) => return refused(error, telemetry),
        };
        let Sources { openclaw, plugin, mcp, client } = telemetry.sources;
        tracing::debug!(run = %record.id, visible = ?telemetry.visible_tools, catalog = telemetry.catalog_size, openclaw, plugin, mcp, client, "begins");
        let allotted =
            self.allotted(&scope, self.shared.engine.fresh_bytes(), input.code.len(), deadline, &abort).await;
        let allotment = match allotted {
            Ok(allotment) => allotment,
            Err(error) => return refused(error, telemetry),
        };
        // A place or memory that came late must not cost the program its turn.
        let deadline = deadline.max(Instant::now() + margin(&scope.settings));
        // The limit is for what its author wrote, and was checked there: what runs can be longer.
        let limits = Limits { source_bytes: prepared.text.len(), ..scope.settings.limits };
        let positions = Positions::new(&prepared.text, prepared.map);
        let value = match prepared.returns {
            Returns::Value => ProgramValue::Returned,
            Returns::LastInList => ProgramValue::Last,
        };
        let program = scope.with_globals(Program::new(prepared.text).value(value));
        let cell = match self.shared.engine.start_within(allotment, program, limits) {
            Ok(cell) => cell,
            Err(error) => return refused(RunError::of_error(&error), telemetry),
        };
        let seed = cell.seed().unwrap_or_default();
        let recorder = Recorder::new(&self.shared.engine, &scope, &input, seed, self.shared.now());
        let parts = self.call_parts(&scope, &abort, &parent);
        let mut driver = Driver {
            shared: Arc::clone(&self.shared),
            pending_calls: PendingCalls::new(parts, scope.settings.pending_calls),
            known: Arc::clone(scope.tools.known()),
            scope,
            record,
            source: Some(without_fence(&input.code).into_owned()),
            positions,
            home: Home::Live(cell),
            place: Some(place),
            stays: false,
            timers: Timers::default(),
            yields: Vec::new(),
            answers: Vec::new(),
            arrived: Vec::new(),
            output: Vec::new(),
            telemetry,
            parent,
            deadline,
            quick: true,
            breath: Instant::now(),
            changes: None,
            abort,
            recorder,
        };
        match (driver.record.fence, &driver.record.key) {
            // Begun again: it is stored already.
            (Some(fence), _) => match self.shared.leases.hold().await {
                Ok(owner) => driver.own(fence, owner),
                Err(error) => return driver.end(RunError::of_store(&error).into()).await,
            },
            // Before its first turn: the same request can come again at any time from now on.
            (None, Some(_)) => match driver.create(None).await {
                Ok(_) => {}
                Err(StoreError::Exists { .. }) => {
                    return refused(RunError::failed(ErrorCode::InvalidInput, TAKEN), driver.telemetry);
                }
                Err(error) => return driver.end(RunError::of_store(&error).into()).await,
            },
            (None, None) => {}
        }
        driver.drive().await
    }

    /// Returns the input that the hooks leave, and the question that they want asked.
    async fn admitted(
        &self,
        scope: &RunScope,
        input: ExecInput,
        call: &CallId,
    ) -> Result<(ExecInput, Option<Box<Asking>>), RunError> {
        let control = ControlCall {
            id: call.clone(),
            name: scope.guest.tool(),
            kind: scope.guest.kind(),
            input_kind: Some(input.kind()),
            params: input.params(),
        };
        let admission =
            self.shared.door.admission(&scope.context, control).await.map_err(|error| match error.code {
                pincer_tools::ErrorCode::Aborted => RunError::aborted(),
                pincer_tools::ErrorCode::Store => RunError::failed(ErrorCode::RuntimeUnavailable, error.message),
                _ => RunError::failed(ErrorCode::Blocked, error.message),
            })?;
        let (params, asking) = match admission {
            Admission::Go(params) => (params, None),
            Admission::Ask(asking) => (asking.input(), Some(asking)),
        };
        let input = input.rewritten(&params).map_err(|error| of_input(&error))?;
        Ok((input, asking))
    }

    /// Returns the text that the engine runs. A long one is read on a thread that may block.
    async fn prepared(&self, input: &ExecInput, scope: &RunScope) -> Result<Prepared, RunError> {
        const LONG: usize = 16 << 10;
        if input.code.len() < LONG {
            return prepared(input, scope);
        }
        let (input, scope) = (input.clone(), scope.clone());
        let reading = tokio::task::spawn_blocking(move || prepared(&input, &scope));
        reading.await.unwrap_or_else(|_| Err(RunError::bug("reading the program broke down")))
    }

    /// What calls of a run are made with.
    pub(crate) fn call_parts(&self, scope: &RunScope, abort: &CancellationToken, parent: &CallId) -> CallParts {
        let (door, tools) = (Arc::clone(&self.shared.door), Arc::clone(&scope.tools));
        let context = Context { abort: abort.clone(), ..scope.context.clone() };
        CallParts {
            door,
            tools,
            context,
            guest: scope.guest,
            parent: parent.to_owned(),
            listener: Listener::new(Arc::clone(&scope.listener)),
            texts: self.shared.memory.budget.clone(),
            values: self.shared.values.clone(),
            user: scope.context.user.as_str().into(),
        }
    }
}

/// How many programs wait for the store on a thread: it takes one writer at a time, and the door's notes must come in between.
const WRITERS: usize = 1;
/// The inputs of calls that are made have this part of the memory budget, besides.
const VALUES_PART: usize = 4;
/// The most bytes of a request's key: it is stored and indexed.
const MOST_KEY: usize = 256;

/// The refusal of a request whose key another one has just taken.
pub(crate) const TAKEN: &str = "another request with this id has just begun";

fn is_taken(result: &CodeModeResult) -> bool {
    matches!(result, CodeModeResult::Failed(failed) if failed.error == TAKEN)
}

/// A program that is about to run.
pub(crate) struct Begun {
    pub scope: RunScope,
    pub input: ExecInput,
    pub record: RunRecord,
    pub telemetry: Telemetry,
    pub abort: CancellationToken,
    /// The hooks have had their say, and so has the person they wanted asked.
    pub is_admitted: bool,
}

/// The place of a driven run, cleared if its driver breaks down.
struct Entry<'m> {
    mode: &'m CodeMode,
    id: &'m RunId,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        drop(self.mode.shared.live.remove(self.id));
    }
}

/// Returns the figures of a run before it begins.
pub(crate) fn telemetry(scope: &RunScope, execs: u32) -> Telemetry {
    let catalog = scope.found();
    Telemetry {
        visible_tools: scope.guest.visible(),
        catalog_size: catalog.len(),
        sources: Sources::from(catalog),
        exec_count: execs,
        ..Telemetry::default()
    }
}

/// Waits for the result of a run that another task drives.
async fn joined(mut result: watch::Receiver<Option<CodeModeResult>>) -> CodeModeResult {
    match result.wait_for(Option::is_some).await.map(|result| result.clone()) {
        Ok(Some(result)) => result,
        _ => failed(RunError::bug("the driver of the run has gone"), Telemetry::default()),
    }
}

pub(crate) fn failed(error: RunError, telemetry: Telemetry) -> CodeModeResult {
    error.result(Vec::new(), telemetry)
}

fn of_input(error: &InputError) -> RunError {
    let code = match error {
        InputError::Wrong(_) => ErrorCode::InvalidInput,
        InputError::Language(_) => ErrorCode::UnsupportedLanguage,
    };
    RunError::failed(code, error.to_string())
}

/// Moves the future of a run off the stack. It is large, and by value it would stand there once for each function that it is handed
/// through.
fn boxed(driving: impl Future<Output = Driven> + Send + 'static) -> BoxFuture<'static, Driven> {
    Box::pin(driving)
}
