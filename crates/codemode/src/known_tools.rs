//! The tools that a program may call, as they were when it began.

use std::collections::BTreeMap;
use std::sync::Arc;

use pincer_catalog::Catalog;
use pincer_store::ToolSet;
use pincer_tools::{Fingerprint, fingerprint};
use sha2::{Digest, Sha256};

/// The fingerprints of the tools that a program may call. Kept with a stored program: it may go on in a world that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownTools {
    tools: BTreeMap<String, Fingerprint>,
    text: Arc<str>,
    hash: [u8; 32],
}

impl KnownTools {
    /// Of all tools in a catalog.
    pub(crate) fn of(catalog: &Catalog) -> Self {
        Self::new(catalog.iter().map(|entry| (entry.id.to_string(), fingerprint(entry))).collect())
    }

    /// As they were stored.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::from_str(text)?))
    }

    fn new(tools: BTreeMap<String, Fingerprint>) -> Self {
        let text: Arc<str> = serde_json::to_string(&tools).unwrap_or_default().into();
        let hash = Sha256::digest(text.as_bytes()).into();
        Self { tools, text, hash }
    }

    /// These, and of `others` those that have another id.
    pub(crate) fn and(&self, others: &Self) -> Self {
        let mut tools = others.tools.clone();
        tools.extend(self.tools.iter().map(|(id, fingerprint)| (id.clone(), *fingerprint)));
        Self::new(tools)
    }

    /// Returns the tool that the program knows under this id.
    pub(crate) fn get(&self, id: &str) -> Option<Fingerprint> {
        self.tools.get(id).copied()
    }

    /// As it is stored.
    pub(crate) fn stored(&self) -> ToolSet {
        ToolSet { hash: self.hash.to_vec(), tools: Arc::clone(&self.text) }
    }

    /// The hash of that.
    pub(crate) fn hash(&self) -> &[u8] {
        &self.hash
    }
}
