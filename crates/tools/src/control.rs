//! Calls of the tools through which a model reaches all others. They are in no catalog and the door does not run them, but
//! hooks have their say before they are made.

use std::sync::Arc;

use pincer_catalog::{Entry, ToolId};
use serde_json::Value;

use crate::asking::Question;
use crate::door::Door;
use crate::hooks::{BeforeToolCall, Merged, ask_all};
use crate::journal::NotDispatched;
use crate::telling::Teller;
use crate::values::noted;
use crate::{Call, CallError, Context, ErrorCode, UpdateSink, fingerprint};

/// A call of a control tool.
#[derive(Clone, Debug)]
pub struct ControlCall {
    /// Its id.
    pub id: String,
    /// What the model calls the tool: `exec`.
    pub name: &'static str,
    /// What it is: `code_mode_exec`.
    pub kind: &'static str,
    /// What its input is, if that is known: `javascript`.
    pub input_kind: Option<&'static str>,
    /// The input.
    pub params: Value,
}

impl Door {
    /// Asks the hooks, and a person if a hook demands it. The input as the hooks leave it, or why the call must not be made.
    pub async fn admit(
        &self,
        context: &Context,
        call: ControlCall,
        updates: &dyn UpdateSink,
    ) -> Result<Value, CallError> {
        let ControlCall { id, name, kind, input_kind, params } = call;
        let entry = Arc::new(Entry::new(ToolId::control(name), ""));
        let registry = self.registry();
        let event = BeforeToolCall {
            tool_kind: Some(kind.into()),
            tool_input_kind: input_kind.map(str::to_owned),
            ..BeforeToolCall::new(&entry, &id, params, context)
        };
        let merged = tokio::select! {
            biased;
            () = context.abort.cancelled() => {
                return Err(CallError::new(ErrorCode::Aborted, "the call was aborted before it started"));
            }
            merged = ask_all(registry.hooks(), &entry, event) => merged,
        };
        match merged {
            Merged::Block(reason) => Err(CallError::new(ErrorCode::Blocked, reason)),
            Merged::Go { params, approval: None, .. } => Ok(params),
            Merged::Go { params, approval: Some(demand), standing, .. } => {
                let tool = entry.id.to_string();
                let call = Call { id: id.clone(), tool: tool.clone(), input: params.into(), ..Call::default() };
                let (input, standing) = (&call.input, &standing);
                let fingerprint = fingerprint(&entry);
                let question = Question { tool, fingerprint, input, call: &call, demand: &demand, standing };
                let teller = Teller { door: self, call: id, entry: Arc::clone(&entry), context: context.clone() };
                loop {
                    let allowed = self.approve(&question, context, &teller, updates).await;
                    let allowed = allowed.map_err(|failed| failed.error)?;
                    match self.dispatch(context, &entry, &call, || noted(&call.input), &allowed).await {
                        Ok(()) => break,
                        Err(NotDispatched::NotPermitted) => {}
                        Err(NotDispatched::Failed(failed)) => return Err(failed.error),
                    }
                }
                call.input.into_value().map_err(|error| CallError::new(ErrorCode::InvalidInput, error.to_string()))
            }
        }
    }
}
