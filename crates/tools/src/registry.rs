//! What is registered at a door. A call works with the state it found when it began.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use pincer_catalog::Entry;
use serde_json::Value;

use crate::hooks::{Hook, Observer, PersistHook, Registration, Table};
use crate::plugin::check_namespaces;
use crate::schema::Checked;
use crate::{Fingerprint, Namespace, Plugin, PluginError, SchemaError, Server, ServerState, Tool, fingerprint};

/// The reason why something cannot be registered.
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
    /// There is a plugin with this id.
    #[error("the plugin {0} is registered already: take it back first")]
    PluginTwice(String),
    /// A plugin brings what is not its own.
    #[error("the plugin {plugin} cannot be registered: {source}")]
    Plugin {
        /// The plugin.
        plugin: String,
        /// What it does wrong.
        source: PluginError,
    },
}

/// A tool, ready to be called.
pub(crate) struct Registered {
    pub entry: Arc<Entry>,
    pub tool: Arc<dyn Tool>,
    input: Input,
    pub output: Option<Box<Checked>>,
    fingerprint: OnceLock<Fingerprint>,
}

/// The schema that inputs are checked with. In a box: few of the tools of strangers are ever called.
enum Input {
    Known(Box<Checked>),
    /// Of a server: looked at when it is first needed, and not used if it cannot be.
    Stranger(OnceLock<Option<Box<Checked>>>),
}

impl Registered {
    pub(crate) fn new(entry: Entry, tool: Arc<dyn Tool>) -> Result<Self, RegisterError> {
        let schema = |which, schema: &Value| {
            let id = entry.id.to_string();
            Checked::new(schema).map(Box::new).map_err(|source| RegisterError::Schema { id, which, source })
        };
        let input = schema("input", &entry.input_schema)?;
        let output = entry.output_schema.as_ref().map(|output| schema("output", output)).transpose()?;
        let entry = Arc::new(entry);
        Ok(Self { entry, tool, input: Input::Known(input), output, fingerprint: OnceLock::new() })
    }

    /// Returns a tool of a server: its schemas are never an error of ours.
    fn of_stranger(entry: Arc<Entry>, tool: Arc<dyn Tool>) -> Self {
        let input = Input::Stranger(OnceLock::new());
        Self { entry, tool, input, output: None, fingerprint: OnceLock::new() }
    }

    /// Tells it from another tool under the same id.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| fingerprint(&self.entry))
    }

    /// Returns the schema that its input is checked with, if it can be.
    pub(crate) fn input(&self) -> Option<&Checked> {
        match &self.input {
            Input::Known(checked) => Some(checked),
            Input::Stranger(checked) => {
                let made = || Checked::of_stranger(&self.entry.input_schema).map(Box::new);
                checked.get_or_init(made).as_deref()
            }
        }
    }
}

/// Something, and the plugin that brought it.
#[derive(Clone)]
pub(crate) struct Owned<T> {
    plugin: Option<String>,
    it: T,
}

/// Everything that is registered. Cheap to clone, so that it can be replaced as a whole.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    tools: HashMap<String, Arc<Registered>>,
    /// The ids, in the order in which they came.
    order: Vec<Owned<String>>,
    hooks: Vec<Owned<Hook>>,
    observers: Vec<Owned<Observer>>,
    persisting: Vec<Owned<PersistHook>>,
    others: Vec<Owned<Registration>>,
    /// The others, by their places.
    table: Arc<Table>,
    namespaces: Vec<Owned<Namespace>>,
    servers: BTreeMap<String, ServerState>,
    /// Grows with every change.
    version: u64,
}

impl Registry {
    pub(crate) fn add_tool(
        &mut self,
        plugin: Option<&str>,
        entry: Entry,
        tool: Arc<dyn Tool>,
    ) -> Result<(), RegisterError> {
        let id = entry.id.to_string();
        if self.tools.contains_key(&id) {
            return Err(RegisterError::Twice(id));
        }
        self.tools.insert(id.clone(), Arc::new(Registered::new(entry, tool)?));
        self.order.push(Owned { plugin: plugin.map(str::to_owned), it: id });
        Ok(())
    }

    pub(crate) fn add_hook(&mut self, plugin: Option<&str>, hook: Hook) {
        self.hooks.push(Owned { plugin: plugin.map(str::to_owned), it: hook });
    }

    pub(crate) fn add_observer(&mut self, plugin: Option<&str>, observer: Observer) {
        self.observers.push(Owned { plugin: plugin.map(str::to_owned), it: observer });
    }

    pub(crate) fn add_persisting(&mut self, plugin: Option<&str>, hook: PersistHook) {
        self.persisting.push(Owned { plugin: plugin.map(str::to_owned), it: hook });
        // Stable: of equal priority, the first registered is asked first.
        self.persisting.sort_by_key(|hook| std::cmp::Reverse(hook.it.hook.priority));
    }

    /// Adds a hook that is not about tools.
    pub(crate) fn add_other(&mut self, plugin: Option<&str>, hook: Registration) {
        self.others.push(Owned { plugin: plugin.map(str::to_owned), it: hook });
        self.tabulate();
    }

    fn tabulate(&mut self) {
        let mut table = Table::default();
        self.others.iter().for_each(|hook| table.add(hook.it.clone()));
        self.table = Arc::new(table);
    }

    /// Takes all that a plugin brings, or nothing of it.
    pub(crate) fn add_plugin(&mut self, plugin: Plugin) -> Result<(), RegisterError> {
        let mut with = self.clone();
        plugin.check(with.namespaces())?;
        let id = Some(plugin.id.as_str());
        if with.has_plugin(&plugin.id) {
            return Err(RegisterError::PluginTwice(plugin.id));
        }
        for (entry, tool) in plugin.tools {
            with.add_tool(id, entry, tool)?;
        }
        plugin.hooks.into_iter().for_each(|hook| with.add_hook(id, hook));
        plugin.observers.into_iter().for_each(|observer| with.add_observer(id, observer));
        plugin.persisting.into_iter().for_each(|hook| with.add_persisting(id, hook));
        plugin.others.into_iter().for_each(|hook| with.add_other(id, hook));
        let owned = |namespace| Owned { plugin: id.map(str::to_owned), it: namespace };
        with.namespaces.extend(plugin.namespaces.into_iter().map(owned));
        *self = with;
        Ok(())
    }

    /// Gives a plugin a further namespace.
    pub(crate) fn add_namespace(&mut self, plugin: &str, namespace: Namespace) -> Result<(), RegisterError> {
        let theirs = self.order.iter().filter(|tool| tool.plugin.as_deref() == Some(plugin));
        let tools: Vec<&Entry> = theirs.filter_map(|tool| Some(&*self.tools.get(&tool.it)?.entry)).collect();
        check_namespaces(plugin, tools.into_iter(), std::slice::from_ref(&namespace), self.namespaces())?;
        self.namespaces.push(Owned { plugin: Some(plugin.to_owned()), it: namespace });
        Ok(())
    }

    /// Takes namespaces back; `false` if there were none of that kind.
    pub(crate) fn remove_namespaces(&mut self, which: impl Fn(&str, &Namespace) -> bool) -> bool {
        let before = self.namespaces.len();
        self.namespaces.retain(|owned| !owned.plugin.as_deref().is_some_and(|plugin| which(plugin, &owned.it)));
        self.namespaces.len() < before
    }

    /// Takes what an MCP server has, in place of what it had. Of two tools with one id the first stays.
    pub(crate) fn set_server(&mut self, server: Server) {
        let Server { name, state, tools } = server;
        let theirs = |id: &str| id.strip_prefix("mcp:").is_some_and(|id| id.split(':').next() == Some(name.as_str()));
        self.tools.retain(|id, _| !theirs(id));
        self.order.retain(|owned| !theirs(&owned.it));
        for (entry, tool) in tools {
            let id = entry.id.to_string();
            if theirs(&id) && !self.tools.contains_key(&id) {
                self.tools.insert(id.clone(), Arc::new(Registered::of_stranger(entry, tool)));
                self.order.push(Owned { plugin: None, it: id });
            }
        }
        self.servers.insert(name, state);
    }

    /// Returns the MCP servers, by name.
    pub(crate) fn servers(&self) -> &BTreeMap<String, ServerState> {
        &self.servers
    }

    /// Returns a number that differs whenever something else is registered.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn changed(&mut self) {
        self.version += 1;
    }

    /// Takes everything back that a plugin has brought; `false` if there was nothing.
    pub(crate) fn remove_plugin(&mut self, plugin: &str) -> bool {
        let known = self.has_plugin(plugin);
        let theirs = |of: &Option<String>| of.as_deref() == Some(plugin);
        for id in self.order.iter().filter(|tool| theirs(&tool.plugin)) {
            self.tools.remove(&id.it);
        }
        self.order.retain(|tool| !theirs(&tool.plugin));
        self.hooks.retain(|hook| !theirs(&hook.plugin));
        self.observers.retain(|observer| !theirs(&observer.plugin));
        self.persisting.retain(|hook| !theirs(&hook.plugin));
        self.others.retain(|hook| !theirs(&hook.plugin));
        self.tabulate();
        self.namespaces.retain(|namespace| !theirs(&namespace.plugin));
        known
    }

    fn has_plugin(&self, plugin: &str) -> bool {
        let owners = self.order.iter().map(|tool| &tool.plugin);
        let owners = owners.chain(self.hooks.iter().map(|hook| &hook.plugin));
        let owners = owners.chain(self.observers.iter().map(|observer| &observer.plugin));
        let owners = owners.chain(self.persisting.iter().map(|hook| &hook.plugin));
        let owners = owners.chain(self.others.iter().map(|hook| &hook.plugin));
        let mut owners = owners.chain(self.namespaces.iter().map(|namespace| &namespace.plugin));
        owners.any(|owner| owner.as_deref() == Some(plugin))
    }

    pub(crate) fn tool(&self, id: &str) -> Option<&Arc<Registered>> {
        self.tools.get(id)
    }

    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.order.iter().filter_map(|id| Some(Arc::clone(&self.tools.get(&id.it)?.entry))).collect()
    }

    pub(crate) fn hooks(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().map(|hook| &hook.it)
    }

    pub(crate) fn observers(&self) -> impl Iterator<Item = &Observer> {
        self.observers.iter().map(|observer| &observer.it)
    }

    pub(crate) fn persisting(&self) -> impl Iterator<Item = &PersistHook> {
        self.persisting.iter().map(|hook| &hook.it)
    }

    /// Returns the hooks that are not about tools.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the namespaces, each with the plugin it belongs to.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        self.namespaces.iter().filter_map(|namespace| Some((namespace.plugin.as_deref()?, &namespace.it)))
    }
}
