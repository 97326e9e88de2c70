//! Works on one session: takes it when it is free, and takes its runs one after the other to their ends.

use std::sync::Arc;
use std::time::Duration;

use pincer_sessions::new_session_id;
use pincer_store::{
    AgentRun, AgentRunState, AgentRuns, ApprovalState, Approvals, Changes, ClientCalls, Clock, EntryKind, Fence,
    Leases, Millis, RunChange, Session, SessionCommit, SessionKey, Sessions, StoreError, Totals,
};
use pincer_tools::{BoxFuture, CatchPanic};
use serde_json::{Value, json};

use crate::detail::Detail;
use crate::error::AgentError;
use crate::event::{Happening, Stream};
use crate::feed::Feed;
use crate::frame::FrameSlot;
use crate::hooks::{Author, RunHooks, SessionHooks};
use crate::inner::Inner;
use crate::lane::{Lane, entry, note, tell_trouble};
use crate::preparing::{fail, work};
use crate::record;
use crate::reply::{Void, nothing_said};
use crate::request::{QueueMode, Request};
use crate::settings::{SessionSettings, freshness, verbose};

/// How soon news of another process are noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often it is looked whether the process that has the session is alive: its death changes nothing in the store.
const LOOK_ALIVE: Duration = Duration::from_millis(250);
/// How soon it is tried again when the store does not answer.
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The words before messages that were left out of a full queue.
const LEFT_OUT: &str =
    "While you were busy, more messages came than could wait. The newest of those that were left out, each shortened:";

/// What is to be done with a session.
enum Work {
    /// Nothing: all its runs have ended.
    Nothing,
    /// Nothing now: another process has it. Looked at again at the latest after this.
    Later(Duration),
    /// Nothing before a person has answered, or a sender has made a call.
    Rest,
    /// This run goes on.
    GoOn(Box<AgentRun>, Session),
    /// These runs begin as one. The second list was left out of the queue.
    Begin(Vec<AgentRun>, Vec<AgentRun>, Session),
}

/// Works on a session until all its runs have ended.
pub(crate) async fn drive(agent: Arc<Inner>, user: String, key: SessionKey) {
    let wake = agent.wake(&user, &key);
    let mut changes = agent.store.watch(LOOK_AGAIN);
    loop {
        // Before looking, so that nothing in between is missed.
        let woken = wake.notified();
        let pause = match next_work(&agent, &user, &key).await {
            Ok(Work::Nothing) => {
                if agent.leave(&user, &key) {
                    return;
                }
                continue;
            }
            Ok(Work::Rest) => {
                if agent.rest(&user, &key) {
                    return;
                }
                continue;
            }
            Ok(Work::Later(pause)) => pause,
            Ok(Work::GoOn(run, session)) => worked(&agent, &user, &key, Box::pin(go_on(&agent, *run, session))).await,
            Ok(Work::Begin(runs, left_out, session)) => {
                worked(&agent, &user, &key, Box::pin(begin(&agent, runs, left_out, session))).await
            }
            Err(error) => {
                tell_trouble(&agent.trouble, &error);
                TRY_AGAIN
            }
        };
        if agent.closing.is_cancelled() {
            agent.abandon(&user, &key);
            return;
        }
        if pause.is_zero() {
            continue;
        }
        tokio::select! {
            () = agent.closing.cancelled() => {}
            () = woken => {}
            () = changes.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Waits for the work on a run. If it panics, the run fails: the session must not be left to a task that is gone.
async fn worked(
    agent: &Arc<Inner>,
    user: &str,
    key: &SessionKey,
    work: BoxFuture<'_, Result<Duration, StoreError>>,
) -> Duration {
    match CatchPanic(work).await {
        Some(Ok(pause)) => pause,
        Some(Err(error)) => {
            tell_trouble(&agent.trouble, &error);
            TRY_AGAIN
        }
        None => {
            tracing::error!(session = %key, "the work on a run broke down: this is a bug");
            if let Err(error) = fail_broken(agent, user, key).await {
                tracing::warn!(session = %key, "the failure of the run could not be stored: {error}");
            }
            TRY_AGAIN
        }
    }
}

/// Ends the run that this process was at work on when it broke down.
async fn fail_broken(agent: &Arc<Inner>, user: &str, key: &SessionKey) -> Result<(), StoreError> {
    if let Work::GoOn(run, session) = next_work(agent, user, key).await?
        && run.state == AgentRunState::Running
        && let Some((run, lane)) = taken(agent, *run, &session).await?
    {
        let request = Request::parse(&run.request).unwrap_or_default();
        // If the store does not take it, the next look at the session tries again.
        let _ = fail(&run, &request, &lane, &AgentError::Broken(run.id.clone()), agent).await;
    }
    Ok(())
}

async fn next_work(agent: &Inner, user: &str, key: &SessionKey) -> Result<Work, StoreError> {
    let store = &agent.store;
    let mut open = store.open_runs(user, key).await?;
    let mut left_out: Vec<AgentRun> = open.extract_if(.., |run| run.state == AgentRunState::Summarized).collect();
    if open.is_empty() {
        return Ok(Work::Nothing);
    }
    let Some(session) = store.current_session(user, key).await? else { return Ok(Work::Nothing) };
    if agent.has_done_its_last(user, key).await? {
        return Ok(Work::Nothing);
    }
    if let Some(owner) = &session.owner
        && owner != agent.leases.own()
        && agent.leases.is_alive(owner).await?
    {
        return Ok(Work::Later(LOOK_ALIVE));
    }
    let is_held = agent.is_held(user, key);
    let active = open.iter().find(|run| Some(&run.id) == session.active.as_ref());
    if let Some(active) = active.or_else(|| open.iter().find(|run| run.state != AgentRunState::Queued)) {
        let mut active = active.clone();
        // The process that accepted an interrupt may have died before it stopped the run.
        if !active.is_stopped && open.iter().any(is_interrupt) {
            agent.ask_to_stop(&active).await?;
            active.is_stopped = true;
        } else if active.state == AgentRunState::Waiting && !active.is_stopped && !is_answered(agent, &active).await? {
            return Ok(Work::Rest);
        }
        // An owner of this process that is not at work is a command that changes the session.
        if is_held && !active.is_stopped && session.owner.as_ref() == Some(agent.leases.own()) {
            return Ok(Work::Later(LOOK_ALIVE));
        }
        return Ok(Work::GoOn(Box::new(active), session));
    }
    if is_held {
        return Ok(Work::Later(LOOK_ALIVE));
    }
    let Some(first) = open.first() else { return Ok(Work::Nothing) };
    let request = Request::parse(&first.request).unwrap_or_default();
    let collects = request.queue == Some(QueueMode::Collect);
    let is_alike = |run: &AgentRun| {
        Request::parse(&run.request)
            .is_ok_and(|other| other.queue == Some(QueueMode::Collect) && request.may_be_joined_by(&other))
    };
    let together: Vec<AgentRun> = match collects {
        true => open.iter().take_while(|run| is_alike(run)).cloned().collect(),
        false => vec![first.clone()],
    };
    if let (Some(quiet), Some(last)) = (request.debounce_ms, together.last()) {
        let quiet_at = last.created_at.saturating_add(i64::try_from(quiet).unwrap_or(i64::MAX));
        let left = quiet_at.saturating_sub(store.now());
        if left > 0 {
            return Ok(Work::Later(Duration::from_millis(u64::try_from(left).unwrap_or(0))));
        }
    }
    let left_out = left_out_of(&mut left_out, &request);
    Ok(Work::Begin(together, left_out, session))
}

/// Returns whether a run has not begun, and stops the one before it.
fn is_interrupt(run: &AgentRun) -> bool {
    run.state == AgentRunState::Queued
        && Request::parse(&run.request).is_ok_and(|request| request.queue == Some(QueueMode::Interrupt))
}

/// Returns whether a run that waits can go on: a question has its answer, or a call of its sender a result.
pub(crate) async fn is_answered(agent: &Inner, run: &AgentRun) -> Result<bool, StoreError> {
    let detail = Detail::parse(run.detail.as_deref());
    for id in &detail.approvals {
        let is_open = match agent.store.approval(id).await {
            Ok(approval) if approval.expires_at.is_some_and(|at| at <= agent.store.now()) => false,
            Ok(approval) => approval.state == ApprovalState::Pending,
            Err(StoreError::Missing { .. }) => false,
            Err(error) => return Err(error),
        };
        if !is_open {
            return Ok(true);
        }
    }
    let calls = agent.store.client_calls(&run.id).await?;
    Ok(calls.iter().any(|call| call.result.is_some() && detail.client_calls.contains(&call.id)))
}

/// Begins a run with one message, or several.
async fn begin(
    agent: &Arc<Inner>,
    runs: Vec<AgentRun>,
    left_out: Vec<AgentRun>,
    mut session: Session,
) -> Result<Duration, StoreError> {
    let store = &agent.store;
    let Some(first) = runs.first().cloned() else { return Ok(Duration::ZERO) };
    let request = Request::parse(&first.request).unwrap_or_default();
    let _slot = tokio::select! {
        slot = agent.slots.take(request.priority) => slot,
        () = agent.closing.cancelled() => return Ok(Duration::ZERO),
    };
    // The slot may have come late, and another run may be due by now.
    let open = store.open_runs(&first.user, &first.session_key).await?;
    if open.first().is_none_or(|due| due.id != first.id) {
        return Ok(Duration::ZERO);
    }
    let own = agent.leases.hold().await?;
    // Neither the time in the queue counts nor the time that the run before it took.
    let freshness = freshness(agent.runtime.config());
    let stale = freshness.stale(&session, first.created_at).filter(|_| !request.was_queued);
    // A session without entries is as good as new: the process before this one died when it had made it.
    let is_jobs = request.cron.as_ref().is_some_and(|cron| cron.begins_anew) && session.entries > 0;
    if let Some(reason) = stale.map(|stale| stale.as_str()).or(is_jobs.then_some("cron")) {
        let now = SessionCommit { now: store.now(), ..SessionCommit::default() };
        let fence = match store.claim_session(&session.id, session.fence, &own, now).await {
            Ok(fence) => fence,
            Err(StoreError::SessionFenced { .. }) => return Ok(Duration::ZERO),
            Err(error) => return Err(error),
        };
        let hooks = SessionHooks::new(agent, &session);
        hooks.before_reset(agent, reason).await;
        session = store.reset_session(&session.id, fence, new_session_id(), reason, store.now()).await?;
        hooks.ended(agent, reason, Some(&session.id));
    }
    let now = store.now();
    let feed = Arc::new(Feed::new(first.id.clone(), first.session_key.clone(), first.generation + 1, first.last_event));
    let prepared = feed.prepare(vec![Happening::lifecycle(started(agent, &request, &session, now))], now);
    let mut entries = Vec::new();
    if !left_out.is_empty() {
        let hooks =
            RunHooks::new(agent, &first.user, &first.session_key, &request).of_run(&first.id).in_session(&session.id);
        let text = left_out_text(&left_out, &hooks).await;
        entries.push(entry(&first.id, EntryKind::CustomMessage, left_out_body(&text), now));
    }
    for run in &runs {
        let request = Request::parse(&run.request).unwrap_or_default();
        let hooks = RunHooks::new(agent, &run.user, &run.session_key, &request).of_run(&run.id).in_session(&session.id);
        if let Some(instructions) = &request.compact {
            let instructions = hooks.written_text(Author::User, instructions.clone()).await;
            entries.push(note(&run.id, "pincer.compact", &json!({ "instructions": instructions }), now));
            continue;
        }
        let message = hooks.written(record::user(&request, run.created_at)).await;
        entries.push(entry(&run.id, EntryKind::Message, message.to_body(), now));
    }
    if let Some(first) = entries.first_mut() {
        first.events = Some(Arc::clone(&prepared.stored));
    }
    let lead = RunChange {
        generation: Some(first.generation + 1),
        last_event: Some(prepared.last),
        ..RunChange::new(first.id.clone(), AgentRunState::Running)
    };
    let merged = |run: &AgentRun, state| RunChange {
        merged_into: Some(first.id.clone()),
        ..RunChange::new(run.id.clone(), state)
    };
    let others = runs.iter().skip(1).map(|run| merged(run, AgentRunState::Merged));
    let told = left_out.iter().map(|run| merged(run, AgentRunState::Summarized));
    let commit = SessionCommit {
        entries,
        runs: std::iter::once(lead).chain(others).chain(told).collect(),
        totals: Totals { runs: 1, ..Totals::default() },
        interacted_at: runs.iter().map(|run| run.created_at).max(),
        now,
        ..SessionCommit::default()
    };
    let fence = match store.claim_session(&session.id, session.fence, &own, commit).await {
        Ok(fence) => fence,
        // Another process was faster.
        Err(StoreError::SessionFenced { .. } | StoreError::Missing { .. }) => return Ok(Duration::ZERO),
        Err(error) => return Err(error),
    };
    feed.committed(prepared);
    if session.totals.runs == 0 {
        SessionHooks::new(agent, &session).started(agent);
    }
    // An interrupt that was accepted just before did not see this run begin.
    if store.open_runs(&first.user, &first.session_key).await?.iter().any(is_interrupt) {
        agent.ask_to_stop(&first).await?;
    }
    let run = store.agent_run(&first.id).await?;
    let lane = lane(agent, &session, fence, &run, feed);
    Ok(Box::pin(work(agent, run, request, lane, session, false)).await)
}

/// Returns a session in the hands of a run.
fn lane(agent: &Inner, session: &Session, fence: Fence, run: &AgentRun, feed: Arc<Feed>) -> Lane {
    let (store, trouble) = (Arc::clone(&agent.store), agent.trouble.clone());
    Lane { store, session: session.id.clone(), fence, run: run.id.clone(), feed, frame: FrameSlot::default(), trouble }
}

/// Returns what is told when a run begins: its settings, each by its own word, its session's, its agent's, or that for all.
fn started(agent: &Inner, request: &Request, session: &Session, now: Millis) -> Value {
    let settings = SessionSettings::parse(&session.settings);
    let id = request.agent.as_deref().or(session.agent.as_deref());
    let model = request.model.clone().or(settings.model).or_else(|| agent.models.names(id).into_iter().next());
    let thinking = request.thinking.or(settings.thinking).unwrap_or_else(|| agent.models.thinking(id));
    let verbose = request.verbose.or(settings.verbose).unwrap_or_else(|| verbose(agent.runtime.config(), id));
    json!({
        "phase": "start",
        "startedAt": now,
        "model": model,
        "thinking": thinking.name(),
        "verbose": verbose,
        "trace": request.trace.or(settings.trace).unwrap_or_default(),
    })
}

/// Goes on with a run that waits and can go on, or whose process is gone.
async fn go_on(agent: &Arc<Inner>, run: AgentRun, session: Session) -> Result<Duration, StoreError> {
    let request = Request::parse(&run.request).unwrap_or_default();
    let wake = agent.wake(&run.user, &run.session_key);
    let mut slot = std::pin::pin!(agent.slots.take(request.priority));
    let mut is_stopped = run.is_stopped;
    // A run that is to stop needs no slot for that.
    let _slot = loop {
        if is_stopped {
            break None;
        }
        tokio::select! {
            slot = &mut slot => break Some(slot),
            () = wake.notified() => is_stopped = agent.store.agent_run(&run.id).await?.is_stopped,
            () = agent.closing.cancelled() => return Ok(Duration::ZERO),
        }
    };
    let was_waiting = run.state == AgentRunState::Waiting;
    let Some((run, lane)) = taken(agent, run, &session).await? else { return Ok(Duration::ZERO) };
    Ok(Box::pin(work(agent, run, request, lane, session, !was_waiting)).await)
}

/// Takes a run that has begun. Returns nothing if another process was faster.
async fn taken(agent: &Arc<Inner>, run: AgentRun, session: &Session) -> Result<Option<(AgentRun, Lane)>, StoreError> {
    let store = &agent.store;
    let own = agent.leases.hold().await?;
    let (was_waiting, now) = (run.state == AgentRunState::Waiting, store.now());
    let generation = run.generation + 1;
    let feed = Arc::new(Feed::new(run.id.clone(), run.session_key.clone(), generation, run.last_event));
    let mut detail = Detail::parse(run.detail.as_deref());
    let (happenings, data) = resumed(agent, &detail, was_waiting).await?;
    // The time in which no process worked on it does not count: it began with the last thing that was stored.
    let since = detail.waiting_since.take().unwrap_or(session.updated_at);
    detail.paused_ms += (now - since).max(0);
    let prepared = feed.prepare(happenings, now);
    let kind = if was_waiting { "pincer.resumed" } else { "pincer.taken-over" };
    let mut entry = note(&run.id, kind, &data, now);
    entry.events = Some(Arc::clone(&prepared.stored));
    let change = RunChange {
        generation: Some(generation),
        last_event: Some(prepared.last),
        detail: Some(detail.to_json().into()),
        ..RunChange::new(run.id.clone(), AgentRunState::Running)
    };
    let interacted_at = was_waiting.then_some(now);
    let commit =
        SessionCommit { entries: vec![entry], runs: vec![change], interacted_at, now, ..SessionCommit::default() };
    let fence = match store.claim_session(&session.id, session.fence, &own, commit).await {
        Ok(fence) => fence,
        Err(StoreError::SessionFenced { .. } | StoreError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    feed.committed(prepared);
    let run = store.agent_run(&run.id).await?;
    let lane = lane(agent, session, fence, &run, feed);
    Ok(Some((run, lane)))
}

/// Returns what is told when a run goes on.
async fn resumed(agent: &Inner, detail: &Detail, was_waiting: bool) -> Result<(Vec<Happening>, Value), StoreError> {
    if !was_waiting {
        let data = json!({ "phase": "taken-over" });
        return Ok((vec![Happening::lifecycle(data.clone()), nothing_said(Void::TakenOver)], data));
    }
    let (mut happenings, mut answers) = (Vec::new(), Vec::new());
    for id in &detail.approvals {
        let Ok(approval) = agent.store.approval(id).await else { continue };
        if approval.state == ApprovalState::Pending {
            continue;
        }
        let status = approval.state.as_str();
        let data =
            json!({ "phase": "resolved", "kind": "tool", "status": status, "approvalId": id, "tool": approval.tool });
        happenings.push(Happening::new(Stream::Approval, data));
        answers.push(json!({ "approvalId": id, "tool": approval.tool, "status": status, "by": approval.decided_by }));
    }
    let phase = if detail.approvals.is_empty() { "client-resolved" } else { "approval-resolved" };
    happenings.push(Happening::lifecycle(json!({ "phase": phase, "approvals": detail.approvals })));
    Ok((happenings, json!({ "phase": phase, "answers": answers })))
}

/// Takes from some runs those whose messages were left out and may be told in a run with this request.
pub(crate) fn left_out_of(runs: &mut Vec<AgentRun>, request: &Request) -> Vec<AgentRun> {
    let may_be_told = |run: &mut AgentRun| {
        run.state == AgentRunState::Summarized
            && Request::parse(&run.request).is_ok_and(|left_out| request.may_be_joined_by(&left_out))
    };
    runs.extract_if(.., may_be_told).collect()
}

/// Returns a message that tells of those that were left out.
pub(crate) async fn left_out_text(left_out: &[AgentRun], hooks: &RunHooks) -> String {
    let mut lines = vec![LEFT_OUT.to_owned()];
    for run in left_out {
        let request = Request::parse(&run.request).unwrap_or_default().brief();
        let message = hooks.written(record::user(&request, run.created_at)).await;
        lines.push(format!("- {}", message.text().replace('\n', " ")));
    }
    lines.join("\n")
}

/// Returns the body of an entry with such a message.
pub(crate) fn left_out_body(text: &str) -> String {
    json!({ "customType": "pincer.left-out", "content": text, "display": true }).to_string()
}
