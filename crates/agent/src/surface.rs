//! The tools that a run shows to its model.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pincer_catalog::shown_names::{is_tool, keeps, unique};
use pincer_catalog::{Catalog, Entry, Flags, LookupError, Source, ToolId};
use pincer_codemode::{Exposure, RunTools, VISIBLE};
use pincer_model::{Surface as Shown, Tool, ToolCall};
use pincer_runtime::{Runtime, Scope};
use pincer_tool_search::{
    CallInput, Listed, Lookup, Mode, Settings, TOOL_CALL, TOOL_DESCRIBE, TOOL_SEARCH, TOOL_SEARCH_CODE,
    code_definition, definitions, directory, room,
};
use serde_json::Value;

use crate::telemetry::Weight;

/// The longest name of a tool that all providers take.
const LONGEST_NAME: usize = 64;
/// The name of the tool that continues programs.
pub(crate) const WAIT: &str = VISIBLE[1];
/// The names of the tools that search.
pub(crate) const SEARCHING: [&str; 4] = [TOOL_SEARCH_CODE, TOOL_SEARCH, TOOL_DESCRIBE, TOOL_CALL];

/// The tools that a run shows to its model, and what each name means.
pub(crate) struct Surface {
    pub tools: Vec<Tool>,
    pub style: Style,
    /// The list of tools for the instructions.
    pub directory: Option<String>,
    meanings: HashMap<String, Meaning>,
    /// The tools that a model may call by their names although they are not shown.
    hidden: HashMap<String, Meaning>,
}

/// The way in which a model reaches its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// There are none.
    Nothing,
    /// It sees them.
    Direct,
    /// In programs of `exec`.
    CodeMode,
    /// It searches for them.
    Search(Mode),
}

/// What a call by its name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A program is run.
    Exec,
    /// A program is continued.
    Wait,
    /// A program of Tool Search is run.
    SearchCode,
    /// Tools are searched for.
    Search,
    /// A tool is described.
    Describe,
    /// A tool that the arguments name is called.
    Call,
    /// A tool at the door.
    Tool { id: String, flags: Flags },
}

/// A name that a model has read.
pub(crate) enum ShownName {
    /// Of a tool that it is shown.
    Shown(String),
    /// Of a tool that the instructions list.
    Listed(String),
}

impl Meaning {
    fn of(entry: &Entry) -> Self {
        Self::Tool { id: entry.id.to_string(), flags: entry.flags }
    }
}

/// The ingredients of a surface for a model that searches.
pub(crate) struct Searching<'a> {
    pub settings: &'a Settings,
    /// The tools of the catalog that are shown besides, in their order.
    pub shown: &'a [Arc<Entry>],
    /// The tokens of the model's window.
    pub window: Option<u64>,
}

impl Surface {
    /// Returns the tools that a scope has for its model.
    pub(crate) fn new(runtime: &Runtime, scope: &Scope, searching: Option<&Searching<'_>>) -> Self {
        let tools = runtime.tools(scope);
        let code = match (runtime.exposure(scope), searching) {
            (Exposure::None, _) => return Self::none(),
            (Exposure::Direct(_), Some(searching)) if !tools.searched().0.is_empty() => {
                return Self::searching(&tools, searching);
            }
            (Exposure::Direct(_), _) => return Self::direct(&tools),
            (Exposure::CodeMode(code), _) => code,
        };
        let mut surface = Self { style: Style::CodeMode, ..Self::none() };
        for (tool, meaning) in code.tools().iter().zip([Meaning::Exec, Meaning::Wait]) {
            let (description, parameters) = (tool.description.clone(), tool.input_schema.clone());
            surface.add(Tool { name: tool.name.clone(), description, parameters }, meaning);
        }
        let direct: Vec<Arc<Entry>> = tools.catalog().iter().filter(|entry| entry.flags.direct_only).cloned().collect();
        surface.add_entries(&direct, VISIBLE.into());
        surface
    }

    /// Returns all tools of a run, for a model that neither searches for tools nor writes programs.
    fn direct(tools: &RunTools) -> Self {
        let mut surface = Self { style: Style::Direct, ..Self::none() };
        for (name, entry) in directly(tools) {
            surface.add_entry(name, &entry);
        }
        surface
    }

    /// Returns the names of these tools without their definitions: instructions depend on the names alone.
    pub(crate) fn direct_names(tools: &RunTools) -> Self {
        let mut surface = Self { style: Style::Direct, ..Self::none() };
        for (name, entry) in directly(tools) {
            surface.add(Tool { name, description: String::new(), parameters: Value::Null }, Meaning::of(&entry));
        }
        surface
    }

    /// Returns the weight that these tools have in a request.
    pub(crate) fn direct_weight(tools: &RunTools) -> Weight {
        directly(tools).map(|(name, entry)| Weight::of_entry(&name, &entry)).sum()
    }

    /// Returns the tools that search, and those that are shown besides.
    fn searching(tools: &RunTools, searching: &Searching<'_>) -> Self {
        let Searching { settings, shown, window } = searching;
        let (catalog, _) = tools.searched();
        let mut surface = Self { style: Style::Search(settings.mode), ..Self::none() };
        let controls: Vec<_> = match settings.mode {
            Mode::Code => vec![(code_definition(catalog.len()), Meaning::SearchCode)],
            Mode::Tools | Mode::Directory => {
                let meanings = [Meaning::Search, Meaning::Describe, Meaning::Call];
                definitions(catalog.len(), settings.limits).into_iter().zip(meanings).collect()
            }
        };
        for (control, meaning) in controls {
            let pincer_tool_search::Definition { name, description, parameters, .. } = control;
            surface.add(Tool { name: name.to_owned(), description, parameters }, meaning);
        }
        let is_direct = |entry: &Arc<Entry>| entry.flags.direct_only && is_tool(entry);
        let mut direct: Vec<Arc<Entry>> = tools.catalog().iter().filter(|entry| is_direct(entry)).cloned().collect();
        if settings.mode == Mode::Directory {
            let is_client = |entry: &Arc<Entry>| entry.id.source() == Source::Client;
            direct.extend(catalog.iter().filter(|entry| is_client(entry) && !is_direct(entry)).cloned());
            let is_new = |entry: &&Arc<Entry>| !is_direct(entry) && !is_client(entry);
            direct.extend(shown.iter().filter(is_new).cloned());
        }
        let names = stable_names(tools.catalog(), &direct);
        for entry in &direct {
            let name = names.get(&entry.id).cloned().unwrap_or_default();
            surface.add_entry(name, entry);
        }
        if settings.mode == Mode::Directory {
            surface.list(catalog, &names, *window);
        }
        surface
    }

    /// Adds the list of the tools that are not shown.
    fn list(&mut self, catalog: &Catalog, names: &HashMap<ToolId, String>, window: Option<u64>) {
        let name = |entry: &Arc<Entry>| names.get(&entry.id).filter(|_| is_listed(entry));
        let named: Vec<(&String, &Arc<Entry>)> =
            catalog.iter().filter_map(|entry| Some((name(entry)?, entry))).collect();
        let listed = named.into_iter().filter(|(name, _)| !self.meanings.contains_key(*name));
        let listed: Vec<(&String, &Arc<Entry>)> = listed.collect();
        let lines: Vec<Listed<'_>> = listed.iter().map(|(name, entry)| (name.as_str(), &***entry)).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in catalog.iter().filter(|entry| entry.id.source() == Source::Mcp) {
            *counts.entry(entry.id.owner()).or_default() += 1;
        }
        let counts: Vec<(&str, usize)> = counts.into_iter().collect();
        self.directory = directory(&lines, &counts, room(window));
        self.hidden = listed.iter().map(|(name, entry)| ((*name).clone(), Meaning::of(entry))).collect();
    }

    /// Returns no tools.
    pub(crate) fn none() -> Self {
        Self {
            tools: Vec::new(),
            style: Style::Nothing,
            directory: None,
            meanings: HashMap::new(),
            hidden: HashMap::new(),
        }
    }

    pub(crate) fn is_code_mode(&self) -> bool {
        self.style == Style::CodeMode
    }

    /// Adds tools as they are, with names that differ from those that are taken.
    fn add_entries(&mut self, entries: &[Arc<Entry>], taken: BTreeSet<&str>) {
        for (name, entry) in names(entries, taken).into_iter().zip(entries) {
            self.add_entry(name, entry);
        }
    }

    fn add_entry(&mut self, name: String, entry: &Entry) {
        let (description, parameters) = (entry.description.clone(), entry.input_schema.clone());
        self.add(Tool { name, description, parameters }, Meaning::of(entry));
    }

    fn add(&mut self, tool: Tool, meaning: Meaning) {
        self.meanings.insert(tool.name.clone(), meaning);
        self.tools.push(tool);
    }

    /// Returns what a name means. Where the instructions list tools that are not shown, a model may call those by their exact names or
    /// ids, if they are among the tools that the run has now.
    pub(crate) fn meaning(&self, name: &str, now: &RunTools) -> Option<Meaning> {
        if let Some(meaning) = self.meanings.get(name) {
            return Some(meaning.clone());
        }
        if self.style != Style::Search(Mode::Directory) {
            return None;
        }
        let (catalog, _) = now.searched();
        match self.hidden.get(name) {
            Some(Meaning::Tool { id, .. }) => catalog.get(id).map(|entry| Meaning::of(entry)),
            _ => Lookup::find(catalog, name).ok().map(|entry| Meaning::of(&entry)),
        }
    }

    /// Returns a name for what a call means, by which another process tells whether it means the same.
    pub(crate) fn means(&self, call: &ToolCall, now: &RunTools) -> Option<String> {
        let control = match self.meaning(&call.name, now)? {
            Meaning::Exec => VISIBLE[0],
            Meaning::Wait => WAIT,
            Meaning::SearchCode => TOOL_SEARCH_CODE,
            Meaning::Search => TOOL_SEARCH,
            Meaning::Describe => TOOL_DESCRIBE,
            Meaning::Call => match self.reached(call, now) {
                Some((id, _)) => return Some(id),
                None => TOOL_CALL,
            },
            Meaning::Tool { id, .. } => return Some(id),
        };
        Some(control.to_owned())
    }

    /// Returns the tool that a call reaches by itself, not in a program, and what may be assumed of it.
    pub(crate) fn reached(&self, call: &ToolCall, now: &RunTools) -> Option<(String, Flags)> {
        match self.meaning(&call.name, now)? {
            Meaning::Tool { id, flags } => Some((id, flags)),
            Meaning::Call => {
                let arguments = call.arguments.to().unwrap_or_default();
                let CallInput { entry, .. } = CallInput::parse(&arguments, &self.lookup(now)).ok()?;
                Some((entry.id.to_string(), entry.flags))
            }
            Meaning::Exec | Meaning::Wait | Meaning::SearchCode | Meaning::Search | Meaning::Describe => None,
        }
    }

    /// Returns the tools that the run has now, under the names that the model knows too.
    pub(crate) fn lookup<'a>(&'a self, now: &'a RunTools) -> Named<'a> {
        Named { surface: self, catalog: &now.searched().0 }
    }

    /// Returns the name under which a tool is shown, or listed in the instructions.
    pub(crate) fn name_of(&self, entry: &Entry) -> Option<ShownName> {
        let id = entry.id.to_string();
        let named = |names: &HashMap<String, Meaning>| {
            let is_it = |meaning: &Meaning| matches!(meaning, Meaning::Tool { id: known, .. } if *known == id);
            names.iter().find(|(_, meaning)| is_it(meaning)).map(|(name, _)| name.clone())
        };
        match named(&self.meanings) {
            Some(name) => Some(ShownName::Shown(name)),
            None => named(&self.hidden).map(ShownName::Listed),
        }
    }

    /// Returns the names that a request must show, no more and no fewer.
    pub(crate) fn shown(&self) -> Shown {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }
}

/// The tools of a run under the names that its model knows: those that it is shown or that the instructions list, then the others.
pub(crate) struct Named<'a> {
    surface: &'a Surface,
    catalog: &'a Catalog,
}

impl Lookup for Named<'_> {
    fn find(&self, asked: &str) -> Result<Arc<Entry>, LookupError> {
        let known = self.surface.meanings.get(asked).or_else(|| self.surface.hidden.get(asked));
        match known {
            // Not another tool that happens to have this name.
            Some(Meaning::Tool { id, .. }) => Catalog::find(self.catalog, id).cloned(),
            _ => Lookup::find(self.catalog, asked),
        }
    }
}

/// Returns the names of all tools but those of servers, whichever of them are shown: a name that a model has read stays that of its tool.
/// Tools of servers have names only if they are shown, and take none of another.
fn stable_names(catalog: &Catalog, shown: &[Arc<Entry>]) -> HashMap<ToolId, String> {
    let is_of_server = |entry: &Arc<Entry>| entry.id.source() == Source::Mcp;
    let own: Vec<Arc<Entry>> = catalog.iter().filter(|entry| !is_of_server(entry)).cloned().collect();
    let of_servers: Vec<Arc<Entry>> = shown.iter().filter(|entry| is_of_server(entry)).cloned().collect();
    let own_names = names(&own, SEARCHING.into());
    let taken = SEARCHING.into_iter().chain(own_names.iter().map(String::as_str)).collect();
    let server_names = names(&of_servers, taken);
    let entries = own.iter().chain(&of_servers).map(|entry| entry.id.clone());
    entries.zip(own_names.iter().chain(&server_names).cloned()).collect()
}

/// Returns all tools of a run that are shown to a model directly, with their names.
fn directly(tools: &RunTools) -> impl Iterator<Item = (String, Arc<Entry>)> {
    let entries: Vec<Arc<Entry>> = tools.catalog().iter().filter(|entry| is_tool(entry)).cloned().collect();
    names(&entries, BTreeSet::new()).into_iter().zip(entries)
}

/// Returns whether a tool may stand in instructions: its words are ours to trust, and it is of no server.
fn is_listed(entry: &Entry) -> bool {
    entry.flags.trusted && entry.id.source() != Source::Mcp
}

/// Returns a name for each tool that every provider takes and that no other has.
fn names(entries: &[Arc<Entry>], taken: BTreeSet<&str>) -> Vec<String> {
    let things = entries.iter().map(|entry| (entry.id.owner(), entry.id.name(), keeps(entry)));
    let mut taken: BTreeSet<String> = taken.into_iter().map(str::to_owned).collect();
    let name = |name: String| {
        let plain: String = name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') { letter } else { '_' })
            .collect();
        let cut = |end: &str| format!("{}{end}", &plain[..plain.len().min(LONGEST_NAME - end.len())]);
        let numbered = (2..).map(|number| cut(&format!("_{number}")));
        let free = std::iter::once(cut("")).chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
        taken.insert(free.clone());
        free
    };
    unique(things).into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_takes_the_names_and_no_two_are_the_same() {
        let entry = |id: &str| Arc::new(Entry::new(id.parse::<ToolId>().expect("an id"), ""));
        let long = "x".repeat(80);
        let entries = [
            entry("openclaw:core:exec"),
            entry("mcp:files:read.file"),
            entry("mcp:files:read/file"),
            entry(&format!("mcp:a:{long}")),
            entry(&format!("mcp:b:{long}")),
        ];
        let names = names(&entries, VISIBLE.into());
        assert_eq!(names[..3], ["exec_2", "read_file", "read_file_2"]);
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
