//! What clients are shown, made once and kept for as long as the door has not changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use pincer_catalog::{Entry, Source};
use pincer_codemode::RunTools;
use pincer_mcp::{ListedTool, Listing, Servers};

use pincer_catalog::shown_names::{is_tool, keeps, unique};

/// The tools at the door, at one moment.
pub(crate) struct Shown {
    /// As programs have them.
    pub tools: Arc<RunTools>,
    names: OnceLock<BTreeMap<String, Arc<Entry>>>,
}

impl Shown {
    pub(crate) fn new(tools: Arc<RunTools>) -> Self {
        Self { tools, names: OnceLock::new() }
    }

    /// The tools of all sources, by the names under which clients see them.
    pub(crate) fn names(&self) -> &BTreeMap<String, Arc<Entry>> {
        self.names.get_or_init(|| {
            let entries: Vec<&Arc<Entry>> = self.tools.catalog().iter().filter(|entry| is_tool(entry)).collect();
            let names = unique(entries.iter().map(|entry| (entry.id.owner(), entry.id.name(), keeps(entry))));
            names.into_iter().zip(entries.into_iter().cloned()).collect()
        })
    }
}

/// Tools as their servers describe them.
#[derive(Default)]
pub(crate) struct Originals(BTreeMap<String, Arc<Listing>>);

impl Originals {
    pub(crate) fn of(servers: &Servers) -> Self {
        Self(servers.iter().filter_map(|server| Some((server.name().to_owned(), server.seen().listing?))).collect())
    }

    /// By server and name.
    pub(crate) fn index(&self) -> HashMap<(&str, &str), &ListedTool> {
        self.0
            .iter()
            .flat_map(|(server, listing)| {
                listing.tools.iter().map(move |tool| ((server.as_str(), tool.name.as_str()), tool))
            })
            .collect()
    }

    /// One of them.
    pub(crate) fn get(&self, entry: &Entry) -> Option<&ListedTool> {
        let listing = (entry.id.source() == Source::Mcp).then(|| self.0.get(entry.id.owner()))??;
        listing.tools.iter().find(|tool| tool.name == entry.id.name())
    }
}
