//! The tool `cron`: an agent makes jobs for its user, looks at them and changes them.
//!
//! A job has no more rights than the run that makes it: the same user, agent, channel and sender, and the model that this run was told
//! to ask. A run sees the jobs of its own sender, or all of its user if it has none. If it changes what a job says, the job has the rights
//! of that run from then on: the text of a job is what an agent with the rights of the job will be told to do.
//!
//! The session of a job decides whether it is sandboxed, and what it remembers. So the message of a job that runs in a session is changed in
//! that session alone, and a sandboxed run sees no jobs but those that were made in its session.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use pincer_catalog::{Entry, Flags, IdError, Source, ToolId};
use pincer_store::{
    AgentRuns, CronAfter, CronBegun, CronChange, CronDefinition, CronJob, CronJobs, CronMissed, CronPage, Route,
    SessionKey, Sessions,
};
use pincer_tools::{Context, FnTool, ToolCall, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::document::{cron_job_document, cron_run_document};
use super::jobs::{
    JobMaker, JobSession, JobWish, When, add_cron_job, check_job, clock_of, next_of, set_cron_job_enabled,
};
use super::{cron_now, in_words};
use crate::error::AgentError;
use crate::inner::Inner;
use crate::outcome::MAIN;
use crate::request::Request;
use crate::settings::SessionSettings;

const DESCRIPTION: &str = "Make an agent run later, or again and again: add, list, show, update, remove and run jobs of the schedule, and \
                           read what their runs came to. A job sends its message to an agent like you, with the tools that you have. \
                           In a session of its own it remembers nothing of this conversation, so say everything in the message. \
                           If this conversation is on a channel, the answers of the job are sent to it.";
/// Said of a run that another process has to begin.
const LATER: &str = "it begins as soon as a process runs jobs: `pincer channels start`, or `pincer cron run --due`";
/// The number of jobs or runs that are listed if the call does not say.
const USUAL_LIMIT: u32 = 20;
/// The most jobs that are looked at for a list.
const MOST_LISTED: u32 = 1000;

/// Gives the agents of a runtime the tool, if the built-in tools are there and the schedule is on.
pub(crate) fn add_tool(agent: &Arc<Inner>) {
    if !agent.runtime.has_built_in() || !agent.runtime.config().cron.enabled {
        return;
    }
    let weak = Arc::downgrade(agent);
    let tool = FnTool(move |call: ToolCall| called(Weak::clone(&weak), call));
    let added = entry().map_err(|error| error.to_string()).and_then(|entry| {
        // Another agent of this runtime may have added it.
        agent.runtime.door().add_tool(entry, Arc::new(tool)).map_err(|error| error.to_string())
    });
    if let Err(error) = added {
        tracing::warn!("agents do not have the tool `cron`: {error}");
    }
}

fn entry() -> Result<Entry, IdError> {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let schema = json!({
        "type": "object",
        "properties": {
            "action": { "type": "string", "enum": ["add", "list", "show", "update", "remove", "run", "runs"] },
            "job": text("The name or id of a job, for all actions but add and list."),
            "name": text("The name of the job, for add; a new one, for update."),
            "at": text("Run once: 2026-01-31T09:00, 2026-01-31T09:00+01:00, or a time from now such as 20m."),
            "every": text("Run again and again, with this time in between: 90s, 10m, 1h30m, 2d."),
            "cron": text("Run by a cron expression of five fields, such as 0 9 * * 1-5."),
            "tz": text("The time zone of at and cron, such as Europe/Berlin. The system's if absent."),
            "message": text("The message that the agent gets when the job runs."),
            "session": {
                "type": "string",
                "enum": ["isolated", "this"],
                "description": "isolated (if absent): a session of its own that begins anew with each run; this: the session of this conversation."
            },
            "timeoutSeconds": { "type": "integer", "minimum": 1, "description": "The longest that a run may take." },
            "missed": {
                "type": "string",
                "enum": ["run", "skip"],
                "description": "The rule for times at which no process ran jobs: run once, late, or skip."
            },
            "deleteAfterRun": { "type": "boolean", "description": "Remove the job when it has run for the last time." },
            "enabled": { "type": "boolean", "description": "Turn the job on or off, for update." },
            "limit": { "type": "integer", "minimum": 1, "maximum": 200, "description": "How many jobs or runs are listed. 20 if absent." }
        },
        "required": ["action"],
        "additionalProperties": false
    });
    let mut entry = Entry::new(ToolId::new(Source::Openclaw, "core", "cron")?, DESCRIPTION);
    entry.label = Some("Schedule".into());
    entry.input_schema = schema;
    entry.flags = Flags { trusted: true, ..Flags::default() };
    Ok(entry)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    action: Action,
    job: Option<String>,
    name: Option<String>,
    at: Option<String>,
    every: Option<String>,
    cron: Option<String>,
    tz: Option<String>,
    message: Option<String>,
    session: Option<Where>,
    timeout_seconds: Option<u64>,
    missed: Option<Missed>,
    delete_after_run: Option<bool>,
    enabled: Option<bool>,
    limit: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Add,
    List,
    Show,
    Update,
    Remove,
    Run,
    Runs,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    Isolated,
    This,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Missed {
    Run,
    Skip,
}

impl From<Missed> for CronMissed {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::Run => Self::Run,
            Missed::Skip => Self::Skip,
        }
    }
}

/// The rights of the run that calls.
struct Caller {
    user: String,
    session: SessionKey,
    run: pincer_store::AgentRunId,
    agent: String,
    model: Option<String>,
    channel: Option<String>,
    sender: Option<String>,
    route: Option<Route>,
    is_sandboxed: bool,
}

impl Caller {
    async fn of(agent: &Inner, context: &Context) -> Result<Self, ToolError> {
        let id =
            context.agent_run.as_ref().ok_or_else(|| ToolError::before("only a run of an agent has the schedule"))?;
        let run = agent.store.agent_run(id).await.map_err(failed)?;
        let request = Request::parse(&run.request).unwrap_or_default();
        let session = agent.store.session(&run.session).await.map_err(failed)?;
        let settings = SessionSettings::parse(&session.settings);
        Ok(Self {
            user: run.user,
            session: run.session_key,
            run: run.id,
            // Without a name it would be that of the session in which the job runs.
            agent: request.agent.or(session.agent).unwrap_or_else(|| MAIN.to_owned()),
            model: request.model.or(settings.model),
            channel: request.channel,
            sender: request.sender,
            route: request.route,
            is_sandboxed: context.sandboxed,
        })
    }

    fn sees(&self, job: &CronJob) -> bool {
        let definition = &job.definition;
        // The operator's messages come by a channel too: the command line.
        let is_operator = self.sender.is_none();
        let is_of_sender = (&definition.channel, &definition.sender) == (&self.channel, &self.sender);
        job.user == self.user && (is_operator || is_of_sender) && (!self.is_sandboxed || self.has_made(definition))
    }

    /// Returns whether the message of a job comes from this session and this agent, and runs with no other rights.
    fn has_made(&self, definition: &CronDefinition) -> bool {
        definition.author.as_ref() == Some(&self.session)
            && definition.session.as_ref().is_none_or(|key| *key == self.session)
            && definition.agent.as_deref().unwrap_or(MAIN) == self.agent
    }

    /// Returns the place of a job's answers when this run changes what the job says: the same one, if this run may send there too.
    fn route_for(&self, agent: &Inner, definition: &CronDefinition) -> Option<Route> {
        let may_send = |route: &&Route| {
            let channel = agent.runtime.config().channels.get(&route.channel);
            channel.is_some_and(|channel| channel.enabled && channel.may_send_to(&route.to))
        };
        definition.route.as_ref().filter(may_send).or(self.route.as_ref()).cloned()
    }
}

fn failed(error: impl Into<AgentError>) -> ToolError {
    ToolError::before(error.into().to_string())
}

async fn called(agent: Weak<Inner>, call: ToolCall) -> Result<Value, ToolError> {
    let agent = agent.upgrade().ok_or_else(|| ToolError::before("the agent has ended"))?;
    let input: Input = serde_json::from_value(call.input)
        .map_err(|error| ToolError::before(format!("the input cannot be used: {error}")))?;
    let caller = Caller::of(&agent, &call.context).await?;
    match input.action {
        Action::Add => add(&agent, caller, input).await,
        Action::List => list(&agent, &caller, &input).await,
        Action::Show => {
            let job = named(&agent, &caller, &input).await?;
            Ok(document(&agent, &job))
        }
        Action::Update => update(&agent, &caller, input).await,
        Action::Remove => {
            let job = named(&agent, &caller, &input).await?;
            agent.store.remove_cron_job(&job.id).await.map_err(failed)?;
            agent.tell_cron_changed();
            Ok(json!({ "removed": job.definition.name, "id": job.id }))
        }
        Action::Run => run(&agent, &caller, &input).await,
        Action::Runs => {
            let job = named(&agent, &caller, &input).await?;
            let runs =
                agent.store.cron_runs(&job.id, None, input.limit.unwrap_or(USUAL_LIMIT)).await.map_err(failed)?;
            Ok(json!({ "job": job.definition.name, "runs": runs.iter().map(cron_run_document).collect::<Vec<_>>() }))
        }
    }
}

fn document(agent: &Inner, job: &CronJob) -> Value {
    let mut document = cron_job_document(job, cron_now(&agent.store));
    document["when"] = in_words(&job.definition.schedule).into();
    document
}

/// Returns the job that a call names. One that the caller does not see is not there.
async fn named(agent: &Inner, caller: &Caller, input: &Input) -> Result<CronJob, ToolError> {
    let name = input.job.as_deref().or(input.name.as_deref().filter(|_| !matches!(input.action, Action::Update)));
    let name =
        name.ok_or_else(|| ToolError::before("`job` is missing: the name or id of a job, as `list` shows it"))?;
    match agent.store.cron_job_named(&caller.user, name).await {
        Ok(job) if caller.sees(&job) => Ok(job),
        Ok(_) => Err(failed(pincer_store::StoreError::no_cron_job(name))),
        Err(error) => Err(failed(error)),
    }
}

/// Returns when a call wants a job to run, if it says so.
fn when(input: &Input) -> Result<Option<When>, ToolError> {
    match (&input.at, &input.every, &input.cron) {
        (None, None, None) => Ok(None),
        (Some(at), None, None) => Ok(Some(When::At(at.clone()))),
        (None, Some(every), None) => Ok(Some(When::Every(every.clone()))),
        (None, None, Some(cron)) => Ok(Some(When::Cron(cron.clone()))),
        _ => Err(ToolError::before("give one of `at`, `every` and `cron`, not several")),
    }
}

async fn add(agent: &Arc<Inner>, caller: Caller, input: Input) -> Result<Value, ToolError> {
    let when = when(&input)?.ok_or_else(|| ToolError::before("give one of `at`, `every` and `cron`"))?;
    let missing = |what: &str| ToolError::before(format!("`{what}` is missing"));
    let wish = JobWish {
        name: input.name.or(input.job).ok_or_else(|| missing("name"))?,
        message: input.message.ok_or_else(|| missing("message"))?,
        when,
        zone: input.tz,
        session: match input.session {
            Some(Where::This) => JobSession::Named(caller.session.clone()),
            Some(Where::Isolated) | None => JobSession::Isolated,
        },
        made_by: Some(JobMaker { run: caller.run, session: caller.session }),
        user: caller.user,
        agent: Some(caller.agent),
        model: caller.model,
        timeout_seconds: input.timeout_seconds,
        channel: caller.channel,
        sender: caller.sender,
        route: caller.route,
        missed: input.missed.map(Into::into),
        after: if input.delete_after_run == Some(true) { CronAfter::Remove } else { CronAfter::Keep },
    };
    let job = add_cron_job(&agent.store, wish).await.map_err(failed)?;
    agent.tell_cron_changed();
    Ok(document(agent, &job))
}

async fn list(agent: &Inner, caller: &Caller, input: &Input) -> Result<Value, ToolError> {
    let page = CronPage { user: Some(caller.user.clone()), after: None, limit: MOST_LISTED };
    let jobs = agent.store.cron_jobs(page).await.map_err(failed)?;
    let seen: Vec<&CronJob> = jobs.iter().filter(|job| caller.sees(job)).collect();
    let shown = seen.iter().take(input.limit.unwrap_or(USUAL_LIMIT) as usize).map(|job| document(agent, job));
    Ok(json!({ "jobs": shown.collect::<Vec<_>>(), "total": seen.len() }))
}

async fn update(agent: &Arc<Inner>, caller: &Caller, input: Input) -> Result<Value, ToolError> {
    let mut job = named(agent, caller, &input).await?;
    let mut definition = job.definition.clone();
    let now = cron_now(&agent.store);
    if let Some(when) = when(&input)? {
        let schedule = when.schedule(input.tz.as_deref(), now.wall).map_err(failed)?;
        (definition.schedule, definition.clock) = (schedule.to_json().into(), clock_of(&schedule));
    } else if input.tz.is_some() {
        return Err(ToolError::before("`tz` belongs to `at` or `cron`: give that too"));
    }
    if let Some(name) = input.name {
        definition.name = name;
    }
    if let Some(message) = input.message {
        definition.message = message.into();
    }
    if let (None, Some(key)) = (input.session, &job.definition.session)
        && definition.message != job.definition.message
        && *key != caller.session
    {
        return Err(ToolError::before(format!(
            "the job runs in the session {key}: change its message in there, or give `session` too, so that it runs elsewhere from now on"
        )));
    }
    match input.session {
        Some(Where::This) => definition.session = Some(caller.session.clone()),
        Some(Where::Isolated) => definition.session = None,
        None => {}
    }
    if definition.message != job.definition.message || definition.session != job.definition.session {
        definition.route = caller.route_for(agent, &job.definition);
        (definition.agent, definition.model) = (Some(caller.agent.clone()), caller.model.clone());
        (definition.channel, definition.sender) = (caller.channel.clone(), caller.sender.clone());
        definition.author = Some(caller.session.clone());
    }
    definition.timeout_seconds = input.timeout_seconds.or(definition.timeout_seconds);
    definition.missed = input.missed.map(Into::into).or(definition.missed);
    match input.delete_after_run {
        Some(true) => definition.after = CronAfter::Remove,
        Some(false) => definition.after = CronAfter::Keep,
        None => {}
    }
    check_job(&definition.name, &definition.message, definition.session.as_ref()).map_err(failed)?;
    let is_enabled = input.enabled.unwrap_or(job.is_enabled);
    if definition != job.definition {
        // Only another schedule means another time.
        let next_at = match definition.schedule == job.definition.schedule {
            true => job.next_at,
            false => Some(next_of(&agent.store, &job, &definition).map_err(failed)?),
        };
        let change = CronChange { seen: job.version, definition, is_enabled: job.is_enabled, next_at, now: now.store };
        job = agent.store.change_cron_job(&job.id, change).await.map_err(failed)?;
    }
    let job = set_cron_job_enabled(&agent.store, &job, is_enabled).await.map_err(failed)?;
    agent.tell_cron_changed();
    Ok(document(agent, &job))
}

async fn run(agent: &Arc<Inner>, caller: &Caller, input: &Input) -> Result<Value, ToolError> {
    let job = named(agent, caller, input).await?;
    match agent.begin_cron(&job, None).await.map_err(failed)? {
        CronBegun::Begun(run) => {
            let mut told = json!({ "job": job.definition.name, "runId": run.id, "session": run.session_key });
            // A process that ends with a run of its own would tear this one off.
            match agent.ends_with_its_own.load(Ordering::SeqCst) {
                true => told["note"] = LATER.into(),
                false => agent.work_on_cron(&run),
            }
            agent.tell_cron_changed();
            Ok(told)
        }
        CronBegun::Busy(run) => Err(ToolError::before(format!("the job is running already ({run}): wait for its end"))),
        CronBegun::Full => Err(ToolError::before("the queue of the job's session is full")),
        CronBegun::Gone => Err(ToolError::before("the job was changed or removed meanwhile: look at it again")),
    }
}
