//! What a door is made of, and the tools of one run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Catalog, Entry, Policy};
use tokio::sync::Mutex;

use crate::client::{ClientTool, ClientToolError};
use crate::door::{Door, DoorStore, Parts};
use crate::hooks::{Hook, Observer, PersistHook, Registration, Table};
use crate::registry::{RegisterError, Registered, Registry};
use crate::{ApprovalRule, EventSink, Plugin, Redactor, Tool};

/// The tools of one run: those of the catalog that its policy admits. Sequential ones run one at a time in here.
pub struct RunCatalog {
    pub(crate) view: Catalog,
    /// The tools that the caller of this run executes.
    clients: HashMap<String, Registered>,
    pub(crate) sequential: Mutex<()>,
}

impl RunCatalog {
    /// What `policy` leaves of `catalog`.
    pub fn new(catalog: &Catalog, policy: &Policy) -> Self {
        Self { view: policy.apply(catalog), clients: HashMap::new(), sequential: Mutex::new(()) }
    }

    /// What `policy` leaves of `catalog` and of the tools that the caller of the run executes itself. No other run has those.
    pub fn with_clients(catalog: &Catalog, policy: &Policy, clients: Vec<Entry>) -> Result<Self, ClientToolError> {
        let all = catalog.iter().cloned().chain(clients.iter().cloned().map(Arc::new));
        let all = Catalog::new(all.collect::<Vec<_>>()).map_err(|error| ClientToolError::Taken(error.to_string()))?;
        let registered = clients.into_iter().map(|entry| {
            let id = entry.id.to_string();
            Ok((id, Registered::new(entry, Arc::new(ClientTool))?))
        });
        let clients = registered.collect::<Result<_, RegisterError>>()?;
        Ok(Self { view: policy.apply(&all), clients, sequential: Mutex::new(()) })
    }

    /// Returns a tool that the caller of the run executes.
    pub(crate) fn client(&self, id: &str) -> Option<&Registered> {
        self.clients.get(id)
    }

    /// The tools in it.
    pub fn view(&self) -> &Catalog {
        &self.view
    }
}

/// What a door is made of.
pub struct DoorBuilder {
    pub(crate) registry: Registry,
    pub(crate) parts: Parts,
}

impl DoorBuilder {
    /// Adds a tool under its entry.
    pub fn tool(mut self, entry: Entry, tool: Arc<dyn Tool>) -> Result<Self, RegisterError> {
        self.registry.add_tool(None, entry, tool)?;
        Ok(self)
    }

    /// Adds what a plugin brings, all of it or nothing.
    pub fn plugin(mut self, plugin: Plugin) -> Result<Self, RegisterError> {
        self.registry.add_plugin(plugin)?;
        Ok(self)
    }

    /// Adds a hook.
    pub fn hook(mut self, hook: Hook) -> Self {
        self.registry.add_hook(None, hook);
        self
    }

    /// Adds somebody who is told what came of calls.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.registry.add_observer(None, observer);
        self
    }

    /// Adds a hook that changes results before they are stored.
    pub fn persisting(mut self, hook: PersistHook) -> Self {
        self.registry.add_persisting(None, hook);
        self
    }

    /// Adds a hook that is not about tools.
    pub fn other_hook(mut self, hook: impl Into<Registration>) -> Self {
        self.registry.add_other(None, hook.into());
        self
    }

    /// Adds a rule, behind those added before.
    pub fn rule(mut self, rule: ApprovalRule) -> Self {
        self.parts.rules.push(rule);
        self
    }

    /// Adds a sink that is told what happens to calls. See [`Hub::observe`](crate::Hub::observe).
    pub fn events(self, sink: Arc<dyn EventSink>) -> Self {
        self.parts.events.observe(sink);
        self
    }

    /// How inputs and outputs are made safe to show.
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.parts.redactor = redactor;
        self
    }

    /// How long a question stays open. Without this it stays until it is answered: people sleep, and have weekends.
    pub fn approval_lifetime(mut self, lifetime: Duration) -> Self {
        self.parts.approval_lifetime = Some(lifetime);
        self
    }

    /// Returns the hooks that are not about tools.
    pub fn hooks(&self) -> Arc<Table> {
        Arc::clone(self.registry.table())
    }

    /// The entries of all registered tools.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.registry.entries()
    }

    /// Puts it in place.
    pub fn build(self, store: Arc<dyn DoorStore>) -> Door {
        Door::new(self, store)
    }
}
