//! What a door is made of, and the tools of one run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Catalog, Entry, Policy};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::door::{Door, DoorStore};
use crate::hooks::{Hook, Observer};
use crate::schema::Checked;
use crate::{ApprovalRule, EventSink, Redactor, SchemaError, Tool};

/// The tools of one run: those of the catalog that its policy admits. Sequential ones run one at a time in here.
pub struct RunCatalog {
    pub(crate) view: Catalog,
    pub(crate) sequential: Mutex<()>,
}

impl RunCatalog {
    /// What `policy` leaves of `catalog`.
    pub fn new(catalog: &Catalog, policy: &Policy) -> Self {
        Self { view: policy.apply(catalog), sequential: Mutex::new(()) }
    }

    /// The tools in it.
    pub fn view(&self) -> &Catalog {
        &self.view
    }
}

/// Why a tool cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There is one with this id.
    #[error("the tool {0} is registered already")]
    Twice(String),
    /// One of its schemas is none.
    #[error("the {which} schema of the tool {id} cannot be used")]
    Schema {
        /// The tool.
        id: String,
        /// `input` or `output`.
        which: &'static str,
        /// Why.
        #[source]
        source: SchemaError,
    },
}

pub(crate) struct Registered {
    pub tool: Arc<dyn Tool>,
    pub input: Checked,
    pub output: Option<Checked>,
}

/// What a door is made of.
pub struct DoorBuilder {
    pub(crate) tools: HashMap<String, Registered>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) observers: Vec<Observer>,
    pub(crate) rules: Vec<ApprovalRule>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) redactor: Redactor,
    pub(crate) approval_lifetime: Option<Duration>,
}

impl DoorBuilder {
    /// Adds a tool under its entry.
    pub fn tool(mut self, entry: Entry, tool: Arc<dyn Tool>) -> Result<Self, RegisterError> {
        let id = entry.id.to_string();
        let schema = |which, schema: &Value| {
            Checked::new(schema).map_err(|source| RegisterError::Schema { id: id.clone(), which, source })
        };
        let input = schema("input", &entry.input_schema)?;
        let output = entry.output_schema.as_ref().map(|output| schema("output", output)).transpose()?;
        if self.tools.insert(id.clone(), Registered { tool, input, output }).is_some() {
            return Err(RegisterError::Twice(id));
        }
        self.entries.push(entry);
        Ok(self)
    }

    /// Adds a hook.
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Adds somebody who is told what came of calls.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observers.push(observer);
        self
    }

    /// Adds a rule, behind those added before.
    pub fn rule(mut self, rule: ApprovalRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Who is told what happens.
    pub fn events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// How inputs and outputs are made safe to show.
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// How long a question stays open. Without this it stays until it is answered: people sleep, and have weekends.
    pub fn approval_lifetime(mut self, lifetime: Duration) -> Self {
        self.approval_lifetime = Some(lifetime);
        self
    }

    /// The entries of all registered tools.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Puts it in place.
    pub fn build(self, store: Arc<dyn DoorStore>) -> Door {
        Door::new(self, store)
    }
}
