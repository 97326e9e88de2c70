//! Watches the sessions that this process works on, and those that no process works on, for as long as there is something to watch.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pincer_store::{
    AgentRun, AgentRunId, AgentRunState, AgentRuns, Clock, Leases, Millis, SessionKey, Sessions, StoreError,
};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::classify::{Active, Finding, Seen, Thresholds, Waits, classify};
use super::diagnostic::{Diagnostic, DiagnosticKind, Recovery, RecoveryStatus};
use super::recovery::{Progress, Recoveries};
use super::reports::Reports;
use crate::claimed::StopReason;
use crate::feed::Feed;
use crate::inner::Inner;

/// The reports that wait for a slow reader at most.
const MOST_WAITING: usize = 256;
/// The time between two looks, at least and at most.
const SHORTEST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// The sessions without a process that are looked at in one go: the next look goes on behind them.
const MOST_AT_ONCE: usize = 64;

/// A session by its user and its key.
type Of = (String, SessionKey);

/// The watch over the sessions of a process.
pub(crate) struct Liveness {
    reports: broadcast::Sender<Diagnostic>,
    is_watching: Mutex<bool>,
}

/// The memory of a watch, from look to look.
#[derive(Default)]
struct Memory {
    reports: Reports<Of>,
    recoveries: Recoveries<Of>,
    /// The last report of a recovery, for its end.
    asked: HashMap<Of, Diagnostic>,
    /// The generations in which this process has taken sessions over: once is enough.
    released: HashMap<Of, u64>,
    /// The number of sessions without a process that were looked at.
    looked: usize,
}

/// A session at a moment.
struct Found {
    of: Of,
    run: Option<AgentRunId>,
    generation: u64,
    seen: Seen,
    /// The events of the run, if it goes on here.
    feed: Option<Arc<Feed>>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { reports: broadcast::Sender::new(MOST_WAITING), is_watching: Mutex::new(false) }
    }
}

impl Liveness {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_watching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Diagnostic> {
        self.reports.subscribe()
    }

    /// Sees to it that the sessions of this process are watched.
    pub(crate) fn watch(&self, agent: &Arc<Inner>) {
        let Some(thresholds) = Thresholds::of(agent.runtime.config()) else { return };
        if !std::mem::replace(&mut *self.lock(), true) {
            tokio::spawn(watch(Arc::downgrade(agent), agent.closing.clone(), thresholds));
        }
    }

    fn tell(&self, diagnostic: Diagnostic) {
        let Diagnostic { kind, session_key, reason, quiet_ms, queued, status, .. } = &diagnostic;
        match kind {
            DiagnosticKind::LongRunning => {
                tracing::info!(session = %session_key, ?reason, quiet_ms, queued, "the session takes long");
            }
            DiagnosticKind::Stalled => {
                tracing::warn!(session = %session_key, ?reason, quiet_ms, queued, "the session makes no progress");
            }
            DiagnosticKind::Stuck => {
                tracing::warn!(session = %session_key, ?reason, quiet_ms, queued, "no process works on the session");
            }
            DiagnosticKind::RecoveryRequested => {
                tracing::warn!(session = %session_key, ?reason, "the session is recovered");
            }
            DiagnosticKind::RecoveryCompleted => {
                tracing::warn!(session = %session_key, ?status, "the recovery of the session is over");
            }
        }
        // Without readers it is in the log alone.
        let _ = self.reports.send(diagnostic);
    }
}

/// Looks again and again. While it sleeps it keeps nothing of the agent.
async fn watch(agent: Weak<Inner>, closing: CancellationToken, thresholds: Thresholds) {
    let quarter = Duration::from_millis(u64::try_from(thresholds.warn / 4).unwrap_or(0));
    let pause = quarter.clamp(SHORTEST_LOOK, LONGEST_LOOK);
    let mut memory = Memory::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = closing.cancelled() => return,
        }
        let Some(agent) = agent.upgrade() else { return };
        match look(&agent, &mut memory).await {
            Ok(found) => act(&agent, &mut memory, found, thresholds),
            Err(error) => tracing::debug!("sessions could not be looked at: {error}"),
        }
        let mut is_watching = agent.liveness.lock();
        if agent.lock_live().is_empty() && agent.lock_drivers().is_empty() && memory.recoveries.is_empty() {
            *is_watching = false;
            return;
        }
    }
}

/// Looks at the sessions of this process, and at those of none.
async fn look(agent: &Inner, memory: &mut Memory) -> Result<Vec<Found>, StoreError> {
    let live: Vec<(AgentRunId, Arc<Feed>)> =
        agent.lock_live().iter().map(|(id, (feed, _))| (id.clone(), Arc::clone(feed))).collect();
    let mut found = Vec::new();
    for (id, feed) in live {
        match agent.store.agent_run(&id).await {
            Ok(run) => found.push(going_on(agent, run, feed).await?),
            // Its session was deleted.
            Err(StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let known: HashSet<Of> = found.iter().map(|found| found.of.clone()).collect();
    let mut others = agent.store.sessions_with_work().await?;
    others.retain(|of| !known.contains(of));
    let count = others.len();
    if count > 0 {
        others.rotate_left(memory.looked % count);
    }
    memory.looked = if count > MOST_AT_ONCE { memory.looked.wrapping_add(MOST_AT_ONCE) } else { 0 };
    for of in others.into_iter().take(MOST_AT_ONCE) {
        found.extend(left(agent, of).await?);
    }
    Ok(found)
}

/// Looks at a run that goes on here.
async fn going_on(agent: &Inner, run: AgentRun, feed: Arc<Feed>) -> Result<Found, StoreError> {
    let open = agent.store.open_runs(&run.user, &run.session_key).await?;
    let doing = feed.activity().look();
    let waits = match (run.state, doing.pause_until) {
        (AgentRunState::Waiting, _) => Waits::Person,
        _ if !doing.is_prepared => Waits::Runtime,
        (_, Some(until)) => Waits::Provider(until),
        (_, None) => Waits::Nothing,
    };
    let seen = Seen {
        is_owned: true,
        active: if run.state.is_final() { Active::Terminal } else { Active::Open },
        waits,
        since: doing.began,
        progressed_at: doing.progressed_at,
        asks_model: doing.asks_model,
        requests: doing.requests,
        calls_tool: !doing.calls.is_empty(),
        queued: queued(&open),
    };
    let generation = u64::from(feed.generation());
    Ok(Found { of: (run.user, run.session_key), run: Some(run.id), generation, seen, feed: Some(feed) })
}

/// Looks at a session with work of which no run goes on here. `None` if another process works on it.
async fn left(agent: &Inner, of: Of) -> Result<Option<Found>, StoreError> {
    let Some(session) = agent.store.current_session(&of.0, &of.1).await? else { return Ok(None) };
    if let Some(owner) = &session.owner
        && owner != agent.leases.own()
        && agent.leases.is_alive(owner).await?
    {
        return Ok(None);
    }
    let open = agent.store.open_runs(&of.0, &of.1).await?;
    let active = open.iter().find(|run| matches!(run.state, AgentRunState::Running | AgentRunState::Waiting));
    let first = open.iter().filter(|run| run.state == AgentRunState::Queued).map(|run| run.created_at).min();
    let Some(since) = active.map(|_| session.updated_at).or(first) else { return Ok(None) };
    let is_waiting = active.is_some_and(|run| run.state == AgentRunState::Waiting && !run.is_stopped);
    let seen = Seen {
        is_owned: agent.lock_drivers().contains_key(&of) || agent.is_held(&of.0, &of.1),
        active: if active.is_some() { Active::Open } else { Active::None },
        waits: if is_waiting { Waits::Person } else { Waits::Runtime },
        since,
        progressed_at: since,
        asks_model: false,
        requests: 0,
        calls_tool: false,
        queued: queued(&open),
    };
    let (run, generation) = (active.map(|run| run.id.clone()), session.fence.0);
    Ok(Some(Found { of, run, generation: u64::try_from(generation).unwrap_or(0), seen, feed: None }))
}

fn queued(open: &[AgentRun]) -> u32 {
    open.iter().filter(|run| run.state == AgentRunState::Queued).count() as u32
}

/// Tells what was found, and recovers what must be.
fn act(agent: &Arc<Inner>, memory: &mut Memory, found: Vec<Found>, thresholds: Thresholds) {
    let now = agent.store.now();
    let current: HashMap<Of, u64> =
        found.iter().filter(|found| found.seen.is_owned).map(|found| (found.of.clone(), found.generation)).collect();
    for (of, generation, progress) in memory.recoveries.look(now, |of| current.get(of).copied()) {
        let status = match progress {
            Progress::Ended => RecoveryStatus::Aborted,
            Progress::Late => RecoveryStatus::NotDrained,
        };
        if let Some(asked) = memory.asked.get(&of) {
            agent.liveness.tell(completed(asked, status, now));
        }
        if progress == Progress::Ended {
            memory.asked.remove(&of);
            memory.reports.settled(&of, generation);
        }
    }
    for found in &found {
        let Some(finding) = classify(&found.seen, thresholds, now) else { continue };
        let (of, generation, progressed_at) = (&found.of, found.generation, found.seen.progressed_at);
        if memory.reports.is_due(of, &finding, generation, progressed_at, thresholds.warn, now) {
            agent.liveness.tell(report(found, &finding, now));
        }
        if let Some(action) = finding.action {
            recover(agent, memory, found, &finding, action, now);
        }
    }
    let open: HashSet<&Of> = found.iter().map(|found| &found.of).collect();
    memory.reports.keep(|of| open.contains(of));
    memory.released.retain(|of, _| open.contains(of));
}

/// Recovers a session, unless it has gone on since it was looked at.
fn recover(agent: &Arc<Inner>, memory: &mut Memory, found: &Found, finding: &Finding, action: Recovery, now: Millis) {
    let is_new = match action {
        Recovery::Abort => memory.recoveries.begin(&found.of, found.generation, now),
        // A process that ends with its own messages must not begin another one: that would be torn off.
        Recovery::Release if agent.ends_with_its_own.load(Ordering::SeqCst) => false,
        Recovery::Release => memory.released.insert(found.of.clone(), found.generation) != Some(found.generation),
    };
    if !is_new {
        return;
    }
    let kind = DiagnosticKind::RecoveryRequested;
    let asked = Diagnostic { kind, action: Some(action), ..report(found, finding, now) };
    agent.liveness.tell(asked.clone());
    let status = match action {
        // The next owner proves that nothing has changed: it claims the session with the fence that it sees.
        Recovery::Release => {
            agent.engage(&found.of.0, &found.of.1);
            RecoveryStatus::Released
        }
        Recovery::Abort if abort(agent, found) => {
            memory.asked.insert(found.of.clone(), asked);
            return;
        }
        Recovery::Abort => {
            memory.recoveries.end(&found.of);
            RecoveryStatus::Changed
        }
    };
    agent.liveness.tell(completed(&asked, status, now));
}

/// Stops the run of a session, unless it has gone on, or another process has taken it, since it was looked at.
fn abort(agent: &Inner, found: &Found) -> bool {
    let (Some(feed), Some(run)) = (&found.feed, &found.run) else { return false };
    let live = agent.lock_live();
    let sign = live.get(run).filter(|(live, _)| Arc::ptr_eq(live, feed)).map(|(_, sign)| sign);
    let is_same = feed.activity().look().progressed_at == found.seen.progressed_at;
    match sign.filter(|_| is_same) {
        Some(sign) => {
            sign.stop(StopReason::Stalled);
            true
        }
        None => false,
    }
}

fn report(found: &Found, finding: &Finding, now: Millis) -> Diagnostic {
    Diagnostic {
        kind: finding.kind,
        ts: now,
        user: found.of.0.clone(),
        session_key: found.of.1.clone(),
        run_id: found.run.clone(),
        generation: found.generation,
        reason: finding.reason,
        age_ms: now - found.seen.since,
        quiet_ms: now - found.seen.progressed_at,
        queued: found.seen.queued,
        action: None,
        status: None,
    }
}

fn completed(asked: &Diagnostic, status: RecoveryStatus, now: Millis) -> Diagnostic {
    Diagnostic { kind: DiagnosticKind::RecoveryCompleted, ts: now, status: Some(status), ..asked.clone() }
}
