//! The tools that a run shows to its model.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pincer_catalog::shown_names::{is_tool, keeps, unique};
use pincer_catalog::{Entry, Flags};
use pincer_codemode::{Exposure, VISIBLE};
use pincer_model::{Surface as Shown, Tool};
use pincer_runtime::{Runtime, Scope};

/// The longest name of a tool that all providers take.
const LONGEST_NAME: usize = 64;

/// The tools that a run shows to its model, and what each name means.
pub(crate) struct Surface {
    pub tools: Vec<Tool>,
    meanings: HashMap<String, Meaning>,
    pub is_code_mode: bool,
}

/// What a call by its name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A program is run.
    Exec,
    /// A program is continued.
    Wait,
    /// A tool at the door.
    Tool { id: String, flags: Flags },
}

impl Surface {
    /// Returns the tools that a scope has for its model.
    pub(crate) fn new(runtime: &Runtime, scope: &Scope) -> Self {
        let tools = runtime.tools(scope);
        let exposure = runtime.exposure(scope);
        let entries: Vec<Arc<Entry>> = match &exposure {
            Exposure::None => Vec::new(),
            Exposure::Direct(_) => tools.catalog().iter().filter(|entry| is_tool(entry)).cloned().collect(),
            Exposure::CodeMode(_) => tools.catalog().iter().filter(|entry| entry.flags.direct_only).cloned().collect(),
        };
        let mut surface = Self { tools: Vec::new(), meanings: HashMap::new(), is_code_mode: false };
        if let Exposure::CodeMode(code) = &exposure {
            surface.is_code_mode = true;
            for (tool, meaning) in code.tools().iter().zip([Meaning::Exec, Meaning::Wait]) {
                let (description, parameters) = (tool.description.clone(), tool.input_schema.clone());
                surface.add(Tool { name: tool.name.clone(), description, parameters }, meaning);
            }
        }
        let taken: BTreeSet<&str> = if surface.is_code_mode { VISIBLE.into() } else { BTreeSet::new() };
        for (name, entry) in names(&entries, taken).into_iter().zip(&entries) {
            let (description, parameters) = (entry.description.clone(), entry.input_schema.clone());
            let meaning = Meaning::Tool { id: entry.id.to_string(), flags: entry.flags };
            surface.add(Tool { name, description, parameters }, meaning);
        }
        surface
    }

    /// Returns no tools.
    pub(crate) fn none() -> Self {
        Self { tools: Vec::new(), meanings: HashMap::new(), is_code_mode: false }
    }

    fn add(&mut self, tool: Tool, meaning: Meaning) {
        self.meanings.insert(tool.name.clone(), meaning);
        self.tools.push(tool);
    }

    /// Returns what a name means.
    pub(crate) fn meaning(&self, name: &str) -> Option<&Meaning> {
        self.meanings.get(name)
    }

    /// Returns the names that a request must show, no more and no fewer.
    pub(crate) fn shown(&self) -> Shown {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }
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
    use pincer_catalog::ToolId;

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
