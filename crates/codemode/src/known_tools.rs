//! The tools that a program may call, as they were when it began.

use std::collections::BTreeMap;

use pincer_catalog::Catalog;
use pincer_tools::{Fingerprint, fingerprint};
use sha2::{Digest, Sha256};

/// The fingerprints of the tools that a program may call. Kept with a stored program: it may go on in a world that has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownTools {
    tools: BTreeMap<String, Fingerprint>,
    text: String,
    hash: [u8; 32],
}

impl KnownTools {
    /// Of all tools in a catalog.
    pub fn of(catalog: &Catalog) -> Self {
        Self::new(catalog.iter().map(|entry| (entry.id.to_string(), fingerprint(entry))).collect())
    }

    /// As they were stored.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::from_str(text)?))
    }

    fn new(tools: BTreeMap<String, Fingerprint>) -> Self {
        let text = serde_json::to_string(&tools).unwrap_or_default();
        let hash = Sha256::digest(&text).into();
        Self { tools, text, hash }
    }

    /// These, and of `others` those that have another id.
    pub fn and(&self, others: &Self) -> Self {
        let mut tools = others.tools.clone();
        tools.extend(self.tools.iter().map(|(id, fingerprint)| (id.clone(), *fingerprint)));
        Self::new(tools)
    }

    /// Returns the tool that the program knows under this id.
    pub fn get(&self, id: &str) -> Option<Fingerprint> {
        self.tools.get(id).copied()
    }

    /// As it is stored.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The hash of that.
    pub fn hash(&self) -> &[u8] {
        &self.hash
    }
}
