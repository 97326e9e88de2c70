//! Tools that the caller of an agent's run executes itself: the call waits in the store until the caller has given its result.

use pincer_catalog::Entry;
use pincer_json::{Json, Payload};
use pincer_store::{ClientCall, StoreError};
use serde::Deserialize;
use serde_json::Value;

use crate::asking::{LOOK_AGAIN, LOOK_ANYWAY};
use crate::door::{Door, Failed};
use crate::{
    BoxFuture, Call, CallError, Context, Effect, ErrorCode, Maker, RegisterError, Tool, ToolCall, ToolError, UpdateSink,
};

/// The reason why tools of a caller cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientToolError {
    /// Two tools have the same id.
    #[error("{0}: give the tool another name")]
    Taken(String),
    /// One of the schemas is none.
    #[error(transparent)]
    Schema(#[from] RegisterError),
}

/// Stands for a tool of a caller. The door never calls it.
pub(crate) struct ClientTool;

impl Tool for ClientTool {
    fn call(&self, _: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::before("the caller of the run executes this tool"))))
    }

    fn made_by(&self) -> Maker {
        Maker::Caller
    }
}

/// The result of a call, as its caller gives it.
#[derive(Deserialize)]
struct Given {
    #[serde(default)]
    value: Value,
    #[serde(default)]
    error: Option<String>,
}

/// Writes the result of a call down as the door reads it: the value, or the message of a failure.
pub fn client_result(result: Result<Value, String>) -> String {
    match result {
        Ok(value) => serde_json::json!({ "value": value }),
        Err(error) => serde_json::json!({ "error": error }),
    }
    .to_string()
}

impl Door {
    /// Asks the caller of the run to make a call, and waits for its result.
    pub(crate) async fn ask_caller(
        &self,
        call: &Call,
        input: &Payload,
        entry: &Entry,
        context: &Context,
        updates: &dyn UpdateSink,
    ) -> Result<Result<Payload, Failed>, Failed> {
        let Some(run) = context.agent_run.clone() else {
            let message =
                format!("{} is executed by the caller of an agent's run, and this call is part of none", entry.id);
            return Err(Failed::before(ErrorCode::ToolFailed, message));
        };
        self.stored_up_to(call.seq, context, updates).await?;
        let failed = |error: StoreError| {
            Failed::before(ErrorCode::Store, format!("the caller could not be asked for {}: {error}", entry.id))
        };
        let arguments = input.as_value().unwrap_or_default().to_string();
        let asked = ClientCall {
            id: call.id.to_string(),
            run: run.clone(),
            name: entry.id.name().to_owned(),
            arguments,
            created_at: self.store().now(),
            result: None,
        };
        let mut answer = self.store().ask_client(asked).await.map_err(failed)?.result;
        let mut elsewhere = self.store().watch(LOOK_AGAIN);
        loop {
            if let Some(answer) = answer {
                return Ok(read(&answer));
            }
            updates.asked_caller();
            let answered = self.answered.notified();
            tokio::select! {
                biased;
                () = context.abort.cancelled() => {
                    return Err(Failed::before(ErrorCode::Aborted, "the call was aborted before its caller made it"));
                }
                () = answered => {}
                () = elsewhere.changed() => {}
                () = tokio::time::sleep(LOOK_ANYWAY) => {}
            }
            let calls = self.store().client_calls(&run).await.map_err(failed)?;
            answer = calls.into_iter().find(|known| known.id == call.id.as_str()).and_then(|known| known.result);
        }
    }

    /// Tells the calls that wait that a caller has given a result.
    pub fn client_answered(&self) {
        self.answered.notify_waiters();
    }
}

fn read(answer: &str) -> Result<Payload, Failed> {
    let failed =
        |message: String| Failed { error: CallError::new(ErrorCode::ToolFailed, message), effect: Effect::Unknown };
    match serde_json::from_str(answer) {
        Ok(Given { error: Some(error), .. }) => Err(failed(error)),
        Ok(Given { value, error: None }) => match Json::of(&value) {
            Ok(value) => Ok(value.into()),
            Err(error) => Err(failed(format!("the caller's result cannot be used: {error}"))),
        },
        Err(error) => Err(failed(format!("the caller's result cannot be read: {error}"))),
    }
}
