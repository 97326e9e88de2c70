//! Obeys the commands in messages: settings, a new conversation, how things stand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_hooks::events;
use pincer_sessions::{AcquireError, Reentry, Writer, new_session_id};
use pincer_store::{
    AgentRun, AgentRunId, AgentRunState, AgentRuns, Clock, NewSession, Session, SessionKey, Sessions, Stopped,
    StoreError,
};

use crate::agent::{Agent, StoppedRuns};
use crate::command::{self, Command};
use crate::error::AgentError;
use crate::hooks::{RunHooks, SessionHooks};
use crate::request::{CommandRights, Request};
use crate::settings::{SessionSettings, write_wait};

/// How soon a session that is to begin anew is looked at again for a run that has begun since.
const STOP_AGAIN: Duration = Duration::from_millis(200);

/// Returns whether a run answers a message of the same sender.
pub(crate) fn is_of(run: &AgentRun, message: &Request) -> bool {
    Request::parse(&run.request).is_ok_and(|request| request.sender == message.sender)
}

impl Agent {
    /// Begins another session under the same key. What went on in the session before is stopped; what has not begun is part of the
    /// new one.
    pub async fn reset(&self, user: &str, key: &SessionKey, reason: &str) -> Result<Session, AgentError> {
        let _held = self.0.hold(user, key);
        let (began, wait) = (Instant::now(), write_wait(self.0.runtime.config()));
        let mut writer = loop {
            let left = wait.saturating_sub(began.elapsed());
            if let Some(run) = self.stop_active(user, key).await? {
                let ended = self.until(user, &run, |run| run.state.is_final());
                let _ = tokio::time::timeout(left, ended).await;
            }
            // A run may have begun after it was looked for one: then that is stopped too.
            match self.writer_within(user, key, left.min(STOP_AGAIN)).await {
                Err(AcquireError::Busy { .. }) if left > STOP_AGAIN => {}
                acquired => break acquired?,
            }
        };
        let before = writer.session().clone();
        let hooks = SessionHooks::new(&self.0, &before);
        hooks.before_reset(&self.0, reason).await;
        let reset = writer.reset(new_session_id(), reason).await;
        let session = writer.session().clone();
        if reset.is_ok() {
            hooks.ended(&self.0, reason, Some(&session.id));
        }
        let released = writer.release().await;
        reset?;
        released?;
        Ok(session)
    }

    /// Stops all runs of a session: first those that wait for their turn, then the one that goes on.
    pub async fn stop_session(&self, user: &str, key: &SessionKey) -> Result<StoppedRuns, AgentError> {
        self.stop_runs(user, key, &Request::default()).await
    }

    /// Stops the runs of a session that a message may stop. The senders of others are told.
    async fn stop_runs(&self, user: &str, key: &SessionKey, by: &Request) -> Result<StoppedRuns, AgentError> {
        let mut stopped = StoppedRuns::default();
        let open = self.0.store.open_runs(user, key).await?;
        let (queued, active): (Vec<AgentRun>, Vec<AgentRun>) = open
            .into_iter()
            .filter(|run| !run.state.is_final() && (by.commands == CommandRights::All || is_of(run, by)))
            .partition(|run| run.state == AgentRunState::Queued);
        for run in queued {
            if self.stop(user, &run.id).await? != Stopped::Ended {
                self.0.tell_stopped(user, by, &run).await;
                stopped.queued.push(run.id);
            }
        }
        for run in active {
            if self.stop(user, &run.id).await? != Stopped::Ended {
                self.0.tell_stopped(user, by, &run).await;
                stopped.active = Some(run.id);
            }
        }
        Ok(stopped)
    }

    pub(crate) async fn stop_active(&self, user: &str, key: &SessionKey) -> Result<Option<AgentRunId>, AgentError> {
        let open = self.0.store.open_runs(user, key).await?;
        let active = open.into_iter().find(|run| !run.state.is_final() && run.state != AgentRunState::Queued);
        match active {
            Some(run) if self.stop(user, &run.id).await? != Stopped::Ended => Ok(Some(run.id)),
            _ => Ok(None),
        }
    }

    /// Takes a session to write to it. Waits for another writer for as long as the config says.
    pub async fn writer(&self, user: &str, key: &SessionKey) -> Result<Writer, AcquireError> {
        self.writer_within(user, key, write_wait(self.0.runtime.config())).await
    }

    pub(crate) async fn writer_within(
        &self,
        user: &str,
        key: &SessionKey,
        wait: Duration,
    ) -> Result<Writer, AcquireError> {
        let store = Arc::clone(&self.0.store);
        Writer::acquire(store, &*self.0.leases, user, key, wait, Reentry::Refused).await
    }

    /// Obeys a command in a message. Returns what is told if the message is nothing else.
    pub(crate) async fn obey(
        &self,
        user: &str,
        key: &SessionKey,
        command: &Command,
        request: &Request,
    ) -> Result<Option<String>, AgentError> {
        let told = self.obeyed(user, key, command, request).await?;
        let hooks = RunHooks::new(&self.0, user, key, request);
        if hooks.has::<events::Command>() {
            hooks.tell(&self.0, events::Command { context: hooks.context(), action: command.name().to_owned() });
        }
        Ok(told)
    }

    async fn obeyed(
        &self,
        user: &str,
        key: &SessionKey,
        command: &Command,
        request: &Request,
    ) -> Result<Option<String>, AgentError> {
        let session = self.0.store.current_session(user, key).await?;
        Ok(Some(match command {
            Command::Stop => {
                let stopped = self.stop_runs(user, key, request).await?;
                match (stopped.active, stopped.queued.len()) {
                    (None, 0) => "Nothing was going on.".into(),
                    (_, 0) => "Stopped.".into(),
                    (_, queued) => format!("Stopped, and {queued} messages that waited were taken back."),
                }
            }
            Command::New | Command::Reset => {
                let reason = if *command == Command::New { "new" } else { "reset" };
                if session.is_some() {
                    let open = self.0.store.open_runs(user, key).await?;
                    let active =
                        open.into_iter().find(|run| !run.state.is_final() && run.state != AgentRunState::Queued);
                    self.reset(user, key, reason).await?;
                    if let Some(active) = active {
                        self.0.tell_stopped(user, request, &active).await;
                    }
                }
                "A new conversation begins.".into()
            }
            Command::Status => crate::status::text(&self.0, user, key, session.as_ref(), request).await?,
            // The message itself is what obeys.
            Command::Steer | Command::Compact => return Ok(None),
            change => {
                let mut settings =
                    session.as_ref().map(|session| SessionSettings::parse(&session.settings)).unwrap_or_default();
                let told = command::change(change, &mut settings, &self.0.models).map_err(AgentError::Command)?;
                self.set(user, key, request, &settings).await?;
                told
            }
        }))
    }

    /// Stores settings of a session, also while a run goes on in it: they hold from the next run on.
    pub(crate) async fn set(
        &self,
        user: &str,
        key: &SessionKey,
        request: &Request,
        settings: &SessionSettings,
    ) -> Result<(), AgentError> {
        if self.0.store.current_session(user, key).await?.is_none() {
            let new = NewSession {
                id: new_session_id(),
                user: user.to_owned(),
                key: key.clone(),
                agent: request.agent.clone(),
                label: None,
                parent: None,
                created_at: self.0.store.now(),
            };
            match self.0.store.create_session(new).await {
                Ok(_) | Err(StoreError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.0.store.set_session_settings(user, key, settings.to_json().into(), self.0.store.now()).await?)
    }
}
