//! The door's two notes of a call: that it is dispatched, and its outcome.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Entry, Flags};
use pincer_json::Json;
use pincer_store::{Cover, NewCall, Permission, Repeat, Safety, StoreError};

use crate::door::{Door, Failed};
use crate::outcome::record;
use crate::{Call, CallError, Context, Effect, ErrorCode, RunOwner};

/// How soon an outcome that could not be stored is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a call was not dispatched.
pub(crate) enum NotDispatched {
    /// The permission is gone: ask again.
    NotPermitted,
    Failed(Failed),
}

fn repeat(flags: Flags) -> Repeat {
    match flags {
        flags if flags.read_only => Repeat::Pure,
        flags if flags.idempotent || flags.claims_read_only => Repeat::Idempotent,
        _ => Repeat::Unknown,
    }
}

impl Door {
    /// Notes that the tool is called now with this input, and uses up its permission. A call that cannot be noted is not made.
    pub(crate) async fn dispatch(
        &self,
        context: &Context,
        entry: &Entry,
        call: &Call,
        input: impl FnOnce() -> Arc<String>,
        permission: &Permission,
    ) -> Result<(), NotDispatched> {
        let Some(run) = context.run.clone() else { return self.spend(context, call, permission).await };
        let flags = call.flags.unwrap_or(entry.flags);
        let (cover, safety) = match flags.read_only {
            true => (Cover::None, Safety::Process),
            false => (run.needs(), run.dispatch_safety()),
        };
        let (seq, tool, input) = (call.seq, entry.id.to_string(), input());
        run.journaled(input.len());
        let proof = run.proof().await;
        let permission = permission.clone();
        let (line, at) = (call.line, self.store().now());
        let noted = NewCall { seq, tool, input, repeat: repeat(flags), cover, permission, line, at };
        let noted = self.store().dispatch(run.id(), *proof, run.owner(), noted, safety).await;
        drop(proof);
        if noted.is_ok() && safety == Safety::Power {
            run.synced();
        }
        noted.map_err(not_dispatched)
    }

    /// Uses up the permission of a call without a program around it. Its agent has noted the call already.
    async fn spend(&self, context: &Context, call: &Call, permission: &Permission) -> Result<(), NotDispatched> {
        let Some(run) = context.known_run() else { return Ok(()) };
        if *permission == Permission::Free {
            // A question that was asked about this call, and is not needed any more, would say that the call has not begun.
            let questions = self.store().questions_of(&run).await.map_err(not_dispatched)?;
            if !questions.iter().any(|question| question.seq == Some(call.seq)) {
                return Ok(());
            }
        }
        match self.store().spend(&run, call.seq, permission.clone()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(NotDispatched::NotPermitted),
            Err(error) => Err(not_dispatched(error)),
        }
    }

    /// Stores what came of a call before anybody sees it. While the store cannot take it, it stays here.
    pub(crate) async fn settle(
        &self,
        context: &Context,
        seq: u32,
        result: &Result<Json, Failed>,
    ) -> Result<(), Failed> {
        let Some(run) = context.run.clone() else { return Ok(()) };
        let effect = result.as_ref().map_or_else(|failed| failed.effect, |_| Effect::Done);
        // Not `Arc<str>`: that would be a copy.
        let outcome = Arc::new(record(result.as_ref().map_err(|failed| &failed.error), effect));
        run.journaled(outcome.len());
        let mut pause = FIRST_PAUSE;
        loop {
            let is_last = context.abort.is_cancelled();
            let error = match self.settle_once(&run, seq, Arc::clone(&outcome)).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_lost = matches!(error, StoreError::Fenced { .. } | StoreError::Missing { .. });
            if is_last || is_lost {
                let message = format!("the call was made, but what came of it could not be stored: {error}");
                return Err(Failed { error: CallError::new(ErrorCode::Store, message), effect });
            }
            tokio::select! {
                () = context.abort.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn settle_once(&self, run: &RunOwner, seq: u32, outcome: Arc<String>) -> Result<(), StoreError> {
        let now = self.store().now();
        // A power cut may take it with what was done since: then it is not known what came of the call, as its row says.
        self.store().settle(run.id(), run.owner(), seq, outcome, now, Safety::Process).await.map(drop)
    }
}

fn not_dispatched(error: StoreError) -> NotDispatched {
    match error {
        StoreError::NotPermitted { .. } => NotDispatched::NotPermitted,
        StoreError::Fenced { .. } => {
            let message = format!("the call was not made: {error}");
            NotDispatched::Failed(Failed::before(ErrorCode::Aborted, message))
        }
        error => NotDispatched::Failed(Failed::before(ErrorCode::Store, format!("the call was not made: {error}"))),
    }
}
