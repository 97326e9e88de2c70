//! Begins the run of a job: its message is accepted like any other, in one commit with the job.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pincer_store::{AgentRun, CronBegin, CronBegun, CronDue, CronJob, CronJobs, Route};
use uuid::Uuid;

use crate::agent::{Agent, check};
use crate::error::AgentError;
use crate::inner::Inner;
use crate::request::{CronOrigin, Priority, QueueMode, Request};

impl Agent {
    /// Runs a job now, whatever its schedule says, and also if it is turned off. Its next time stays.
    pub async fn run_cron_job(&self, job: &CronJob) -> Result<CronBegun, AgentError> {
        let begun = self.0.begin_cron(job, None).await?;
        if let CronBegun::Begun(run) = &begun {
            self.0.work_on_cron(run);
        }
        Ok(begun)
    }
}

impl Inner {
    /// Accepts the message of a job, for the time at which it is due or by hand. No process works on it yet.
    pub(crate) async fn begin_cron(
        self: &Arc<Self>,
        job: &CronJob,
        due: Option<CronDue>,
    ) -> Result<CronBegun, AgentError> {
        let (user, key, request) = (&job.user, job.session_key(), request(job));
        check(&key, &request)?;
        self.check_agent(request.agent.as_deref())?;
        request.check_sender(self.runtime.config())?;
        let id = match due {
            Some(due) => format!("cron:{}:{}", job.id, due.seen),
            None => format!("cron:{}:{}", job.id, Uuid::now_v7()),
        };
        let digest = request.digest();
        let run = self.new_run(user, &key, &request, Some(id), &digest, None).await?;
        let keys = &self.runtime.config().cron;
        let (disable_after, keep) = (keys.disable_after_failures, keys.keep_runs);
        let begin = CronBegin { job: job.id.clone(), version: job.version, due, run, disable_after, keep };
        Ok(self.store.begin_cron_run(begin).await?)
    }

    /// Has this process work on the run of a job.
    pub(crate) fn work_on_cron(&self, run: &AgentRun) {
        if self.ends_with_its_own.load(Ordering::SeqCst) {
            self.work_until(&run.user, &run.session_key, &run.id);
        }
        self.engage(&run.user, &run.session_key);
        self.forget_old_sessions();
    }
}

/// Returns the words that tell the agent where its answer goes.
fn circumstances(name: &str, route: Option<&Route>) -> String {
    let from = format!("This message comes from the schedule (the job {name:?}), and");
    match route {
        None => {
            format!("{from} no person reads along: do not ask questions, and answer with what there is to report.")
        }
        Some(Route { channel, to, .. }) => format!(
            "{from} your answer is sent to {to:?} on the channel {channel}: write what is to be read there. If there is nothing to tell, \
             answer with nothing but NO_REPLY."
        ),
    }
}

/// Returns the message of a job. Commands in it are not obeyed: it is text for the model.
fn request(job: &CronJob) -> Request {
    let definition = &job.definition;
    let name = definition.name.clone();
    let circumstances = circumstances(&name, definition.route.as_ref());
    Request {
        agent: definition.agent.clone(),
        model: definition.model.clone(),
        timeout_seconds: definition.timeout_seconds,
        channel: definition.channel.clone(),
        sender: definition.sender.clone(),
        route: definition.route.clone(),
        extra_system_prompt: Some(circumstances),
        queue: Some(QueueMode::Followup),
        priority: Priority::Background,
        cron: Some(CronOrigin { job: job.id.clone(), name, begins_anew: definition.session.is_none() }),
        ..Request::new(&*definition.message)
    }
}
