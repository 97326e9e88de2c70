//! `pincer cron`: jobs of the schedule.

pub(crate) mod run;
mod text;

use pincer_agent::{
    AgentError, JobSession, JobWish, When, add_cron_job, cron_job_document, cron_now, cron_run_document,
    set_cron_job_enabled,
};
use pincer_runtime::Principal;
use pincer_store::{CronAfter, CronJob, CronJobs, CronPage, StoreError};
use pincer_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::print::chain;
use crate::refused::{Refused, report};
use crate::usage::LocationArguments;
use crate::usage_cron::{AddArguments, CronArguments, CronCommand};
use crate::{FAILED, WRONG_USAGE, settings, state, tokio_runtime};

/// The number of runs that `show` prints.
const SHOWN_RUNS: u32 = 5;
/// The number of jobs that are read at a time.
const PAGE: u32 = 500;

pub(crate) fn run(locations: &LocationArguments, arguments: &CronArguments) -> u8 {
    let json = arguments.json;
    let user = arguments.user.clone().unwrap_or_else(|| Principal::of_this_process().user().to_owned());
    if let CronCommand::Run(wanted) = &arguments.command {
        return run::run(locations, &user, wanted, json);
    }
    let tokio = match tokio_runtime::small() {
        Ok(tokio) => tokio,
        Err(error) => return report(Err(Refused(FAILED, error.to_string())), json),
    };
    let told = state::open(locations)
        .map_err(|error| Refused(FAILED, chain(&error)))
        .and_then(|store| tokio.block_on(act(locations, &store, user, &arguments.command)));
    report(told, json)
}

async fn act(
    locations: &LocationArguments,
    store: &SqliteStore,
    user: String,
    command: &CronCommand,
) -> Result<(Value, String), Refused> {
    match command {
        CronCommand::Add(arguments) => add(locations, store, user, arguments).await,
        CronCommand::List { all_users, limit } => list(store, (!all_users).then_some(user), *limit).await,
        CronCommand::Show { job } => show(store, &named(store, &user, job).await?).await,
        CronCommand::Disable { job } => turn(store, &named(store, &user, job).await?, false).await,
        CronCommand::Enable { job } => turn(store, &named(store, &user, job).await?, true).await,
        CronCommand::Remove { job } => {
            let job = named(store, &user, job).await?;
            store.remove_cron_job(&job.id).await?;
            let told = format!("removed {}", text::name(&job));
            Ok((json!({ "removed": job.definition.name, "id": job.id }), text::with_running(told, &job)))
        }
        CronCommand::Runs { job, limit } => {
            let job = named(store, &user, job).await?;
            let runs = store.cron_runs(&job.id, None, *limit).await?;
            Ok((runs.iter().map(cron_run_document).collect(), text::runs(&job, &runs, cron_now(store))))
        }
        // It needs an agent.
        CronCommand::Run(_) => Err(Refused(WRONG_USAGE, "run needs an agent".into())),
    }
}

/// Returns the job that a person names.
async fn named(store: &SqliteStore, user: &str, name: &str) -> Result<CronJob, Refused> {
    store.cron_job_named(user, name).await.map_err(|error| match error {
        StoreError::Missing { .. } => {
            Refused(WRONG_USAGE, format!("{}: pincer cron list shows those that there are", chain(&error)))
        }
        error => error.into(),
    })
}

/// Returns what a failure means for the command.
fn refused(error: &AgentError) -> Refused {
    let code = match error {
        AgentError::Store(StoreError::Exists { .. })
        | AgentError::Schedule(_)
        | AgentError::Job { .. }
        | AgentError::Key { .. }
        | AgentError::NoAgent { .. } => WRONG_USAGE,
        _ => FAILED,
    };
    Refused(code, chain(error))
}

async fn add(
    locations: &LocationArguments,
    store: &SqliteStore,
    user: String,
    arguments: &AddArguments,
) -> Result<(Value, String), Refused> {
    let loaded = settings::read_only(locations).map_err(|error| Refused(WRONG_USAGE, chain(&error)))?;
    let config = &loaded.parsed.config;
    if let Some(id) = arguments.agent.as_deref().filter(|id| *id != "main" && config.agent(id).is_none()) {
        return Err(Refused(WRONG_USAGE, format!("there is no agent {id:?} in the config")));
    }
    if let Some(model) = arguments.model.as_deref().filter(|model| !model.contains('/')) {
        return Err(Refused(WRONG_USAGE, format!("{model:?} is no model: name it as PROVIDER/MODEL")));
    }
    let route = arguments.place.route();
    if let Some(route) =
        route.as_ref().filter(|to| !config.channels.get(&to.channel).is_some_and(|known| known.enabled))
    {
        let why = format!("there is no channel {} that is turned on: `pincer channels list` shows them", route.channel);
        return Err(Refused(WRONG_USAGE, why));
    }
    let when = match (&arguments.when.at, &arguments.when.every, &arguments.when.cron) {
        (Some(at), ..) => When::At(at.clone()),
        (_, Some(every), _) => When::Every(every.clone()),
        (.., cron) => When::Cron(cron.clone().unwrap_or_default()),
    };
    let wish = JobWish {
        user,
        name: arguments.name.clone(),
        when,
        zone: arguments.tz.clone(),
        message: arguments.message.clone(),
        session: match &arguments.session {
            Some(key) => JobSession::Named(key.as_str().into()),
            None => JobSession::Isolated,
        },
        agent: arguments.agent.clone(),
        model: arguments.model.clone(),
        timeout_seconds: arguments.timeout,
        channel: None,
        sender: None,
        route,
        missed: arguments.missed.map(Into::into),
        after: if arguments.delete_after_run { CronAfter::Remove } else { CronAfter::Keep },
        made_by: None,
    };
    let job = add_cron_job(store, wish).await.map_err(|error| refused(&error))?;
    let now = cron_now(store);
    let mut told = format!("added {} ({}): {}", text::name(&job), job.id, text::next(&job, now));
    if !config.cron.enabled {
        told.push_str("\n`cron.enabled` is false in the config: no job runs by itself");
    }
    Ok((cron_job_document(&job, now), told))
}

async fn list(store: &SqliteStore, user: Option<String>, limit: u32) -> Result<(Value, String), Refused> {
    let now = cron_now(store);
    let (mut documents, mut rows) = (Vec::new(), Vec::new());
    let mut after = None;
    let mut has_more = true;
    while has_more && documents.len() < limit as usize {
        let page = CronPage { user: user.clone(), after, limit: PAGE.min(limit - documents.len() as u32) + 1 };
        let wanted = page.limit as usize - 1;
        let jobs = store.cron_jobs(page).await?;
        has_more = jobs.len() > wanted;
        for job in jobs.iter().take(wanted) {
            let last = store.cron_runs(&job.id, None, 1).await.unwrap_or_default();
            documents.push(cron_job_document(job, now));
            rows.push(text::row(job, last.first(), now, user.is_none()));
        }
        after = jobs.get(wanted.saturating_sub(1)).map(|job| job.id.clone());
    }
    let mut told = match rows.is_empty() {
        true => "there are no jobs: pincer cron add makes one".to_owned(),
        false => crate::commands::sessions::table(&rows),
    };
    if has_more {
        told.push_str(&format!("\n(there are more: pincer cron list --limit {})", limit.saturating_mul(2)));
    }
    Ok((documents.into(), told))
}

async fn show(store: &SqliteStore, job: &CronJob) -> Result<(Value, String), Refused> {
    let (now, runs) = (cron_now(store), store.cron_runs(&job.id, None, SHOWN_RUNS).await?);
    let mut document = cron_job_document(job, now);
    document["runs"] = runs.iter().map(cron_run_document).collect();
    Ok((document, format!("{}\n\n{}", text::job(job, now), text::runs(job, &runs, now))))
}

async fn turn(store: &SqliteStore, job: &CronJob, is_enabled: bool) -> Result<(Value, String), Refused> {
    let changed = set_cron_job_enabled(store, job, is_enabled).await.map_err(|error| refused(&error))?;
    let now = cron_now(store);
    let told = match (job.is_enabled == is_enabled, is_enabled) {
        (true, true) => format!("{} was on already: {}", text::name(job), text::next(&changed, now)),
        (true, false) => format!("{} was off already", text::name(job)),
        (false, true) => format!("{} is on: {}", text::name(job), text::next(&changed, now)),
        (false, false) => text::with_running(format!("{} is off", text::name(job)), job),
    };
    Ok((cron_job_document(&changed, now), told))
}
