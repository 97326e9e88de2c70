//! Works on a run that this process has claimed: reads what is stored of it, finds its model and tools, and lets it go on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use pincer_model::{Level, Plan};
use pincer_runtime::{Audience, Principal, Scope, ScopeRequest};
use pincer_sessions::{Custom, NestedCall};
use pincer_store::{
    AgentRun, AgentRunId, AgentRunState, Clock, Entry, EntryKind, EntryPage, Instructions, Session, SessionKey,
    Sessions, StoreError,
};
use pincer_tool_search::Mode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::claimed::{Claimed, Left, StopReason, StopSign, TurnState};
use crate::client;
use crate::compaction::settings::Settings;
use crate::delivering::bare_answer;
use crate::detail::Detail;
use crate::driver::TRY_AGAIN;
use crate::error::AgentError;
use crate::hooks::{self, Beginning, RunHooks};
use crate::inner::Inner;
use crate::lane::{Lane, Lost, Step};
use crate::outcome::{Payload, RunOutcome, Status, Summary};
use crate::prompt::{Bootstrap, Circumstances, Ingredients, Prompt, Reads, RunSkills, assemble, read};
use crate::replies::Telling;
use crate::request::{PromptMode, Request};
use crate::settings::{SessionSettings, reasoning, run_timeout, verbose};
use crate::spoken::{Spoken, prompt, spoken};
use crate::surface::{SEARCHING, Searching, Surface};
use crate::telemetry::Exposed;
use crate::tool_search::Likely;
use crate::transcript::Transcript;
use crate::turn::Turn;

/// The time that a run has to end by itself when it has taken too long. Then its work here is given up, whatever it waits for, and its end
/// is stored under a new fence.
const CLEANUP: Duration = Duration::from_secs(10);

/// Works on a run that this process has claimed. Returns how soon the session is looked at again.
pub(crate) async fn work(
    agent: &Arc<Inner>,
    run: AgentRun,
    request: Request,
    lane: Lane,
    session: Session,
    is_recovered: bool,
) -> Duration {
    let request = Request { agent: request.agent.or_else(|| session.agent.clone()), ..request };
    let stop = StopSign::default();
    if run.is_stopped {
        stop.stop(StopReason::Asked);
    }
    let _live = agent.live(&run.id, &lane.feed, &stop);
    let state = match state(agent, &run, &session, is_recovered).await {
        Ok(state) => state,
        Err(error) => return failed(&run, &request, &lane, &error, agent).await,
    };
    let limit = run_timeout(agent.runtime.config(), request.agent.as_deref(), request.timeout_seconds);
    let spent = run.started_at.map_or(0, |at| lane.store.now() - at - state.detail.paused_ms);
    let left = limit.saturating_sub(Duration::from_millis(u64::try_from(spent).unwrap_or(0)));
    let (agent, state) = (Arc::clone(agent), Mutex::new(state));
    let hooks = RunHooks::new(&agent, &run.user, &run.session_key, &request).of_run(&run.id).in_session(&session.id);
    let claimed = Claimed { agent, run, request, lane, stop: stop.clone(), hooks, is_recovered, state };
    let closing = claimed.agent.closing.clone();
    let id = claimed.run.id.clone();
    let left_as = tokio::select! {
        biased;
        left_as = went_on(claimed, &session, left) => left_as,
        () = closing.cancelled() => {
            stop.stop(StopReason::Lost);
            Left::Lost
        }
        () = async {
            tokio::time::sleep(left).await;
            stop.stop(StopReason::TimedOut);
            tokio::time::sleep(CLEANUP).await;
            tracing::warn!(run = %id, "the run does not end by itself after its timeout, and its work is given up");
        } => Left::Lost,
    };
    match left_as {
        Left::Ended | Left::Waiting => Duration::ZERO,
        Left::Lost => TRY_AGAIN,
    }
}

/// Prepares a run and lets it go on. One that is to stop needs no preparation.
async fn went_on(claimed: Claimed, session: &Session, left: Duration) -> Left {
    let prepared = tokio::select! {
        biased;
        () = claimed.stop.token.cancelled() => None,
        prepared = begun(&claimed, session) => Some(prepared),
    };
    match prepared {
        None => match claimed.stopped(None).await {
            Ok(left) => left,
            Err(Lost::Refused(error)) => give_up(&claimed, &error.into()).await,
            Err(Lost::Fenced(_) | Lost::Unstored(_)) => Left::Lost,
        },
        Some(Ok(Begun::Answered(ended))) => match ended {
            Ok(()) => Left::Ended,
            Err(Lost::Refused(error)) => give_up(&claimed, &error.into()).await,
            Err(Lost::Fenced(_) | Lost::Unstored(_)) => Left::Lost,
        },
        Some(Ok(Begun::Prepared(prepared))) => {
            let Prepared { scope, surface, mut plan, thinking, prompt, exposed, listed, shown, begins } = *prepared;
            {
                let mut state = claimed.state();
                (state.exposed, state.begins) = (exposed, begins);
            }
            if listed.is_some() || shown.is_some() {
                // Before the model sees them, so that no later request of the session has others.
                let step = Step { skills: listed, shown_tools: shown, ..Step::default() };
                match claimed.lane.commit(step, &claimed.stop.token).await {
                    Ok(_) => {}
                    Err(Lost::Refused(error)) => return give_up(&claimed, &error.into()).await,
                    Err(Lost::Fenced(_) | Lost::Unstored(_)) => return Left::Lost,
                }
            }
            // One beyond what a clock can tell is none.
            plan.deadline = Instant::now().checked_add(left);
            let agent_id = claimed.request.agent.as_deref().or(session.agent.as_deref());
            let compaction = Settings::of(claimed.agent.runtime.config(), agent_id);
            plan.keeps_model_on_overflow = compaction.is_enabled;
            let around = OnceLock::new();
            Turn { claimed, scope, surface, plan, thinking, prompt, compaction, around }.work().await
        }
        Some(Err(error)) => give_up(&claimed, &error).await,
    }
}

/// Ends a run that cannot go on.
async fn give_up(claimed: &Claimed, error: &AgentError) -> Left {
    let Claimed { run, request, lane, agent, .. } = claimed;
    match failed(run, request, lane, error, agent).await.is_zero() {
        true => Left::Ended,
        false => Left::Lost,
    }
}

/// Ends a run that cannot begin or go on, unless it is the store that is busy. Returns how soon the session is looked at again.
async fn failed(run: &AgentRun, request: &Request, lane: &Lane, error: &AgentError, agent: &Inner) -> Duration {
    if let AgentError::Store(busy) = error
        && busy.is_busy()
    {
        tracing::warn!(run = %run.id, "the run cannot go on yet and is tried again: {busy}");
        return TRY_AGAIN;
    }
    match fail(run, request, lane, error, agent).await {
        Ok(()) => Duration::ZERO,
        Err(_) => TRY_AGAIN,
    }
}

/// Reads what is stored of a run.
async fn state(agent: &Inner, run: &AgentRun, session: &Session, is_recovered: bool) -> Result<TurnState, AgentError> {
    let entries = agent.store.context(&session.id).await?;
    let transcript = Transcript::read(&entries).map_err(AgentError::Command)?;
    // A compaction within the run has cut off what it said before.
    let is_cut = run.first_entry.zip(entries.first()).is_some_and(|(first, entry)| first < entry.position);
    let all = if is_cut { own_entries(agent, run, session).await? } else { entries };
    let is_own = |entry: &&Entry| entry.run.as_ref() == Some(&run.id);
    let telling = telling(agent, run, session);
    let Spoken { said, reply_from, failure } = spoken(&all, run, telling.verbose);
    let prompt = prompt(&all, run);
    let has_gone_on = is_recovered || run.detail.is_some();
    let beginning = all.iter().filter(is_own).filter(|entry| entry.kind == EntryKind::Custom).find_map(|entry| {
        let note: Custom = serde_json::from_str(&entry.body).ok()?;
        (note.custom_type == hooks::NOTE).then(|| note.data?.to().ok()).flatten()
    });
    Ok(TurnState {
        transcript,
        said,
        reply_from,
        failure,
        telling,
        prompt,
        beginning,
        detail: Detail::parse(run.detail.as_deref()),
        nested: if has_gone_on { nested(agent, run, session).await? } else { HashSet::new() },
        ..TurnState::default()
    })
}

/// The way in which a run has begun in this process.
enum Begun {
    /// The run goes on with a model.
    Prepared(Box<Prepared>),
    /// The run has ended: a hook has answered it, or refused it.
    Answered(Result<(), Lost>),
}

/// Asks the hooks about the beginning of a run, and prepares it.
async fn begun(claimed: &Claimed, session: &Session) -> Result<Begun, AgentError> {
    // The config may be another one than when the message was accepted.
    claimed.request.check_sender(claimed.agent.runtime.config())?;
    let is_first = claimed.state().detail.spent.model_calls == 0
        && claimed.state().said.is_empty()
        // There is no turn of the user to have a say in.
        && claimed.request.compact.is_none();
    let known = claimed.state().beginning.take();
    let prompt = claimed.state().prompt.clone();
    if is_first
        && known.is_none()
        && let Some(answer) = claimed.hooks.reply(&prompt).await
    {
        return Ok(Begun::Answered(claimed.answered_by_hook(answer.reply).await));
    }
    let beginning = match known {
        Some(known) => known,
        None if is_first && claimed.hooks.has_beginning() => {
            let messages = crate::hooks::messages(&claimed.state().transcript);
            let beginning = claimed.hooks.beginning(&claimed.request, &prompt, messages).await;
            if let Err(lost) = claimed.keep(&beginning).await {
                return Ok(Begun::Answered(Err(lost)));
            }
            beginning
        }
        None => Beginning::default(),
    };
    let run = &claimed.run;
    let of = Sender {
        user: &run.user,
        key: &run.session_key,
        session: Some(session),
        run: Some((&run.id, &claimed.stop.ends)),
        hooks: &claimed.hooks,
    };
    let prepared = prepared(&claimed.agent, &of, &claimed.request, &beginning).await?;
    if is_first {
        let conversation = || crate::hooks::messages(&claimed.state().transcript);
        if let Err(message) = claimed.hooks.may_run(&prompt, conversation, &prepared.prompt.texts()).await {
            return Ok(Begun::Answered(claimed.blocked(message).await));
        }
    }
    Ok(Begun::Prepared(Box::new(prepared)))
}

/// Returns how much of its calls and thoughts the user of a run is told.
fn telling(agent: &Inner, run: &AgentRun, session: &Session) -> Telling {
    let request = Request::parse(&run.request).unwrap_or_default();
    let (settings, config) = (SessionSettings::parse(&session.settings), agent.runtime.config());
    let id = request.agent.as_deref().or(session.agent.as_deref());
    Telling {
        verbose: request.verbose.or(settings.verbose).unwrap_or_else(|| verbose(config, id)),
        reasoning: request.reasoning.or(settings.reasoning).unwrap_or_else(|| reasoning(config, id)),
    }
}

/// The sender of a message, and the known facts of its session.
pub(crate) struct Sender<'a> {
    pub user: &'a str,
    pub key: &'a SessionKey,
    /// The session, if it is there yet.
    pub session: Option<&'a Session>,
    /// The run, and the sign that stops it. Without one, this is only a look.
    pub run: Option<(&'a AgentRunId, &'a CancellationToken)>,
    pub hooks: &'a RunHooks,
}

/// The model, the tools and the instructions of a run.
pub(crate) struct Prepared {
    pub scope: Scope,
    pub surface: Arc<Surface>,
    pub plan: Plan,
    pub thinking: Level,
    pub prompt: Prompt,
    /// The size of the tools and the instructions, if this is not only a look.
    pub exposed: Option<Exposed>,
    /// The list of skills, if the session is to keep it from now on.
    pub listed: Option<Arc<str>>,
    /// The tools that are shown besides, if the session is to keep them from now on.
    pub shown: Option<Arc<str>>,
    /// The workspace that has begun when the run completes.
    pub begins: Option<String>,
}

/// Finds the model, the tools and the instructions of a run. Servers may have to be started for that. Nothing is stored.
pub(crate) async fn prepared(
    agent: &Arc<Inner>,
    of: &Sender<'_>,
    request: &Request,
    beginning: &Beginning,
) -> Result<Prepared, AgentError> {
    let session = of.session;
    let settings = session.map(|session| SessionSettings::parse(&session.settings)).unwrap_or_default();
    let agent_id = request.agent.as_deref().or(session.and_then(|session| session.agent.as_deref()));
    agent.check_agent(agent_id)?;
    let named = beginning.model.as_ref().or(request.model.as_ref()).or(settings.model.as_ref());
    let mut plan = match named {
        Some(name) => {
            let mut plan = Plan::new(agent.models.target(name)?);
            // The fallbacks of the agent hold for a model of one's own choice too.
            if let Ok(usual) = agent.models.plan(agent_id) {
                plan.targets.extend(usual.targets.into_iter().skip(1));
                plan.idle = usual.idle;
            }
            plan
        }
        None => agent.models.plan(agent_id)?,
    };
    plan.session = session.map(|session| session.id.to_string());
    if request.cron.is_some() {
        plan.idle.is_scheduled = true;
        plan.idle.schedule = request.timeout_seconds.map(Duration::from_secs);
    }
    let thinking = request.thinking.or(settings.thinking).unwrap_or_else(|| agent.models.thinking(agent_id));
    let target = plan.targets.first();
    let principal = Principal::new(of.user).known_as(request.sender.clone());
    let principal = match &request.channel {
        // The channel vouches for its sender, also in a job of that one.
        Some(channel) if request.route.is_some() || request.heard_on().is_some() => principal.heard_on(channel),
        Some(channel) => principal.over(channel),
        None => principal,
    };
    let scope_request = ScopeRequest {
        audience: Audience::AgentRun,
        agent: agent_id.map(str::to_owned),
        provider: target.map(|target| target.provider.id.clone()),
        model: target.map(|target| target.model.id.clone()),
        tools_allow: beginning.prompt.tools_allow.clone(),
        ..ScopeRequest::new(principal, of.key.clone())
    };
    agent.runtime.know_servers(None).await;
    let mut scope = agent.runtime.scope(&scope_request)?;
    if let Some((run, ends)) = of.run {
        scope = scope.of_agent_run(run.clone()).ended_by(ends.clone());
    }
    let tools = agent.runtime.tools(&scope);
    let search = if request.disable_tools { None } else { agent.runtime.tool_search(&scope).await };
    for tool in &request.client_tools {
        if search.is_some() && SEARCHING.contains(&tool.name.as_str()) {
            let (name, id) = (tool.name.clone(), tool.name.clone());
            return Err(AgentError::TakenName { name, id });
        }
        if let Some(entry) = tools.catalog().iter().find(|entry| entry.id.name() == tool.name) {
            let (name, id) = (tool.name.clone(), entry.id.to_string());
            return Err(AgentError::TakenName { name, id });
        }
    }
    let mut skills = RunSkills::default();
    if request.prompt_mode == PromptMode::Full {
        skills = RunSkills::of(agent, &scope, session).await?;
        scope = skills.given_to(&agent.runtime, scope);
    }
    let scope = match request.client_tools.is_empty() {
        true => scope,
        false => agent.runtime.with_clients(scope, client::entries(&request.client_tools)?)?,
    };
    let mut likely = Likely::default();
    let surface = match &search {
        _ if request.disable_tools => Surface::none(),
        None => Surface::new(&agent.runtime, &scope, None),
        Some(settings) => {
            if settings.mode == Mode::Directory {
                let required = required(request, &skills);
                likely = Likely::of(agent, session, &agent.runtime.tools(&scope), &required, &request.message).await?;
            }
            let window = target.and_then(pincer_model::Target::context_window);
            Surface::new(&agent.runtime, &scope, Some(&Searching { settings, shown: &likely.shown, window }))
        }
    };
    let surface = Arc::new(surface);
    let bootstrap = of.hooks.bootstrap(bootstrap(agent, &scope, request.prompt_mode).await?).await;
    let model = target.map(|target| format!("{}/{}", target.provider.id, target.model.id));
    let circumstances = Circumstances::now(of.key.as_str(), request.channel.as_deref(), model);
    let instructions = |surface: &Surface| {
        let prompt = assemble(&Ingredients {
            mode: request.prompt_mode,
            surface,
            reads: Reads::of(&agent.runtime, &scope, surface),
            skills: &skills.listed,
            bootstrap: &bootstrap,
            extra: request.extra_system_prompt.as_deref(),
            circumstances: &circumstances,
        });
        prompt.with_hooks(&beginning.prompt)
    };
    let prompt = instructions(&surface);
    let tools = agent.runtime.tools(&scope);
    let weigh = |_| Exposed::new(&surface, &prompt, &tools, &agent.direct_weights, instructions);
    let exposed = of.run.map(weigh);
    let begins = bootstrap.begins;
    Ok(Prepared { scope, surface, plan, thinking, prompt, exposed, listed: skills.new, shown: likely.new, begins })
}

/// Returns the tools that a run cannot do without, as far as its instructions speak of them.
fn required(request: &Request, skills: &RunSkills) -> Vec<&'static str> {
    let message = request.channel.is_some().then_some("openclaw:core:message");
    let read = (!skills.listed.is_empty()).then_some("openclaw:core:read");
    message.into_iter().chain(read).collect()
}

/// Reads the bootstrap files of a scope.
async fn bootstrap(agent: &Arc<Inner>, scope: &Scope, mode: PromptMode) -> Result<Bootstrap, AgentError> {
    let (runtime, own) = (Arc::clone(&agent.runtime), scope.clone());
    let read = tokio::task::spawn_blocking(move || read(&runtime, &own, mode)).await;
    let mut bootstrap = read.unwrap_or_else(|error| {
        tracing::error!("the bootstrap files could not be read: {error}");
        Bootstrap::default()
    });
    if let Some(workspace) = &bootstrap.begins
        && agent.store.is_begun(workspace).await?
    {
        bootstrap.leave_out_first();
    }
    Ok(bootstrap)
}

async fn own_entries(agent: &Inner, run: &AgentRun, session: &Session) -> Result<Vec<Entry>, StoreError> {
    let after = run.first_entry.unwrap_or(1).saturating_sub(1);
    agent.store.entries(&session.id, EntryPage { after, limit: u32::MAX }).await
}

/// Returns the nested calls of a run that the transcript has.
async fn nested(agent: &Inner, run: &AgentRun, session: &Session) -> Result<HashSet<(String, u32)>, StoreError> {
    let entries = own_entries(agent, run, session).await?;
    let nested = entries.iter().filter(|entry| entry.kind == EntryKind::NestedCall).filter_map(|entry| {
        let call: NestedCall = serde_json::from_str(&entry.body).ok()?;
        Some((call.program, call.seq))
    });
    Ok(nested.collect())
}

/// Ends a run that cannot begin, or cannot go on.
pub(crate) async fn fail(
    run: &AgentRun,
    request: &Request,
    lane: &Lane,
    error: &AgentError,
    agent: &Inner,
) -> Result<(), Lost> {
    let programs = agent.programs(&run.id).await;
    let told = pincer_runtime::chain(error);
    let mut outcome = RunOutcome::bare(run, request.agent.clone(), Status::Error, Summary::Failed);
    outcome.error = Some(told.clone());
    // What it took before is in what is stored of it.
    outcome.result.telemetry.tools = Detail::parse(run.detail.as_deref()).tools.telemetry(None);
    outcome.result.payloads.push(Payload { text: told.clone(), is_error: true, ..Payload::default() });
    let now = lane.store.now();
    let deliveries = match error {
        // A sender without rights is told nothing.
        AgentError::NotTaken { .. } => Vec::new(),
        _ => bare_answer(agent.runtime.config(), &run.user, request, &outcome, now),
    };
    let step = Step {
        deliveries: deliveries.clone(),
        entries: vec![lane.note("pincer.error", &json!({ "message": told }))],
        happenings: vec![outcome.last_event(json!({ "phase": "error", "error": told, "endedAt": now }))],
        state: Some(AgentRunState::Failed),
        figures: outcome.figures(),
        result: Some(outcome.to_json().into()),
        release: true,
        synced: true,
        ..Step::default()
    };
    let mut stored = lane.commit(step, &agent.closing).await;
    if let Err(Lost::Refused(_)) = &stored {
        // The least that there is to say of it: its session must be free again.
        let (state, result) = (Some(AgentRunState::Failed), Some(outcome.to_json().into()));
        let step = Step { state, result, deliveries, release: true, synced: true, ..Step::default() };
        stored = lane.commit(step, &agent.closing).await;
    }
    match stored {
        Ok(_) => {
            let hooks =
                RunHooks::new(agent, &run.user, &run.session_key, request).of_run(&run.id).in_session(&lane.session);
            let duration = run.started_at.map_or(0, |at| u64::try_from(now - at).unwrap_or(0));
            hooks.tell_end(agent, &Transcript::default(), Some(told), duration);
            agent.end_programs(&programs).await;
        }
        Err(lost) => {
            tracing::warn!(run = %run.id, "the failure of the run could not be stored: {lost:?}");
            return Err(lost);
        }
    }
    Ok(())
}
