//! The tools of one run, as its programs see them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use pincer_catalog::names::unambiguous;
use pincer_catalog::shown_names::is_tool;
use pincer_catalog::{Catalog, CompactEntry, Entry, Index, LookupError, Policy, Source, ToolId};
use pincer_sandbox::{Global, Json, Library};
use pincer_tools::{ClientToolError, Context, Door, NamespaceError, RunCatalog};
use serde::Serialize;
use serde_json::Value;

use crate::known_tools::KnownTools;
use crate::mcp::McpServers;
use crate::namespaces::{Visible, visible};

/// Functions of `tools` that are not tools.
pub(crate) const HELPERS: [&str; 3] = ["search", "describe", "call"];
/// The globals that programs get from here, besides those of namespaces.
pub(crate) const GLOBALS: [&str; 5] = ["ALL_TOOLS", "tools", "API", "MCP", "namespaces"];

/// The tools of one run: those that policy leaves, and the namespaces that rest on them. Made once per run of an agent and
/// shared by all of its programs.
pub struct RunTools {
    catalog: RunCatalog,
    /// What `tools` reaches: all but those of MCP servers, which have their own way.
    own: Catalog,
    /// The functions of `tools`, each with the id of its tool.
    functions: BTreeMap<String, String>,
    namespaces: Vec<Visible>,
    refused: Vec<NamespaceError>,
    index: OnceLock<Index>,
    searched: OnceLock<(Catalog, Index)>,
    mcp: McpServers,
    known: OnceLock<Arc<KnownTools>>,
}

/// The reason why `tools` does not reach a tool, for the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoTool {
    #[error(transparent)]
    Unknown(LookupError),
    #[error("{0} belongs to an MCP server: call it as a function of MCP, see API.list(\"mcp\")")]
    OfServer(ToolId),
}

/// An entry as `tools.describe` gives it.
#[derive(Serialize)]
pub(crate) struct Described<'e> {
    #[serde(flatten)]
    entry: CompactEntry,
    parameters: &'e Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    returns: Option<&'e Value>,
}

impl RunTools {
    /// Takes what `policy` leaves of `catalog`, and the namespaces at the door that need nothing else. `context` is for namespaces
    /// that are made for each run.
    pub fn new(door: &Door, catalog: &Catalog, policy: &Policy, context: &Context) -> Self {
        Self::of(door, RunCatalog::new(catalog, policy), policy, context)
    }

    /// Like [`new`](Self::new), with tools that the caller of an agent's run executes itself.
    pub fn with_clients(
        door: &Door,
        catalog: &Catalog,
        policy: &Policy,
        context: &Context,
        clients: Vec<Entry>,
    ) -> Result<Self, ClientToolError> {
        let catalog = RunCatalog::with_clients(catalog, policy, clients)?;
        Ok(Self::of(door, catalog, policy, context))
    }

    fn of(door: &Door, catalog: RunCatalog, policy: &Policy, context: &Context) -> Self {
        let own = catalog.view().narrowed(|entry| entry.id.source() != Source::Mcp);
        let ids: Vec<String> = own.iter().map(|entry| entry.id.to_string()).collect();
        let names = own.iter().map(|entry| entry.id.name()).zip(ids.iter().map(String::as_str));
        let functions = unambiguous(names, &HELPERS).into_iter().map(|(name, id)| (name, id.to_owned())).collect();
        let (namespaces, refused) = visible(door.namespaces(), catalog.view(), context);
        for error in &refused {
            tracing::warn!("a namespace is left out: {error}");
        }
        let mcp = McpServers::new(door.servers(), catalog.view(), policy);
        let (index, searched, known) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { catalog, own, functions, namespaces, refused, index, searched, mcp, known }
    }

    /// Returns all tools of the run.
    pub fn catalog(&self) -> &Catalog {
        self.catalog.view()
    }

    /// Returns the tools of all sources that a model may find without writing programs, and an index of them.
    pub fn searched(&self) -> &(Catalog, Index) {
        self.searched.get_or_init(|| {
            let catalog = self.catalog().narrowed(|entry| is_tool(entry) && !entry.flags.direct_only);
            let index = Index::new(&catalog);
            (catalog, index)
        })
    }

    /// Returns the MCP servers whose tools cannot be found now, each with the reason.
    pub fn missing_servers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.mcp.missing()
    }

    /// Returns the errors of the namespaces that were left out.
    pub fn refused_namespaces(&self) -> &[NamespaceError] {
        &self.refused
    }

    /// Returns all tools of the run as the door wants them.
    pub fn at_the_door(&self) -> &RunCatalog {
        &self.catalog
    }

    /// Returns the fingerprints of all of them.
    pub(crate) fn known(&self) -> &Arc<KnownTools> {
        self.known.get_or_init(|| Arc::new(KnownTools::of(self.catalog())))
    }

    /// Returns the tool that does what programs of other environments use `name` for.
    pub(crate) fn instead_of(&self, name: &str) -> Option<&Arc<Entry>> {
        self.catalog().iter().find(|entry| entry.instead_of.contains(&name))
    }

    pub(crate) fn functions(&self) -> &BTreeMap<String, String> {
        &self.functions
    }

    pub(crate) fn namespaces(&self) -> &[Visible] {
        &self.namespaces
    }

    pub(crate) fn mcp(&self) -> &McpServers {
        &self.mcp
    }

    /// Returns the names of a program's globals.
    pub(crate) fn globals(&self) -> impl Iterator<Item = &str> {
        GLOBALS.into_iter().chain(self.namespaces.iter().map(|namespace| namespace.global.as_str()))
    }

    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<CompactEntry> {
        let index = self.index.get_or_init(|| Index::new(&self.own));
        index.search(query, limit).iter().map(|entry| CompactEntry::from(entry.as_ref())).collect()
    }

    /// Returns the entry with this id or name that `tools` reaches.
    pub(crate) fn find(&self, asked: &str) -> Result<&Arc<Entry>, NoTool> {
        self.own.find(asked).map_err(|error| match self.catalog.view().find(asked) {
            Ok(entry) => NoTool::OfServer(entry.id.clone()),
            Err(_) => NoTool::Unknown(error),
        })
    }

    /// Returns the entry with this id or name as `tools.describe` gives it.
    pub(crate) fn describe(&self, asked: &str) -> Result<Described<'_>, NoTool> {
        let entry = self.find(asked)?;
        let (parameters, returns) = (&entry.input_schema, entry.output_schema.as_ref());
        Ok(Described { entry: CompactEntry::from(entry.as_ref()), parameters, returns })
    }

    fn all_tools(&self) -> Global {
        let entries: Vec<CompactEntry> = self.own.iter().map(|entry| CompactEntry::from(entry.as_ref())).collect();
        Global::Data(Json::of(&entries).unwrap_or_else(|_| Json::null()))
    }

    fn tools(&self) -> Global {
        let helpers = HELPERS.into_iter().map(|name| (name.to_owned(), Global::Call(name.into())));
        let bound = |id: &String| Some(Global::Bound("call".into(), Json::of(id).ok()?));
        let functions = self.functions.iter().filter_map(|(name, id)| Some((name.clone(), bound(id)?)));
        Global::Object(helpers.chain(functions).collect())
    }
}

/// What a program takes from here while it runs. Made when it is first used, so a large catalog costs nothing until then.
impl Library for RunTools {
    fn global(&self, name: &str) -> Option<Global> {
        match name {
            "ALL_TOOLS" => Some(self.all_tools()),
            "tools" => Some(self.tools()),
            "API" => Some(Global::Files(self.mcp.files())),
            "MCP" => Some(self.mcp.scope()),
            "namespaces" => {
                let globals = self.namespaces.iter().map(|namespace| &namespace.global);
                Some(Global::Object(globals.map(|name| (name.clone(), Global::Alias(name.clone()))).collect()))
            }
            _ => Some(self.namespaces.iter().find(|namespace| namespace.global == name)?.guest_scope()),
        }
    }

    fn file(&self, path: &str) -> Option<Arc<str>> {
        self.mcp.file(path)
    }
}
