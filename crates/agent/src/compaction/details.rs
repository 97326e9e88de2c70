//! The details in the entry of a compaction, besides its summary.

use pincer_json::Json;
use serde::{Deserialize, Serialize};

/// The details in the entry of a compaction, besides its summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CompactionDetails {
    /// The most bytes of each kept result that a model is sent, if the results were too large all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_result_bytes: Option<usize>,
    /// The request that was being worked on, word for word: the next compaction repeats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The reason why no model wrote the summary, if none did. The user is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

impl CompactionDetails {
    /// Reads the details of an entry. Those of another program are none.
    pub(crate) fn parse(details: Option<&Json>) -> Self {
        details.and_then(|details| details.to().ok()).unwrap_or_default()
    }

    /// Returns them as they are stored: nothing if there is nothing to say.
    pub(crate) fn to_json(&self) -> Option<Json> {
        (*self != Self::default()).then(|| Json::of(self).ok()).flatten()
    }

    /// Returns what the user is told about the summary, if there is something to tell.
    pub(crate) fn notice(&self) -> Option<String> {
        let reason = self.fallback.as_ref()?;
        Some(format!(
            "The conversation was too long and its older part could not be summarized by the model: {reason}. A plain list of your \
             requests stands for it. All of it stays readable with `pincer sessions show`."
        ))
    }
}
