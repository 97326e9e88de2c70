//! The function through which any tool runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pincer_catalog::{Entry, Flags, ToolId};
use pincer_hooks::ContentForm;
use pincer_hooks::events::ToolResultPersist;
use pincer_json::{Json, Payload};
use pincer_store::{Approvals, CallId, Changes, ClientCalls, Clock, Grants, Journal, Permission, RunId};
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use tracing::Instrument;

use crate::approvals::decide;
use crate::asking::Question;
use crate::escape::one_line;
use crate::hooks::{
    ApprovalDemand, BeforeToolCall, Merged, Standing, Table, ask_all, persisted, persisted_message, persisted_texts,
    tell_all,
};
use crate::journal::NotDispatched;
use crate::register::{DoorBuilder, RunCatalog};
use crate::registry::{Registered, Registry};
use crate::running::run;
use crate::telling::{Teller, TellingSink};
use crate::under_way::UnderWay;
use crate::values::{Given, checked, give_back, noted};
use crate::{
    ApprovalRule, CallError, Context, Effect, ErrorCode, EventKind, Fingerprint, Hub, Maker, Namespace, Outcome,
    Plugin, Redactor, RegisterError, RuleDecision, RunOwner, Server, ServerState, Tool, UpdateSink,
};

/// How much is logged of the name of a tool.
const MOST_LOGGED: usize = 200;

/// What the door needs of a store.
pub trait DoorStore: Journal + Approvals + Grants + ClientCalls + Clock + Changes + Send + Sync {}
impl<T: Journal + Approvals + Grants + ClientCalls + Clock + Changes + Send + Sync> DoorStore for T {}

/// A call to be made.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Its id, for events and approvals.
    pub id: CallId,
    /// Its number in the journal of its run.
    pub seq: u32,
    /// The tool's id, or a name that only one tool has.
    pub tool: String,
    /// The input. Text becomes a tree when the call begins, not before.
    pub input: Payload,
    /// The line of the program that asks, if a program does: a person who is asked for an approval sees it.
    pub line: Option<u32>,
    /// The flags of the tool when the call was queued, if that was earlier.
    pub flags: Option<Flags>,
    /// The tool that the program knows under this id: another one is not called.
    pub fingerprint: Option<Fingerprint>,
}

/// What a door keeps for its life.
pub(crate) struct Parts {
    pub rules: Vec<ApprovalRule>,
    pub events: Hub,
    pub redactor: Redactor,
    pub approval_lifetime: Option<Duration>,
}

/// The one way to a tool.
pub struct Door {
    pub(crate) parts: Parts,
    registry: RwLock<Arc<Registry>>,
    store: Arc<dyn DoorStore>,
    pub(crate) answered: Notify,
    /// Held while a question is looked for and asked: two equal calls ask once.
    pub(crate) asking: Mutex<()>,
    under_way: UnderWay,
}

/// A call that did not come to a value, and what it may have changed.
pub(crate) struct Failed {
    pub error: CallError,
    pub effect: Effect,
}

impl Failed {
    /// Before the tool was touched.
    pub(crate) fn before(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { error: CallError::new(code, message), effect: Effect::None }
    }
}

impl Door {
    /// Begins with nothing registered.
    pub fn builder() -> DoorBuilder {
        DoorBuilder {
            registry: Registry::default(),
            parts: Parts {
                rules: Vec::new(),
                events: Hub::default(),
                redactor: Redactor::default(),
                approval_lifetime: None,
            },
        }
    }

    pub(crate) fn new(builder: DoorBuilder, store: Arc<dyn DoorStore>) -> Self {
        let DoorBuilder { registry, parts } = builder;
        Self {
            parts,
            registry: RwLock::new(Arc::new(registry)),
            store,
            answered: Notify::new(),
            asking: Mutex::new(()),
            under_way: UnderWay::default(),
        }
    }

    /// The entries of all registered tools.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.registry().entries()
    }

    /// The namespaces of all plugins, each with the id of its plugin.
    pub fn namespaces(&self) -> Vec<(String, Namespace)> {
        let registry = self.registry();
        registry.namespaces().map(|(plugin, namespace)| (plugin.to_owned(), namespace.clone())).collect()
    }

    /// Takes a tool of our own, from now on.
    pub fn add_tool(&self, entry: Entry, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        self.change(|registry| registry.add_tool(None, entry, tool))
    }

    /// Takes what a plugin brings, all of it or nothing.
    pub fn register(&self, plugin: Plugin) -> Result<(), RegisterError> {
        self.change(|registry| registry.add_plugin(plugin))
    }

    /// Takes everything back that a plugin has brought; `false` if there was nothing. Calls that have begun go on.
    pub fn unregister(&self, plugin: &str) -> bool {
        self.change(|registry| registry.remove_plugin(plugin))
    }

    /// Gives a plugin that is registered a further namespace, over tools of its own.
    pub fn register_namespace_for_plugin(&self, plugin: &str, namespace: Namespace) -> Result<(), RegisterError> {
        self.change(|registry| registry.add_namespace(plugin, namespace))
    }

    /// Takes all namespaces of a plugin back; `false` if it had none.
    pub fn clear_namespaces_for_plugin(&self, plugin: &str) -> bool {
        self.change(|registry| registry.remove_namespaces(|owner, _| owner == plugin))
    }

    /// Takes one namespace back; `false` if there is none with this id.
    pub fn unregister_namespace(&self, id: &str) -> bool {
        self.change(|registry| registry.remove_namespaces(|_, namespace| namespace.id == id))
    }

    /// Takes what an MCP server has, in place of what it had. Calls that have begun go on.
    pub fn set_server(&self, server: Server) {
        self.change(|registry| registry.set_server(server));
    }

    /// The MCP servers and how they are, by name.
    pub fn servers(&self) -> BTreeMap<String, ServerState> {
        self.registry().servers().clone()
    }

    /// Returns a number that changes with every registration, for callers that keep results made of the registry.
    pub fn version(&self) -> u64 {
        self.registry().version()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        let mut current = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut registry = Registry::clone(&current);
        let done = change(&mut registry);
        registry.changed();
        *current = Arc::new(registry);
        done
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the hooks that are not about tools, as they are now.
    pub fn hooks(&self) -> Arc<Table> {
        Arc::clone(self.registry().table())
    }

    /// Returns a result of a control tool, or one that is written in place of a missing one, as the hooks want it stored. `message` is a
    /// message of the role `toolResult`.
    pub async fn persisted_message(&self, tool: &str, event: ToolResultPersist) -> Value {
        let registry = self.registry();
        let entry = Entry::new(tool.parse().unwrap_or_else(|_| ToolId::control("exec")), "");
        persisted_message(registry.persisting(), &entry, event, ContentForm::Parts).await
    }

    /// Returns the texts of a program's result as the hooks want them stored, as many as there were. `tool` is the one that ran it.
    pub async fn persisted_texts(
        &self,
        tool: &str,
        call: &CallId,
        texts: Vec<String>,
        is_error: bool,
        context: &Context,
    ) -> Vec<String> {
        persisted_texts(self.registry().persisting(), tool, call, texts, is_error, context).await
    }

    /// Returns whether hooks change results before they are stored.
    pub fn has_persisting(&self) -> bool {
        self.registry().persisting().next().is_some()
    }

    /// Returns the hub of events of calls at this door.
    pub fn events(&self) -> &Hub {
        &self.parts.events
    }

    /// Returns the numbers of the calls of a run that are made here at the moment.
    pub fn under_way(&self, run: &RunId) -> BTreeSet<u32> {
        self.under_way.of(run)
    }

    /// Makes a call, from looking the tool up to telling what came of it.
    pub async fn call(
        &self,
        scope: &RunCatalog,
        context: &Context,
        call: Call,
        updates: Arc<dyn UpdateSink>,
    ) -> Outcome {
        let run = context.run.as_ref().map(RunOwner::id);
        // A model may have written the name of the tool: it must not look like further lines of the log.
        let span = tracing::debug_span!(
            "call",
            call = %call.id,
            tool = %one_line(&call.tool, MOST_LOGGED),
            run = run.map(tracing::field::display)
        );
        self.called(scope, context, call, updates).instrument(span).await
    }

    async fn called(&self, scope: &RunCatalog, context: &Context, call: Call, updates: Arc<dyn UpdateSink>) -> Outcome {
        let started = Instant::now();
        let entry = match scope.view.find(&call.tool) {
            Ok(entry) => Arc::clone(entry),
            // The same words whether there is no such tool or only this caller does not have it.
            Err(error) => {
                let error = CallError::new(ErrorCode::UnknownTool, error.to_string());
                return Outcome { result: Err(error), effect: Effect::None, duration: started.elapsed() };
            }
        };
        let mut call = call;
        let (text, input) = match std::mem::take(&mut call.input) {
            Payload::Text(text) => {
                give_back(Some(&text));
                (Some(text.clone()), text.tree())
            }
            Payload::Value(value) => (None, Ok(value)),
        };
        let (id, line) = (call.id.clone(), call.line);
        let teller = Teller { door: self, call: id, entry: Arc::clone(&entry), context: context.clone(), line };
        let shown = |value: &Value| match self.parts.events.wants_values() {
            true => self.parts.redactor.redact(value),
            false => Value::Null,
        };
        teller.tell(EventKind::Start { input: input.as_ref().map_or(Value::Null, shown) });
        let registry = self.registry();
        let attempted = match input {
            Ok(input) => {
                let input = Given { text, value: input };
                self.attempt(&registry, scope, context, &entry, &call, input, updates, &teller).await
            }
            Err(error) => Err(Failed::before(ErrorCode::InvalidInput, format!("the input cannot be read: {error}"))),
        };
        let (result, effect) = match attempted {
            Ok(value) => (Ok(value), Effect::Done),
            Err(Failed { error, effect }) => (Err(error), effect),
        };
        let duration = started.elapsed();
        teller.tell(EventKind::End {
            output: result.as_ref().ok().map(|value| match self.parts.events.wants_values() {
                true => value.tree().map_or(Value::Null, |value| shown(&value)),
                false => Value::Null,
            }),
            error: result
                .as_ref()
                .err()
                .map(|error| CallError::new(error.code, self.parts.redactor.text(&error.message))),
            effect,
            duration_ms: duration.as_millis() as u64,
        });
        let outcome = Outcome { result, effect, duration };
        tell_all(registry.observers(), &entry, &teller.call, &outcome, context).await;
        outcome
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all that a call is made of; a struct of them would only be taken apart"
    )]
    async fn attempt(
        &self,
        registry: &Registry,
        scope: &RunCatalog,
        context: &Context,
        entry: &Arc<Entry>,
        call: &Call,
        given: Given,
        updates: Arc<dyn UpdateSink>,
        teller: &Teller<'_>,
    ) -> Result<Json, Failed> {
        let id = entry.id.to_string();
        // It was in the catalog when the run began.
        let unknown = || Failed::before(ErrorCode::UnknownTool, format!("Unknown tool: {id}. It has been taken back."));
        let registered = scope.client(&id).or_else(|| registry.tool(&id).map(|tool| &**tool)).ok_or_else(unknown)?;
        if call.fingerprint.is_some_and(|known| known != registered.fingerprint()) {
            let message = format!(
                "{id} has changed since this program began: it takes another input or is of another kind now. Look at it again, \
                 and run a program that was written for it"
            );
            return Err(Failed::before(ErrorCode::ToolChanged, message));
        }
        if let Some(complaint) = registered.input().and_then(|input| input.input_complaint(&id, &given.value)) {
            return Err(Failed::before(ErrorCode::InvalidInput, complaint));
        }
        let (given, demand, standing) = self.hooks_say(registry, entry, registered, call, given, context).await?;
        let (text, input) = given.held();
        give_back(text.as_ref());
        let demand = match decide(&self.parts.rules, entry) {
            RuleDecision::Deny => {
                return Err(Failed::before(ErrorCode::Denied, format!("a rule denies calls of {id}")));
            }
            RuleDecision::Ask => Some(demand.unwrap_or_default()),
            RuleDecision::Allow => demand,
        };
        let question = demand.as_ref().map(|demand| {
            let (tool, fingerprint) = (id.clone(), registered.fingerprint());
            Question { tool, fingerprint, input: &input, call, demand, standing: &standing }
        });
        // From before the call is noted until its outcome is: a call that is noted, but not made here, is made nowhere.
        let _making = context.run.as_ref().map(|run| self.under_way.begin(run.id(), call.seq));
        let mut from_caller = None;
        let _turn = loop {
            let allowed = match &question {
                Some(question) => self.approve(question, context, teller, &*updates).await?,
                None => Permission::Free,
            };
            if registered.tool.made_by() == Maker::Caller && from_caller.is_none() {
                from_caller = Some(self.ask_caller(call, &input, entry, context, &*updates).await?);
            }
            let turn = if entry.flags.sequential { Some(self.turn(scope, context).await?) } else { None };
            if context.abort.is_cancelled() || !updates.may_dispatch() {
                return Err(Failed::before(ErrorCode::Aborted, "the call was aborted before it started"));
            }
            match self
                .dispatch(context, entry, call, || text.as_ref().map_or_else(|| noted(&input), Json::shared), &allowed)
                .await
            {
                Ok(()) => break turn,
                Err(NotDispatched::NotPermitted) => updates.not_dispatched(),
                Err(NotDispatched::Failed(failed)) => return Err(failed),
            }
        };
        updates.begun();
        give_back(text.as_ref());
        let updates = Arc::new(TellingSink {
            events: self.parts.events.clone(),
            run: context.run.clone(),
            redactor: self.parts.redactor.clone(),
            event: teller.event(EventKind::Update { update: Value::Null }),
            updates,
        });
        let result = match input.into_value() {
            Ok(_) if let Some(result) = from_caller => result,
            Ok(input) => run(registered, entry, input, &call.id, context, updates).await,
            // It could be read a moment ago.
            Err(error) => Err(Failed::before(ErrorCode::InvalidInput, format!("the input cannot be read: {error}"))),
        };
        give_back(text.as_ref());
        let result = result.and_then(|value| {
            checked(registered, value).map_err(|error| Failed {
                error: CallError::new(ErrorCode::InvalidOutput, format!("{id} returned {error}")),
                effect: Effect::Done,
            })
        });
        let result = self.persisted(registry, entry, &call.id, result, context).await;
        self.settle(context, call.seq, &result).await?;
        result
    }

    /// Returns a result as the hooks want it stored. The caller gets the same: after a crash, the stored result counts.
    async fn persisted(
        &self,
        registry: &Registry,
        entry: &Entry,
        call: &CallId,
        result: Result<Json, Failed>,
        context: &Context,
    ) -> Result<Json, Failed> {
        if registry.persisting().next().is_none() {
            return result;
        }
        let given = match &result {
            Ok(value) => Ok(value),
            Err(failed) => Err(&failed.error.message),
        };
        match persisted(registry.persisting(), entry, call, given, context).await {
            None => result,
            Some(Ok(value)) => Ok(value),
            Some(Err(message)) => match result {
                Err(failed) => Err(Failed { error: CallError { message, ..failed.error }, ..failed }),
                Ok(_) => Err(Failed { error: CallError::new(ErrorCode::ToolFailed, message), effect: Effect::Done }),
            },
        }
    }

    async fn hooks_say(
        &self,
        registry: &Registry,
        entry: &Entry,
        registered: &Registered,
        call: &Call,
        given: Given,
        context: &Context,
    ) -> Result<(Given, Option<ApprovalDemand>, Standing), Failed> {
        let Given { text, value } = given;
        let event = BeforeToolCall::new(entry, &call.id, value, context);
        let merged = tokio::select! {
            biased;
            () = context.abort.cancelled() => return Err(Failed::before(ErrorCode::Aborted, "the call was aborted before it started")),
            merged = ask_all(registry.hooks(), entry, event) => merged,
        };
        let (params, rewritten, approval, standing) = match merged {
            Merged::Block(reason) => return Err(Failed::before(ErrorCode::Blocked, reason)),
            Merged::Go { params, rewritten, approval, standing } => {
                (params, rewritten, approval.map(|demand| *demand), standing)
            }
        };
        // What the hooks made of the input must fit as well.
        if rewritten && let Some(complaint) = registered.input().and_then(|input| input.complaint(&params)) {
            let message = format!("the hooks changed the input of {} to one that does not fit: {complaint}", entry.id);
            return Err(Failed::before(ErrorCode::Blocked, message));
        }
        Ok((Given { text: text.filter(|_| !rewritten), value: params }, approval, standing))
    }

    /// Waits for the sequential calls before this one.
    async fn turn<'a>(
        &self,
        scope: &'a RunCatalog,
        context: &Context,
    ) -> Result<tokio::sync::MutexGuard<'a, ()>, Failed> {
        if context.nesting.within_sequential {
            let message = "Reentrant tool call would wait on its own catalog execution.";
            return Err(Failed::before(ErrorCode::Reentrant, message));
        }
        tokio::select! {
            biased;
            () = context.abort.cancelled() => Err(Failed::before(ErrorCode::Aborted, "the call was aborted while it waited for its turn")),
            turn = scope.sequential.lock() => Ok(turn),
        }
    }

    pub(crate) fn store(&self) -> &dyn DoorStore {
        &*self.store
    }
}
