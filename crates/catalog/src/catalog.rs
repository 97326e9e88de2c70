//! The tools of one run, in a fixed order, and how to find one by what it is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::near::nearest;
use crate::{Entry, Source, ToolId};

/// How many near names an error offers.
const NEAR_NAMES: usize = 3;

/// A set of tools, ordered by id. Cheap to clone and to narrow: entries are shared.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    entries: BTreeMap<String, Arc<Entry>>,
}

/// Two tools cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools with the id `{id}`")]
pub struct DuplicateTool {
    /// The id.
    pub id: ToolId,
}

/// Why no tool could be told from what it was called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is none, or none that this caller may see.
    #[error("Unknown tool: {asked}.{}", did_you_mean(near))]
    Unknown {
        /// What was asked for.
        asked: String,
        /// Ids that are spelt alike.
        near: Vec<String>,
    },
    /// Several tools have this name.
    #[error("Ambiguous tool name: {asked}; use an exact tool id: {}", ids.join(", "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// The ids of all of them.
        ids: Vec<String>,
    },
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(" Did you mean: {}?", near.join(", ")) }
}

/// An entry as lists and searches show it: without its schemas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactEntry {
    /// The id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// A title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its purpose, in words for the model.
    pub description: String,
    /// Where it comes from.
    pub source: Source,
    /// Whose it is.
    pub source_name: String,
}

impl From<&Entry> for CompactEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            id: entry.id.to_string(),
            name: entry.id.name().into(),
            label: entry.label.clone(),
            description: entry.description.clone(),
            source: entry.id.source(),
            source_name: entry.id.owner().into(),
        }
    }
}

impl Catalog {
    /// A catalog of these tools, whatever order they come in. Direct-only tools are left out: they have no place here.
    pub fn new(entries: impl IntoIterator<Item: Into<Arc<Entry>>>) -> Result<Self, DuplicateTool> {
        let mut catalog = Self::default();
        for entry in entries.into_iter().map(Into::into).filter(|entry| !entry.flags.direct_only) {
            if let Some(previous) = catalog.entries.insert(entry.id.to_string(), entry) {
                return Err(DuplicateTool { id: previous.id.clone() });
            }
        }
        Ok(catalog)
    }

    /// The tools for which `keep` holds.
    pub fn narrowed(&self, keep: impl Fn(&Entry) -> bool) -> Self {
        let kept = self.entries.iter().filter(|(_, entry)| keep(entry));
        Self { entries: kept.map(|(id, entry)| (id.clone(), Arc::clone(entry))).collect() }
    }

    /// All tools, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many come from a source.
    pub fn count(&self, source: Source) -> usize {
        self.iter().filter(|entry| entry.id.source() == source).count()
    }

    /// The tool with exactly this id.
    pub fn get(&self, id: &str) -> Option<&Arc<Entry>> {
        self.entries.get(id)
    }

    /// The tool with this id, or the only one with this name.
    pub fn find(&self, asked: &str) -> Result<&Arc<Entry>, LookupError> {
        if let Some(entry) = self.get(asked) {
            return Ok(entry);
        }
        let named: Vec<_> = self.iter().filter(|entry| entry.id.name() == asked).collect();
        match named[..] {
            [entry] => Ok(entry),
            [] => Err(LookupError::Unknown { asked: asked.into(), near: self.near(asked) }),
            _ => {
                let ids = named.iter().map(|entry| entry.id.to_string()).collect();
                Err(LookupError::Ambiguous { asked: asked.into(), ids })
            }
        }
    }

    /// Ids whose id or name is spelt like `asked`.
    fn near(&self, asked: &str) -> Vec<String> {
        let spellings = self.iter().flat_map(|entry| {
            let id = entry.id.to_string();
            [(id.clone(), id), (entry.id.name().to_owned(), entry.id.to_string())]
        });
        nearest(asked, spellings, NEAR_NAMES)
    }
}
