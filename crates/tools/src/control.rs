//! Calls of the tools through which a model reaches all others. They are in no catalog and the door does not run them, but
//! hooks have their say before they are made.

use std::sync::Arc;

use pincer_catalog::{Entry, ToolId};
use pincer_store::{ApprovalId, ApprovalState, CallId, RunId, StoreError};
use serde_json::Value;

use crate::asking::{Granting, Question, Settled};
use crate::door::Door;
use crate::hooks::{ApprovalDemand, BeforeToolCall, Merged, Standing, ask_all};
use crate::telling::Teller;
use crate::{Call, CallError, Context, ErrorCode, EventKind, fingerprint};

/// A call of a control tool.
#[derive(Clone, Debug)]
pub struct ControlCall {
    /// Its id.
    pub id: CallId,
    /// What the model calls the tool: `exec`.
    pub name: &'static str,
    /// What it is: `code_mode_exec`.
    pub kind: &'static str,
    /// What its input is, if that is known: `javascript`.
    pub input_kind: Option<&'static str>,
    /// The input.
    pub params: Value,
}

/// The needs of a control call before it is made.
pub enum Admission {
    /// Nothing more. This is the input as the hooks leave it.
    Go(Value),
    /// A person's answer.
    Ask(Box<Asking>),
}

/// A control call that a hook wants a person asked about.
pub struct Asking {
    entry: Arc<Entry>,
    call: Call,
    demand: ApprovalDemand,
    standing: Standing,
}

impl Asking {
    /// The tool, as the question names it.
    pub fn tool(&self) -> String {
        self.entry.id.to_string()
    }

    /// The input as the hooks leave it: what the person is asked about.
    pub fn input(&self) -> Value {
        self.call.input.as_value().unwrap_or_default().into_owned()
    }
}

impl Door {
    /// Asks the hooks. Returns what the call needs, or why it must not be made.
    pub async fn admission(&self, context: &Context, call: ControlCall) -> Result<Admission, CallError> {
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
            Merged::Go { params, approval: None, .. } => Ok(Admission::Go(params)),
            Merged::Go { params, approval: Some(demand), standing, .. } => {
                let granting = Granting {
                    keys: standing.keys(&entry.id.to_string()),
                    fingerprint: fingerprint(&entry),
                    user: context.user.clone(),
                    run: None,
                };
                let granted = granting.find(self.store()).await;
                let failed = |error| CallError::new(ErrorCode::Store, format!("no person could be asked: {error}"));
                if granted.map_err(failed)?.is_some() {
                    return Ok(Admission::Go(params));
                }
                let call = Call { id, tool: entry.id.to_string(), input: params.into(), ..Call::default() };
                Ok(Admission::Ask(Box::new(Asking { entry, call, demand: *demand, standing })))
            }
        }
    }

    /// Stores the question whether a run may begin. Its answer is for that run, in whichever process it begins.
    pub async fn ask_for_run(&self, asking: &Asking, context: &Context, run: &RunId) -> Result<ApprovalId, StoreError> {
        let (fingerprint, tool) = (fingerprint(&asking.entry), asking.tool());
        let (input, call, demand, standing) = (&asking.call.input, &asking.call, &asking.demand, &asking.standing);
        let id = self
            .ask(&Question { tool, fingerprint, input, call, demand, standing }, context, Some((run.clone(), None)))
            .await?;
        self.tell_asked(&asking.call.id, &id, context);
        Ok(id)
    }

    /// Tells that a question of a control call waits for an answer.
    pub fn tell_asked(&self, call: &CallId, approval: &ApprovalId, context: &Context) {
        let entry = Arc::new(Entry::new(ToolId::control("exec"), ""));
        let teller = Teller { door: self, call: call.clone(), entry, context: context.clone(), line: None };
        teller.tell(EventKind::ApprovalRequested { approval: approval.clone() });
    }

    /// Waits until a question is settled, here or in another process. Dropping this leaves the question as it is.
    pub async fn settled(&self, approval: &ApprovalId) -> Result<ApprovalState, StoreError> {
        let never = Context::default();
        match self.answer_to(approval, &never, None).await? {
            Settled::As(state) => Ok(state),
            Settled::Granted(_) => Ok(ApprovalState::Allowed),
        }
    }
}
