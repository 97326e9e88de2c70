//! Drives one program through one `exec` or `wait`: turns of its cell, and between them the calls it asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_sandbox::{Answer, Json, Limit, Output, Request, Turn, TurnEnd};
use pincer_store::{ApprovalState, CallId, CallState, ChangeWatch, Millis, Repeat};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::aside::{Home, wanted};
use crate::bridge::{self, Asked};
use crate::frontier::StoredYield;
use crate::known_tools::KnownTools;
use crate::outcome::{ProgramEnd, RunError};
use crate::pending_calls::{PendingCalls, Settled, StoredCall};
use crate::places::Place;
use crate::positions::Positions;
use crate::recorder::Recorder;
use crate::run::{Driven, RunRecord};
use crate::scope::{People, RunScope};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::telemetry::{Counted, Telemetry, milliseconds};
use crate::threads::{Company, Ran};
use crate::timers::Timers;

/// If the previous answer came within this time, the driver polls for as long before it sleeps.
const SOON: Duration = Duration::from_micros(500);
/// The time after which a program that does not wait lets the other tasks of its worker have their turns.
const BREATH: Duration = Duration::from_millis(1);
/// The time between two look-ups of calls that another process makes.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// How often it looks whether those processes are alive: the death of one changes nothing in the store.
const LOOK_ALIVE: Duration = Duration::from_millis(100);

/// One program on its way.
pub(crate) struct Driver {
    pub shared: Arc<Shared>,
    pub scope: RunScope,
    pub record: RunRecord,
    /// The author's text, in the `exec` that began it.
    pub source: Option<String>,
    pub positions: Positions,
    /// Its cell.
    pub home: Home,
    /// A place for a live cell.
    pub place: Option<Place>,
    /// It is too large to be put aside.
    pub stays: bool,
    pub pending_calls: PendingCalls,
    pub timers: Timers,
    pub yields: Vec<StoredYield>,
    /// The answers that the cell gets in its next turn.
    pub answers: Vec<Answer>,
    /// Answers that have arrived, each with its time, before they are put in order for the cell.
    pub arrived: Vec<(Instant, Answer)>,
    /// Output that its caller has not been told.
    pub output: Vec<Output>,
    pub telemetry: Telemetry,
    /// The tools as the program knows them.
    pub known: Arc<KnownTools>,
    pub parent: CallId,
    pub deadline: Instant,
    /// Its last answer came soon.
    pub quick: bool,
    /// When it last let the other tasks of its worker have their turns.
    pub breath: Instant,
    /// News of other processes, if they make calls of this program.
    pub changes: Option<Box<dyn ChangeWatch>>,
    /// Ends this program.
    pub abort: CancellationToken,
    pub recorder: Recorder,
}

/// The next thing to do with a program.
enum Next {
    /// There is something to tell it: it gets a turn.
    CellTurn,
    Park,
    End(ProgramEnd),
}

impl Driver {
    /// Drives the program until it ends or is suspended.
    pub(crate) async fn drive(mut self) -> Driven {
        self.breath = Instant::now();
        loop {
            match self.step().await {
                // On the spot a program whose answers are there at once never waits for anything.
                Ok(Next::CellTurn) if self.breath.elapsed() > BREATH => {
                    tokio::task::yield_now().await;
                    self.breath = Instant::now();
                }
                Ok(Next::CellTurn) => {}
                Ok(Next::Park) => return self.suspend().await,
                Ok(Next::End(end)) => return self.end(end).await,
                Err(error) => return self.end(error.into()).await,
            }
        }
    }

    /// Gives the program a turn, takes its requests, and waits until one of them has settled.
    async fn step(&mut self) -> Result<Next, RunError> {
        if self.abort.is_cancelled() {
            return Err(RunError::aborted());
        }
        if !self.come_back().await? {
            return Ok(Next::Park);
        }
        let turn = self.turn().await?;
        if let Some(end) = self.take(turn) {
            return Ok(Next::End(end));
        }
        if !self.answers.is_empty() {
            return Ok(self.turn_or_park());
        }
        self.settle().await
    }

    /// Waits with a program that has been restored until there is something to tell it.
    pub(crate) async fn go_on(mut self) -> Driven {
        self.collect();
        let next = match self.answers.is_empty() {
            true => self.settle().await,
            false => Ok(Next::CellTurn),
        };
        match next {
            Ok(Next::CellTurn) => self.drive().await,
            Ok(Next::Park) => self.suspend().await,
            Ok(Next::End(end)) => self.end(end).await,
            Err(error) => self.end(error.into()).await,
        }
    }

    async fn turn(&mut self) -> Result<Turn, RunError> {
        self.pending_calls.send_off();
        let mut cell = self.home.take().ok_or_else(|| RunError::bug("there is no cell"))?;
        if self.recorder.is_on() {
            self.recorder.begin_turn(&self.answers, self.shared.now());
            cell.record_readings();
        }
        for answer in self.answers.drain(..) {
            cell.deliver(answer).map_err(|error| RunError::of_error(&error))?;
        }
        let started = Instant::now();
        let left = self.deadline.saturating_duration_since(started);
        let time = self.scope.guest_time(left, self.telemetry.ms.guest);
        let company = self.shared.company();
        let ran = self.shared.threads.run_turn(cell, self.scope.party(), time, company, &self.abort);
        let Ran { mut cell, turn, waited } = ran
            .instrument(tracing::debug_span!("cell_turn"))
            .await
            .map_err(|error| RunError::failed(crate::ErrorCode::RuntimeUnavailable, crate::outcome::told(&error)))?;
        if company == Company::Others {
            self.breath = Instant::now();
        }
        cell.hand_requests_over(self.pending_calls.texts());
        let took = started.elapsed();
        self.telemetry.ms.guest += milliseconds(took.saturating_sub(waited));
        let mut turn = turn.map_err(|error| RunError::of_error(&error))?;
        self.recorder.turned(&mut turn);
        if let TurnEnd::Limit(Limit::Time) = turn.end
            && 2 * waited > took
        {
            return Err(RunError::of_overload(self.scope.whole_time(), took - waited));
        }
        tracing::debug!(run = %self.record.id, us = took.as_micros() as u64, requests = turn.requests.len(), end = end_name(&turn.end), "turn");
        self.home = Home::Live(cell);
        Ok(turn)
    }

    /// Takes the output and the requests of a turn, and returns the program's end if the turn was its last.
    fn take(&mut self, turn: Turn) -> Option<ProgramEnd> {
        self.record.moved = true;
        self.output.extend(turn.output);
        let failed = match turn.end {
            TurnEnd::Waiting => None,
            TurnEnd::Value(value) => {
                return Some(ProgramEnd::Value { value: value.unwrap_or_else(Json::null), notes: turn.notes });
            }
            TurnEnd::Failed(failure) => {
                let source = self.source.as_deref();
                Some(RunError::of_failure(&failure, &self.positions, source, &self.scope))
            }
            TurnEnd::Limit(limit) => Some(RunError::of_limit(limit, self.scope.whole_time())),
            TurnEnd::Interrupted => Some(RunError::aborted()),
            TurnEnd::Crashed(what) => Some(RunError::bug(what)),
        };
        if let Some(error) = failed {
            return Some(error.into());
        }
        turn.cancelled.into_iter().for_each(|id| self.timers.clear(id));
        for request in turn.requests {
            let answer = self.ask(&request);
            let line = self.line(&request);
            self.recorder.asked(&request, line, self.pending_calls.number(request.id));
            self.answers.extend(answer);
        }
        self.recorder.end_turn();
        None
    }

    /// Returns the line of the program that makes a request.
    fn line(&self, request: &Request) -> Option<u32> {
        request.site.map(|site| self.positions.original(site).line)
    }

    /// Takes a request, or answers it on the spot.
    fn ask(&mut self, request: &Request) -> Option<Answer> {
        let id = request.id;
        let settings = &self.scope.settings;
        let outcome = match bridge::read(request, &self.scope, &self.known) {
            Err(fault) => Err(fault),
            Ok(Asked::Sleep) => {
                self.timers.set(id, &request.args, request.at, self.shared.now());
                return None;
            }
            Ok(Asked::Yield { reason }) => {
                self.yields.push(StoredYield { id, reason, since: self.shared.now() });
                return None;
            }
            Ok(Asked::Call(call)) => {
                let line = self.line(request);
                self.telemetry.called(&call.tool);
                self.shared.counting.add(Counted::Call, 1);
                let bridge::ToolCall { tool, input, method, flags } = call;
                self.pending_calls.queue(StoredCall {
                    id,
                    seq: self.record.next_seq(),
                    fingerprint: self.known.get(&tool),
                    tool,
                    input,
                    method,
                    line,
                    since: self.shared.now(),
                    approval: None,
                    sequential: flags.sequential,
                    flags,
                });
                return None;
            }
            Ok(Asked::Api { server, tool, with_schema }) => {
                self.telemetry.describe_count += 1;
                self.shared.counting.add(Counted::Describe, 1);
                match self.scope.tools.mcp().api(server.as_deref(), tool.as_deref(), with_schema) {
                    Ok(api) => Json::of(&api).map_err(|error| bridge::unreadable(&error)),
                    Err(error) => Err(bridge::unknown(tool.as_deref().unwrap_or_default(), &error.to_string())),
                }
            }
            Ok(Asked::Search { query, limit }) => {
                self.telemetry.search_count += 1;
                self.shared.counting.add(Counted::Search, 1);
                let most = settings.search_most as f64;
                let limit = limit.map_or(settings.search_usual, |limit| limit.clamp(1.0, most) as usize);
                Json::of(&self.scope.tools.search(&query, limit)).map_err(|error| bridge::unreadable(&error))
            }
            Ok(Asked::Find(arguments)) => {
                self.telemetry.search_count += 1;
                self.shared.counting.add(Counted::Search, 1);
                let missing = self.scope.missing(&self.output);
                self.output.extend(missing);
                self.scope.search(arguments).map_err(bridge::wrong)
            }
            Ok(Asked::Explain(arguments)) => {
                self.telemetry.describe_count += 1;
                self.shared.counting.add(Counted::Describe, 1);
                self.scope.describe(arguments).map_err(bridge::wrong)
            }
            // A program that an agent has begun, and that is continued without one, has no skills any more.
            Ok(Asked::Skills) => match &self.scope.skills {
                Some(skills) => Json::of(&skills.list()).map_err(|error| bridge::unreadable(&error)),
                None => Err(bridge::no_skill("skills are for programs of agents")),
            },
            Ok(Asked::Skill { name }) => match self.scope.skills.as_ref().map(|skills| skills.read(&name)) {
                Some(Ok(text)) => Json::of(&text).map_err(|error| bridge::unreadable(&error)),
                Some(Err(error)) => Err(bridge::no_skill(&error.to_string())),
                None => Err(bridge::no_skill("skills are for programs of agents")),
            },
            Ok(Asked::Describe { tool }) => {
                self.telemetry.describe_count += 1;
                self.shared.counting.add(Counted::Describe, 1);
                match self.scope.tools.describe(&tool) {
                    Ok(described) => Json::of(&described).map_err(|error| bridge::unreadable(&error)),
                    Err(error) => Err(bridge::unknown(&tool, &error.to_string())),
                }
            }
        };
        Some(Answer { id, outcome })
    }

    /// Begins what can begin, and waits until the program can be told something or must be suspended.
    async fn settle(&mut self) -> Result<Next, RunError> {
        let waited = Instant::now();
        let next = self.settled().await;
        self.telemetry.ms.nested += milliseconds(waited.elapsed());
        next
    }

    async fn settled(&mut self) -> Result<Next, RunError> {
        self.begin().await?;
        loop {
            self.collect();
            if !self.answers.is_empty() {
                return Ok(self.turn_or_park());
            }
            if !self.yields.is_empty() || self.shared.closing.is_cancelled() {
                return Ok(Next::Park);
            }
            let for_people = self.timers.is_empty() && self.only_people_can_help().await?;
            if for_people && (self.scope.people == People::Absent || self.scope.left.is_cancelled()) {
                return Ok(Next::Park);
            }
            if for_people {
                // Questions may be older than the caller that waits now.
                self.pending_calls.questions().iter().for_each(|question| self.scope.listener.asked(question));
            }
            let until = self.deadline - margin(&self.scope.settings);
            if !for_people && Instant::now() >= until {
                return Ok(Next::Park);
            }
            self.news(until, for_people).await?;
            self.begin().await?;
        }
    }

    /// Returns a turn, or a park when the time is over: a program that always has something to do is suspended too.
    fn turn_or_park(&self) -> Next {
        let late = Instant::now() >= self.deadline - margin(&self.scope.settings) / 2;
        if late { Next::Park } else { Next::CellTurn }
    }

    /// Returns whether nothing goes on before a person answers. A question whose answer is stored already is not waited for: the news
    /// of it is on its way.
    async fn only_people_can_help(&mut self) -> Result<bool, RunError> {
        if !self.pending_calls.only_people_can_help() {
            return Ok(false);
        }
        for id in self.pending_calls.questions() {
            let approval = self.shared.store.approval(&id).await.map_err(|error| RunError::of_store(&error))?;
            if approval.state != ApprovalState::Pending {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for the next thing that happens. Time that a person takes is not counted.
    async fn news(&mut self, until: Instant, for_people: bool) -> Result<(), RunError> {
        let began = Instant::now();
        let elsewhere = !self.pending_calls.elsewhere().is_empty();
        let mut wake = self.timers.next().map_or(until, |timer| timer.min(until));
        if for_people {
            wake = began + Duration::from_secs(3600);
        }
        if elsewhere {
            wake = wake.min(began + LOOK_ALIVE);
            self.changes.get_or_insert_with(|| self.shared.store.watch(LOOK_AGAIN));
        }
        let mut note = None;
        if self.quick && self.pending_calls.any_here() && self.shared.may_stay_awake() {
            note = self.pending_calls.next_awake(wake.min(began + SOON)).await;
        }
        if note.is_none() {
            self.rest();
            let mut is_wanted = false;
            note = tokio::select! {
                biased;
                () = self.abort.cancelled() => return Err(RunError::aborted()),
                note = self.pending_calls.next() => Some(note),
                () = wanted(self.place.as_ref()) => {
                    is_wanted = true;
                    None
                }
                () = changed(&mut self.changes), if elsewhere => None,
                () = self.shared.closing.cancelled() => None,
                () = self.scope.left.cancelled(), if for_people => None,
                () = tokio::time::sleep_until(wake.into()) => None,
            };
            self.breath = Instant::now();
            if is_wanted {
                self.put_aside().await;
            }
        }
        self.quick = began.elapsed() < SOON;
        if let Some(settled) = note.and_then(|note| self.pending_calls.note(note)) {
            self.arrive(settled);
        }
        if elsewhere {
            self.look_elsewhere().await?;
        }
        if for_people {
            self.deadline += began.elapsed();
        }
        Ok(())
    }

    /// Answers what is known already: calls that have settled and timers that are due, in one order, that of their times.
    pub(crate) fn collect(&mut self) {
        while let Some(note) = self.pending_calls.try_next() {
            if let Some(settled) = self.pending_calls.note(note) {
                self.arrive(settled);
            }
        }
        let due = self.timers.take_due().into_iter().map(|(time, id)| (time, Answer::value(id, Json::null())));
        self.arrived.extend(due);
        self.arrived.sort_by_key(|(time, _)| *time);
        self.answers.extend(self.arrived.drain(..).map(|(_, answer)| answer));
    }

    fn arrive(&mut self, settled: Settled) {
        self.recorder.settled(&settled);
        self.arrived.push(bridge::arrival(&self.record.id, settled));
    }

    /// Returns the moment of a store time, as far back as this machine can tell.
    pub(crate) fn moment(&self, at: Millis) -> Instant {
        let ago = Duration::from_millis(u64::try_from(self.shared.now() - at).unwrap_or(0));
        let now = Instant::now();
        now.checked_sub(ago).unwrap_or(now)
    }

    /// Begins the calls that may run now. If one of them may change something, or a person is to be asked, the program is stored
    /// first: after a crash it goes on from there, and what was done since is known.
    async fn begin(&mut self) -> Result<(), RunError> {
        let starts = self.pending_calls.can_start();
        let is_new = self.pending_calls.needs_checkpoint()
            || starts && self.pending_calls.any_uncovered(self.record.covered.unwrap_or(0));
        if self.pending_calls.needs_checkpoint() || starts && self.is_uncovered() {
            self.checkpoint().await?;
        }
        if is_new {
            self.reserve().await?;
        }
        if starts {
            self.record_run().await?;
            self.prune_journal().await;
            self.pending_calls.start();
        }
        Ok(())
    }

    /// Looks at the calls that other processes make.
    async fn look_elsewhere(&mut self) -> Result<(), RunError> {
        let here = self.shared.door.under_way(&self.record.id);
        let rows = self.shared.store.calls(&self.record.id).await.map_err(|error| RunError::of_store(&error))?;
        let mut settled: Vec<(i64, Instant, StoredCall, Option<String>)> = Vec::new();
        for (call, _) in self.pending_calls.elsewhere() {
            let Some(row) = rows.iter().find(|row| row.seq == call.seq) else { continue };
            match row.state {
                CallState::Settled => {
                    let at = self.moment(row.settled_at.unwrap_or_default());
                    settled.push((row.settled.unwrap_or_default(), at, call, row.outcome.clone()));
                }
                CallState::Dispatched if self.shared.is_made(row, &here).await => {}
                CallState::Dispatched => {
                    self.pending_calls.remove(call.id);
                    match row.repeat {
                        Repeat::Unknown => {
                            self.answers.push(Answer::fault(call.id, bridge::interrupted(&call.tool)));
                        }
                        _ => self.pending_calls.queue(StoredCall { approval: None, ..call }),
                    }
                }
            }
        }
        settled.sort_by_key(|(order, ..)| *order);
        for (_, at, call, outcome) in settled {
            self.pending_calls.remove(call.id);
            self.recorder.journaled(call.id);
            self.arrived.push((at, bridge::recorded(&self.record.id, &call, outcome.as_deref())));
        }
        Ok(())
    }
}

/// Waits until another process has changed something.
async fn changed(changes: &mut Option<Box<dyn ChangeWatch>>) {
    match changes {
        Some(changes) => changes.changed().await,
        None => std::future::pending().await,
    }
}

/// Suspending and answering must be done before the deadline.
pub(crate) fn margin(settings: &Settings) -> Duration {
    Duration::from_millis(250).min(settings.timeout / 2)
}

fn end_name(end: &TurnEnd) -> &'static str {
    match end {
        TurnEnd::Waiting => "waiting",
        TurnEnd::Value(_) => "value",
        TurnEnd::Failed(_) => "failed",
        TurnEnd::Limit(_) => "limit",
        TurnEnd::Interrupted => "interrupted",
        TurnEnd::Crashed(_) => "crashed",
    }
}
