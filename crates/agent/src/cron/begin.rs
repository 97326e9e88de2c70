//! Begins the run of a job: its message is accepted like any other, in one commit with the job.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pincer_store::{CronBegin, CronBegun, CronDue, CronJob, CronJobs};
use uuid::Uuid;

use crate::agent::{Agent, check};
use crate::error::AgentError;
use crate::inner::Inner;
use crate::request::{CronOrigin, Priority, QueueMode, Request};

impl Agent {
    /// Runs a job now, whatever its schedule says, and also if it is turned off. Its next time stays.
    pub async fn run_cron_job(&self, job: &CronJob) -> Result<CronBegun, AgentError> {
        self.0.begin_cron(job, None).await
    }
}

impl Inner {
    /// Accepts the message of a job, for the time at which it is due or by hand.
    pub(crate) async fn begin_cron(
        self: &Arc<Self>,
        job: &CronJob,
        due: Option<CronDue>,
    ) -> Result<CronBegun, AgentError> {
        let (user, key, request) = (&job.user, job.session_key(), request(job));
        check(&key, &request)?;
        self.check_agent(request.agent.as_deref())?;
        let id = match due {
            Some(due) => format!("cron:{}:{}", job.id, due.seen),
            None => format!("cron:{}:{}", job.id, Uuid::now_v7()),
        };
        let digest = request.digest();
        let run = self.new_run(user, &key, &request, Some(id), &digest, None).await?;
        let keys = &self.runtime.config().cron;
        let (disable_after, keep) = (keys.disable_after_failures, keys.keep_runs);
        let begin = CronBegin { job: job.id.clone(), version: job.version, due, run, disable_after, keep };
        let begun = self.store.begin_cron_run(begin).await?;
        if let CronBegun::Begun(run) = &begun {
            if self.ends_with_its_own.load(Ordering::SeqCst) {
                self.work_until(user, &key, &run.id);
            }
            self.engage(user, &key);
            self.forget_old_sessions();
        }
        Ok(begun)
    }
}

/// Returns the message of a job. Commands in it are not obeyed: it is text for the model.
fn request(job: &CronJob) -> Request {
    let definition = &job.definition;
    let name = definition.name.clone();
    let alone = format!(
        "This message comes from the schedule (the job {name:?}), and no person reads along: do not ask questions, and answer with what \
         there is to report."
    );
    Request {
        agent: definition.agent.clone(),
        model: definition.model.clone(),
        timeout_seconds: definition.timeout_seconds,
        channel: definition.channel.clone(),
        sender: definition.sender.clone(),
        extra_system_prompt: Some(alone),
        queue: Some(QueueMode::Followup),
        priority: Priority::Background,
        cron: Some(CronOrigin { job: job.id.clone(), name, begins_anew: definition.session.is_none() }),
        ..Request::new(&*definition.message)
    }
}
